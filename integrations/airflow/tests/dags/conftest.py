"""Level 1: real tasks of a real Airflow (`dag.test()`, in this process) against a real daemon with simulated devices.

The environment is set before Airflow is imported: a home of this run's own, a database of its own, one DAG folder.
`berth` is the daemon's client of tests/leases; `run` writes a DAG file and runs it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests" / "leases"))

HOME = Path(tempfile.mkdtemp(prefix="berth-airflow-"))
DAGS = HOME / "dags"
DAGS.mkdir()
SOCKET = HOME / "d" / "berth.sock"

os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
        "AIRFLOW__BERTH__MINIMUM_HOLD": "0",
        "AIRFLOW__BERTH__IN_WORKER_WAIT": "0.5",
        "AIRFLOW_CONN_BERTH_DEFAULT": json.dumps({"conn_type": "berth", "schema": "unix", "host": str(SOCKET)}),
    }
)
os.environ.pop("LD_PRELOAD", None)
subprocess.run([f"{sys.prefix}/bin/airflow", "db", "migrate"], check=True, capture_output=True, timeout=120)

import harness  # noqa: E402
import pytest  # noqa: E402
from support import Runner  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _home():
    yield
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def daemon(request):
    """`berth serve` on one device of 16 GiB; @pytest.mark.daemon(spec=…, config=…, arguments=…) for another."""
    marked = request.node.get_closest_marker("daemon")
    settings = {"spec": "1x16GiB", "clock": "real", **(marked.kwargs if marked else {})}
    shutil.rmtree(SOCKET.parent, ignore_errors=True)
    SOCKET.parent.mkdir()
    started = harness.Daemon(str(SOCKET.parent), **settings).start()
    yield started
    assert started.stop() == 0, started.said()


@pytest.fixture
def berth(daemon):
    client = harness.Berth(daemon.address)
    yield client
    client.close()


@pytest.fixture
def run(capfd, request):
    return Runner(DAGS, capfd, request.node.name)
