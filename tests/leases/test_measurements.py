"""Measurements: what samples change, and what nonsense in them does not (leases.md 4 and 5, B21-B31)."""

import harness
from harness import BerthTest

NEAR_2_63 = "9223372036854775794"  # what an exporter shows for "not available"


class Unknown(BerthTest):
    spec = "2x16GiB"

    def setUp(self):
        super().setUp()
        self.bad, self.good = (device["uuid"] for device in self.berth.devices())

    def test_leases_B21_unknown_memory_makes_a_device_ineligible(self):
        running = self.berth.running(memory=100, devices=[self.bad])
        for value in ("", " ", "N/A", "[N/A]", "NaN", "-1", "-0.5", NEAR_2_63, "1e30", "inf", "12 MiB", "٣", True, [1], {}):
            with self.subTest(value=value):
                self.berth.simulate(self.bad, used_mib=value)
                device = self.berth.device(self.bad)
                self.assertEqual((device["eligible"], device["reason"]), (False, "unknown-memory"))
                self.assertTrue(device["problem"])
                lease = self.berth.waiting(memory=100, devices=[self.bad])
                self.assertEqual(lease["reason"], "unknown-memory")
                self.assertTrue(lease["message"])
                self.assertEqual(self.berth.granted(memory=1)["device"]["uuid"], self.good)
                self.assertEqual(self.berth.state(running), "active")
                self.berth.simulate(self.bad, used_mib=0)
                self.assertEqual(self.berth.state(lease), "granted")
                self.berth.release(lease)

    def test_leases_B21_of_unknown_size(self):
        for number, total in enumerate(("[N/A]", "", "NaN", "-5", 0, NEAR_2_63)):
            with self.subTest(total=total):
                uuid = f"GPU-00000000-0000-0000-0000-0000000000{number:02}"
                self.berth.put_device(uuid, node="n0", total_mib=total, model="GB10")
                device = self.berth.device(uuid)
                self.assertEqual((device["eligible"], device["reason"], device["total_mib"]), (False, "unknown-memory", None))
                self.assertEqual(device["headroom_mib"], 0)
                answer = self.berth.ask(memory=1, devices=[uuid])
                self.assertNotEqual(answer.status, 201, answer.text)
                self.assertEqual(self.berth.waiting(memory=1, devices=[uuid], wait_for_hardware=True)["reason"], "unknown-memory")

    def test_leases_B21_garbage_in_every_place_crashes_nothing(self):
        values = ["", "NaN", -1, 1e300, 2**63, None, True, [], {}, "x" * 1000, "\u0000", "💥", [[]], "0x10"]
        for value in values:
            for field in ("used_mib", "processes", "health", "xid", "index", "sample_age_ms"):
                answer = self.berth.call("PATCH", f"/v1/simulated/devices/{self.bad}", {field: value})
                self.assertIn(answer.status, (200, 400), (field, value, answer.text))
            for process in ({"pid": value}, {"pid": 5, "used_mib": value}, {"used_mib": 5}, value):
                self.berth.call("PATCH", f"/v1/simulated/devices/{self.bad}", {"processes": [process]})
            self.berth.call("PUT", f"/v1/simulated/devices/{self.bad}", {"node": value, "total_mib": value})
        self.assertEqual(self.berth.granted(memory=1)["device"]["uuid"], self.good)
        self.berth.simulate(self.bad, used_mib=0, processes=[], health="ok", xid=0, index=0)
        self.assertTrue(self.berth.device(self.bad)["eligible"])
        self.books_hold()

    def test_leases_B21_unknown_control_paths_are_refused(self):
        for method, path, body, status in (
            ("PATCH", "/v1/simulated/devices/GPU-nothing", {"used_mib": 1}, 404),
            ("DELETE", "/v1/simulated/devices/GPU-nothing", None, 404),
            ("PUT", "/v1/simulated/devices/GPU-new", {"node": "elsewhere", "total_mib": 1}, 404),
            ("PATCH", f"/v1/simulated/devices/{self.bad}", {"usd_mib": 1}, 400),
            ("PATCH", f"/v1/simulated/devices/{self.bad}", "[1]", 400),
            ("POST", f"/v1/simulated/devices/{self.bad}", {}, 405),
            ("PATCH", "/v1/simulated/source", {"up": "yes"}, 400),
            ("PATCH", "/v1/simulated/source", {"down": True}, 400),
            ("POST", "/v1/simulated/clock", {}, 400),
            ("POST", "/v1/simulated/clock", {"advance_ms": -1}, 400),
            ("POST", "/v1/simulated/clock", {"advance_ms": 1.5}, 400),
            ("POST", "/v1/simulated/clock", {"advance_ms": 2**62}, 400),
            ("GET", "/v1/simulated/clock", None, 405),
            ("GET", "/v1/simulated", None, 404),
            ("GET", "/v1/simulated/devices", None, 404),
        ):
            with self.subTest(method=method, path=path, body=body):
                answer = self.berth.call(method, path, body)
                self.assertEqual(answer.status, status, answer.text)
                self.assertTrue(answer.error["message"])


