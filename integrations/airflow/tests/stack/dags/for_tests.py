"""The DAGs of the tests with a whole Airflow. Tasks write what they saw into $BERTH_TEST_FOLDER, and wait for files there."""

import datetime
import os

from airflow_provider_berth.operators.bash import GpuBashOperator
from airflow_provider_berth.operators.python import GpuPythonOperator
from airflow_provider_berth.version_compat import AIRFLOW_3, BashOperator

if AIRFLOW_3:
    from airflow.sdk import DAG
else:
    from airflow import DAG

FOLDER = os.environ["BERTH_TEST_FOLDER"]
SETTINGS = {"start_date": datetime.datetime(2026, 1, 1), "schedule": None, "catchup": False, "max_active_tasks": 64}


def seconds(number):
    return datetime.timedelta(seconds=number)


def until(name):
    """Runs until the test makes a file of that name; says before when it began and as whom."""
    mark = f"{FOLDER}/ran-{name}-$BERTH_LEASE_ID"
    write = f"date +%s.%N > {mark}.tmp; echo $$ $PPID >> {mark}.tmp; mv {mark}.tmp {mark}"
    return f"{write}; while [ ! -e {FOLDER}/go-{name} ]; do sleep 0.1; done"


def bash(name, dag, command=None, mib=1000, device="room", **more):
    return GpuBashOperator(
        task_id="t",
        dag=dag,
        bash_command=command or until(name),
        gpu_mem_mb=mib,
        gpu_models=[device],
        retry_delay=seconds(1),
        **more,
    )


with DAG("mapped", **SETTINGS) as mapped:
    # Airflow's own fault with deferrals needs a retry (docs/airflow.md).
    GpuBashOperator.partial(
        task_id="t",
        gpu_mem_mb=5000,
        gpu_models=["crowd"],
        retries=2,
        retry_delay=seconds(1),
    ).expand(bash_command=[f"export WHICH={number}; {until('mapped')}" for number in range(10)])

with DAG("plain", **SETTINGS) as plain:
    BashOperator(task_id="t", bash_command="true")

for name, more in {
    "success": {"command": "true"},
    "failure": {"command": "exit 3"},
    "timeout": {"execution_timeout": seconds(3)},
    "marked": {},
    "cleared": {},
    "scheduler": {"retries": 1},
    "restart": {},
    # So large that a second one finds no room beside the first.
    "task_killed": {"mib": 9000, "device": "orphan", "retries": 1},
    "supervisor_killed": {"mib": 9000, "device": "orphan2", "retries": 1},
    # Their device is taken by the test, so they wait.
    "marked_deferred": {"mib": 9000, "device": "taken"},
    "cleared_deferred": {"mib": 9000, "device": "taken"},
    "triggerer": {"mib": 9000, "device": "taken", "retries": 2},
    "identity": {"mib": 9000, "device": "taken", "retries": 2},
}.items():
    with DAG(name, **SETTINGS) as dag:
        bash(name, dag, **more)
    globals()[name] = dag


def count():
    import time

    while True:
        time.sleep(0.1)


with DAG("python_marked", **SETTINGS) as python_marked:
    GpuPythonOperator(task_id="t", python_callable=count, gpu_mem_mb=1000, gpu_models=["room"])
