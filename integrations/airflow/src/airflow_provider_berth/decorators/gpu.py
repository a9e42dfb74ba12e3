"""``@task.gpu`` makes a GPU task of a Python function, ``@task.gpu_bash`` of one that returns a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_berth.operators.base import GpuOperatorMixin
from airflow_provider_berth.operators.bash import GpuBashMixin
from airflow_provider_berth.version_compat import (
    BashOperator,
    DecoratedOperator,
    PythonOperator,
    bash_decorated_operator,
    python_decorated_operator,
    task_decorator_factory,
)

if TYPE_CHECKING:
    from airflow_provider_berth.version_compat import TaskDecorator

    class _PythonDecorated(DecoratedOperator, PythonOperator): ...

    class _BashDecorated(DecoratedOperator, BashOperator): ...

else:
    _PythonDecorated = python_decorated_operator()
    _BashDecorated = bash_decorated_operator()


class GpuPythonDecoratedOperator(GpuOperatorMixin, _PythonDecorated):
    """Behind ``@task.gpu``."""

    custom_operator_name = "@task.gpu"


class GpuBashDecoratedOperator(GpuBashMixin, _BashDecorated):
    """Behind ``@task.gpu_bash``."""

    custom_operator_name = "@task.gpu_bash"


def gpu_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """Makes a task of a function that runs on a part of a GPU; takes what GpuPythonOperator takes."""
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=GpuPythonDecoratedOperator,
        **kwargs,
    )


def gpu_bash_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Makes a task of a function whose result is a bash command; takes what GpuBashOperator takes."""
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=GpuBashDecoratedOperator, **kwargs)
