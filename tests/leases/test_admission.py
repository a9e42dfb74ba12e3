"""Admission: who is granted what, when, and why the others wait (leases.md 3.7, B8-B20)."""

import os
import threading

import harness
from harness import BerthTest, together


class Atomicity(BerthTest):
    ROUNDS = 300

    def test_leases_B08_of_two_that_ask_at_once_one_is_granted(self):
        self.berth.running(memory=self.headroom() - 4096)
        clients = [self.client(), self.client()]
        for number in range(self.ROUNDS):
            answers = together(*(lambda c=client: c.ask(memory="4Gi") for client in clients))
            self.assertEqual(sorted(answer.status for answer in answers), [201, 202], number)
            self.assertEqual(self.headroom(), 0)
            for answer in sorted(answers, key=lambda one: one.status, reverse=True):
                self.assertTrue(self.berth.release(answer.json)["released"])
        self.assertEqual(self.headroom(), 4096)

    def test_leases_B08_of_two_reservations_under_one_key_one_is_new(self):
        clients = [self.client(), self.client()]
        for number in range(100):
            answers = together(*(lambda c=client: c.ask(f"same-{number}", memory=100) for client in clients))
            self.assertEqual(sorted(answer.status for answer in answers), [200, 201])
            self.assertEqual(answers[0].json["id"], answers[1].json["id"])
            self.berth.release(answers[0].json)

    def test_leases_B08_release_and_reserve_at_once(self):
        for _ in range(50):
            first = self.berth.granted(memory=self.headroom())
            other = self.client()
            answers = together(lambda: self.berth.release(first), lambda: other.reserve(memory="4Gi"))
            self.assertEqual(self.berth.state(answers[1]), "granted")
            self.books_hold()
            self.berth.release(answers[1])

    def test_leases_B09_what_is_not_granted_has_no_device_and_no_environment(self):
        self.berth.granted(memory=self.headroom())
        lease = self.berth.waiting(memory=1)
        for shown in (lease, self.berth.lease(lease), self.berth.leases("?state=waiting")[0], self.berth.reserve(lease["key"], memory=1)):
            self.assertEqual((shown["state"], shown["verdict"]), ("waiting", "waiting"))
            self.assertIsNone(shown["env"])
            self.assertIsNone(shown["device"])
            self.assertIsNone(shown["gpu_device"])
            self.assertEqual(shown["devices"], [])
        answer = self.berth.call("POST", f"/v1/leases/{lease['id']}/confirm", {})
        self.refused(answer, 409, "not-granted")
        self.assertEqual(self.berth.state(lease), "waiting")
        self.assertEqual(self.berth.release(lease)["lease"]["env"], None)

    def test_leases_B11_it_counts_from_the_answer(self):
        before = self.headroom()
        self.berth.granted(memory=4096)
        self.assertEqual(self.headroom(), before - 4096)
        self.assertEqual(self.berth.device()["used_mib"], 0)
        self.assertEqual(self.berth.waiting(memory=before - 4095)["queue"]["shortfall_mib"], 1)


class TwoFrontEnds(BerthTest):
    spec = "2x16GiB"

    def test_leases_B10_front_ends_that_race_never_exceed_capacity(self):
        """Two callers, several connections each, ask and release as fast as they can; a third one watches the books."""
        users = [None, 4242] if os.geteuid() == 0 else [None, None]
        over, done = [], threading.Event()

        def watch(client):
            while not done.is_set():
                for device in client.devices():
                    if device["promised_mib"] > device["total_mib"] - device["reserve_mib"]:
                        over.append(device)

        def work(client, sizes):
            for size in sizes:
                lease = client.reserve(memory=size)
                if lease["state"] == "granted":
                    client.confirm(lease)
                client.release(lease)

        watcher = threading.Thread(target=watch, args=(self.client(),))
        watcher.start()
        try:
            sizes = [[3000 + 1000 * ((n * k) % 11) for n in range(40)] for k in (3, 5, 7, 9)]
            clients = [self.client(uid=users[number % 2]) for number in range(4)]
            for client in clients:
                client.connect()  # who one is is settled here, before threads
            together(*(lambda c=client, s=size: work(c, s) for client, size in zip(clients, sizes, strict=True)))
        finally:
            done.set()
            watcher.join()
        self.assertEqual(over, [])
        self.books_hold()
        self.assertEqual([device["promised_mib"] for device in self.berth.devices()], [0, 0])


