"""The operators side by side: a command, Kaapana's words, any operator through the mixin."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_provider_berth.operators.base import GpuOperatorMixin
from airflow_provider_berth.operators.bash import GpuBashOperator
from airflow_provider_berth.operators.kaapana import KaapanaStyleOperator

try:
    from airflow.sdk import DAG, BaseOperator
except ImportError:  # 2.11
    from airflow import DAG
    from airflow.models import BaseOperator


class Count(BaseOperator):
    """Stands for an operator of yours, which knows nothing of GPUs."""

    def execute(self, context):
        return sum(range(1000))


class GpuCount(GpuOperatorMixin, Count):
    """The same with a device."""


with DAG(
    "example_berth_operators",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["berth"],
) as dag:
    prepare = GpuBashOperator(task_id="prepare", bash_command="echo no GPU: [$CUDA_VISIBLE_DEVICES]", gpu_mem_mb=None)
    segment = GpuBashOperator(
        task_id="segment",
        bash_command="echo $BERTH_MEMORY_MIB MiB of $CUDA_VISIBLE_DEVICES",
        gpu_mem_mb="4Gi",
        gpu_mem_limit_mb="6Gi",
        gpu_wait_timeout=timedelta(hours=12),
        execution_timeout=timedelta(minutes=90),
    )
    count = GpuCount(task_id="count", gpu_mem_mb=1024, gpu_preemptible=True)
    kaapana = KaapanaStyleOperator(
        task_id="kaapana",
        bash_command="echo $CUDA_VISIBLE_DEVICES",
        executor_config={"gpu_mem_mb": 5500, "ram_mem_mb": 500, "cpu_millicores": None, "enable_job_scheduler": True},
    )
    prepare >> segment >> count >> kaapana
