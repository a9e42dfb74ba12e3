"""The environment of a lease, and how work is interrupted."""

import os
import signal
import subprocess
import threading
import time

import pytest

from airflow_provider_berth import hold

LEASE = {"CUDA_VISIBLE_DEVICES": "GPU-1", "NVIDIA_VISIBLE_DEVICES": "GPU-1", "BERTH_LEASE_ID": "l-1", "LD_PRELOAD": "/guard.so"}


def test_leases_B40_nothing_of_the_callers_own_wins():
    own = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "BERTH_GRANT_DIR": "/old",
        "LD_PRELOAD": "/mine.so",
        "A": "1",
    }
    env = hold.environment_of(own, LEASE)
    assert env == {**LEASE, "LD_PRELOAD": "/guard.so:/mine.so", "A": "1"}


def test_the_process_gets_its_environment_back_and_keeps_what_the_work_has_set(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.delenv("BERTH_LEASE_ID", raising=False)
    with hold.process_environment(LEASE):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
        os.environ["SET_BY_THE_WORK"] = "1"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7" and os.environ.pop("SET_BY_THE_WORK") == "1"
    assert "BERTH_LEASE_ID" not in os.environ


def test_work_that_sleeps_is_interrupted_at_once_and_only_once():
    begin = time.monotonic()
    with pytest.raises(hold.LeaseLost, match="gone"), hold.Interrupter() as interrupter:
        threading.Timer(0.1, lambda: interrupter.interrupt(hold.LeaseLost("gone"))).start()
        time.sleep(20)
    assert time.monotonic() - begin < 5
    interrupter.interrupt(hold.LeaseLost("again"))  # after the end: nothing happens
    assert signal.getsignal(hold.Interrupter.SIGNAL) == signal.SIG_DFL


def test_processes_of_a_lease_are_found_by_their_environment_and_ended_even_if_they_do_not_want_to():
    env = {"BERTH_LEASE_ID": "l-test", "BERTH_JOURNAL_ID": f"j-{os.getpid()}"}
    stubborn = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
    work = subprocess.Popen(stubborn, env={**os.environ, **env}, stdout=subprocess.PIPE, start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, **env, "BERTH_JOURNAL_ID": "another"})
    try:
        assert work.stdout.readline() == b"ready\n"
        assert work.pid in hold.processes_of(env) and other.pid not in hold.processes_of(env)
        reaper = threading.Thread(target=work.wait)
        reaper.start()
        hold.end_processes(env, __import__("logging").getLogger())
        reaper.join(5)
        assert work.returncode == -signal.SIGKILL and other.poll() is None
        assert hold.processes_of({"BERTH_LEASE_ID": ""}) == []
    finally:
        for process in (work, other):
            process.kill()
            process.wait()
