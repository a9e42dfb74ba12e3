"""Kills of the daemon and of its clients: nothing is lost and nothing doubled (B49-B53)."""

import json

import harness
from harness import G, BerthTest


class Restart(BerthTest):
    spec = "2x16GiB"

    def test_leases_B49_after_a_kill_all_leases_are_there_and_the_order_is_kept(self):
        process = self.process()
        confirmed = self.berth.running(process.pid, memory=9000, ttl_seconds=600)
        granted = self.berth.granted(memory=15000)
        waiting = [self.berth.waiting(f"w-{n}", memory=16000 - 1000 * n, priority=n % 2, wait_for_hardware=True) for n in range(6)]
        ended = self.berth.granted(memory=1)
        self.berth.release(ended)
        self.berth.advance(50)
        before = self.berth.leases()
        for _ in range(3):
            self.daemon.restart()
            after = self.berth.leases()
            self.assertEqual([lease["id"] for lease in after], [lease["id"] for lease in before])
            for old, new in zip(before, after, strict=True):
                for name in ("state", "device", "env", "queued_at", "granted_at", "confirm_by", "renew_by", "key", "memory_mib"):
                    self.assertEqual(new[name], old[name], (old["id"], name))
                self.assertGreaterEqual(new["version"], old["version"])
            self.books_hold()
        self.berth.release(granted)
        self.berth.release(confirmed)
        self.assertEqual(len(waiting), 6)

    def test_leases_B49_times_go_on_where_they_were(self):
        lease = self.berth.granted(memory=100)
        self.berth.advance(G - 1)
        self.daemon.restart()
        self.assertEqual(self.berth.state(lease), "granted")
        self.berth.advance(1)
        self.assertEqual(self.berth.state(lease), "expired")

    def test_leases_B49_a_process_that_ended_meanwhile_frees_its_lease(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=9000)
        self.daemon.kill()
        process.kill()
        process.wait()
        self.daemon.start()
        self.soon(lambda: self.berth.advance(1) and self.berth.state(lease) == "released")

    def test_leases_B49_the_processes_of_leases_are_known_again(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=9000)
        self.daemon.restart()
        uuid = lease["device"]["uuid"]
        self.berth.simulate(uuid, used_mib=8000, processes=[{"pid": process.pid, "used_mib": 8000}])
        self.assertEqual(self.berth.device(uuid)["foreign_mib"], 0)
        self.assertEqual(self.berth.lease(lease)["use_bytes"], 8000 << 20)
        process.kill()
        process.wait()
        self.soon(lambda: self.berth.state(lease) == "released", 2)

    def test_leases_B49_ids_are_never_given_twice(self):
        seen = set()
        for _ in range(4):
            for _ in range(3):
                lease = self.berth.granted(memory=1)
                self.assertNotIn(lease["id"], seen)
                seen.add(lease["id"])
                self.berth.release(lease)
            self.daemon.restart()

    def test_leases_B49_a_device_that_is_gone_after_it(self):
        lease = self.berth.running(memory=100)
        other = next(uuid for uuid in (self.uuid(0), self.uuid(1)) if uuid != lease["device"]["uuid"])
        self.daemon.kill()
        place = self.daemon.command.index("--simulate") + 1
        self.daemon.command[place] = "n9=1x24GiB"
        self.daemon.start()
        self.assertEqual(self.berth.state(lease), "lost")
        self.assertNotIn(other, [device["uuid"] for device in self.berth.devices()])

    def test_leases_B50_a_client_that_starts_again_finds_its_lease_by_the_key(self):
        lease = self.berth.running("job", self.process().pid, memory=100)
        waits = self.berth.waiting("later", memory=16000, wait_for_hardware=True)
        for restart in (False, True):
            if restart:
                self.daemon.restart()
            again = self.client()
            for known, fields in ((lease, {"memory": 100}), (waits, {"memory": 16000, "wait_for_hardware": True})):
                answer = again.ask(known["key"], **fields)
                self.assertEqual((answer.status, answer.json["id"]), (200, known["id"]))
        self.assertEqual(len(self.berth.leases()), 2)

    def test_leases_B50_the_key_of_a_lost_try_is_that_of_the_newer_one_after_a_restart_too(self):
        first = self.berth.granted("a", memory=100)
        self.berth.advance(G)
        second = self.berth.granted("a", memory=100)
        self.berth.running(memory=self.headroom(), ttl_seconds=10**6)
        self.berth.running(memory=max(self.headroom(0), self.headroom(1)), ttl_seconds=10**6)
        third = self.berth.waiting("b", memory=15000)
        self.daemon.restart()
        self.assertEqual(self.berth.reserve("a", memory=100)["id"], second["id"])
        self.assertEqual(self.berth.reserve("b", memory=15000)["id"], third["id"])
        self.assertEqual(self.berth.state(first), "expired")

    def test_leases_B51_a_grant_nobody_read_expires_by_G(self):
        client = self.client()
        client.connect()
        body = json.dumps({"key": "orphan", "memory": 9000})
        client.connection.request("POST", "/v1/leases", body)
        client.close()
        self.soon(lambda: self.berth.leases("?key_prefix=orphan"))
        self.daemon.restart()
        lease = self.berth.leases("?key_prefix=orphan")[0]
        self.assertEqual(lease["state"], "granted")
        self.berth.advance(G)
        self.assertEqual(self.berth.state(lease), "expired")

    def test_leases_B52_the_memory_of_an_earlier_try_counts_and_does_not_block_the_new_one(self):
        old = self.process()
        first = self.berth.running("t/1", old.pid, memory=9000)
        uuid = first["device"]["uuid"]
        self.berth.simulate(uuid, used_mib=8000, processes=[{"pid": old.pid, "used_mib": 8000}])
        self.berth.release(first)
        second = self.berth.granted("t/2", memory=9000, supersedes="t/")
        self.assertNotEqual(second["device"]["uuid"], uuid)
        self.assertEqual(self.berth.device(uuid)["foreign_mib"], 8000)

    def test_leases_B53_cancelled_while_waiting_it_leaves_at_once_for_good(self):
        blockers = [self.berth.granted(memory=15000), self.berth.granted(memory=15000)]
        first, second = self.berth.waiting("a", memory=9000), self.berth.waiting("b", memory=9000)
        self.assertEqual(self.berth.release(first)["lease"]["state"], "cancelled")
        self.assertEqual(self.berth.lease(second)["queue"]["position"], 1)
        self.daemon.restart()
        for lease in blockers:
            self.berth.release(lease)
        self.assertEqual((self.berth.state(first), self.berth.state(second)), ("cancelled", "granted"))


if __name__ == "__main__":
    harness.main()
