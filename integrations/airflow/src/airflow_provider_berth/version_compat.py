"""The one place that knows which Airflow this is: every import whose path differs between 2.11 and 3.x.

2.11 has no ``airflow.sdk``; 3.x warns about the older paths. Everything else in this package imports from here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow import __version__ as airflow_version
from packaging.version import Version

AIRFLOW = Version(Version(airflow_version).base_version)
AIRFLOW_3 = Version("3.0") <= AIRFLOW
# From 3.3 on the triggerer tells a trigger that its task was ended by a user; before, only `cleanup` runs.
TRIGGER_HAS_ON_KILL = Version("3.3") <= AIRFLOW

if TYPE_CHECKING or AIRFLOW_3:
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.providers.standard.operators.python import PythonOperator
    from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator, Connection
    from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
    from airflow.sdk.definitions.context import Context
else:
    from airflow.decorators.base import DecoratedOperator, TaskDecorator, task_decorator_factory
    from airflow.hooks.base import BaseHook
    from airflow.models import BaseOperator, BaseOperatorLink, Connection
    from airflow.operators.bash import BashOperator
    from airflow.operators.python import PythonOperator
    from airflow.sensors.base import BaseSensorOperator
    from airflow.utils.context import Context

if TYPE_CHECKING:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowTaskTimeout,
        TaskDeferred,
    )
else:
    try:
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowTaskTimeout,
            TaskDeferred,
        )
    except ImportError:  # 2.11, and 3.1, whose SDK has only some of them
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowTaskTimeout,
            TaskDeferred,
        )

from airflow.configuration import conf  # noqa: E402  the 3.x copy of it needs the SDK; this path is the same everywhere
from airflow.triggers.base import BaseTrigger, TriggerEvent  # noqa: E402

__all__ = [
    "AIRFLOW",
    "AIRFLOW_3",
    "TRIGGER_HAS_ON_KILL",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowTaskTimeout",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "BashOperator",
    "Connection",
    "Context",
    "DecoratedOperator",
    "PythonOperator",
    "TaskDecorator",
    "TaskDeferred",
    "TriggerEvent",
    "aget_connection",
    "bash_decorated_operator",
    "in_task_process",
    "option",
    "priority_of",
    "python_decorated_operator",
    "state_in_database",
    "task_decorator_factory",
    "time_limit",
    "unwrapped",
]


def python_decorated_operator() -> Any:
    """The class behind ``@task``."""
    home = "airflow.providers.standard.decorators" if AIRFLOW_3 else "airflow.decorators"
    return import_module(f"{home}.python")._PythonDecoratedOperator


def bash_decorated_operator() -> Any:
    """The class behind ``@task.bash``."""
    home = "airflow.providers.standard.decorators" if AIRFLOW_3 else "airflow.decorators"
    return import_module(f"{home}.bash")._BashDecoratedOperator


async def aget_connection(conn_id: str) -> Connection:
    """The connection, from inside a trigger: there a blocking look-up would hold up every other trigger."""
    if hasattr(BaseHook, "aget_connection"):
        return await BaseHook.aget_connection(conn_id)
    from asgiref.sync import sync_to_async

    connection: Connection = await sync_to_async(BaseHook.get_connection)(conn_id)
    return connection


def option(name: str, fallback: str) -> str:
    """``[berth] name`` of airflow.cfg, or ``AIRFLOW__BERTH__NAME``."""
    return str(conf.get("berth", name, fallback=fallback) or fallback)


def priority_of(operator: BaseOperator, context: Context) -> int:
    """Task instances of a 3.x worker have no priority weight; those of 2.11 have the one that its weight rule gave."""
    weight = operator.priority_weight if AIRFLOW_3 else getattr(context["ti"], "priority_weight", None)
    if not isinstance(weight, int):
        weight = operator.priority_weight
    return max(-1_000_000_000, min(1_000_000_000, int(weight or 0)))


def unwrapped(function: Any) -> Any:
    """An operator's ``execute`` without the guard that warns when another operator's method calls it."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def time_limit(limit: timedelta | None) -> AbstractContextManager[Any]:
    """Raises AirflowTaskTimeout in the work after `limit`."""
    if limit is None:
        return nullcontext()
    timeout = import_module("airflow.sdk.execution_time.timeout" if AIRFLOW_3 else "airflow.utils.timeout").timeout
    seconds = max(1, round(limit.total_seconds()))
    context: AbstractContextManager[Any] = timeout(seconds, f"execution_timeout={limit} has passed since the grant")
    return context


def in_task_process() -> bool:
    """Is this the process of one task (3.x), as opposed to a scheduler, an API server or a triggerer?"""
    if not AIRFLOW_3:
        return False
    from airflow.sdk.execution_time import task_runner

    return getattr(task_runner, "SUPERVISOR_COMMS", None) is not None


async def state_in_database(ti: Any) -> tuple[str | None, int | None]:
    """State and trigger of a task instance, as a trigger may ask for it: the record, not what the trigger was given.

    Raises whatever Airflow raises when it cannot say; the caller then assumes that nothing has changed.
    """
    from asgiref.sync import sync_to_async

    if AIRFLOW_3:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        answer = await sync_to_async(RuntimeTaskInstance.get_task_states)(
            dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index
        )
        states = answer.get(ti.run_id, {})
        name = f"{ti.task_id}_{ti.map_index}" if ti.map_index >= 0 else ti.task_id
        return states.get(name, states.get(ti.task_id)), None

    def read() -> tuple[str | None, int | None]:
        from airflow.models import TaskInstance
        from airflow.utils.session import create_session

        with create_session() as session:
            found = (
                session.query(TaskInstance.state, TaskInstance.trigger_id)
                .filter_by(dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index)
                .one_or_none()
            )
            return (None, None) if found is None else (found[0], found[1])

    return await sync_to_async(read)()
