"""Levels 3 and 4: one daemon and one whole Airflow for all tests of this folder."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(ROOT / "tests" / "leases"))

FOLDER = Path(tempfile.mkdtemp(prefix="berth-stack-"))
FOLDER.chmod(0o711)
# Before anything of Airflow is imported, which makes its folder at once.
os.environ["AIRFLOW_HOME"] = str(FOLDER / "home")

import harness  # noqa: E402
from books import Books  # noqa: E402

from stack import Stack  # noqa: E402

# One device for each kind of test, chosen by its model.
MODELS = ("room", "crowd", "taken", "orphan", "orphan2")


@pytest.fixture(scope="session")
def daemon():
    (FOLDER / "d").mkdir()
    devices = [{"memory": "16GiB", "model": model} for model in MODELS]
    fleet = FOLDER / "fleet.yaml"
    fleet.write_text(json.dumps({"fleet": {"nodes": [{"name": "here", "devices": devices}]}}))
    started = harness.Daemon(str(FOLDER / "d"), str(fleet), "real").start()
    yield started
    assert started.stop() == 0, started.said()


@pytest.fixture(scope="session")
def berth(daemon):
    client = harness.Berth(daemon.address)
    yield client
    client.close()


@pytest.fixture(scope="session")
def stack(daemon):
    from importlib.metadata import version

    shutil.copytree(HERE / "dags", FOLDER / "dags")
    env = {
        "AIRFLOW_CONN_BERTH_DEFAULT": json.dumps({"conn_type": "berth", "schema": "unix", "host": daemon.address[5:]}),
        "AIRFLOW__BERTH__IN_WORKER_WAIT": "1",
        "BERTH_TEST_FOLDER": str(FOLDER),
    }
    made = Stack(FOLDER, env, version("apache-airflow"), web=bool(os.environ.get("BERTH_AIRFLOW_WEB")))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="session")
def books(berth, stack):
    made = Books(berth, FOLDER, stack)
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _right(books, berth):
    """Whatever a test does, the books never promise more than there is, and all of it is free again."""
    yield
    books.check()
