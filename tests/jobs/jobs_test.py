#!/usr/bin/env python3
"""Submitted jobs from outside: a real daemon, real programs, devices that are not there.

    python3 tests/jobs/jobs_test.py [JobsTest.test_...]
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))
from daemon import BERTH, Daemon  # noqa: E402

SEED = int(os.environ.get("BERTH_TEST_SEED", "6"))
OVER = {"succeeded", "failed", "cancelled", "timed-out", "lost"}


class JobsTest(unittest.TestCase):
    words = []
    simulate = "2x16GiB"

    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="berth-jobs-")
        self.folder = Path(self.place.name)
        self.start()

    def start(self):
        self.daemon = Daemon(*self.words, simulate=self.simulate, folder=self.folder)
        self.daemon.__enter__()

    def kill(self):
        self.daemon.process.send_signal(signal.SIGKILL)
        self.daemon.process.wait()
        self.daemon.log.close()

    def tearDown(self):
        self.berth("cancel", *[job["id"] for job in self.jobs()], check=False)
        deadline = time.monotonic() + 10
        while any(job["state"] not in OVER for job in self.jobs()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.daemon.__exit__()
        self.place.cleanup()

    def berth(self, *words, check=True, cwd=None, env=None):
        result = subprocess.run(
            [str(BERTH), *words],
            env={**os.environ, "BERTH_SOCKET": self.daemon.socket, **(env or {})},
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if check:
            self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def submit(self, script, *options, memory="4Gi"):
        return self.berth("submit", "--gpu-memory", memory, *options, "--", "sh", "-c", script).stdout.strip()

    def jobs(self, words="?all=1"):
        return self.daemon.call("GET", f"/v1/jobs{words}").json["jobs"]

    def job(self, name):
        return self.daemon.call("GET", f"/v1/jobs/{name}").json["jobs"][0]

    def until(self, condition, seconds=20):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.03)
        self.fail(f"not within {seconds} s; the jobs are {[(j['id'], j['state'], j['reason']) for j in self.jobs()]}")

    def ended(self, name):
        return self.until(lambda: self.job(name) if self.job(name)["state"] in OVER else None)

    def log(self, name):
        return self.berth("logs", name).stdout

    def test_runs_with_its_place_its_surroundings_and_its_exit_status(self):
        job = self.berth(
            "submit", "--gpu-memory", "4Gi", "--name", "first", "--", "sh", "-c",
            'echo "$MINE $BERTH_JOB_ID $BERTH_MEMORY_MIB"; pwd; echo wrong >&2; exit 7',
            env={"MINE": "kept"}, cwd="/",
        ).stdout.strip()
        waited = self.berth("wait", job, check=False)
        self.assertEqual(waited.returncode, 7)
        self.assertEqual(self.log(job), f"kept {job} 4096\n/\nwrong\n")
        seen = self.job(job)
        self.assertEqual((seen["state"], seen["exit_code"], seen["name"]), ("failed", 7, "first"))
        self.assertEqual(seen["lease"]["state"], "released")

    def test_who_waits_is_told_and_does_not_ask_again_and_again(self):
        job = self.submit("sleep 2; exit 4")
        counted = 'berth_http_requests_total '
        asked = lambda: next(int(line.split()[1]) for line in self.daemon.call("GET", "/metrics").text.splitlines() if line.startswith(counted))
        before = asked()
        self.assertEqual(self.berth("wait", job, check=False).returncode, 4)
        self.assertLessEqual(asked() - before, 4, "two questions of berth wait, and ours")

    def test_a_long_poll_answers_when_a_job_and_a_whole_array_have_got_there(self):
        array = self.submit("sleep 0.$((BERTH_ARRAY_INDEX * 3))", "--array", "1-3", memory="1Gi")
        answer = self.daemon.call("GET", f"/v1/jobs/{array}?wait=20&until=granted")
        self.assertFalse({job["state"] for job in answer.json["jobs"]} & {"held", "waiting"})
        answer = self.daemon.call("GET", f"/v1/jobs/{array}?wait=20")
        self.assertEqual([job["state"] for job in answer.json["jobs"]], ["succeeded"] * 3)
        # One that gets nowhere is answered as it is when the time is over; one that is cancelled at once.
        first = self.submit("sleep 60", memory="15Gi")
        self.submit("sleep 60", memory="15Gi")
        waits = self.submit("true", memory="15Gi")
        begun = time.monotonic()
        answer = self.daemon.call("GET", f"/v1/jobs/{waits}?wait=1&until=granted")
        self.assertEqual(answer.json["jobs"][0]["state"], "waiting")
        self.assertGreater(time.monotonic() - begun, 0.9)
        self.daemon.call("DELETE", f"/v1/jobs/{first}")
        answer = self.daemon.call("GET", f"/v1/jobs/{waits}?wait=20&until=granted")
        self.assertNotIn(answer.json["jobs"][0]["state"], {"held", "waiting"})
        for query in ("wait=61", "wait=-1", "wait=x", "until=later", "version=1"):
            self.assertEqual(self.daemon.call("GET", f"/v1/jobs/{waits}?{query}").status, 400, query)
        self.assertEqual(self.berth("wait", first, "--timeout", "1ms", check=False).returncode, 1)

    def test_an_environment_may_be_as_large_as_programs_take_it_and_no_larger(self):
        large = {f"LARGE_{n}": "x" * 100_000 for n in range(8)}
        job = self.berth("submit", "--gpu-memory", "1Gi", "--", "sh", "-c", "echo ${#LARGE_0} ${#LARGE_7}", env=large).stdout.strip()
        self.assertEqual(self.ended(job)["state"], "succeeded")
        self.assertEqual(self.log(job), "100000 100000\n")
        too_large = self.berth("submit", "--gpu-memory", "1Gi", "--", "true", env={**large, **{f"MORE_{n}": "x" * 100_000 for n in range(4)}}, check=False)
        self.assertEqual(too_large.returncode, 2)
        self.assertIn("1048576 bytes", too_large.stderr)
        # Only this call: a lease has 64 KiB.
        self.assertEqual(self.daemon.call("POST", "/v1/leases", {"key": "k", "labels": {"a": "x" * 70_000}}).status, 413)
        # Ten thousand times a large environment would be the daemon's memory.
        many = self.berth("submit", "--gpu-memory", "1Gi", "--array", "0-9999", "--", "true", env=large, check=False)
        self.assertEqual(many.returncode, 1)
        self.assertIn("256 MiB", many.stderr)

    def test_programs_get_the_limit_of_open_files_that_the_daemon_was_started_with(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2048:
            self.skipTest("the daemon cannot raise its own limit")
        self.daemon.__exit__()
        resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard))
        try:
            self.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        raised = Path(f"/proc/{self.daemon.process.pid}/limits").read_text()
        self.assertGreater(int(raised.split("Max open files")[1].split()[0]), 700)
        job = self.submit("ulimit -S -n; ulimit -H -n")
        self.ended(job)
        self.assertEqual(self.log(job), f"700\n{hard}\n")
        shown = self.berth("run", "--gpu-memory", "1Gi", "--", "sh", "-c", "ulimit -S -n").stdout
        self.assertEqual(shown, f"{soft}\n", "berth run is the caller's own")

    def test_an_array_keeps_its_limit_and_tells_its_elements_apart(self):
        array = self.submit("echo $BERTH_ARRAY_INDEX >> order; sleep 0.2", "--array", "3-8%2", memory="1Gi")
        most = 0
        while any(job["state"] not in OVER for job in self.jobs()):
            most = max(most, sum(job["state"] not in OVER | {"held"} for job in self.jobs()))
            time.sleep(0.02)
        self.assertEqual(most, 2)
        self.assertEqual(sorted((self.folder / "order").read_text().split()), list("345678"))
        self.assertEqual(self.berth("wait", array).returncode, 0)

    def test_elements_go_in_the_order_of_their_numbers(self):
        array = self.submit("echo $BERTH_ARRAY_INDEX >> order", "--array", "8-11%1", memory="1Gi")
        self.assertEqual(self.berth("wait", array).returncode, 0)
        self.assertEqual((self.folder / "order").read_text().split(), ["8", "9", "10", "11"])

    def test_after_waits_for_success_and_after_any_for_the_end(self):
        good = self.submit("sleep 0.3; echo good >> order")
        bad = self.submit("sleep 0.3; exit 1")
        follows = self.submit("echo follows >> order", "--after", good)
        never = self.submit("echo never >> order", "--after", f"{good},{bad}")
        behind = self.submit("echo behind >> order", "--after", never)
        anyway = self.submit("true", "--after-any", f"{bad},{never}")
        self.assertEqual(self.ended(follows)["state"], "succeeded")
        self.assertEqual(self.ended(never)["state"], "cancelled")
        self.assertIn(bad, self.ended(never)["reason"])
        self.assertEqual(self.ended(behind)["state"], "cancelled")
        self.assertEqual(self.ended(anyway)["state"], "succeeded")
        self.assertEqual((self.folder / "order").read_text(), "good\nfollows\n")

    def test_a_variable_that_cannot_be_recorded_is_left_out_and_named(self):
        words = [str(BERTH), "submit", "--gpu-memory", "1Gi", "--", "sh", "-c", 'echo "${ODD-none} $EVEN"']
        environment = {**os.environb, b"BERTH_SOCKET": self.daemon.socket.encode(), b"ODD": b"a\xffb", b"EVEN": "ü".encode()}
        done = subprocess.run(words, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertIn("ODD is not UTF-8: the job starts without this variable", done.stderr)
        self.ended(done.stdout.strip())
        self.assertEqual(self.log(done.stdout.strip()), "none ü\n")

    def test_the_table_can_be_asked_for_every_state_that_it_shows(self):
        runs = self.submit("sleep 60", "--name", "first", memory="15Gi")
        others = [self.submit("sleep 60", "--name", name, memory="15Gi") for name in ("second", "third")]
        held = self.submit("true", "--after", runs)
        over = self.submit("exit 3", memory="1Mi")
        self.ended(over)
        self.until(lambda: self.job(others[0])["state"] == "running")
        shown = lambda *words: [line.split()[0] for line in self.berth("ps", *words).stdout.splitlines()[1:]]
        self.assertEqual(sorted(shown("--state", "running")), [runs, others[0]])
        self.assertEqual(shown("--state", "waiting"), [others[1]])
        self.assertEqual(sorted(shown("--state", "held,failed")), [held, over])
        self.assertEqual(shown("--state", "waiting", "--queue", "default"), [others[1]])
        self.assertEqual(shown("--device", "0"), [j for j in (runs, others[0]) if self.job(j)["lease"]["device"]["index"] == 0])
        self.assertEqual(self.berth("ps", "--state", "suspect").stdout, "Nothing is in these states.\n")

    def test_a_wait_takes_minutes_as_its_help_writes_them(self):
        job = self.submit("sleep 60")
        self.assertEqual(self.berth("wait", job, "--for", "granted", "--timeout", "10m").returncode, 0)
        late = self.berth("wait", job, "--timeout", "1s", check=False)
        self.assertEqual((late.returncode, late.stderr), (1, f"berth wait: {job} is not over; --timeout is over\n"))

    def test_work_without_a_gpu_runs_too(self):
        job = {"command": ["sh", "-c", 'echo "$NVIDIA_VISIBLE_DEVICES$CUDA_VISIBLE_DEVICES"'], "directory": "/"}
        (made,) = self.daemon.call("POST", "/v1/jobs", {**job, "environment": [f"PATH={os.environ['PATH']}"]}).json["jobs"]
        self.assertEqual(self.ended(made["id"])["state"], "succeeded")
        self.assertEqual(self.log(made["id"]), "none\n")

    def test_its_time_limit_ends_it(self):
        job = self.submit("sleep 60", "--time", "1s")
        self.assertEqual(self.ended(job)["state"], "timed-out")

    def test_cancel_ends_what_runs_and_what_waits(self):
        runs = self.submit("trap 'echo told; exit 0' TERM; sleep 60 & wait", memory="15Gi")
        other = self.submit("sleep 60", memory="15Gi")
        waits = self.submit("echo never", memory="15Gi")
        self.until(lambda: self.job(runs)["state"] == "running" and self.job(other)["state"] == "running")
        self.assertEqual(self.job(waits)["state"], "waiting")
        self.berth("cancel", waits, runs)
        self.assertEqual(self.job(waits)["state"], "cancelled")
        self.assertEqual(self.ended(runs)["state"], "cancelled")
        self.assertEqual(self.log(runs), "told\n")
        self.assertEqual(self.daemon.call("GET", f"/v1/leases/{self.job(waits)['lease']['id']}").json["state"], "cancelled")

    def test_logs_are_followed_to_the_end_and_cut_at_the_tail(self):
        job = self.submit("for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done")
        self.assertEqual(self.berth("logs", "-f", job).stdout, "".join(f"line {i}\n" for i in range(1, 6)))
        self.assertEqual(self.berth("logs", "--tail", "2", job).stdout, "line 4\nline 5\n")

    def test_a_program_that_is_not_there_fails_with_127(self):
        job = self.berth("submit", "--gpu-memory", "1Gi", "--", "no-such-program-at-all").stdout.strip()
        seen = self.ended(job)
        self.assertEqual((seen["state"], seen["exit_code"]), ("failed", 127))

    def test_what_cannot_be_is_refused_at_once_and_leaves_nothing(self):
        for words, said in [
            (["--gpu-memory", "99Gi"], "largest device"),
            (["--gpu-memory", "1Gi", "--after", "j-7777"], "no job has the id j-7777"),
            (["--gpu-memory", "1Gi", "--array", "5-1"], "FIRST-LAST%AT_ONCE, at most 10000 elements (array: 5-1)"),
            # What a script's unset variable comes to: it must not start at once, or once.
            (["--gpu-memory", "1Gi", "--after", ""], "--after '': an ID is empty"),
            (["--gpu-memory", "1Gi", "--after-any", "j-0001,"], "--after-any 'j-0001,': an ID is empty"),
            (["--gpu-memory", "1Gi", "--array", ""], "--array '': write FIRST-LAST"),
            (["--gpu-memory", "1Gi", "--name", b"\xff"], "--name is \\xff, which is not UTF-8"),
            (["--gpu-memory", "1Gi", "--", "cat", b"caf\xe9"], "a word of COMMAND is caf\\xe9, which is not UTF-8"),
        ]:
            refused = self.berth("submit", *words, "--", "true", check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(said, refused.stderr)
        self.assertEqual(self.jobs(), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_only_its_owner_and_root_see_it(self):
        job = self.submit("sleep 5")
        os.chmod(self.folder, 0o755)
        os.chmod(self.daemon.socket, 0o666)
        ask = ["curl", "-s", "--unix-socket", self.daemon.socket, f"http://x/v1/jobs/{job}"]
        for words in (ask, [*ask[:-1], ask[-1] + "/log"], [*ask, "-X", "DELETE"]):
            answer = subprocess.run(words, user=65534, capture_output=True, text=True, timeout=20)
            self.assertEqual(json.loads(answer.stdout)["error"]["code"], "forbidden", answer.stdout)

    def test_kill_9_of_the_daemon_loses_no_job_and_runs_none_twice(self):
        rng = random.Random(SEED)
        names = [
            self.submit(f"echo {i} >> started; sleep 0.{rng.randint(1, 6)}; echo {i} >> done; exit {i % 3}", memory="9Gi")
            for i in range(10)
        ]
        while True:
            time.sleep(rng.uniform(0.02, 0.5))
            self.kill()
            self.start()
            if all(job["state"] in OVER for job in self.jobs()):
                break
        started = (self.folder / "started").read_text().split()
        self.assertEqual(sorted(started), sorted(map(str, range(10))), f"seed {SEED}")
        self.assertEqual(sorted((self.folder / "done").read_text().split()), sorted(started))
        self.assertEqual([self.job(name)["exit_code"] for name in names], [i % 3 for i in range(10)])
        holding = self.daemon.call("GET", "/v1/leases?state=live").json["leases"]
        self.assertEqual(holding, [])

    def test_what_waits_keeps_its_age_over_a_restart(self):
        for _ in range(2):
            self.submit("sleep 60", memory="15Gi")
        waits = self.submit("true", memory="15Gi")
        before = self.job(waits)
        self.kill()
        self.start()
        after = self.job(waits)
        self.assertEqual(after["state"], "waiting")
        self.assertEqual(after["lease"]["id"], before["lease"]["id"])
        self.assertEqual(after["lease"]["queued_at"], before["lease"]["queued_at"])


class EvictionTest(JobsTest):
    """A queue that takes back what it deserves: what has to leave comes back."""

    simulate = "1x16GiB"

    def start(self):
        queues = self.folder / "queues.yaml"
        queues.write_text(
            "queues:\n"
            '- {name: research, reclaim: guarantee, dims: {"*/memory": {deserved: 12GiB}}}\n'
            '- {name: batch, dims: {"*/memory": {deserved: 2GiB}}}\n'
        )
        self.words = ["--queues", str(queues)]
        super().start()

    def test_what_has_to_leave_is_queued_again_with_its_age(self):
        low = self.submit("echo begin; sleep 2; echo end", "--preemptible", "--queue", "batch", memory="12Gi")
        self.until(lambda: self.job(low)["state"] == "running" and self.log(low) == "begin\n")
        queued = self.job(low)["lease"]["queued_at"]
        time.sleep(1.1)  # times are shown in whole seconds
        high = self.submit("sleep 0.5", "--queue", "research", memory="12Gi")
        self.assertEqual(self.ended(high)["state"], "succeeded")
        self.assertEqual(self.ended(low)["state"], "succeeded")
        seen = self.job(low)
        self.assertEqual((seen["attempt"], seen["lease"]["queued_at"]), (2, queued))
        self.assertEqual(self.log(low), "begin\nend\n")


for name in [name for name in dir(JobsTest) if name.startswith("test_")]:
    setattr(EvictionTest, name, None)  # those are of the other world

if __name__ == "__main__":
    unittest.main()
