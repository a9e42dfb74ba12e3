"""Waiting and its ends: what is said meanwhile, what the clocks count, and that nothing runs without a lease."""

import datetime
import importlib
import json
import re
import time

import pytest
from support import Meanwhile, authority, process_runs

from airflow_provider_berth import hold
from airflow_provider_berth.triggers import lease as trigger
from airflow_provider_berth.version_compat import AIRFLOW_3


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """A daemon that was away is asked again sooner than in earnest."""
    monkeypatch.setattr(trigger, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(hold, "RETRY_SECONDS", 0.5)


@pytest.fixture
def blocker(berth):
    """Leaves 100 MiB."""
    return berth.granted(memory=berth.headroom() - 100)


def waits(berth, seconds=3):
    """A question: has somebody waited for so long? By then the task is deferred."""
    return lambda: [lease for lease in berth.leases("?state=waiting") if lease["waited_seconds"] >= seconds]


def task(more="", command="echo ran on $BERTH_LEASE_ID"):
    return f"GpuBashOperator(task_id='t', gpu_mem_mb=4096, bash_command={command!r}{more})"


def test_leases_B20_a_task_that_waits_says_why_where_and_since_when(berth, run, blocker):
    with Meanwhile(waits(berth), lambda _: berth.release(blocker)):
        outcome = run(task())
    assert outcome.state == "success", outcome.said
    lease = berth.lease(outcome.lease())
    assert re.search(
        rf"lease {lease['id']} waits: needs 4096 MiB.*; position 1 of 1 in queue default; short of \d+ MiB on GPU-\S+; since 2",
        outcome.said,
    )
    assert "waiting without a worker" in outcome.said and f"granted: lease {lease['id']}" in outcome.said
    assert (lease["state"], lease["waited_seconds"] >= 3) == ("released", True)


def test_a_short_wait_is_spent_in_the_worker(berth, run, blocker):
    with Meanwhile(waits(berth, 1), lambda _: berth.release(blocker)):
        outcome = run(task(", gpu_in_worker_wait=30"))
    assert outcome.state == "success" and "waiting without a worker" not in outcome.said


def test_a_deadline_in_the_queue_is_the_daemons(berth, run, blocker):
    outcome = run(task(", gpu_wait_timeout=2"))
    assert outcome.state == "failed" and "no GPU within gpu_wait_timeout=2" in outcome.said
    assert [lease["state"] for lease in berth.leases() if lease["id"] != blocker["id"]] == ["timed-out"]


def test_the_time_limit_counts_from_the_grant(berth, run, blocker):
    with Meanwhile(waits(berth, 5), lambda _: berth.release(blocker)):
        outcome = run(task(", execution_timeout=datetime.timedelta(seconds=4)"))
    assert outcome.state == "success", outcome.said


def test_leases_B42_a_task_past_its_time_ends_with_what_it_started(berth, run, tmp_path):
    outcome = run(task(", execution_timeout=datetime.timedelta(seconds=2)", f"sleep 300 & echo $! > {tmp_path}/pid; wait"))
    assert outcome.state == "failed" and "execution_timeout=0:00:02 has passed since the grant" in outcome.said
    assert not process_runs(tmp_path / "pid")
    assert [lease["state"] for lease in berth.leases()] == ["released"]


def test_leases_B53_who_is_cancelled_in_the_queue_does_not_run(berth, run, blocker):
    with Meanwhile(waits(berth), lambda leases: berth.release(leases[0])):
        outcome = run(task())
    assert outcome.state == "failed" and "is cancelled" in outcome.said and "ran on" not in outcome.said.replace("echo ran", "")


def test_leases_B49_the_daemon_is_killed_and_started_again_while_a_task_waits(berth, daemon, run, blocker):
    def restart(_):
        daemon.kill()
        time.sleep(2)
        daemon.start()
        berth.release(blocker)

    with Meanwhile(waits(berth), restart):
        outcome = run(task())
    assert outcome.state == "success", outcome.said
    assert "no answer from the daemon at unix:" in outcome.said and "the daemon answers again" in outcome.said
    assert berth.lease(outcome.lease())["waited_seconds"] >= 5  # its age was kept


def test_leases_B09_the_daemon_is_away_when_a_task_begins(berth, daemon, run):
    """It waits, by a clear line in its log, and runs when the daemon is there."""
    daemon.kill()
    begin = time.monotonic()
    with Meanwhile(lambda: time.monotonic() > begin + 4, lambda _: daemon.start()):
        outcome = run(task())
    assert outcome.state == "success", outcome.said
    assert "nothing runs without a lease: the task waits" in outcome.said
    assert berth.lease(outcome.lease())["state"] == "released"


def test_leases_B49_the_daemon_is_killed_and_started_again_while_a_task_runs(berth, daemon, run, tmp_path):
    def restart(_):
        daemon.kill()
        time.sleep(1.5)
        daemon.start()
        assert berth.leases("?state=active"), berth.leases()
        (tmp_path / "go").touch()

    with Meanwhile(lambda: berth.leases("?state=active"), restart):
        outcome = run(task(command=f"while [ ! -e {tmp_path}/go ]; do sleep 0.2; done"))
    assert outcome.state == "success", outcome.said
    assert berth.lease(outcome.lease())["state"] == "released"


def test_leases_B34_a_lost_device_stops_the_work(berth, run, tmp_path):
    uuid = berth.device()["uuid"]
    with Meanwhile(lambda: (tmp_path / "pid").exists(), lambda _: berth.simulate(uuid, xid=79)):
        outcome = run(task(command=f"sleep 300 & echo $! > {tmp_path}/pid; wait"))
    assert outcome.state == "failed" and "the work was stopped" in outcome.said, outcome.said
    assert not process_runs(tmp_path / "pid")
    assert berth.lease(outcome.lease())["state"] == "lost"


@pytest.mark.parametrize(
    ("policy", "state", "ends"),
    [
        pytest.param("report", "success", "released", marks=pytest.mark.daemon(config="overuse: report\n")),
        pytest.param("block", "success", "released", marks=pytest.mark.daemon(config="overuse: block\n")),
        pytest.param("kill", "failed", "released", marks=pytest.mark.daemon(config="overuse: kill\nevictions: {grace: 5s}\n")),
    ],
)
def test_leases_B29_a_task_that_uses_more_than_its_claim(berth, run, tmp_path, policy, state, ends):
    uuid = berth.device()["uuid"]

    def overuse(_):
        pid = int((tmp_path / "pid").read_text())
        berth.simulate(uuid, processes=[{"pid": pid, "used_mib": 6000}])
        committed = berth.device()["committed_mib"]
        again = berth.ask("beside", memory=100)
        berth.simulate(uuid, processes=[])
        return committed, again.json.get("state")

    watch = Meanwhile(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), overuse)
    with watch:
        outcome = run(task(command=f"echo $$ > {tmp_path}/pid; sleep 3"))
    assert watch.got[0] == 6000  # max(claim, measured)
    assert watch.got[1] == ("waiting" if policy == "block" else "granted")
    assert outcome.state == state, outcome.said
    assert berth.lease(outcome.lease())["state"] == ends
    assert berth.metric('berth_events_total{kind="overuse"}') == 1
    if policy == "kill":
        assert "has to leave" in outcome.said and "the work was stopped" in outcome.said


