"""A real Kubernetes for tests: see README.md in the folder above."""

from . import objects
from .client import Api, ApiError
from .checker import Verdict, check
from .control_plane import ControlPlane, StartFailed
from .programs import MissingPrograms, program
from .recorder import Recorder

__all__ = ["Api", "ApiError", "ControlPlane", "MissingPrograms", "Recorder", "StartFailed", "Verdict", "check", "objects", "program"]
