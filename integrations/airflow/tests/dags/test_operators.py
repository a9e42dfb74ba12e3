"""What a task sees, on the way that nothing is in."""

import os
import subprocess

import pytest

from airflow_provider_berth.version_compat import AIRFLOW_3

LINE = 'echo "saw [$CUDA_VISIBLE_DEVICES] [$NVIDIA_VISIBLE_DEVICES] [$BERTH_MEMORY_MIB]"'


def seen(outcome):
    return [
        line.partition("saw ")[2].split(" [airflow")[0].strip()
        for line in outcome.said.splitlines()
        if "saw [GPU" in line or "saw []" in line
    ]


@pytest.mark.parametrize("env", ["None", "{'CUDA_VISIBLE_DEVICES': '0,1', 'NVIDIA_VISIBLE_DEVICES': 'all'}"])
@pytest.mark.parametrize("append", [False, True])
def test_leases_B40_bash_sees_the_one_granted_device_whatever_env_says(berth, run, monkeypatch, env, append):
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    outcome = run(f"GpuBashOperator(task_id='t', bash_command={LINE!r}, gpu_mem_mb=4096, env={env}, append_env={append})")
    uuid = berth.device()["uuid"]
    assert outcome.state == "success", outcome.said
    assert seen(outcome)[0] == f"[{uuid}] [{uuid}] [4096]"
    lease = berth.lease(outcome.lease())
    assert lease["state"] == "released" and lease["memory_mib"] == 4096
    assert os.environ["NVIDIA_VISIBLE_DEVICES"] == "all"


@pytest.mark.parametrize("claim", ["None", "0", "'0'"])
def test_leases_B01_B02_no_gpu_costs_nothing_and_shows_none(run, monkeypatch, claim):
    monkeypatch.delenv("AIRFLOW_CONN_BERTH_DEFAULT")
    outcome = run(
        f"""
t = GpuBashOperator(task_id='t', bash_command={LINE!r}, gpu_mem_mb={claim}, env={{'CUDA_VISIBLE_DEVICES': '0'}})
p = GpuPythonOperator(task_id='p', python_callable=lambda: os.environ['NVIDIA_VISIBLE_DEVICES'], gpu_mem_mb={claim})
"""
    )
    assert outcome.states == {"t": "success", "p": "success"}, outcome.said
    assert seen(outcome)[0] == "[] [none] []"
    assert outcome.xcoms["p", "return_value"] == "none"


def test_every_kind_of_task(berth, run):
    """Decorators, mapped tasks, templates, default_args, any operator through the mixin."""
    outcome = run(
        """
dag.default_args = {"gpu_queue": "default"}
class Mine(GpuOperatorMixin, BaseOperator):
    def __init__(self, *, word, **kwargs):
        super().__init__(**kwargs)
        self.word = word
class Any(BaseOperator):
    def __init__(self, *, word, **kwargs):
        super().__init__(**kwargs)
        self.word = word
    def execute(self, context):
        return [self.word, os.environ["BERTH_MEMORY_MIB"]]
class Mixed(GpuOperatorMixin, Any):
    pass
@task.gpu(gpu_mem_mb=101)
def decorated(task=None):
    return [os.environ["BERTH_MEMORY_MIB"], task.gpu_device["gpu_mem"]]
@task.gpu_bash(gpu_mem_mb=102)
def command():
    return "echo $BERTH_MEMORY_MIB"
@task.gpu(gpu_mem_mb=103)
def each(x):
    return x
decorated() >> command() >> each.expand(x=[7, 8]) >> Mixed(task_id="mixed", word="w", gpu_mem_mb="{{ 100 + 4 }}") \\
    >> GpuBashOperator.partial(task_id="sizes", bash_command="echo $BERTH_MEMORY_MIB").expand(gpu_mem_mb=[105, "106"])
"""
    )
    assert set(outcome.states.values()) == {"success"} and len(outcome.states) == 7, (outcome.states, outcome.said)
    assert outcome.xcoms["decorated", "return_value"] == ["101", 101]
    assert str(outcome.xcoms["command", "return_value"]) == "102"
    assert outcome.xcoms["mixed", "return_value"] == ["w", "104"]
    claims = sorted(lease["memory_mib"] for lease in berth.leases())
    assert claims == [101, 102, 103, 103, 104, 105, 106]
    assert {lease["state"] for lease in berth.leases()} == {"released"}


def test_leases_B41_a_lease_says_whose_it_is(berth, run):
    run(
        "GpuBashOperator(task_id='t', bash_command='true', gpu_mem_mb=10, gpu_priority=3, priority_weight=9)\n"
        "GpuBashOperator(task_id='u', bash_command='true', gpu_mem_mb=10, priority_weight=9, gpu_preemptible=True)"
    )
    t, u = sorted(berth.leases(), key=lambda lease: lease["labels"]["airflow/task"])
    assert (t["priority"], u["priority"], u["preemptible"]) == (3, 9, True)
    assert t["owner"].endswith(".t") and t["labels"]["airflow/try"] == "1" and t["key"].startswith("airflow:")


