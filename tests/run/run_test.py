#!/usr/bin/env python3
"""`berth run` as people meet it: a real daemon with devices that are not there, real programs, signals and terminals.

    python3 tests/run/run_test.py [CLASS.test_NAME]
"""

import os
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))
from daemon import BERTH, Daemon  # noqa: E402

CARDS = "2x16GiB"


def soon(condition, seconds=15):
    """Waits until `condition()` is true; the last value of it."""
    until = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < until:
        time.sleep(0.01)
    return value


def lives(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def children(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class RunTest(unittest.TestCase):
    files = {}  # name of an option of the daemon -> content of its file

    def setUp(self):
        words = []
        for option, content in self.files.items():
            path = Path(tempfile.mkdtemp(prefix="berth-run-")) / "file.yaml"
            self.addCleanup(shutil.rmtree, path.parent)
            path.write_text(content)
            words += [option, str(path)]
        self.daemon = Daemon(*words, simulate=CARDS).__enter__()
        self.addCleanup(lambda: self.daemon.__exit__())
        self.folder = self.daemon.folder
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "CUDA_", "NVIDIA_", "LD_PRELOAD"))},
            "BERTH_SOCKET": self.daemon.socket,
        }
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            for pid in [process.pid, *children(process.pid)]:
                if process.poll() is None or pid != process.pid:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def run_berth(self, *words, **more):
        """`berth run WORDS` to its end."""
        return subprocess.run(
            [BERTH, "run", *words], capture_output=True, text=True, timeout=60, env=self.environment, **more
        )

    def start(self, *words, **more):
        process = subprocess.Popen(
            [BERTH, "run", *words],
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=more.pop("env", self.environment),
            **more,
        )
        self.started.append(process)
        return process

    def start_holder(self, *words):
        """Takes both cards whole with a program that lasts; its lease."""
        process = self.start("--gpus", "2", *words, "--", "sleep", "1000")
        self.assertTrue(soon(lambda: self.leases("active")), "the holder got no place")
        return process

    def leases(self, *states):
        all_leases = self.daemon.call("GET", "/v1/leases").json["leases"]
        return [lease for lease in all_leases if not states or lease["state"] in states]

    def lease(self):
        (lease,) = self.leases()
        return lease

    def read_line(self, stream):
        ready, _, _ = select.select([stream], [], [], 15)
        self.assertTrue(ready, "nothing was said")
        return stream.readline()


