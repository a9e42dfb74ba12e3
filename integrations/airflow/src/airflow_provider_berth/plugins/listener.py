"""Hints that a task has ended, so that its memory is free sooner. Nothing depends on them.

A lease is ended by its id where this process holds it. Elsewhere (a scheduler, an API server) only a 3.x task instance
has a name of its own, its UUID; and there it is ended only if no process of it is left. In 2.11 the record may speak of the
next try by then, so nothing is done.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from airflow.listeners import hookimpl

from airflow_provider_berth.hold import HELD
from airflow_provider_berth.version_compat import AIRFLOW_3, BaseHook, in_task_process, option

log = logging.getLogger(__name__)

LIMIT = 5.0  # seconds for each call; the thread is nobody's but ours


def _end_here(reason: str) -> None:
    for hold in list(HELD.values()):
        hold.release(reason, if_gone=True)


def _end_elsewhere(task_instance: Any) -> None:
    """By the UUID of the try, on a thread: whoever called the listener goes on."""
    unique = getattr(task_instance, "id", None)
    if not AIRFLOW_3 or unique is None:
        return
    names = tuple(getattr(task_instance, name, None) for name in ("dag_id", "run_id", "task_id", "map_index"))
    threading.Thread(target=_end_by_uuid, args=(*names, str(unique)), name="berth listener", daemon=True).start()


def _end_by_uuid(dag: str, run: str, task: str, map_index: int | None, unique: str) -> None:
    from airflow_provider_berth.client import BerthClient, endpoint_of
    from airflow_provider_berth.hooks.berth import installation_of
    from airflow_provider_berth.keys import task_prefix

    try:
        endpoint = endpoint_of(BaseHook.get_connection(option("conn_id", "berth_default")))
        prefix = task_prefix(installation_of(endpoint), dag, run, task, -1 if map_index is None else map_index)
        with BerthClient(endpoint) as client:
            for lease in client.leases(prefix, state="live", limit=LIMIT):
                if unique in lease["key"]:
                    client.release(lease["id"], "Airflow says that the try has failed", if_gone=True, limit=LIMIT)
    except Exception as error:  # a hint that failed harms nothing, and must not harm its host
        log.debug("no lease of %s.%s was ended: %s", dag, task, error)


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any) -> None:
    if HELD:
        _end_here("the task has failed")
    elif not in_task_process():
        _end_elsewhere(task_instance)


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    if HELD:
        _end_here("the task has ended")