def test_leases_B54_kaapanas_words_and_the_device_written_back(berth, run):
    outcome = run(
        """
t = KaapanaStyleOperator(task_id='t', bash_command="echo 'got {{ ti.xcom_pull(task_ids='nothing') }}' $BERTH_MEMORY_MIB",
                         executor_config={"gpu_mem_mb": 5500, "ram_mem_mb": 500, "cpu_millicores": None,
                                          "enable_job_scheduler": True})
class Reads(BaseOperator):
    def execute(self, context):
        return [self.executor_config["gpu_device"], context["task"].executor_config["gpu_device"]]
class Mixed(KaapanaStyleMixin, Reads):
    pass
m = Mixed(task_id='m', executor_config={"gpu_mem_mb": 5000, "gpu_device": {"gpu_id": "7"}})
n = KaapanaStyleOperator(task_id='n', executor_config={"gpu_mem_mb": None, "ram_mem_mb": 500},
                         bash_command='echo "saw [$CUDA_VISIBLE_DEVICES] [$NVIDIA_VISIBLE_DEVICES]"')
"""
    )
    assert set(outcome.states.values()) == {"success"}, outcome.said
    uuid = berth.device()["uuid"]
    assert outcome.xcoms["t", "gpu_device"] == {"gpu_id": "0", "gpu_uuid": uuid, "gpu_mem": 5500}
    assert outcome.xcoms["m", "return_value"] == [{"gpu_id": "0", "gpu_uuid": uuid, "gpu_mem": 5000}] * 2
    assert "saw [] [none]" in outcome.said
    assert sorted(lease["memory_mib"] for lease in berth.leases()) == [5000, 5500]


def test_an_operator_that_defers_while_it_holds_a_gpu_is_told_so(berth, run):
    outcome = run(
        """
from airflow_provider_berth.triggers.lease import GpuLeaseTrigger
class Defers(BaseOperator):
    def execute(self, context):
        self.defer(trigger=GpuLeaseTrigger("berth_default", {}), method_name="execute")
class Mixed(GpuOperatorMixin, Defers):
    pass
Mixed(task_id='t', gpu_mem_mb=10)
"""
    )
    assert outcome.state == "failed" and "deferrable=False" in outcome.said
    assert [lease["state"] for lease in berth.leases()] == ["released"]


def test_the_sensor_looks_and_books_nothing(berth, run):
    outcome = run("GpuRoomSensor(task_id='t', gpu_mem_mb=4096, mode='poke', poke_interval=0.1)")
    assert outcome.state == "success" and berth.leases() == []
    berth.granted(memory=berth.headroom())
    outcome = run("GpuRoomSensor(task_id='t', gpu_mem_mb=4096, mode='poke', poke_interval=0.1, timeout=0.5)")
    assert outcome.state == "failed" and "waiting: needs 4096 MiB" in outcome.said
    outcome = run("GpuRoomSensor(task_id='t', gpu_mem_mb=40960, mode='poke', retries=2)")
    assert outcome.state == "failed" and "The largest possible value is gpu_mem_mb=" in outcome.said


def airflow(*words):
    answer = subprocess.run([f"{os.sys.prefix}/bin/airflow", *words], capture_output=True, text=True, timeout=120, check=False)
    return answer.returncode, answer.stdout + answer.stderr


def test_airflow_lists_the_provider_and_tests_the_connection(daemon, monkeypatch):
    code, said = airflow("providers", "list")
    assert code == 0 and "airflow-provider-berth" in said
    code, said = airflow("plugins")
    assert code == 0 and "airflow_provider_berth.plugins.listener" in said
    from airflow_provider_berth.hooks.berth import BerthHook

    good, sentence = BerthHook().test_connection()
    assert good and "1 device(s), 16384 MiB in all" in sentence
    code, said = airflow("connections", "test", "berth_default")
    assert code == 0 and "success" in said.lower(), said
    daemon.stop()
    good, sentence = BerthHook().test_connection()
    assert not good and "no answer from the daemon at unix:" in sentence
    daemon.start()


def test_the_connection_has_fields_of_its_own():
    if AIRFLOW_3:
        from airflow_provider_berth.get_provider_info import get_provider_info

        fields = get_provider_info()["connection-types"][0]["conn-fields"]
    else:
        from airflow.providers_manager import ProvidersManager

        fields = [name.rpartition("__")[2] for name in ProvidersManager().connection_form_widgets if "berth__" in name]
    assert set(fields) == {"ca", "verify", "timeout", "node", "installation"}


def test_the_command_line_runs_a_dag(berth, run):
    """Level 1b: `airflow dags test`, with a wait, on its own process."""
    blocker = berth.granted(memory=berth.headroom() - 100)
    run.dag(
        "GpuBashOperator(task_id='t', bash_command='echo ran on $CUDA_VISIBLE_DEVICES', gpu_mem_mb=4096)", "by_command_line"
    )
    command = [f"{os.sys.prefix}/bin/airflow", "dags", "test", "by_command_line", "2026-01-02"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = ""
        for line in process.stdout:
            said += line
            if "position 1 of 1" in line and blocker:
                berth.release(blocker)
                blocker = None
        assert process.wait(120) == 0, said
    assert f"ran on {berth.device()['uuid']}" in said and "short of" in said
