"""Room that is lent: use between request and limit, and how a waiting claim gets it back (enforcement.md 2.8)."""

import json
import os
import signal
import subprocess
from pathlib import Path

import harness
from harness import BerthTest

GIB = 1024
GRANT_TOOL = str(Path(harness.PROGRAM).parent / "berth-guard-grant")


class Bursts(BerthTest):
    """Two that asked for 4 GiB and may take 12 on a GPU of 16, and a third that asks for 6."""

    spec = "1x16GiB"
    grace = 60  # burst.grace

    def setUp(self):
        super().setUp()
        device = self.berth.device()
        self.device = device["uuid"]
        self.usable = device["total_mib"] - device["reserve_mib"]
        self.programs = [self.process(), self.process()]
        self.leases = [self.running(program) for program in self.programs]

    def running(self, program):
        return self.berth.running(program.pid, memory="4Gi", memory_limit="12Gi", ttl_seconds=10_000)

    def third(self):
        return self.berth.reserve(memory="6Gi", ttl_seconds=10_000)

    def use(self, *gib):
        """What the driver says that the two use."""
        processes = [{"pid": program.pid, "used_mib": used * GIB} for program, used in zip(self.programs, gib)]
        self.berth.simulate(self.device, used_mib=sum(gib) * GIB, processes=processes)

    def tool(self, *words):
        result = subprocess.run([GRANT_TOOL, *words], capture_output=True, text=True, timeout=20)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def directory(self, lease):
        return self.berth.lease(lease)["env"]["BERTH_GRANT_DIR"]

    def caps(self):
        """In MiB, as the guard finds them."""
        read = [json.loads(self.tool("read", self.directory(lease), "-o", "json")) for lease in self.leases]
        return [grant["devices"][0]["cap_bytes"] // 2**20 for grant in read]

    def keeps_out(self, third, burster, mib):
        shown = self.berth.lease(third)
        self.assertEqual((shown["state"], shown["reason"]), ("waiting", "no-room"))
        self.assertIn(f"{burster['id']} uses {mib} MiB above its request", shown["message"])
        self.assertIn(burster["id"], self.berth.explain(third)["message"])

    def count(self, kind):
        return self.berth.metric(f'berth_events_total{{kind="{kind}"}}') or 0

class Reporting(Bursts):
    """As it is where nobody chose."""

    def test_burst_caps_share_the_headroom_and_fall_before_a_grant_that_needs_it(self):
        free = self.usable - 8 * GIB
        self.assertEqual(sorted(self.caps()), [4 * GIB + free // 2, 4 * GIB + free - free // 2])
        self.assertEqual(self.third()["state"], "granted")
        caps = self.caps()
        self.assertLessEqual(sum(caps) + 6 * GIB, self.usable)
        self.assertGreaterEqual(min(caps), 4 * GIB)
        # What is left cannot hold as much again: it is lent no more.
        self.assertEqual(self.berth.waiting(memory=self.usable - 14 * GIB + 1)["state"], "waiting")
        self.assertEqual(sum(self.caps()), sum(caps))

    def test_burst_use_that_no_sample_shows_yet_is_seen_before_the_grant(self):
        self.tool("set-overhead", self.directory(self.leases[0]), self.device, "7GiB")
        third = self.third()
        self.keeps_out(third, self.leases[0], 3 * GIB)
        self.assertEqual(self.caps(), [4 * GIB, 4 * GIB], "lent room is called back")
        self.tool("set-overhead", self.directory(self.leases[0]), self.device, "4GiB")
        self.berth.advance(1)
        self.assertEqual(self.berth.state(third), "granted")

    def test_burst_the_claim_gets_its_room_when_use_falls(self):
        self.use(7, 4)
        third = self.third()
        self.keeps_out(third, self.leases[0], 3 * GIB)
        self.assertEqual(self.caps(), [4 * GIB, 4 * GIB])
        self.berth.advance(self.grace - 1)
        self.use(4, 4)
        self.assertEqual(self.berth.state(third), "granted")
        self.berth.advance(60)
        self.assertEqual([self.berth.state(lease) for lease in self.leases], ["active", "active"])
        self.assertEqual(self.count("burst-in-the-way"), 1)

    def test_burst_report_tells_and_lets_it_run(self):
        self.use(5, 10)
        third = self.third()
        self.keeps_out(third, self.leases[1], 6 * GIB)
        self.assertIn(f"{self.leases[0]['id']} uses {GIB} MiB", self.berth.lease(third)["message"])
        for _ in range(4):
            self.berth.advance(self.grace)
            self.berth.renew(third)
        self.assertEqual(self.count("burst-in-the-way"), 1, "once, not with every sample")
        self.assertEqual(self.count("evicting"), 0)
        self.assertEqual([self.berth.state(lease) for lease in self.leases], ["active", "active"])
        self.keeps_out(third, self.leases[1], 6 * GIB)


class Ending(Bursts):
    """Where the administrator has said that a burst ends."""

    config = "burst: {policy: end, grace: 60s}\nevictions: {grace: 20s}\n"

    def test_burst_end_the_largest_has_to_leave_and_the_claim_is_granted(self):
        self.use(5, 10)
        third = self.third()
        self.keeps_out(third, self.leases[1], 6 * GIB)
        self.berth.advance(self.grace - 1)
        self.assertIsNone(self.berth.lease(self.leases[1]).get("evicting"))
        self.berth.advance(2)  # it is looked for with every sample
        leaving = self.berth.lease(self.leases[1])
        self.assertEqual((leaving["state"], leaving["evicting"]["beneficiary"]), ("active", third["id"]))
        self.assertEqual(leaving["evicting"]["rule"], "guarantee")
        self.assertIn(f"{6 * GIB} MiB above its request", leaving["evicting"]["message"])
        self.assertIsNone(self.berth.lease(self.leases[0]).get("evicting"), "the smaller one stays")
        self.berth.advance(20)
        lost = self.berth.lease(self.leases[1])
        self.assertEqual((lost["state"], lost["reason"]), ("lost", "evicted"))
        # What its process still holds is foreign now, B44: the claim waits for the memory itself.
        self.assertEqual(self.berth.state(third), "waiting")
        os.killpg(self.programs[1].pid, signal.SIGKILL)
        self.use(5)
        self.assertEqual(self.berth.state(third), "granted")
        self.assertEqual(self.berth.state(self.leases[0]), "active")
        self.assertEqual(self.count("evicting"), 1)

    def test_burst_end_one_that_falls_in_time_stays(self):
        self.use(4, 10)
        third = self.third()
        self.berth.advance(self.grace - 1)
        self.use(4, 5)
        self.assertEqual(self.berth.state(third), "granted")
        self.berth.advance(2 * self.grace)
        self.assertEqual(self.count("evicting"), 0)

    def test_burst_end_a_submitted_job_is_told_and_queued_again(self):
        for lease in self.leases:
            self.berth.release(lease)
        script = "trap 'echo > told; kill $!; exit 3' TERM; echo $$ > pid; sleep 600 & wait"
        asked = {"command": ["sh", "-c", script], "directory": str(self.folder),
                 "environment": [f"PATH={os.environ['PATH']}"], "lease": {"memory": "4Gi", "memory_limit": "12Gi"}}
        job = self.berth.ok("POST", "/v1/jobs", asked)["jobs"][0]["id"]
        at = f"/v1/jobs/{job}"
        shown = self.soon(lambda: next((j for j in self.berth.ok("GET", at)["jobs"] if j["state"] == "running"), None))
        pid = int(self.soon(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text().strip()))
        self.berth.simulate(self.device, used_mib=11 * GIB, processes=[{"pid": pid, "used_mib": 11 * GIB}])
        third = self.third()
        self.keeps_out(third, shown["lease"], 7 * GIB)
        self.berth.advance(self.grace + 1)
        self.soon((self.folder / "told").exists)
        old = shown["lease"]["id"]
        self.soon(lambda: self.berth.state(old) == "lost")
        self.assertEqual(self.berth.lease(old)["reason"], "evicted")
        self.berth.simulate(self.device, used_mib=0, processes=[])
        self.assertEqual(self.berth.state(third), "granted")
        again = self.soon(lambda: next((j for j in self.berth.ok("GET", at)["jobs"] if j["attempt"] == 2), None))
        self.assertIn(again["state"], ("starting", "running"))
        self.berth.ok("DELETE", at)
        self.soon(lambda: self.berth.ok("GET", at)["jobs"][0]["state"] == "cancelled", 10)


if __name__ == "__main__":
    harness.main()
