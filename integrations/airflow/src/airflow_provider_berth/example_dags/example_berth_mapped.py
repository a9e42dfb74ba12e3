"""Ten scans, 4 GiB of GPU memory each: as many at a time as the GPUs hold, the others wait without a worker."""

from __future__ import annotations

from datetime import datetime, timedelta

try:
    from airflow.sdk import dag, task
except ImportError:  # 2.11
    from airflow.decorators import dag, task


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["berth"],
)
def example_berth_mapped():
    @task
    def scans() -> list[str]:
        return [f"scan-{number}" for number in range(10)]

    @task.gpu(gpu_mem_mb=4096, execution_timeout=timedelta(minutes=30))
    def segment(scan: str) -> str:
        # Import GPU libraries here: they choose their device when they start.
        import os
        import time

        time.sleep(5)
        return f"{scan} on {os.environ['CUDA_VISIBLE_DEVICES']}"

    @task
    def report(lines: list[str]) -> None:
        print("\n".join(lines))

    report(segment.expand(scan=scans()))


example_berth_mapped()
