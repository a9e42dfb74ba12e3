"""A lease in the hands of the process that works under it: renewed by a thread, seen to end, given back by its id."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from airflow_provider_berth import words
from airflow_provider_berth.client import BerthClient, BerthError, BerthUnavailable, Endpoint

KILL_SECONDS = 3.0  # between TERM and KILL for what a task has started. Airflow 3 kills the task itself after 5
RETRY_SECONDS = 5.0
WATCH_SECONDS = 55

# The leases that this process holds, by id. The listener reads it.
HELD: dict[str, Hold] = {}


class LeaseLost(Exception):
    """Raised in the work, wherever it is at that moment: the right to the device is gone."""


def environment_of(base: Mapping[str, str], lease: Mapping[str, str]) -> dict[str, str]:
    """`base` with the lease's variables, which win; what is preloaded besides the guard stays, after it."""
    env = {name: value for name, value in base.items() if not name.startswith("BERTH_") or name == "BERTH_SOCKET"}
    for name, value in lease.items():
        if name == "LD_PRELOAD":
            others = [path for path in env.get(name, "").replace(" ", ":").split(":") if path and path != value]
            value = ":".join([value, *others])
        env[name] = value
    return env


NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "none", "CUDA_VISIBLE_DEVICES": ""}


@contextmanager
def process_environment(lease: Mapping[str, str]) -> Iterator[None]:
    """This process's own environment, which libraries and children read, while the work runs."""
    before = dict(os.environ)
    _replace_environment(environment_of(before, lease))
    try:
        yield
    finally:
        now = dict(os.environ)
        touched = set(lease) | {name for name in before if name.startswith("BERTH_")}
        # What the work itself has set stays, as without us.
        _replace_environment(
            {name: value for name, value in now.items() if name not in touched}
            | {name: before[name] for name in touched if name in before}
        )


def _replace_environment(env: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)


class Interrupter:
    """Raises an exception in the thread that entered it, from another thread, also out of a call that blocks.

    It needs the main thread, where Airflow runs tasks; elsewhere the work is only asked to end by `asked`.
    """

    SIGNAL = signal.SIGUSR1

    def __init__(self) -> None:
        self.asked: BaseException | None = None
        self._thread = threading.current_thread()
        self._works = self._thread is threading.main_thread()
        self._armed = False
        self._before: Any = None

    def __enter__(self) -> Interrupter:
        if self._works:
            self._before = signal.signal(self.SIGNAL, self._raise)
        self._armed = True
        return self

    def __exit__(self, *_: object) -> None:
        self._armed = False
        if self._works:
            signal.signal(self.SIGNAL, signal.SIG_DFL if self._before is None else self._before)

    def _raise(self, _number: int, _frame: object) -> None:
        if self._armed and self.asked is not None:
            self._armed = False
            raise self.asked

    def interrupt(self, error: BaseException) -> None:
        if self.asked is None:
            self.asked = error
            if self._works and self._armed and self._thread.ident is not None:
                signal.pthread_kill(self._thread.ident, self.SIGNAL)


def processes_of(env: Mapping[str, str]) -> list[int]:
    """Pids of other processes of this machine that carry the lease in their environment."""
    marks = {f"{name}={env[name]}".encode() for name in ("BERTH_LEASE_ID", "BERTH_JOURNAL_ID") if env.get(name)}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if not marks or folder.name == str(os.getpid()):
            continue
        with suppress(OSError):
            if marks <= set((folder / "environ").read_bytes().split(b"\0")) and _runs(folder):
                found.append(int(folder.name))
    return found


def _runs(folder: Path) -> bool:
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in ("Z", "X")


