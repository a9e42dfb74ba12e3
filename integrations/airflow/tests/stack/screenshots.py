"""Takes the pictures of docs/airflow.md from the real pages, by Chromium: `tests/airflow/run 3.3.2 screenshots`.

The example of ten mapped tasks on one card of 16 GiB, while three run and seven wait.
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
FOLDER = Path(tempfile.mkdtemp(prefix="berth-pictures-"))
FOLDER.chmod(0o711)
os.environ["AIRFLOW_HOME"] = str(FOLDER / "home")

import harness  # noqa: E402

from stack import Stack, soon  # noqa: E402

PICTURES = ROOT / "docs" / "images"
EXAMPLE = ROOT / "integrations/airflow/src/airflow_provider_berth/example_dags/example_berth_mapped.py"
DAG, TASK = "example_berth_mapped", "segment"


def take(url, name, width, height, *more):
    """A page as somebody sees it some seconds after opening it."""
    target = PICTURES / f"{name}.png"
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
    ]
    command += [f"--user-data-dir={FOLDER}/profile", *more, f"--screenshot={target}", url]
    subprocess.run(command, check=True, timeout=100, capture_output=True)
    print(target, target.stat().st_size)


def main():
    for part in ("d", "dags"):
        (FOLDER / part).mkdir()
    shutil.copy(Path(__file__).parent / "dags" / "for_tests.py", FOLDER / "dags")  # by these a stack knows that it is ready
    (FOLDER / "dags" / "example.py").write_text(EXAMPLE.read_text().replace("time.sleep(5)", "time.sleep(900)"))
    daemon = harness.Daemon(str(FOLDER / "d"), "1x16GiB:NVIDIA A100", "real").start()
    berth = harness.Berth(daemon.address)
    env = {
        "AIRFLOW_CONN_BERTH_DEFAULT": json.dumps({"conn_type": "berth", "schema": "unix", "host": daemon.address[5:]}),
        "BERTH_TEST_FOLDER": str(FOLDER),
    }
    from importlib.metadata import version

    stack = Stack(FOLDER, env, version("apache-airflow"), web=True)
    try:
        stack.start()
        soon(lambda: stack.knows(DAG), 60, stack.said)
        stack.trigger(DAG, "today")
        soon(lambda: len(berth.leases("?state=waiting")) == 7 and len(berth.leases("?state=active")) == 3, 120, stack.said)
        soon(lambda: len(stack.deferred_of(DAG, "today")) == 7, 60, stack.said)
        last = max(berth.leases("?state=waiting"), key=lambda lease: lease["queue"]["position"])
        index = last["labels"]["airflow/map_index"]
        PICTURES.mkdir(exist_ok=True)
        where = f"{stack.url}/dags/{DAG}/runs/today/tasks/{TASK}/mapped/{index}"
        take(where, "airflow-waiting-log", 1800, 500, "--virtual-time-budget=20000")
        take(f"{where}/details", "airflow-details", 1280, 760, "--virtual-time-budget=20000")
        # The page asks for a login, which a Chromium without hands does not have: fetched with one, and shown.
        links = stack.rest("GET", f"/api/v2/dags/{DAG}/dagRuns/today/taskInstances/{TASK}/links?map_index={index}")
        (FOLDER / "why.html").write_text(stack.page(next(iter(links["extra_links"].values()))))
        take(f"file://{FOLDER}/why.html", "airflow-why", 1100, 560)
    finally:
        stack.stop()
        berth.close()
        daemon.stop()
        shutil.rmtree(FOLDER, ignore_errors=True)


main()