class Books(BerthTest):
    def test_leases_B12_invisible_memory_counts_in_full(self):
        before = self.headroom()
        lease = self.berth.running(self.process().pid, memory=6000)
        for _ in range(5):
            self.berth.advance(1)
            self.berth.renew(lease)
            self.assertEqual(self.headroom(), before - 6000)

    def test_leases_B13_memory_that_becomes_visible_counts_once(self):
        before = self.headroom()
        process = self.process()
        self.berth.running(process.pid, memory=6000)
        for used in (500, 3000, 5999, 6000):
            self.berth.simulate(self.uuid(), used_mib=used, processes=[{"pid": process.pid, "used_mib": used}])
            device = self.berth.device()
            self.assertEqual((device["headroom_mib"], device["foreign_mib"]), (before - 6000, 0))

    def test_leases_B13_totals_alone_do_not_count_it_twice_either(self):
        before = self.headroom()
        self.berth.source(attribution=False)
        self.berth.simulate(self.uuid(), used_mib=1000)
        self.assertEqual(self.headroom(), before - 1000)
        self.berth.running(self.process().pid, memory=6000)
        for used in (1000, 3000, 7000):
            self.berth.simulate(self.uuid(), used_mib=used)
            self.assertEqual(self.headroom(), before - 7000, used)
        self.assertFalse(self.berth.device()["attribution"])

    def test_leases_B13_the_crossing_moves_it_by_the_measured_surplus_at_most(self):
        before = self.headroom()
        process = self.process()
        self.berth.running(process.pid, memory=6000)
        self.berth.simulate(self.uuid(), used_mib=6200, processes=[{"pid": process.pid, "used_mib": 6200}])
        self.assertEqual(self.headroom(), before - 6200)

    def test_leases_B14_little_use_holds_the_full_claim(self):
        before = self.headroom()
        process = self.process()
        lease = self.berth.running(process.pid, memory=10000)
        self.berth.simulate(self.uuid(), used_mib=3000, processes=[{"pid": process.pid, "used_mib": 3000}])
        self.assertEqual(self.headroom(), before - 10000)
        self.assertEqual(self.berth.lease(lease)["use_bytes"], 3000 << 20)
        self.berth.waiting(memory=before - 9999)

    def test_leases_B16_memory_bounds_how_many_run_not_the_number_of_devices(self):
        leases = [self.berth.running(memory="4Gi") for _ in range(3)]
        self.assertEqual([lease["state"] for lease in leases], ["active"] * 3)
        self.assertEqual(len({lease["device"]["uuid"] for lease in leases}), 1)
        self.assertEqual(self.berth.waiting(memory="4Gi")["reason"], "no-room")

    def test_leases_B11_many_small_ones_fill_a_device_to_the_last_mebibyte(self):
        usable = self.headroom()
        for _ in range(23):
            self.berth.granted(memory=usable // 23)
        self.assertEqual(self.headroom(), usable % 23)
        self.assertEqual(self.berth.waiting(memory=usable // 23)["queue"]["shortfall_mib"], usable // 23 - usable % 23)


class Choice(BerthTest):
    spec = "3x16GiB"

    def place(self, mib, **fields):
        return self.berth.granted(memory=mib, **fields)["device"]["uuid"]

    def test_leases_B15_the_least_loaded_device_then_by_uuid(self):
        uuids = sorted(device["uuid"] for device in self.berth.devices())
        self.assertEqual([self.place(1000) for _ in range(3)], uuids)
        self.assertEqual(self.place(500), uuids[0])
        self.assertEqual(self.place(500), uuids[1])
        self.berth.simulate(uuids[2], used_mib=600)
        self.assertEqual(self.place(1), uuids[0])

    def test_leases_B15_foreign_use_is_load(self):
        uuids = sorted(device["uuid"] for device in self.berth.devices())
        self.berth.simulate(uuids[0], used_mib=10)
        self.assertEqual(self.place(1000), uuids[1])

    def test_leases_B15_the_same_inputs_give_the_same_choice(self):
        sizes = [3000, 100, 7000, 7000, 250, 9000, 1, 4000, 2500, 6000]
        self.assertEqual(*[[self.place_again(size) for size in sizes] for _ in range(2)])

    def place_again(self, size):
        if size == 3000:
            for lease in self.berth.leases():
                self.berth.release(lease)
        return self.place(size)

    def test_leases_B18_a_claim_is_never_split(self):
        usable = self.headroom()
        for uuid in [device["uuid"] for device in self.berth.devices()]:
            self.berth.granted(memory=usable - 3000, devices=[uuid])
        lease = self.berth.waiting(memory=3001)
        self.assertEqual(lease["queue"]["shortfall_mib"], 1)
        self.refused(self.berth.ask(memory=usable + 1), 422, "never")


class DeviceCap(BerthTest):
    """One task per device, as Kaapana has it."""

    queues = "queues:\n- name: default\n  deviceCap: 1\n"
    spec = "2x16GiB"

    def test_leases_B17_a_cap_of_tasks_per_device(self):
        leases = [self.berth.granted(memory=100), self.berth.granted(memory=100)]
        self.assertEqual(len({lease["device"]["uuid"] for lease in leases}), 2)
        third = self.berth.waiting(memory=100)
        self.assertEqual(third["reason"], "device-cap")
        self.berth.release(leases[0])
        self.assertEqual(self.berth.state(third), "granted")


class Quota(BerthTest):
    queues = """
queues:
- {name: research, dims: {"*/memory": {deserved: 12GiB}}}
- {name: vision, parent: research, dims: {"*/memory": {deserved: 4GiB, limit: 4GiB}}}
- {name: speech, parent: research, dims: {"*/memory": {deserved: 8GiB}}}
- {name: closed, stop: hold}
"""

    def test_leases_quota_holds_back_what_is_beyond_its_limit(self):
        first = self.berth.granted(queue="vision", memory=3000)
        second = self.berth.waiting(queue="vision", memory=3000)
        self.assertEqual(second["reason"], "quota")
        self.assertIn("vision", second["message"])
        self.assertEqual(self.berth.explain(second)["reason"], "quota")
        self.assertEqual(self.berth.granted(queue="speech", memory=3000)["queue"]["name"], "speech")
        rows = {row["name"]: row for row in self.berth.ok("GET", "/v1/queues")["queues"]}
        self.assertEqual((rows["vision"]["waiting"], rows["vision"]["running"], rows["vision"]["leaf"]), (1, 1, True))
        self.assertEqual((rows["research"]["leaf"], rows["vision"]["path"]), (False, "root/research/vision"))
        self.berth.release(first)
        self.assertEqual(self.berth.state(second), "granted")

    def test_leases_quota_of_a_queue_on_hold(self):
        lease = self.berth.waiting(queue="closed", memory=100)
        self.assertEqual(lease["reason"], "quota")
        self.assertIn("closed", lease["message"])

    def test_leases_quota_work_goes_into_leaves_that_are_there(self):
        for queue in ("research", "root", "visoin", "default"):
            with self.subTest(queue):
                self.refused(self.berth.ask(queue=queue, memory=100), 400, "invalid-field", "queue")
        self.assertIn("vision", self.berth.ask(queue="visoin", memory=100).error["hint"])
        self.assertEqual(self.berth.leases(), [])

    def test_leases_quota_survives_a_kill(self):
        self.berth.granted(queue="vision", memory=3000)
        second = self.berth.waiting(queue="vision", memory=3000)
        self.daemon.restart()
        self.assertEqual(self.berth.lease(second)["reason"], "quota")


class Order(BerthTest):
    def order(self):
        return [lease["key"] for lease in self.berth.leases("?state=waiting")]

    def full(self):
        return self.berth.running(memory=self.headroom())

    def test_leases_order_priority_then_age_then_id(self):
        full = self.full()
        for key, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -5), ("e", 5)):
            self.berth.waiting(key, memory=15000, priority=priority)
        self.assertEqual(self.order(), ["b", "e", "a", "c", "d"])
        positions = [lease["queue"]["position"] for lease in self.berth.leases("?state=waiting")]
        self.assertEqual(positions, [1, 2, 3, 4, 5])
        self.assertEqual({lease["queue"]["of"] for lease in self.berth.leases("?state=waiting")}, {5})
        self.berth.release(full)
        self.assertEqual(self.berth.leases("?state=granted")[0]["key"], "b")

    def test_leases_order_age_decides_and_reading_does_not(self):
        full = self.full()
        first = self.berth.waiting(memory=15000)
        self.berth.advance(1)
        second = self.berth.waiting(memory=15000)
        for _ in range(20):
            self.berth.lease(second)
            self.berth.renew(second)
        self.berth.release(full)
        self.assertEqual((self.berth.state(first), self.berth.state(second)), ("granted", "waiting"))

    def test_leases_B19_a_large_one_is_not_starved_by_small_ones(self):
        usable = self.headroom()
        small = [self.berth.running(memory=usable // 4) for _ in range(4)]
        large = self.berth.waiting(memory=usable)
        for round_ in range(4):
            self.berth.release(small.pop(0))
            if round_ == 3:
                break
            late = self.berth.waiting(memory=usable // 4)
            self.assertEqual(late["reason"], "behind-head")
        self.assertEqual(self.berth.state(large), "granted")

    def test_leases_B19_what_does_not_delay_it_may_pass(self):
        usable = self.headroom()
        self.berth.running(memory=usable // 2, max_seconds=1000)
        head = self.berth.waiting(memory=usable)
        self.assertEqual(self.berth.waiting(memory=100)["reason"], "behind-head")
        self.assertEqual(self.berth.waiting(memory=100, max_seconds=1001)["reason"], "behind-head")
        passes = self.berth.reserve(memory=100, max_seconds=999)
        self.assertEqual(passes["state"], "granted")
        self.assertEqual(self.berth.state(head), "waiting")

    def test_leases_B20_why_where_since_when_and_how_much_is_missing(self):
        self.berth.running(memory=10000)
        self.berth.advance(7)
        first = self.berth.waiting(memory=self.headroom() + 11)
        self.berth.advance(3)
        lease = self.berth.lease(first)
        self.assertEqual(lease["reason"], "no-room")
        self.assertEqual((lease["queue"]["position"], lease["queue"]["of"]), (1, 1))
        self.assertEqual(lease["queue"]["shortfall_mib"], 11)
        self.assertEqual(lease["queue"]["nearest_device"], self.uuid())
        self.assertEqual(lease["waited_seconds"], 3)
        self.assertIn(str(self.headroom()), lease["message"])
        why = self.berth.explain(lease)
        self.assertEqual((why["reason"], why["position"], why["shortfall_mib"]), ("no-room", 1, 11))
        self.assertEqual(why["queued_at"], first["queued_at"])
        row = why["devices"][0]
        self.assertEqual((row["uuid"], row["eligible"], row["reason"]), (self.uuid(), False, "no-room"))
        self.assertEqual(row["shortfall_mib"], 11)
        self.assertEqual(row["committed_mib"], 10000)
        self.assertEqual(row["headroom_mib"], self.headroom())
        for name in "total_mib reserve_mib margin_mib foreign_mib sample_age_ms node".split():
            self.assertIn(name, row)
        self.assertIn("11", str(why["would_help"]))

    def test_leases_B20_a_second_one_is_told_its_place_too(self):
        self.full()
        self.berth.waiting(memory=100)
        second = self.berth.waiting(memory=50)
        self.assertEqual((second["queue"]["position"], second["queue"]["of"]), (2, 2))
        self.assertIn(second["reason"], ("no-room", "behind-head"))
        self.assertTrue(second["message"])

    def test_leases_B20_the_time_until_it_starts_where_all_ends_are_declared(self):
        self.berth.running(memory=self.headroom(), max_seconds=500)
        self.berth.advance(100)
        lease = self.berth.waiting(memory=100)
        self.assertEqual(lease["queue"]["eta_seconds"], 400)
        self.assertNotIn("eta_seconds", self.berth.granted()["queue"])

    def test_leases_B20_why_this_device(self):
        lease = self.berth.running(memory=100)
        why = self.berth.explain(lease)
        self.assertEqual((why["verdict"], why["reason"], why["position"]), ("granted", None, None))
        self.berth.release(lease)
        self.assertEqual(self.berth.explain(lease)["verdict"], "ended")

    def test_leases_order_a_release_starts_the_next_without_anybody_asking(self):
        full = self.full()
        lease = self.berth.waiting(memory=100)
        stream = self.berth.events(lease)
        self.assertEqual(stream.next()["event"], "waiting")
        self.berth.release(full)
        self.assertEqual(stream.next()["event"], "granted")


if __name__ == "__main__":
    harness.main()
