"""Where the programs of the cluster are; they are built when they are missing."""

import functools
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent

# The programs of envtest's convention: a folder, or a file for each.
_ASSETS = {"etcd": "TEST_ASSET_ETCD", "kube-apiserver": "TEST_ASSET_KUBE_APISERVER", "kubectl": "TEST_ASSET_KUBECTL"}


class MissingPrograms(Exception):
    """The programs of the cluster cannot be built here; the reason was printed."""


@functools.cache
def folder(group="control-plane"):
    """The folder of the programs of a group of tests/cluster/programs. Minutes on the first call on a machine."""
    done = subprocess.run([HERE.parent / "programs", group], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise MissingPrograms(f"tests/cluster/programs {group} ended with {done.returncode}")
    return Path(done.stdout.strip())


def program(name, group="control-plane"):
    """The path of a program, which KUBEBUILDER_ASSETS or TEST_ASSET_… may set."""
    if name in _ASSETS:
        if os.environ.get(_ASSETS[name]):
            return Path(os.environ[_ASSETS[name]])
        if os.environ.get("KUBEBUILDER_ASSETS"):
            return Path(os.environ["KUBEBUILDER_ASSETS"]) / name
    return folder(group) / name
