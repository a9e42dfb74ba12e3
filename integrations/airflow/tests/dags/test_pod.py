"""Path K: the pod that GpuPodOperator makes says in Berth's words what the task asked for."""

import json
import os
import subprocess

import harness
import pytest

from airflow_provider_berth.operators.pod import GpuPodOperator


@pytest.fixture(autouse=True)
def _cluster(tmp_path, monkeypatch):
    """The operator looks for one, and asks it nothing before the pod is made."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "jobs"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG_OF_TEST", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", '{"conn_type": "kubernetes"}')


def made(**more):
    operator = GpuPodOperator(
        task_id="train", name="train", image="my/train", config_file=os.environ["KUBECONFIG_OF_TEST"], **more
    )
    return operator, operator.build_pod_request_obj()


def verdict(folder, pod, expected):
    """What `berth`, its reader of annotations and its engine, makes of the pod on one card."""
    words = {"uid": "p", "annotations": pod.metadata.annotations}
    scenario = {
        "about": "a pod of Airflow asks for its share",
        "fleet": {"spec": "n0=1x16384MiB", "reserve": "0MiB"},
        "steps": [{"submit": words, "expect": {"workloads": {"p": expected}}}],
    }
    (folder / "scenario.yaml").write_text(json.dumps(scenario))  # which is YAML, too
    command = [harness.PROGRAM, "simulate", "--scenario", folder / "scenario.yaml"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return answer.returncode == 0, answer.stdout + answer.stderr


def test_a_claim_becomes_annotations_label_and_scheduler(tmp_path):
    operator, pod = made(gpu_mem_mb="4Gi", gpu_mem_limit_mb=6144, gpu_queue="research", gpu_preemptible=True)
    assert pod.spec.scheduler_name == "berth-scheduler"
    assert pod.metadata.annotations == {"gpu-memory": "4096", "gpu-memory.limit": "6144Mi", "berth.dev/preemptible": "true"}
    assert pod.metadata.labels["berth.dev/queue"] == "research"
    right, said = verdict(tmp_path, pod, {"state": "granted", "on": "n0/g0", "request": "4096MiB", "limit": "6144MiB"})
    assert right, said
    right, said = verdict(tmp_path, pod, {"state": "granted", "on": "n0/g0", "request": "4097MiB"})
    assert not right, said
    assert operator.deferrable and operator.schedule_timeout_seconds >= 86400 and operator.startup_timeout_seconds >= 86400


@pytest.mark.parametrize("claim", [None, 0])
def test_no_claim_leaves_the_pod_as_it_is(claim):
    _, pod = made(gpu_mem_mb=claim)
    assert pod.spec.scheduler_name is None and not pod.metadata.annotations


def test_a_wait_is_bounded_by_its_own_argument():
    operator, _ = made(gpu_mem_mb=1, gpu_wait_timeout=7200)
    assert operator.schedule_timeout_seconds == 7200


def test_a_claim_that_is_none_is_refused_before_there_is_a_pod():
    from airflow_provider_berth.version_compat import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"gpu_mem_mb=-1 is negative.*task train"):
        made(gpu_mem_mb=-1)
