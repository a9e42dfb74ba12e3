"""What the package and the documentation show is run as it stands there."""

import importlib.util
import re
import textwrap
from pathlib import Path

import pytest

import airflow_provider_berth

EXAMPLES = Path(airflow_provider_berth.__file__).parent / "example_dags"
DOCS = Path(__file__).resolve().parents[4] / "docs"


def shown(page):
    """The DAG files in a page: its Python blocks that define a DAG."""
    text = (DOCS / page).read_text()
    blocks = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    return [block for block in blocks if "@dag" in block or "DAG(" in block]


def load(run, name, text):
    file = run.folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from airflow_provider_berth.version_compat import AIRFLOW_3

    if AIRFLOW_3:
        from airflow.sdk import DAG
    else:
        from airflow import DAG
    found = [value for value in vars(module).values() if isinstance(value, DAG)]
    if not found:  # a function of @dag, called without keeping what it gives
        from airflow.models import DagBag

        bag = DagBag(str(file))
        assert not bag.import_errors, bag.import_errors
        found = list(bag.dags.values())
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", ["example_berth_mapped", "example_berth_operators"])
def test_the_examples_run(berth, run, name):
    outcome = run.test(load(run, name, (EXAMPLES / f"{name}.py").read_text().replace("time.sleep(5)", "time.sleep(0.1)")))
    assert set(outcome.states.values()) == {"success"}, outcome.said
    assert {lease["state"] for lease in berth.leases()} == {"released"}
    if name == "example_berth_mapped":
        assert f"scan-9 on {berth.device()['uuid']}" in outcome.said


@pytest.mark.parametrize("page", ["airflow.md", "airflow-migration.md"])
def test_the_dags_of_the_documentation_run(berth, run, page):
    found = shown(page)
    assert found
    for number, text in enumerate(found):
        outcome = run.test(load(run, f"{page.replace('-', '_').partition('.')[0]}_{number}", text))
        assert set(outcome.states.values()) == {"success"}, (text, outcome.said)
    assert {lease["state"] for lease in berth.leases()} == {"released"}


def test_the_example_with_a_pod_is_read(run):
    dag = load(run, "example_berth_pod", (EXAMPLES / "example_berth_pod.py").read_text())
    assert [task.gpu_mem_mb for task in dag.tasks] == [4096]