class Ages(BerthTest):
    def test_leases_B22_nothing_new_on_what_was_seen_too_long_ago(self):
        running = self.berth.running(memory=100)
        self.berth.simulate(self.uuid(), sample_age_ms=harness.S * 1000 + 1)
        device = self.berth.device()
        self.assertEqual((device["eligible"], device["reason"]), (False, "stale-samples"))
        self.assertGreater(device["sample_age_ms"], harness.S * 1000)
        lease = self.berth.waiting(memory=100)
        self.assertEqual(lease["reason"], "stale-samples")
        self.assertEqual(self.berth.explain(lease)["devices"][0]["reason"], "stale-samples")
        self.assertEqual(self.berth.lease(running)["state"], "active")
        self.berth.simulate(self.uuid(), sample_age_ms=harness.S * 1000)
        self.assertEqual(self.berth.state(lease), "granted")

    def test_leases_B22_a_patch_is_in_force_before_its_answer_however_old_it_says_the_sample_is(self):
        before = self.headroom()
        self.berth.advance(10)
        self.berth.simulate(self.uuid(), used_mib=1000)
        self.berth.simulate(self.uuid(), used_mib=5000, sample_age_ms=2000)
        device = self.berth.device()
        self.assertEqual((self.headroom(), device["used_mib"], device["sample_age_ms"]), (before - 5000, 5000, 2000))

    def test_leases_B22_the_age_grows_with_time_while_the_source_is_silent(self):
        self.berth.source(up=False)
        self.berth.advance(2.5)
        self.assertEqual(self.berth.device()["sample_age_ms"], 2500)

    def test_leases_B31_a_sample_from_the_future_has_no_age(self):
        self.berth.simulate(self.uuid(), sample_age_ms=-3_600_000, used_mib=500)
        device = self.berth.device()
        self.assertEqual((device["sample_age_ms"], device["eligible"], device["used_mib"]), (0, True, 500))
        self.assertGreaterEqual(self.berth.metric('berth_events_total{kind="clock-skew"}') or 0, 1)
        lease = self.berth.running(memory=100)
        self.berth.advance(harness.T - 1)
        self.assertEqual(self.berth.state(lease), "active")
        self.berth.advance(1)
        self.assertEqual(self.berth.state(lease), "expired")

    def test_leases_B31_going_backwards_is_said_once_and_no_age_is_below_nothing(self):
        before = self.headroom()
        for age in (-60_000, 2000, 2001, -5, 2999):
            self.berth.simulate(self.uuid(), sample_age_ms=age)
            self.assertEqual(self.berth.device()["sample_age_ms"], max(age, 0))
            self.assertEqual(self.headroom(), before)
            self.berth.release(self.berth.granted(memory=100))
        self.assertEqual(self.berth.metric('berth_events_total{kind="clock-skew"}'), 1)

    def test_leases_B31_a_skewed_clock_is_said_once_not_with_every_sample(self):
        self.berth.simulate(self.uuid(), sample_age_ms=-5000)
        self.berth.advance(60)
        self.assertEqual(self.berth.metric('berth_events_total{kind="clock-skew"}'), 1)
        self.berth.simulate(self.uuid(), sample_age_ms=0)
        self.berth.simulate(self.uuid(), sample_age_ms=-5000)
        self.assertEqual(self.berth.metric('berth_events_total{kind="clock-skew"}'), 2)


class Down(BerthTest):
    def test_leases_B23_all_sources_down_new_ones_wait_and_running_ones_go_on(self):
        running = self.berth.running(memory=100)
        granted = self.berth.granted(memory=100)
        self.berth.source(up=False)
        lease = self.berth.waiting(memory=100)
        self.assertEqual(lease["reason"], "no-source")
        self.assertIn("source", lease["message"])
        self.assertEqual(self.berth.explain(lease)["reason"], "no-source")
        for _ in range(30):
            self.berth.advance(10)
            self.berth.renew(running)
            self.berth.renew(lease)
        self.assertEqual(self.berth.state(running), "active")
        self.assertEqual(self.berth.state(granted), "expired")
        self.assertEqual(self.berth.confirm(running)["state"], "active")
        self.assertTrue(self.berth.release(running)["released"])
        self.assertEqual(self.berth.state(lease), "waiting")
        self.berth.source(up=True)
        self.assertEqual(self.berth.state(lease), "granted")

    def test_leases_B23_recovers_by_itself_with_the_next_sample(self):
        for _ in range(20):
            self.berth.source(up=False)
            lease = self.berth.waiting(memory=100)
            self.berth.source(up=True)
            self.assertEqual(self.berth.state(lease), "granted")
            self.berth.release(lease)
        self.books_hold()

    def test_leases_B23_reservations_made_meanwhile_keep_their_order(self):
        self.berth.source(up=False)
        half = 9000
        leases = [self.berth.waiting(memory=half, priority=priority) for priority in (0, 5, 0)]
        self.berth.source(up=True)
        self.assertEqual([self.berth.state(lease) for lease in leases], ["waiting", "granted", "waiting"])

    def test_leases_B23_claims_that_never_fit_are_refused_all_the_same(self):
        self.berth.source(up=False)
        self.refused(self.berth.ask(memory=10**6), 422, "never")


