"""A Python callable on a part of a GPU, inside the worker's process."""

from __future__ import annotations

from airflow_provider_berth.operators.base import GpuOperatorMixin
from airflow_provider_berth.version_compat import PythonOperator


class GpuPythonOperator(GpuOperatorMixin, PythonOperator):
    """``GpuPythonOperator(task_id="train", python_callable=train, gpu_mem_mb=4096)``

    The callable runs in the worker's own process: the device is chosen by environment variables, which a library reads
    when it starts, and nothing holds the callable to its memory (isolation ``advisory``). Import GPU libraries inside the
    callable, not in the DAG file.
    """

    custom_operator_name = "GPU python"