class Passes(RunTest):
    def test_output_and_exit_status_are_the_programs(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("out\n", "err\n", 42))
        self.assertEqual(self.lease()["state"], "released")

    def test_death_by_signal_is_ours_too(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(self.lease()["state"], "released")

    def test_standard_input_reaches_the_program(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--", "tr", "a-z", "A-Z", input="hello")
        self.assertEqual(done.stdout, "HELLO")

    def test_pipes_end_when_the_program_ends(self):
        command = f"{BERTH} run --gpu-memory 1Gi -- sh -c 'sleep 2; echo a' | {BERTH} run --gpu-memory 1Gi -- cat"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, env=self.environment)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("a\n", "", 0))

    def test_signals_reach_the_program_once(self):
        script = "trap 'echo TERM; exit 5' TERM; trap 'echo USR1' USR1; echo ready; while :; do sleep 0.02; done"
        process = self.start("--gpu-memory", "4Gi", "--", "sh", "-c", script)
        self.assertEqual(self.read_line(process.stdout), "ready\n")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(self.read_line(process.stdout), "USR1\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(15), 5)
        self.assertEqual(process.stdout.read(), "TERM\n")

    def test_what_cannot_be_run_ends_as_in_a_shell(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--", "trian", "x")
        self.assertEqual(done.returncode, 127)
        self.assertEqual(done.stderr, 'berth run: cannot run "trian": no such program in the PATH\n')
        self.assertEqual(self.run_berth("--gpu-memory", "4Gi", "--", "/etc").returncode, 126)
        self.assertEqual({lease["state"] for lease in self.leases()}, {"released"})

    def test_leases_B39_B40_B41_the_environment_is_the_leases_whatever_the_user_set(self):
        self.environment |= {
            "CUDA_VISIBLE_DEVICES": "0,1",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "BERTH_LEASE_ID": "l-ffff",
            "BERTH_MEMORY_MIB": "99999",
            "BERTH_GRANT_DIR": "/nowhere",
            "MINE": "kept=1",
        }
        done = self.run_berth("--gpu-memory", "4Gi", "--limit", "6Gi", "--", "env", "-0")
        seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
        lease = self.lease()
        (event,) = [d for d in self.daemon.call("GET", "/v1/devices").json["devices"] if d["index"] == 0]
        self.assertEqual(seen["CUDA_VISIBLE_DEVICES"], event["uuid"])
        self.assertEqual(seen["NVIDIA_VISIBLE_DEVICES"], event["uuid"])
        self.assertEqual(seen["BERTH_DEVICE_UUID"], event["uuid"])
        self.assertEqual(seen["BERTH_LEASE_ID"], lease["id"])
        self.assertEqual((seen["BERTH_MEMORY_MIB"], seen["BERTH_MEMORY_LIMIT_MIB"]), ("4096", "6144"))
        self.assertNotEqual(seen.get("BERTH_GRANT_DIR"), "/nowhere")
        self.assertEqual(seen["MINE"], "kept=1")

    def test_the_guard_is_loaded_and_the_level_says_so(self):
        process = self.start("--gpu-memory", "4Gi", "--", "sleep", "1000")
        self.assertTrue(soon(lambda: self.leases("active")))
        if "no guard library" in (self.folder / "log").read_text():
            self.skipTest("the guard library is not built")
        self.assertTrue(soon(lambda: self.lease()["isolation"] == "library"), self.lease()["isolation"])
        process.terminate()
        self.assertEqual(process.wait(15), -signal.SIGTERM)
        bare = self.run_berth("--gpu-memory", "4Gi", "--no-guard", "--", "env")
        self.assertNotIn("LD_PRELOAD", bare.stdout)
        self.assertNotIn("BERTH_GRANT_DIR", bare.stdout)

    def test_several_gpus_whole_ones_and_fractions(self):
        whole = self.run_berth("--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(len(whole.stdout.split(",")), 2, whole.stderr)
        half = self.run_berth("--fraction", "0.5", "--", "sh", "-c", "echo $BERTH_MEMORY_MIB")
        self.assertTrue(7000 < int(half.stdout) < 8193, half.stdout)


class Refuses(RunTest):
    def usage(self, text, *words):
        done = self.run_berth(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.leases(), [])

    def test_options_that_say_nothing_or_too_much(self):
        self.usage("nothing says how much GPU is asked", "--", "true")
        self.usage("--gpu-memory and --fraction cannot be combined", "--gpu-memory", "1Gi", "--fraction", "0.5", "--", "x")
        self.usage("--gpu-memory 4Gx: write", "--gpu-memory", "4Gx", "--", "true")
        self.usage("--gpu-memory 0: write at least 1Mi", "--gpu-memory", "0", "--", "true")
        self.usage("--limit 2Gi: a limit is at least what --gpu-memory asks, 4096 MiB",
                   "--gpu-memory", "4Gi", "--limit", "2Gi", "--", "true")
        self.usage("--limit goes with --gpu-memory", "--gpus", "1", "--limit", "2Gi", "--", "true")
        self.usage("--gpus 17: write a whole number from 1 to 16", "--gpus", "17", "--", "true")
        self.usage("--time soon: write a time", "--gpus", "1", "--time", "soon", "--", "true")
        self.usage("--mig-profile 1g: ", "--mig-profile", "1g", "--", "true")
        self.usage("no queue nope takes work", "--queue", "nope", "--gpus", "1", "--", "true")
        self.usage("COMMAND is missing", "--gpus", "1")

    def test_leases_B4_what_could_never_fit_is_said_at_once(self):
        done = self.run_berth("--gpu-memory", "40Gi", "--", "touch", str(self.folder / "ran"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs 40960 MiB on one GPU", done.stderr)
        self.assertRegex(done.stderr, r"waiting would not help; ask for at most 1\d+ MiB on one GPU\n")
        self.assertFalse((self.folder / "ran").exists())


class Waits(RunTest):
    def test_says_why_and_starts_when_there_is_room(self):
        holder = self.start_holder()
        waiter = self.start("--gpu-memory", "4Gi", "--", "echo", "started")
        line = self.read_line(waiter.stderr)
        self.assertRegex(line, r"^berth run: waiting, place 1 of 1 in queue default, 4096 MiB missing: needs 4096 MiB")
        holder.terminate()
        self.assertEqual(waiter.wait(15), 0)
        self.assertEqual(waiter.stdout.read(), "started\n")
        self.assertRegex(waiter.stderr.read(), r"^berth run: GPU [01] of \S+, 4096 MiB after \d+s\n$")
        self.assertEqual(holder.wait(15), -signal.SIGTERM)

    def test_leases_B53_an_interrupt_leaves_the_queue_at_once(self):
        self.start_holder()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            waiter = self.start("--gpu-memory", "4Gi", "--", "touch", str(self.folder / "ran"))
            self.assertTrue(soon(lambda: self.leases("waiting")))
            begin = time.monotonic()
            waiter.send_signal(number)
            self.assertEqual(waiter.wait(15), -number)
            self.assertLess(time.monotonic() - begin, 5)
            self.assertTrue(waiter.stderr.read().endswith("berth run: left the queue\n"))
            self.assertEqual(self.leases("waiting", "granted"), [])
        self.assertFalse((self.folder / "ran").exists())

    def test_gives_up_after_the_wait_timeout(self):
        self.start_holder()
        done = self.run_berth("--gpu-memory", "4Gi", "--wait-timeout", "1s", "--", "touch", str(self.folder / "ran"))
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.endswith("there was no place within 1s, as long as --wait-timeout lets it wait\n"))
        self.assertFalse((self.folder / "ran").exists())

    def test_leases_B49_B50_keeps_its_place_while_the_daemon_is_restarted(self):
        holder = self.start_holder()
        first = self.start("--gpu-memory", "10Gi", "--", "echo", "first")
        self.assertTrue(soon(lambda: len(self.leases("waiting")) == 1))
        second = self.start("--gpu-memory", "10Gi", "--", "echo", "second")
        self.assertTrue(soon(lambda: len(self.leases("waiting")) == 2))
        before = [lease["id"] for lease in self.leases("waiting")]
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.__enter__()
        self.assertEqual([lease["id"] for lease in self.leases("waiting")], before)
        self.assertEqual(len(self.leases("active")), 1, "the program goes on, and its lease with it")
        self.assertTrue(soon(lambda: first.poll() is None and second.poll() is None))
        holder.terminate()
        self.assertEqual((first.wait(20), second.wait(20)), (0, 0))
        self.assertEqual(len([lease for lease in self.leases() if lease["state"] == "released"]), 3)

    def test_a_waiter_whose_place_an_administrator_takes_ends(self):
        self.start_holder()
        waiter = self.start("--gpu-memory", "4Gi", "--", "true")
        self.assertTrue(soon(lambda: self.leases("waiting")))
        self.daemon.call("DELETE", f"/v1/leases/{self.leases('waiting')[0]['id']}")
        self.assertEqual(waiter.wait(15), 1)
        self.assertIn("berth run: it was taken from the queue", waiter.stderr.read())


class Keeps(RunTest):
    def test_the_time_of_a_program_is_enforced(self):
        begin = time.monotonic()
        done = self.run_berth("--gpu-memory", "4Gi", "--time", "1s", "--grace", "1s", "--",
                              "sh", "-c", "trap '' TERM; sleep 1000 & wait; sleep 1000")
        self.assertEqual(done.returncode, 124)
        self.assertEqual(done.stderr, "berth run: its time of 1s is over; it was told to end\n")
        self.assertGreater(time.monotonic() - begin, 1.9)
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"))

    def test_what_the_program_leaves_behind_keeps_the_place(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
        pid = int(done.stdout)
        self.addCleanup(lambda: lives(pid) and os.kill(pid, signal.SIGKILL))
        self.assertRegex(done.stderr, rf"lasts until what the program left behind has ended: pid {pid} \(\w+\)\n$")
        self.assertEqual(self.lease()["state"], "ending")
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"), self.lease())

    def test_a_cancelled_lease_ends_its_program(self):
        process = self.start("--gpu-memory", "4Gi", "--", "sleep", "1000")
        self.assertTrue(soon(lambda: self.leases("active")))
        time.sleep(1.2)
        self.daemon.call("DELETE", f"/v1/leases/{self.lease()['id']}", {"reason": "cancelled by ada"})
        self.assertEqual(process.wait(20), -signal.SIGTERM)
        self.assertIn("was cancelled", process.stderr.read())

    def test_killed_the_program_runs_on_and_keeps_its_place_until_it_ends(self):
        process = self.start("--gpu-memory", "4Gi", "--", "sleep", "1000")
        self.assertTrue(soon(lambda: len(children(process.pid)) == 2), "the program and the keeper")
        (program,) = [p for p in children(process.pid) if Path(f"/proc/{p}/comm").read_text() == "sleep\n"]
        (keeper,) = [p for p in children(process.pid) if p != program]
        self.addCleanup(lambda: lives(program) and os.kill(program, signal.SIGKILL))
        process.kill()
        process.wait()
        time.sleep(1)
        self.assertTrue(lives(program))
        self.assertTrue(lives(keeper))
        self.assertEqual(self.lease()["state"], "active")
        os.kill(program, signal.SIGKILL)
        self.assertTrue(soon(lambda: self.lease()["state"] not in ("active", "suspect", "ending")))
        self.assertTrue(soon(lambda: not lives(keeper)))

    def test_killed_with_its_keeper_the_place_is_freed_when_the_program_ends(self):
        process = self.start("--gpu-memory", "4Gi", "--", "sleep", "1000")
        self.assertTrue(soon(lambda: len(children(process.pid)) == 2))
        pids = children(process.pid)
        (program,) = [p for p in pids if Path(f"/proc/{p}/comm").read_text() == "sleep\n"]
        self.addCleanup(lambda: lives(program) and os.kill(program, signal.SIGKILL))
        for pid in [process.pid, *(p for p in pids if p != program)]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        self.assertEqual(self.lease()["state"], "active")
        os.kill(program, signal.SIGKILL)
        self.assertTrue(soon(lambda: self.lease()["state"] not in ("active", "suspect", "ending")))

    def test_a_killed_keeper_is_replaced(self):
        process = self.start("--gpu-memory", "4Gi", "--", "sleep", "1000")

        def keepers():
            return [p for p in children(process.pid) if "keeper" in Path(f"/proc/{p}/comm").read_text()]

        self.assertTrue(soon(keepers))
        (first,) = keepers()
        os.kill(first, signal.SIGKILL)
        self.assertTrue(soon(lambda: [p for p in keepers() if p != first and lives(p)]))
        process.terminate()
        self.assertEqual(process.wait(15), -signal.SIGTERM)


class Renews(RunTest):
    files = {"--config": "leases: {ttl: 3s, forced: 2s}\n"}

    def test_stopped_or_killed_its_lease_is_renewed_all_the_same(self):
        process = self.start("--gpu-memory", "4Gi", "--", "sleep", "1000")
        self.assertTrue(soon(lambda: len(children(process.pid)) == 2))
        (program,) = [p for p in children(process.pid) if Path(f"/proc/{p}/comm").read_text() == "sleep\n"]
        self.addCleanup(lambda: lives(program) and os.kill(program, signal.SIGKILL))
        process.send_signal(signal.SIGSTOP)
        time.sleep(6)
        self.assertEqual(self.lease()["state"], "active", "stopped for twice its time")
        process.kill()
        process.wait()
        time.sleep(6)
        self.assertEqual(self.lease()["state"], "active", "killed for twice its time")
        os.kill(program, signal.SIGKILL)
        self.assertTrue(soon(lambda: self.lease()["state"] not in ("active", "suspect", "ending")))


class Leaves(RunTest):
    files = {
        "--queues": """
queues:
- name: research
  reclaim: guarantee
  dims: {"*/memory": {deserved: 16GiB}}
- name: batch
  dims: {"*/memory": {deserved: 4GiB}}
""",
        "--config": "overuse: kill\nevictions: {grace: 2s}\n",
    }

    def test_evicted_it_says_who_and_why_and_exits_75(self):
        script = "trap 'echo saving; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        victims = [self.start("--queue", "batch", "--gpu-memory", "14Gi", "--preemptible", "--", "sh", "-c", script)
                   for _ in range(2)]
        for victim in victims:
            self.assertEqual(self.read_line(victim.stdout), "ready\n")
        heir = self.start("--queue", "research", "--gpu-memory", "14Gi", "--", "echo", "placed")
        self.assertEqual(heir.wait(20), 0, heir.stderr.read())
        self.assertTrue(soon(lambda: [v for v in victims if v.poll() is not None]))
        (gone,) = [victim for victim in victims if victim.poll() is not None]
        self.assertEqual(gone.returncode, 75)
        self.assertEqual(gone.stdout.read(), "saving\n")
        self.assertRegex(gone.stderr.read(), r"^berth run: it has to leave: .*l-\w+.*; it was told to end\n")

    def test_what_ignores_it_is_killed_at_the_deadline_whatever_its_own_grace(self):
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        victims = [self.start("--queue", "batch", "--gpu-memory", "14Gi", "--preemptible", "--grace", "1h", "--",
                              "sh", "-c", script) for _ in range(2)]
        for victim in victims:
            self.assertEqual(self.read_line(victim.stdout), "ready\n")
        begin = time.monotonic()
        heir = self.start("--queue", "research", "--gpu-memory", "14Gi", "--", "echo", "placed")
        self.assertEqual(heir.wait(20), 0)
        self.assertTrue(soon(lambda: [v for v in victims if v.poll() is not None]))
        self.assertEqual(sorted(str(victim.poll()) for victim in victims), ["75", "None"])
        self.assertLess(time.monotonic() - begin, 10)

    def test_leases_B29_who_uses_more_than_its_limit_ends_and_is_told_why(self):
        process = self.start("--queue", "research", "--gpu-memory", "4Gi", "--", "sleep", "1000")
        self.assertTrue(soon(lambda: len(children(process.pid)) == 2))
        (program,) = [p for p in children(process.pid) if Path(f"/proc/{p}/comm").read_text() == "sleep\n"]
        uuid = self.lease()["device"]["uuid"]
        self.daemon.call("PATCH", f"/v1/simulated/devices/{uuid}",
                         {"used_mib": 9000, "processes": [{"pid": program, "used_mib": 9000}]})
        self.assertEqual(process.wait(20), 1)
        self.assertRegex(process.stderr.read(), r"^berth run: it uses more GPU memory than it may: .*; it was told to end\n$")


class Terminal:
    """A shell with job control on a terminal of its own."""

    def __init__(self, environment):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       {**environment, "PS1": "$ ", "TERM": "dumb", "HISTFILE": ""})
        self.pid = pid
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, seconds=15):
        """Waits for it; what was seen up to it is used up."""
        until = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise AssertionError(f"{pattern!r} was not seen in {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def close(self):
        for pid in [*children(self.pid), self.pid]:
            for below in [*children(pid), pid]:
                try:
                    os.kill(below, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class OnATerminal(RunTest):
    def setUp(self):
        super().setUp()
        self.terminal = Terminal(self.environment)
        self.addCleanup(self.terminal.close)

    def test_job_control_is_the_shells(self):
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- cat\n")
        self.assertTrue(soon(lambda: self.leases("active")))
        t.type("one\n")
        t.expect("one\r\none")
        t.type("\x1a")
        t.expect(r"\[1\]\+ +Stopped")
        t.type("jobs; echo $((6*7))\n")
        t.expect("42")
        t.type("fg\n")
        t.expect("run --gpu-memory")
        t.type("two\n")
        t.expect("two\r\ntwo")
        t.type("\x03")
        t.expect(r"\$ ")
        t.type("echo status=$?\n")
        t.expect("status=130")
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"))

    def test_a_stopped_program_keeps_its_lease(self):
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- cat\n")
        self.assertTrue(soon(lambda: self.leases("active")))
        time.sleep(1.3)
        t.type("\x1a")
        t.expect("Stopped")
        (run,) = [p for p in children(t.pid)]
        states = {Path(f"/proc/{p}/comm").read_text().strip(): self.state_of(p) for p in [run, *children(run)]}
        self.assertEqual((states["berth"], states["cat"]), ("T", "T"))
        self.assertNotEqual(states["berth-keeper"], "T", "it goes on renewing")
        t.type("kill %1; fg\n")
        t.expect("Terminated")

    @staticmethod
    def state_of(pid):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def test_in_a_pipeline_the_last_has_the_terminal(self):
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- sh -c 'echo a; sleep 0.2; echo b' | (read x </dev/tty; cat)\n")
        self.assertTrue(soon(lambda: self.leases("active", "released")))
        t.type("key\n")
        t.expect("a\r\nb\r\n")

    def test_the_line_of_a_waiter_is_written_over_and_goes(self):
        holder = self.start_holder()
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- echo started\n")
        t.expect(r"\rberth run: waiting, place 1 of 1")
        t.expect(r"\rberth run: waiting, place 1 of 1")
        holder.terminate()
        t.expect(r"\r\x1b\[Kberth run: GPU \d of .* after \d+s\r\n")
        t.expect("started")

    def test_ctrl_c_while_it_waits_leaves_the_queue(self):
        self.start_holder()
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- echo started\n")
        t.expect("waiting, place")
        t.type("\x03")
        t.expect("left the queue")
        t.type("echo status=$?\n")
        t.expect("status=130")
        self.assertEqual(self.leases("waiting"), [])


RECORDER = """#!/bin/sh
# Stands in for docker and podman: says how it was called.
{ for word in "$@"; do printf '%s\\n' "$word"; done; } > "$RECORD"
exit 7
"""


class Containers(RunTest):
    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name in ("docker", "podman"):
            (self.bin / name).write_text(RECORDER)
            (self.bin / name).chmod(0o755)
        self.record = self.folder / "record"
        self.environment |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "RECORD": str(self.record)}

    def recorded(self):
        return self.record.read_text().splitlines()

    def test_docker_gets_the_granted_device_and_the_guard(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--container", "--", "docker", "run", "--rm", "-it", "--gpus", "all",
                              "-e", "NVIDIA_VISIBLE_DEVICES=all", "-eCUDA_VISIBLE_DEVICES=1", "-e", "MINE=1",
                              "image:1", "train", "--gpus", "all")
        self.assertEqual(done.returncode, 7, done.stderr)
        words = self.recorded()
        (uuid,) = [d["uuid"] for d in self.daemon.call("GET", "/v1/devices").json["devices"] if d["index"] == 0]
        self.assertEqual(words[:3], ["run", "--gpus", f"device={uuid}"])
        self.assertEqual(words[-4:], ["image:1", "train", "--gpus", "all"])
        variables = [words[i + 1] for i, word in enumerate(words) if word == "-e"]
        self.assertIn(f"NVIDIA_VISIBLE_DEVICES={uuid}", variables)
        self.assertIn("CUDA_VISIBLE_DEVICES=0", variables)
        self.assertIn(f"BERTH_LEASE_ID={self.lease()['id']}", variables)
        self.assertIn("MINE=1", variables)
        self.assertNotIn("NVIDIA_VISIBLE_DEVICES=all", variables)
        self.assertNotIn("CUDA_VISIBLE_DEVICES=1", variables)
        self.assertIn("--cidfile", words)
        if "no guard library" not in (self.folder / "log").read_text() and os.geteuid() == 0:
            self.assertIn("LD_PRELOAD=/run/berth/libberth_guard.so", variables)
            mounts = [words[i + 1] for i, word in enumerate(words) if word == "-v"]
            self.assertEqual([mount.split(":")[1] for mount in mounts],
                             ["/run/berth/libberth_guard.so", "/run/berth/grant", "/run/berth/grant/account"])
        for left_out in ("--gpus all", "-e NVIDIA_VISIBLE_DEVICES=all", "-e CUDA_VISIBLE_DEVICES=1"):
            self.assertIn(f"berth run: {left_out} was left out: the container gets what its lease grants\n", done.stderr)

    def test_options_that_would_widen_what_is_granted_are_refused(self):
        for text, *options in (
            ("--privileged would give the container every GPU", "--privileged"),
            ("--detach would end the lease while the container runs", "-d"),
            ("--device /dev/nvidia0 would give the container a GPU that was not granted", "--device", "/dev/nvidia0"),
            ("-v /dev:/dev would show the container the devices", "-v", "/dev:/dev"),
            ("could give the container other GPUs", "--device-cgroup-rule=c 195:* rmw"),
            ("takes the cgroup from the container", "--cgroups=disabled"),
        ):
            done = self.run_berth("--gpus", "1", "--container", "--", "podman", "run", *options, "image")
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(text, done.stderr)
            self.assertFalse(self.record.exists())
        self.assertEqual(self.leases(), [], "refused before anything was reserved")

    def test_an_engine_without_the_option_gets_a_warning(self):
        done = self.run_berth("--gpus", "1", "--", "docker", "run", "image")
        self.assertEqual(done.returncode, 7)
        self.assertIn("Add --container before the --", done.stderr)
        self.assertEqual(self.recorded(), ["run", "image"])
        self.assertNotIn("--container", self.run_berth("--gpus", "1", "--", "docker", "ps").stderr)

    def test_a_real_container_is_known_by_its_cgroup(self):
        podman = shutil.which("podman", path=os.environ["PATH"])
        if podman is None or os.geteuid() != 0:
            self.skipTest("podman is not installed, or not for us")
        root = self.folder / "root"
        self.make_root(root)
        options = ["--rm", "--network", "none", "--ulimit", "nofile=512:512", "--ulimit", "nproc=512:512"]
        image = ["--rootfs", str(root), "/bin/sh", "-c"]
        for runtime in ([], ["--runtime", "runc"]):
            engine = [podman, *runtime]
            trial = subprocess.run([*engine, "run", *options, *image, "exit 3"], capture_output=True, text=True)
            if trial.returncode == 3:
                break
        else:
            self.skipTest(f"podman cannot run containers here: {trial.stderr}")
        script = "echo $CUDA_VISIBLE_DEVICES $BERTH_MEMORY_MIB; ls /run/berth; read x; exit 4"
        process = self.start("--gpu-memory", "4Gi", "--container", "--", *engine, "run", "-i", *options, *image, script,
                             stdin=subprocess.PIPE)
        self.assertEqual(self.read_line(process.stdout), "0 4096\n")
        lease = self.lease()["id"]
        devices = self.daemon.call("GET", "/v1/devices").json["devices"]
        inside = soon(lambda: [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and
                               f"libpod-" in self.text(p / "cgroup") and "conmon" not in self.text(p / "cgroup")
                               and f"BERTH_LEASE_ID={lease}" in self.text(p / "environ")])
        self.assertTrue(inside)
        (uuid,) = [d["uuid"] for d in devices if lease in d["leases"]]
        self.daemon.call("PATCH", f"/v1/simulated/devices/{uuid}",
                         {"used_mib": 3000, "processes": [{"pid": inside[0], "used_mib": 3000}]})
        self.assertTrue(soon(lambda: self.daemon.call("GET", f"/v1/leases/{lease}").json["use_bytes"] == 3000 << 20),
                        "its memory is the lease's")
        self.daemon.call("PATCH", f"/v1/simulated/devices/{uuid}", {"used_mib": 0, "processes": []})
        process.stdin.write("go\n")
        process.stdin.flush()
        self.assertEqual(process.wait(30), 4, process.stderr.read())
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"))

    @staticmethod
    def text(path):
        try:
            return path.read_bytes().decode(errors="replace")
        except OSError:
            return ""

    @staticmethod
    def make_root(root):
        for name in ("proc", "sys", "dev", "tmp", "run", "etc", "bin"):
            (root / name).mkdir(parents=True)
        for program in ("/bin/sh", "/bin/ls"):
            shutil.copy(os.path.realpath(program), root / "bin" / Path(program).name)
            for library in re.findall(r"(/\S+)", subprocess.run(["ldd", program], capture_output=True, text=True).stdout):
                target = root / library.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)


class StartsADaemon(unittest.TestCase):
    """Of a user for whom none runs. Not as root, whose daemon would be the machine's."""

    def setUp(self):
        self.home = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.as_user = []
        if os.geteuid() == 0:
            os.chown(self.home, 65534, 65534)
            self.as_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            if subprocess.run([*self.as_user, BERTH, "version"], capture_output=True).returncode != 0:
                self.skipTest("an unprivileged user cannot reach the program here")
        if os.path.exists("/run/berth/berth.sock"):
            self.skipTest("this machine has a daemon")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home / "run")}
        (self.home / "run").mkdir()
        if self.as_user:
            os.chown(self.home / "run", 65534, 65534)

    def run_berth(self, *words):
        return subprocess.run([*self.as_user, BERTH, "run", *words], capture_output=True, text=True, timeout=60,
                              env=self.environment)

    def daemons(self):
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue
                if words[:2] == ["berth", "serve"] and any(str(self.home) in word for word in words):
                    found.append(int(entry.name))
        return found

    def test_and_says_so_once(self):
        self.addCleanup(lambda: [os.kill(pid, signal.SIGTERM) for pid in self.daemons()])
        done = self.run_berth("--gpu-memory", "4Gi", "--wait-timeout", "1s", "--", "true")
        log = self.home / ".local/state/berth/serve.log"
        self.assertTrue(done.stderr.startswith(
            f"berth run: no daemon was running, so one was started for you; its log is {log}\n"), done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(log.exists())
        (pid,) = self.daemons()
        self.assertEqual(os.getsid(pid) == os.getsid(0), False)
        again = self.run_berth("--gpu-memory", "4Gi", "--wait-timeout", "1s", "--", "true")
        self.assertNotIn("no daemon was running", again.stderr)
        self.assertEqual(self.daemons(), [pid])

    def test_and_names_the_reason_when_it_cannot(self):
        state = self.home / ".local/state"
        state.mkdir(parents=True)
        (state / "berth").write_text("in the way")
        done = self.run_berth("--gpu-memory", "4Gi", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{state}/berth", done.stderr)

    def test_but_not_where_berth_socket_names_another(self):
        self.environment["BERTH_SOCKET"] = str(self.home / "other.sock")
        done = self.run_berth("--gpu-memory", "4Gi", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("but nobody listens there; start `berth serve --listen unix:", done.stderr)
        self.assertEqual(self.daemons(), [])


if __name__ == "__main__":
    unittest.main()
