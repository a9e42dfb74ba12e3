"""A pod that asks for a part of a GPU by itself: needs the provider of Kubernetes and `berth scheduler` in the cluster."""

from __future__ import annotations

from datetime import datetime

try:
    from airflow.sdk import DAG
except ImportError:  # 2.11
    from airflow import DAG

with DAG("example_berth_pod", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["berth"]) as dag:
    try:
        from airflow_provider_berth.operators.pod import GpuPodOperator
    except ImportError:  # without the extra `kubernetes` there is nothing to show
        pass
    else:
        GpuPodOperator(
            task_id="train",
            name="train",
            image="registry.example.org/train:1",
            cmds=["python", "train.py"],
            gpu_mem_mb=4096,
            gpu_queue="research",
        )
