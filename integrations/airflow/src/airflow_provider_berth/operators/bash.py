"""A bash command on a part of a GPU."""

from __future__ import annotations

from airflow_provider_berth.hold import environment_of
from airflow_provider_berth.operators.base import GpuOperatorMixin
from airflow_provider_berth.version_compat import BashOperator, Context


class GpuBashMixin(GpuOperatorMixin):
    """Bash operators build the environment of their command themselves; the lease's variables come last."""

    def get_env(self, context: Context) -> dict[str, str]:
        env: dict[str, str] = super().get_env(context)  # type: ignore[misc]  # of the BashOperator beside this class
        return environment_of(env, self.gpu_env or {})


class GpuBashOperator(GpuBashMixin, BashOperator):
    """``GpuBashOperator(task_id="seg", bash_command="…", gpu_mem_mb=11000, gpu_queue="research")``

    Takes what BashOperator takes and what GpuOperatorMixin does. `env` cannot widen what the command sees: the lease's
    variables win.
    """

    custom_operator_name = "GPU bash"