def test_one_dag_twice_for_one_date_is_two_leases(berth, run):
    if not AIRFLOW_3:  # it deletes the first run, and for that needs to know all tables
        importlib.import_module("airflow.providers.fab.auth_manager.models")
    dag = run.dag(task())
    date = datetime.datetime(2026, 1, 3, tzinfo=datetime.timezone.utc)
    outcomes = [run.test(dag, date) for _ in range(2)]
    assert [outcome.state for outcome in outcomes] == ["success"] * 2, outcomes[1].said
    assert outcomes[0].lease() != outcomes[1].lease()


def test_over_tcp_with_tls_and_a_token_that_is_revoked_and_given_again(tmp_path, run, monkeypatch, request):
    """The node is named by the connection; a revoked token is said, and may be put right while the task waits."""
    import harness

    served = authority(tmp_path)
    daemon = harness.Daemon(str(tmp_path), "1x16GiB", "real", arguments=served.arguments).start()
    request.addfinalizer(daemon.stop)
    berth = harness.Berth(daemon.address)
    request.addfinalizer(berth.close)
    port = int(re.search(r"listening on \S*127\.0\.0\.1:(\d+)", daemon.said())[1])
    extra = {"ca": str(served.certificate), "node": berth.device()["node"]}
    monkeypatch.setenv(
        "AIRFLOW_CONN_BERTH_DEFAULT",
        json.dumps(
            {
                "conn_type": "berth",
                "schema": "https",
                "host": "localhost",
                "port": port,
                "password": served.secret,
                "extra": extra,
            }
        ),
    )
    blocker = berth.granted(memory=berth.headroom() - 100)
    revoked = []

    def revoke(_):
        served.revoke()
        daemon.process.send_signal(1)
        # The open poll ends when the place changes: then the token is looked at again.
        time.sleep(1)
        berth.waiting(memory=4096, priority=10)
        time.sleep(3)
        served.give()
        daemon.process.send_signal(1)
        revoked.append(True)
        for lease in berth.leases("?state=waiting"):
            if lease["priority"] == 10:
                berth.release(lease)
        berth.release(blocker)

    with Meanwhile(waits(berth, 4), revoke):
        outcome = run(task())
    assert revoked and outcome.state == "success", outcome.said
    assert berth.state(outcome.lease()) == "released"
    served.revoke()
    daemon.process.send_signal(1)
    time.sleep(0.5)
    outcome = run(task())
    assert outcome.state == "failed" and "give connection 'berth_default' a token of" in outcome.said
    assert "ran on l-" not in outcome.said
    assert served.secret not in outcome.said


