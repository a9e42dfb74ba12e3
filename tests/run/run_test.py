"""`berth run` with a real daemon: what passes through, what is refused, waiting, keeping, leaving."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness import BERTH, CARDS, RunTest, children, lives, soon


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

    def test_a_state_directory_given_without_its_path_is_found_from_other_folders(self):
        words = [BERTH, "serve", "--simulate", CARDS, "--listen", "unix:berth.sock", "--state", "state"]
        place = Path(tempfile.mkdtemp(prefix="berth-run-"))
        self.addCleanup(shutil.rmtree, place)
        daemon = subprocess.Popen(words, cwd=place, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        self.assertTrue(soon(lambda: (place / "berth.sock").exists()))
        self.environment["BERTH_SOCKET"] = f"unix:{place}/berth.sock"
        look = 'case "$BERTH_GRANT_DIR" in "") echo none;; *) cd / && ls "$BERTH_GRANT_DIR";; esac'
        done = self.run_berth("--gpu-memory", "1Gi", "--", "sh", "-c", look, cwd="/")
        if done.stdout == "none\n":
            self.skipTest("the guard library is not built")
        self.assertEqual(done.stdout, "account\npolicy\n", done.stderr)

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
        self.usage("--wait-timeout 367d: write a time from 1s to 366d", "--gpus", "1", "--wait-timeout", "367d", "--", "true")
        self.usage("for a whole GPU --gpus 1", "--fraction", "1.5", "--", "true")
        self.usage("--gpu-memory '': write", "--gpu-memory", "", "--", "true")
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
        self.assertRegex(line, r"^berth run: waiting, place 1 of 1 in queue default: needs 4096 MiB on one GPU; .*is held by l-")
        holder.terminate()
        self.assertEqual(waiter.wait(15), 0)
        self.assertEqual(waiter.stdout.read(), "started\n")
        self.assertRegex(waiter.stderr.read(), r"^berth run: GPU [01] of \S+, 4096 MiB after \d+s\n$")
        self.assertEqual(holder.wait(15), -signal.SIGTERM)

    def test_says_how_much_is_missing_where_others_have_shares(self):
        holder = self.start("--gpus", "2", "--gpu-memory", "14Gi", "--", "sleep", "60")
        self.assertTrue(soon(lambda: self.leases("active")))
        waiter = self.start("--gpu-memory", "4Gi", "--", "true")
        line = self.read_line(waiter.stderr)
        self.assertRegex(line, r"^berth run: waiting, place 1 of 1 in queue default, 2\d+ MiB missing: needs 4096 MiB on one GPU; "
                               r"largest free is 1\d+ MiB \(GPU 0\)")
        holder.terminate()
        self.assertEqual(waiter.wait(15), 0)
        holder.wait(15)

    def test_leases_B53_an_interrupt_leaves_the_queue_at_once(self):
        self.start_holder()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
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
        self.assertRegex(gone.stderr.read(), r"(?m)^berth run: it has to leave: .*l-\w+.*; it was told to end\n")

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


if __name__ == "__main__":
    unittest.main()