def end_processes(env: Mapping[str, str], log: Any) -> None:
    """TERM, and after KILL_SECONDS KILL, to everything that the work has started and that still runs."""
    deadline = time.monotonic() + KILL_SECONDS
    number = signal.SIGTERM
    told = False
    while pids := processes_of(env):
        if time.monotonic() >= deadline:
            number = signal.SIGKILL
        if not told or number == signal.SIGKILL:
            log.info("ending %d process(es) of the task: %s", len(pids), number.name)
            for pid in pids:
                with suppress(OSError):
                    os.kill(pid, number)
            told = True
        if time.monotonic() >= deadline + KILL_SECONDS:
            log.warning("process(es) %s do not end", pids)
            return
        time.sleep(0.05)


class Hold:
    """From the confirmation to the release. `on_loss` is called, once, on the renewing thread, when the lease is gone.

    The daemon away is no loss: the books keep the lease while this process lives, and nobody else gets its memory.
    """

    def __init__(self, endpoint: Endpoint, lease: Mapping[str, Any], log: Any, on_loss: Callable[[str], None]) -> None:
        self.endpoint = endpoint
        self.id = str(lease["id"])
        self.env: dict[str, str] = dict(lease["env"])
        self.log = log
        self._on_loss = on_loss
        self._version = int(lease["version"])
        self._renew_seconds = max(1.0, float(lease.get("ttl_seconds") or 120) / 3)
        self._ended = threading.Event()
        self._away = False
        self._thread = threading.Thread(target=self._keep, name=f"berth {self.id}", daemon=True)

    def start(self) -> None:
        HELD[self.id] = self
        self._thread.start()

    def release(self, reason: str, if_gone: bool = False) -> None:
        """Ends the claim, by id; never raises. With `if_gone` the daemon waits for the processes of the lease."""
        HELD.pop(self.id, None)
        self._ended.set()
        for attempt in range(3):
            try:
                with BerthClient(self.endpoint) as client:
                    client.release(self.id, reason, if_gone=if_gone, limit=5)
                break
            except (BerthError, BerthUnavailable) as error:
                if isinstance(error, BerthError) and not error.passes:
                    self.log.warning("lease %s could not be given back: %s; it ends with this process", self.id, error)
                    return
                if attempt == 2:
                    self.log.warning(
                        "lease %s could not be given back: %s; the daemon frees it once this process has ended, or after its "
                        "ttl_seconds",
                        self.id,
                        error,
                    )
                    return
                time.sleep(1)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=2)  # the release has answered its poll

    def _keep(self) -> None:
        """Renews in time; between renewals a long poll tells of evictions and losses at once."""
        renewal = time.monotonic() + self._renew_seconds
        while not self._ended.is_set():
            try:
                with BerthClient(self.endpoint) as client:
                    while not self._ended.is_set():
                        if time.monotonic() >= renewal:
                            lease = client.renew(self.id)
                            renewal = time.monotonic() + self._renew_seconds
                        else:
                            wait = max(1, min(WATCH_SECONDS, int(renewal - time.monotonic())))
                            lease = client.read(self.id, wait, self._version)
                        if self._away:
                            self._away = False
                            self.log.info("the daemon answers again")
                        if self._ended.is_set() or self._is_lost(lease):
                            return
                        self._version = int(lease["version"])
            except BerthUnavailable as error:
                self._complain(error)
            except BerthError as error:
                if error.status in (404, 410):
                    if not self._ended.is_set():
                        self._lose(str(error))
                    return
                self._complain(error)
            except Exception:  # this thread is all that keeps the lease: it goes on
                self.log.exception("renewing lease %s failed", self.id)
            self._ended.wait(RETRY_SECONDS)

    def _complain(self, error: Exception) -> None:
        if not self._away and not self._ended.is_set():
            self.log.warning("%s; the task runs on, its memory stays booked while it runs", error)
        self._away = True

    def _is_lost(self, lease: Mapping[str, Any]) -> bool:
        leaving = lease.get("evicting")
        if leaving:
            self._lose(f"lease {self.id} has to leave: {leaving.get('message') or leaving.get('rule')}")
        elif lease["state"] not in ("active", "suspect"):
            self._lose(words.end(lease))
        else:
            return False
        return True

    def _lose(self, why: str) -> None:
        self.log.error("%s; the work is stopped", why)
        self._on_loss(why)
