"""Names of leases: ``airflow:<installation>/<dag>/<run>/<task>/<map index>/<try>/<unique part>``.

Task instances of two installations, and of one DAG tested twice for one date, have equal names. So a key holds an
installation id and a part that no other try has: in 3.x the task instance's own UUID, in 2.11 a number drawn when the try
first asks. Nothing ever rebuilds a key: who ends a lease knows its id.
"""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from dataclasses import dataclass
from typing import Any

_MOST = 512  # bytes of a key, by the API
_NAME = 100  # bytes of each name in it, at most


def default_installation() -> str:
    """Tells installations on one machine apart: by machine and AIRFLOW_HOME."""
    home = os.path.abspath(os.path.expanduser(os.environ.get("AIRFLOW_HOME", "~/airflow")))
    return hashlib.sha256(f"{socket.gethostname()}\0{home}".encode()).hexdigest()[:8]


def _part(name: object) -> str:
    """A name without the separator, short enough; what is cut off is told apart by its hash."""
    text = str(name).replace("%", "%25").replace("/", "%2F")
    data = text.encode()
    if len(data) <= _NAME:
        return text
    return data[: _NAME - 9].decode(errors="ignore") + "~" + hashlib.sha256(data).hexdigest()[:8]


@dataclass(frozen=True)
class Key:
    """`prefix` is common to all tries of one task instance; `text` is of this try alone."""

    prefix: str
    text: str

    def again(self, number: int) -> str:
        """The same try once more, where a lease of its key has been ended by somebody."""
        return f"{self.text}#{number}" if number else self.text


def task_prefix(installation: str, dag: str, run: str, task: str, map_index: int) -> str:
    return f"airflow:{_part(installation)}/{_part(dag)}/{_part(run)}/{_part(task)}/{map_index}/"


def key_of(ti: Any, installation: str) -> Key:
    """The key of the try that is `ti`; each call on 2.11 gives another one."""
    map_index = getattr(ti, "map_index", -1)
    prefix = task_prefix(installation, ti.dag_id, ti.run_id, ti.task_id, -1 if map_index is None else map_index)
    unique = getattr(ti, "id", None) or uuid.uuid4().hex
    text = f"{prefix}{ti.try_number}/{unique}"
    assert len(text.encode()) + len("#999") <= _MOST, text
    return Key(prefix, text)