class Foreign(BerthTest):
    def test_leases_B27_a_process_without_a_lease_lowers_headroom_and_revokes_nothing(self):
        before = self.headroom()
        lease = self.berth.running(memory=9000)
        stranger = self.process()
        self.berth.simulate(self.uuid(), used_mib=6144, processes=[{"pid": stranger.pid, "used_mib": 6144}])
        device = self.berth.device()
        self.assertEqual((device["foreign_mib"], device["headroom_mib"]), (6144, before - 9000 - 6144))
        self.assertIn(str(stranger.pid), str(device["foreign_processes"]))
        self.assertIn("sleep", str(device["foreign_processes"]))
        self.assertEqual(self.berth.state(lease), "active")
        waits = self.berth.waiting(memory=before - 9000 - 6144 + 1)
        self.assertEqual(waits["queue"]["shortfall_mib"], 1)

    def test_leases_B27_foreign_use_beyond_what_is_left_revokes_nothing(self):
        lease = self.berth.running(memory=12000)
        self.berth.simulate(self.uuid(), used_mib=16000)
        device = self.berth.device()
        self.assertEqual((device["headroom_mib"], device["promised_mib"]), (0, 12000))
        self.assertEqual(self.berth.state(lease), "active")
        self.assertEqual(self.berth.renew(lease)["state"], "active")

    def test_leases_B28_when_it_ends_headroom_comes_back(self):
        before = self.headroom()
        self.berth.simulate(self.uuid(), used_mib=6144, processes=[{"pid": self.process().pid, "used_mib": 6144}])
        lease = self.berth.waiting(memory=before)
        self.berth.simulate(self.uuid(), used_mib=0, processes=[])
        self.assertEqual(self.berth.state(lease), "granted")
        self.assertEqual(self.berth.device()["foreign_mib"], 0)

    def test_leases_B27_unexplained_use_beside_listed_processes_is_foreign(self):
        before = self.headroom()
        process = self.process()
        self.berth.running(process.pid, memory=1000)
        self.berth.simulate(self.uuid(), used_mib=1500, processes=[{"pid": process.pid, "used_mib": 800}])
        self.assertEqual(self.berth.device()["foreign_mib"], 700)
        self.assertEqual(self.headroom(), before - 1000 - 700)

    def test_leases_B27_without_attribution_growth_hides_under_claims_and_status_says_so(self):
        before = self.headroom()
        self.berth.source(attribution=False)
        self.berth.running(memory=4000)
        self.berth.simulate(self.uuid(), used_mib=5000)
        device = self.berth.device()
        self.assertEqual((device["attribution"], device["headroom_mib"]), (False, before - 5000))


class Overuse(BerthTest):
    def test_leases_B29_more_than_its_claim_counts_as_measured(self):
        before = self.headroom()
        process = self.process()
        lease = self.berth.running(process.pid, memory=4000)
        other = self.berth.running(memory=4000)
        for _ in range(3):
            self.berth.simulate(self.uuid(), used_mib=7000, processes=[{"pid": process.pid, "used_mib": 7000}])
        device = self.berth.device()
        self.assertEqual((device["committed_mib"], device["headroom_mib"]), (11000, before - 11000))
        self.assertEqual(device["foreign_mib"], 0)
        self.assertEqual(self.berth.state(other), "active")
        self.assertEqual(self.berth.state(lease), "active")
        self.assertEqual(self.berth.metric('berth_events_total{kind="overuse"}'), 1)
        self.assertEqual(self.berth.lease(lease)["use_bytes"], 7000 << 20)
        self.assertIn("overuse", self.daemon.said())

    def test_leases_B29_others_keep_their_guarantee_in_the_books(self):
        process = self.process()
        self.berth.running(process.pid, memory=4000)
        other = self.berth.running(memory=8000)
        self.berth.simulate(self.uuid(), used_mib=16000, processes=[{"pid": process.pid, "used_mib": 16000}])
        self.assertEqual(self.headroom(), 0)
        self.assertEqual(self.berth.lease(other)["memory_mib"], 8000)
        self.assertEqual(self.berth.renew(other)["state"], "active")

    def test_leases_B30_reserve_and_margin_are_never_given_out(self):
        device = self.berth.device()
        usable = device["total_mib"] - device["reserve_mib"] - device["margin_mib"]
        self.assertGreater(device["reserve_mib"] + device["margin_mib"], 0)
        self.assertEqual(device["headroom_mib"], usable)
        self.refused(self.berth.ask(memory=device["total_mib"]), 422, "never")
        self.berth.granted(memory=usable)
        self.assertEqual(self.berth.waiting(memory=1)["reason"], "no-room")


if __name__ == "__main__":
    harness.main()
