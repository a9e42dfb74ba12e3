"""Bad input: one sentence in the task's log that says what to change; no retries burnt where another try would not help."""

import json

import pytest


def refused(run, claim="gpu_mem_mb=4096", kind="GpuBashOperator"):
    """The claim is made when the task runs: what a DAG file says is refused before there is a task, by the policy."""
    now, later = (claim, "") if "{{" in claim else ("", claim)
    return run(
        f"""
class Late({kind}):
    def __init__(self, *, later, **kwargs):
        super().__init__(**kwargs)
        self.later = later
    def execute(self, context):
        for name, value in self.later.items():
            setattr(self, name, value)
        return super().execute(context)
Late(task_id='t', bash_command='echo MUST NOT RUN', retries=2, later=dict({later}), {now})
"""
    )


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("gpu_mem_mb=-1", "gpu_mem_mb=-1 is negative"),
        ("gpu_mem_mb='4Q'", "has the unit 'Q', which there is not"),
        ("gpu_mem_mb=1.5", "gpu_mem_mb=1.5 has a decimal point"),
        ("gpu_mem_mb=True", "gpu_mem_mb=True is true or false"),
        ("gpu_mem_mb=2**41", "is more than 2**40 MiB"),
        ("gpu_mem_mb='{{ 1 - 2 }}'", "gpu_mem_mb='-1' is negative"),
        ("gpu_mem_mb=40960", "The largest possible value is gpu_mem_mb=1"),
        ("gpu_mem_mb=4096, gpu_queue='nobody'", "nobody"),
        ("gpu_mem_mb=4096, gpu_mem_limit_mb=1024", "memory_limit"),
        ("gpu_mem_mb=4096, gpu_wait_timeout=-1", "gpu_wait_timeout=-1 is no length of time"),
        ("gpu_mem_mb=4096, gpu_priority=1.5", "gpu_priority=1.5 is no whole number"),
        ("gpu_mem_mb=4096, gpu_conn_id='none_such'", "there is no connection 'none_such'; add one of type 'berth'"),
        ("gpu_mem_mb=4096, gpu_conn_id='of_http'", "connection 'of_http' has the type 'http'; give it the type 'berth'"),
    ],
)
def test_leases_B03_B04_a_claim_that_cannot_be_fails_at_once_and_says_why(berth, run, monkeypatch, claim, sentence):
    monkeypatch.setenv("AIRFLOW_CONN_OF_HTTP", json.dumps({"conn_type": "http", "host": "x"}))
    outcome = refused(run, claim)
    assert outcome.state == "failed", outcome.states  # with two retries left
    assert sentence in outcome.said and "\nMUST NOT RUN" not in outcome.said
    assert [lease for lease in berth.leases() if lease["state"] != "never"] == []


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{'gpu_mem_mb': -5}", "executor_config['gpu_mem_mb']=-5 is negative"),
        ("{'gpu_mem_mb': '5500'}", "is no amount of memory"),
        ("{'gpu_mem': 5500}", "executor_config has the name 'gpu_mem', which nobody reads"),
        ("{'gpu_mem_mb': 99999}", "The largest possible value is gpu_mem_mb=1"),
    ],
)
def test_leases_B03_the_same_in_kaapanas_words(berth, run, config, sentence):
    outcome = refused(run, f"executor_config={config}", "KaapanaStyleOperator")
    assert outcome.state == "failed" and sentence in outcome.said
    assert [lease for lease in berth.leases() if lease["state"] != "never"] == []


def test_a_token_that_is_wrong_may_be_put_right(daemon, run, monkeypatch):
    """Over TCP that is; here another user's lease stands for it: retries are not burnt by a sentence alone."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_BERTH_DEFAULT", json.dumps({"conn_type": "berth", "schema": "https", "host": "localhost", "port": 1})
    )
    outcome = refused(run)
    assert outcome.state == "failed" and "has no token; make one with `berth token new airflow`" in outcome.said


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [("-1", "is negative"), ("'4Q'", "has the unit 'Q'"), ("1.5", "decimal point"), ("20000", "largest_claim_mib is 16384")],
)
def test_the_policy_refuses_at_parse_time_and_names_dag_and_task(run, monkeypatch, claim, sentence):
    from airflow.exceptions import AirflowClusterPolicyViolation

    from airflow_provider_berth import policies

    monkeypatch.setenv("AIRFLOW__BERTH__LARGEST_CLAIM_MIB", "16384")
    dag = run.dag(f"GpuBashOperator(task_id='seg', bash_command='true', gpu_mem_mb={claim})")
    with pytest.raises(AirflowClusterPolicyViolation) as refusal:
        policies.task_policy(dag.get_task("seg"))
    assert f"DAG {dag.dag_id}, task seg: " in str(refusal.value) and sentence in str(refusal.value)
    dag = run.dag(f"GpuBashOperator.partial(task_id='seg', gpu_mem_mb={claim}).expand(bash_command=['true'])")
    with pytest.raises(AirflowClusterPolicyViolation, match="task seg"):
        policies.dag_policy(dag)
    good = run.dag(
        "GpuBashOperator(task_id='a', bash_command='true', gpu_mem_mb='{{ 1 }}')\n"
        "KaapanaStyleOperator(task_id='b', bash_command='true', executor_config={'gpu_mem_mb': 5500})\n"
        "BashOperator(task_id='c', bash_command='true', executor_config={'anything': 1})"
    )
    policies.dag_policy(good)
    for task in good.tasks:
        policies.task_policy(task)
    bad = run.dag("KaapanaStyleOperator(task_id='b', bash_command='true', executor_config={'gpu_mem_mb': -1})")
    with pytest.raises(AirflowClusterPolicyViolation, match=r"executor_config\['gpu_mem_mb'\]=-1 is negative"):
        policies.task_policy(bad.get_task("b"))


def test_the_policy_is_in_force_by_its_entry_point(run):
    from airflow.models import DagBag

    run.dag("GpuBashOperator(task_id='seg', bash_command='true', gpu_mem_mb=-1)", "refused_by_policy")
    bag = DagBag(str(run.folder / "refused_by_policy.py"))
    assert "refused_by_policy, task seg: gpu_mem_mb=-1 is negative" in str(bag.import_errors), bag.import_errors
