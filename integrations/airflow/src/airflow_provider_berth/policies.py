"""Refuses claims that can never be meant, when a DAG is parsed: the entry point ``airflow.policy``.

The sentence names DAG and task and stands where Airflow shows import errors. An administrator's own upper bound is
``[berth] largest_claim_mib`` (environment ``AIRFLOW__BERTH__LARGEST_CLAIM_MIB``).
"""

from __future__ import annotations

from typing import Any

from airflow.configuration import conf
from airflow.exceptions import AirflowClusterPolicyViolation
from airflow.policies import hookimpl

from airflow_provider_berth.claims import ClaimError, claim_mib, kaapana_config


def _refuse(task: Any, sentence: str) -> None:
    raise AirflowClusterPolicyViolation(f"DAG {getattr(task, 'dag_id', '?')}, task {task.task_id}: {sentence}")


def _claims_of(task: Any) -> list[tuple[str, Any]]:
    """(name, value) of what the task claims, as far as the DAG file says it."""
    values = {**getattr(task, "partial_kwargs", {}), **getattr(task, "__dict__", {})}
    return [(name, values[name]) for name in ("gpu_mem_mb", "gpu_mem_limit_mb") if name in values]


def _is_open(value: Any) -> bool:
    """Known only when the task runs: a template, or another task's result."""
    return (isinstance(value, str) and "{{" in value) or not isinstance(value, (str, int, float, bool, type(None)))


@hookimpl
def task_policy(task: Any) -> None:
    largest = conf.getint("berth", "largest_claim_mib", fallback=2**40)
    claims: list[tuple[str, int]] = []
    try:
        claims = [(name, claim_mib(value, name)) for name, value in _claims_of(task) if not _is_open(value)]
        if "gpu_wait_timeout" in getattr(task, "__dict__", {}) and hasattr(task, "gpu_request"):
            config = getattr(task, "executor_config", None)
            if config and _reads_kaapana(task):
                claims.append(("executor_config['gpu_mem_mb']", int(kaapana_config(config).get("gpu_mem_mb") or 0)))
    except ClaimError as error:
        _refuse(task, str(error))
    for name, mib in claims:
        if mib > largest:
            _refuse(task, f"{name} is {mib} MiB and [berth] largest_claim_mib is {largest}; ask for less, or the administrator")


def _reads_kaapana(task: Any) -> bool:
    return any(base.__name__ == "KaapanaStyleMixin" for base in type(task).__mro__)


@hookimpl
def dag_policy(dag: Any) -> None:
    """Tasks that are mapped are not asked one by one in every version."""
    for task in dag.tasks:
        if getattr(task, "partial_kwargs", None) is not None:
            task_policy(task)
