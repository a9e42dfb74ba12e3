"""What an administrator may choose in the configuration file (B7, B17, B22, B23, B29, times, limits)."""

import harness
from harness import BerthTest


class Off(BerthTest):
    config = "gpu: {enabled: false}\n"

    def test_leases_B07_with_gpu_support_switched_off_requests_are_refused_with_a_reason(self):
        for fields in ({"memory": 1}, {"gpu_mem_mb": 4096}, {"exclusive": True}, {"executor_config": {"gpu_mem_mb": 1}}):
            with self.subTest(fields):
                error = self.refused(self.berth.ask(**fields), 422, "never")
                self.assertEqual(error["reason"], "gpu-disabled")
                self.assertTrue(error["hint"])
        self.assertEqual(self.berth.leases(), [])
        lease = self.berth.granted()
        self.assertEqual((lease["state"], lease["env"]["NVIDIA_VISIBLE_DEVICES"]), ("active", "none"))


class Cap(BerthTest):
    config = "limits: {device_cap: 1}\n"
    spec = "2x16GiB"

    def test_leases_B17_one_task_per_device_as_kaapana_has_it(self):
        leases = [self.berth.granted(memory=100), self.berth.granted(memory=100)]
        self.assertEqual(len({lease["device"]["uuid"] for lease in leases}), 2)
        third = self.berth.waiting(memory=100)
        self.assertEqual(third["reason"], "device-cap")
        self.berth.release(leases[0])
        self.assertEqual(self.berth.state(third), "granted")


class LedgerOnly(BerthTest):
    config = "gpu: {ledger_only: true}\n"

    def test_leases_B23_the_ledger_alone_with_declared_capacity(self):
        usable = self.headroom()
        self.berth.source(up=False)
        lease = self.berth.granted(memory=usable - 100)
        self.berth.advance(60)
        self.assertEqual(self.berth.granted(memory=100)["state"], "granted")
        self.assertEqual(self.berth.waiting(memory=1)["reason"], "no-room")
        self.assertEqual(self.berth.confirm(lease)["state"], "active")


class Block(BerthTest):
    config = "overuse: block\n"
    spec = "2x16GiB"

    def over(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=4000)
        uuid = lease["device"]["uuid"]
        for _ in range(3):
            self.berth.simulate(uuid, used_mib=5000, processes=[{"pid": process.pid, "used_mib": 5000}])
        return lease, uuid

    def test_leases_B29_the_device_is_closed_once(self):
        lease, uuid = self.over()
        self.assertEqual(self.berth.device(uuid)["reason"], "drained")
        self.assertEqual(self.berth.metric('berth_events_total{kind="device-blocked"}'), 1)
        self.assertEqual(self.berth.state(lease), "active")
        self.berth.drain(uuid, False)
        self.berth.advance(5)
        self.assertTrue(self.berth.device(uuid)["eligible"], "undrained it stays open")

    def test_leases_B29_a_burst_is_no_overuse_and_what_goes_beyond_the_limit_is(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=4000, memory_limit=8000)
        uuid = lease["device"]["uuid"]
        for used, told, blocked in ((7000, 0, 0), (9000, 1, 1), (9500, 1, 1), (7000, 1, 1), (9000, 2, 1)):
            with self.subTest(used=used):
                self.berth.simulate(uuid, used_mib=used, processes=[{"pid": process.pid, "used_mib": used}])
                self.assertEqual(self.berth.metric('berth_events_total{kind="overuse"}'), told)
                self.assertEqual(self.berth.metric('berth_events_total{kind="device-blocked"}'), blocked)
        self.assertIn("overuse", self.daemon.said())


class Kill(BerthTest):
    config = "overuse: kill\nevictions: {grace: 20s}\n"
    over = Block.over

    def test_leases_B29_the_lease_has_to_leave_once(self):
        other = self.berth.running(memory=1000, ttl_seconds=1000)
        lease, _ = self.over()
        self.assertIn("evicting", self.berth.lease(lease))
        self.berth.advance(19)
        self.assertEqual(self.berth.state(lease), "active")
        self.berth.advance(1)
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["reason"]), ("lost", "overuse"))
        self.assertEqual(self.berth.state(other), "active")
        self.assertEqual(self.berth.metric('berth_events_total{kind="evicting"}'), 1)


class Limits(BerthTest):
    config = "limits: {waiting_per_owner: 3}\nleases: {confirm: 10s, ttl: 20s, silence: 40s, forced: 0s}\n"

    def test_leases_errors_too_many_that_wait_of_one_owner(self):
        full = self.berth.granted(memory=self.headroom())
        waiting = [self.berth.waiting(memory=1) for _ in range(3)]
        answer = self.berth.ask(memory=1)
        self.refused(answer, 429, "too-many-waiting")
        self.assertTrue(int(answer.headers["retry-after"]) > 0)
        self.user().waiting(memory=1)
        self.berth.release(waiting[0])
        self.berth.waiting(memory=1)
        self.assertEqual(self.berth.state(full), "granted")

    def test_leases_times_are_the_configured_ones(self):
        process = self.process()
        granted, running, forever = self.berth.granted(memory=1), self.berth.running(memory=1), self.berth.running(process.pid, memory=1)
        full = self.berth.running(memory=self.headroom(), ttl_seconds=10**6)
        silent = self.berth.waiting(memory=1)
        self.berth.advance(10)
        self.assertEqual((self.berth.leases("?state=expired")[0]["id"], self.berth.state(running)), (granted["id"], "active"))
        self.berth.release(silent)
        self.berth.advance(10)
        self.assertEqual((self.berth.state(running), self.berth.state(forever)), ("expired", "suspect"))
        self.berth.advance(10_000)  # far beyond the F that holds elsewhere
        self.assertEqual((self.berth.state(forever), self.berth.state(full)), ("suspect", "active"), "F is 0: never")


if __name__ == "__main__":
    harness.main()
