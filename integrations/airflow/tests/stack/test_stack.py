"""What happens to leases as a whole Airflow works, is told to stop things, and is killed in parts (airflow.md 4)."""

import contextlib
import datetime
import importlib
import os
import re
import signal
import time
from pathlib import Path

import pytest
from books import HELD, spread

from stack import soon


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def runs(pid):
    """A zombie does not: its parent may be slow."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_leases_B55_ten_mapped_tasks_on_room_for_three(stack, berth, books, capsys):
    before = berth.metric("berth_http_requests_total")
    began = time.time()
    stack.trigger("mapped")

    def settled():
        return (
            len(books.of("mapped", "active")) == 3
            and [state for _, state, _ in stack.instances("mapped")].count("deferred") == 7
        )

    soon(settled, 90, lambda: (stack.instances("mapped"), books.of("mapped"), stack.log("mapped")))
    # No worker is held: another task comes to its turn at once, and waiting costs no pool slot.
    states = [state for _, state, _ in stack.instances("mapped")]
    assert (states.count("running"), states.count("deferred")) == (3, 7), states
    stack.trigger("plain")
    books.ends("plain", "success", 30)
    waiting = books.of("mapped", "waiting")
    assert sorted(lease["queue"]["position"] for lease in waiting) == [1, 2, 3, 4, 5, 6, 7]
    assert {lease["reason"] for lease in waiting} <= {"no-room", "behind-head"}
    said = stack.log("mapped")
    assert re.search(r"position [1-7] of [1-7] in queue default; short of \d+ MiB on GPU-", said), said
    index = int(waiting[-1]["labels"]["airflow/map_index"])
    if stack.is_3:
        links = stack.rest("GET", f"/api/v2/dags/mapped/dagRuns/r/taskInstances/t/links?map_index={index}")["extra_links"]
        (name, link), *_ = links.items()
        assert name == "GPU: why does it wait?"
        shown = stack.page(link)
    else:
        shown = importlib.import_module("airflow_provider_berth.plugins.page").page("mapped", "r", "t", index)
    assert "of 7 in queue default" in shown and "short of" in shown and waiting[-1]["queued_at"] in shown
    # Past the provider's own hold, so that the figures are Airflow's.
    time.sleep(16 if stack.is_3 else 6)
    books.go("mapped")
    soon(
        lambda: [state for _, state, _ in stack.instances("mapped")] == ["success"] * 10,
        120,
        lambda: (stack.instances("mapped"), stack.log("mapped")),
    )
    books.free("mapped")
    ran = books.ran("mapped")
    late = [lease for lease in books.of("mapped") if lease["waited_seconds"] >= 5 and lease["id"] in ran]
    assert len(late) >= 7
    tries = [number for _, _, number in stack.instances("mapped")]
    calls = berth.metric("berth_http_requests_total") - before
    with capsys.disabled():
        p50, p99 = spread([ran[lease["id"]][0] - seconds_of(lease["granted_at"]) for lease in late])
        print(f"\ngrant -> command runs, of {len(late)} deferred tasks: p50 {p50} s, p99 {p99} s; tries {sorted(tries)}")
        print(f"calls of everybody, this test's own too, for 10 tasks: {calls:.0f} in {time.time() - began:.0f} s")


def test_leases_B42_success_failure_and_timeout_give_back(stack, books):
    for dag in ("success", "failure", "timeout"):
        stack.trigger(dag)
    for dag, state in (("success", "success"), ("failure", "failed"), ("timeout", "failed")):
        books.ends(dag, state)
        books.free(dag, 5)
        assert [lease["state"] for lease in books.of(dag)] == ["released"]
    assert "has passed since the grant" in stack.log("timeout")
    assert not runs(books.runs("timeout")[0])


def test_leases_B42_marked_failed_and_cleared_while_running(stack, books):
    for dag in ("marked", "cleared", "python_marked"):
        stack.trigger(dag)
    marked, cleared = books.runs("marked")[0], books.runs("cleared")[0]
    soon(lambda: books.of("python_marked", "active"), 60, stack.said)
    stack.mark_failed("marked")
    stack.mark_failed("python_marked")
    stack.clear("cleared")
    for dag, pid in (("marked", marked), ("python_marked", None), ("cleared", cleared)):
        first = books.of(dag)[0]["id"]
        soon(lambda: books.of(dag)[0]["state"] not in HELD, 40, lambda: (dag, books.of(dag), stack.log(dag)))  # noqa: B023
        assert pid is None or not runs(pid), (dag, stack.log(dag))
        assert books.of(dag)[0]["id"] == first
    assert stack.state("marked") == stack.state("python_marked") == "failed"
    # The cleared one begins again, under a lease of its own.
    books.runs("cleared", 60, count=2)
    books.go("cleared")
    books.ends("cleared", "success")
    books.free("cleared")
    assert len(books.of("cleared")) == 2


@pytest.fixture(scope="session")
def taken(berth):
    """The device on which tasks of the next tests wait."""
    return berth.granted(memory=12000, models=["taken"], confirm_seconds=3600)


def test_leases_B42_ends_of_deferred_tasks_and_of_what_they_wait_with(stack, daemon, berth, books, taken):
    """Marked and cleared by a user; triggerer killed; daemon killed, while one waits and another one runs."""
    for dag in ("marked_deferred", "cleared_deferred", "triggerer", "restart"):
        stack.trigger(dag)
    for dag in ("marked_deferred", "cleared_deferred", "triggerer"):
        books.deferred(dag)
    books.runs("restart")
    soon(lambda: "granted: " not in stack.log("triggerer") and "waits: " in stack.log("triggerer"), 30, stack.said)
    stack.mark_failed("marked_deferred")
    books.free("marked_deferred", 30)
    assert [lease["state"] for lease in books.of("marked_deferred")] == ["cancelled"]
    stack.clear("cleared_deferred")
    soon(lambda: books.of("cleared_deferred")[0]["state"] == "cancelled", 30, lambda: books.of("cleared_deferred"))
    # The next try waits in its turn. (A mark that comes in the moment of a deferral is lost in 2.11, for any operator.)
    soon(
        lambda: len(books.of("cleared_deferred", "waiting")) == 1 and stack.state("cleared_deferred") == "deferred",
        60,
        lambda: books.of("cleared_deferred"),
    )
    time.sleep(2)
    stack.mark_failed("cleared_deferred")
    books.free("cleared_deferred", 30)

    daemon.kill()
    time.sleep(3)
    daemon.start()
    assert books.of("restart", "active") and books.of("triggerer", "waiting")
    books.go("restart")
    books.ends("restart", "success")
    books.free("restart")
    assert "runs on" in stack.log("restart")

    waited = books.of("triggerer")[0]
    stack.kill("triggerer")
    time.sleep(2)
    assert berth.lease(waited)["state"] == "waiting"  # nobody has taken it from the task
    stack.end_rest_of("triggerer")
    stack.start_part("triggerer")
    berth.release(taken)
    books.runs("triggerer", 120)
    books.go("triggerer")
    books.ends("triggerer", "success", 90)
    books.free("triggerer")
    assert waited["id"] in books.ran("triggerer")


@pytest.mark.parametrize("dag", ["task_killed", "supervisor_killed"])
def test_leases_B46_B48_what_an_orphan_holds_stays_counted(stack, berth, books, dag):
    """SIGKILL to the task's process, or to the one that watches it: what the task has started lives on."""
    stack.trigger(dag)
    command, task = books.runs(dag)
    first = books.of(dag, "active")[0]
    watcher = parent(task)
    kill(task if dag == "task_killed" else watcher)
    # Airflow starts the next try, in its time. Until the orphan ends its bytes are counted, so the next one finds no room.
    soon(lambda: stack.tries(dag) == 2, 90, lambda: (stack.instances(dag), stack.log(dag)))
    second = soon(lambda: [lease for lease in books.of(dag) if lease["id"] != first["id"]], 60, lambda: stack.log(dag))[0]
    over = time.monotonic() + 3
    while time.monotonic() < over and runs(command):
        held, waits = berth.state(first) in HELD, berth.state(second) == "waiting"
        # The question is asked last: an orphan may end by itself, told by its lease that another try has asked.
        assert (held and waits) or not runs(command), (berth.lease(first), berth.lease(second))
        time.sleep(0.1)
    # Its end frees them, and the next try runs.
    with contextlib.suppress(ProcessLookupError):
        kill(command)
    if dag == "supervisor_killed":
        with contextlib.suppress(ProcessLookupError):
            kill(task, signal.SIGTERM)
    soon(lambda: berth.lease(first)["state"] not in HELD, 20, lambda: berth.lease(first))
    books.runs(dag, 120, count=2)
    books.go(dag)
    books.ends(dag, "success", 90)
    books.free(dag)


def test_leases_B42_the_scheduler_is_killed_while_a_task_runs(stack, berth, books):
    stack.trigger("scheduler")
    command, _ = books.runs("scheduler")
    first = books.of("scheduler", "active")[0]
    stack.kill("scheduler")
    time.sleep(1)
    # Either the task lives on with its lease, or both are gone: never one without the other.
    alive = runs(command)
    soon(
        lambda: (berth.lease(first)["state"] in HELD) == runs(command),
        20,
        lambda: (alive, berth.lease(first)),
    )
    stack.start_part("scheduler")
    books.go("scheduler")
    books.ends("scheduler", "success", 120)
    books.free("scheduler", 30)


def test_at_the_end_everything_is_free(books):
    books.all_free()