def test_two_airflows_at_the_same_instant_never_hold_more_than_there_is(berth, run, tmp_path):
    """Installations, schedulers: two processes with equal DAGs, runs and tasks, 4096 MiB each where 4096 are free."""
    berth.granted(memory=berth.headroom() - 4096)
    go = tmp_path / "go"
    body = f"""
ready = BashOperator(task_id='ready', bash_command='touch {tmp_path}/ready-$$; while [ ! -e {go} ]; do sleep 0.05; done')
ready >> GpuBashOperator(task_id='t', gpu_mem_mb=4096, bash_command='sleep 2')
"""
    run.dag(body, "twins")
    with run.installation("one", "twins") as one, run.installation("two", "twins") as two:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("ready-*"))) < 2:
            assert time.monotonic() < deadline and one.poll() is None and two.poll() is None, (one.said(), two.said())
            time.sleep(0.05)
        go.touch()
        most = 0
        while one.poll() is None or two.poll() is None:
            ours = [lease for lease in berth.leases() if lease["key"].startswith("airflow:")]
            most = max(most, sum(lease["state"] in ("granted", "active", "suspect", "ending") for lease in ours))
            assert time.monotonic() < deadline + 120
            time.sleep(0.1)
        assert (one.returncode, two.returncode) == (0, 0), (one.said(), two.said())
    assert most == 1
    first, second = (lease for lease in berth.leases() if lease["key"].startswith("airflow:"))
    assert first["state"] == second["state"] == "released"
    assert first["key"].split("/")[0] != second["key"].split("/")[0]
    # Dag, task, map index and try are equal; in 2.11 the run, too.
    assert [first["key"].split("/")[at] for at in (1, 3, 4, 5)] == [second["key"].split("/")[at] for at in (1, 3, 4, 5)]
