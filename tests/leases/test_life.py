"""The life of a lease: confirm, renew, release, keys, ends of processes (B39-B48, B54)."""

import os
import signal
import subprocess
import time
from pathlib import Path

import harness
from harness import A, D, F, G, T, W, BerthTest, end_process


class Workload(BerthTest):
    spec = "2x16GiB"

    def test_leases_B39_a_container_sees_one_device_as_index_0(self):
        second = self.uuid(1)
        lease = self.berth.granted(memory=100, container=True, devices=[second])
        self.assertEqual(lease["device"]["index"], 1)
        self.assertEqual(lease["env"]["NVIDIA_VISIBLE_DEVICES"], second)
        self.assertEqual(lease["env"]["CUDA_VISIBLE_DEVICES"], "0")
        self.assertNotIn("LD_PRELOAD", lease["env"])

    def test_leases_B39_a_plain_process_is_pinned_by_uuid(self):
        second = self.uuid(1)
        env = self.berth.granted(memory=100, devices=[second])["env"]
        self.assertEqual((env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]), (second, second))

    def test_leases_B40_no_field_of_the_caller_widens_the_environment(self):
        first = self.uuid()
        for labels in ({"NVIDIA_VISIBLE_DEVICES": "all"}, {"CUDA_VISIBLE_DEVICES": "0,1"}):
            lease = self.berth.granted(memory=100, labels=labels, devices=[first])
            self.assertEqual(lease["env"]["NVIDIA_VISIBLE_DEVICES"], first)
            self.assertEqual(lease["env"]["CUDA_VISIBLE_DEVICES"], first)
        for field in ("env", "NVIDIA_VISIBLE_DEVICES", "environment"):
            self.refused(self.berth.ask(memory=1, **{field: {"NVIDIA_VISIBLE_DEVICES": "all"}}), 400, "unknown-field", field)

    def test_leases_B41_lease_device_and_claim_are_in_the_environment(self):
        lease = self.berth.granted(memory="3Gi", memory_limit="5Gi")
        env = lease["env"]
        self.assertEqual(env["BERTH_LEASE_ID"], lease["id"])
        self.assertEqual(env["BERTH_DEVICE_UUID"], lease["device"]["uuid"])
        self.assertEqual((env["BERTH_MEMORY_MIB"], env["BERTH_MEMORY_LIMIT_MIB"]), ("3072", "5120"))
        self.assertTrue(all(isinstance(value, str) for value in env.values()))
        self.assertEqual(self.berth.confirm(lease)["env"], env)
        self.assertEqual(self.berth.lease(lease)["env"], env)


class Ends(BerthTest):
    def test_leases_B42_the_end_of_the_confirmed_process_frees_the_claim(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how=how):
                process = self.process()
                lease = self.berth.running(process.pid, memory=self.headroom())
                waits = self.berth.waiting(memory=100)
                process.send_signal(how)
                process.wait()
                self.soon(lambda: self.berth.state(lease) == "released", 2)
                self.assertEqual(self.berth.lease(lease)["reason"], "process-ended")
                self.assertEqual(self.berth.state(waits), "granted")
                self.berth.release(waits)

    def test_leases_B42_not_while_another_process_of_it_lives(self):
        process = self.process(("sh", "-c", "sleep 30 & wait"))
        lease = self.berth.running(process.pid, memory=100)
        self.soon(lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8"))
        process.kill()
        process.wait()
        self.berth.advance(2)
        self.assertEqual(self.berth.state(lease), "active")
        os.killpg(process.pid, signal.SIGKILL)
        self.soon(lambda: self.berth.advance(1) and self.berth.state(lease) == "released")

    def test_leases_B42_nor_once_a_child_has_outlived_a_restart(self):
        process = self.process(("sh", "-c", "sleep 30 & wait"))
        lease = self.berth.running(process.pid, memory=100)
        self.soon(lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8"))
        self.daemon.kill()
        process.kill()
        process.wait()
        self.daemon.start()
        self.berth.advance(2)
        self.assertEqual(self.berth.state(lease), "active")
        os.killpg(process.pid, signal.SIGKILL)
        self.soon(lambda: self.berth.advance(1) and self.berth.state(lease) == "released")

    def test_leases_B42_success_and_failure_by_release(self):
        for reason in ("success", "failed", "timeout"):
            lease = self.berth.running(memory=100)
            answer = self.berth.release(lease, reason=reason)
            self.assertEqual((answer["released"], answer["lease"]["state"], answer["lease"]["message"]), (True, "released", reason))
            self.assertEqual(self.berth.device()["promised_mib"], 0)

    def test_leases_B42_a_client_that_dies_without_a_word_by_T_and_one_sample(self):
        lease = self.berth.running(memory=self.headroom())
        waits = self.berth.waiting(memory=100)
        self.berth.advance(T - 1)
        self.assertEqual(self.berth.state(lease), "active")
        self.berth.renew(waits)
        self.berth.advance(2)
        self.assertEqual((self.berth.state(lease), self.berth.state(waits)), ("expired", "granted"))

    def test_leases_B42_at_the_latest_by_T_and_F(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=100)
        self.berth.advance(T + F - 1)
        self.assertEqual(self.berth.state(lease), "suspect")
        self.berth.advance(1)
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["reason"]), ("expired", "forced"))
        self.assertEqual(self.berth.device()["promised_mib"], 0)

    def test_leases_B43_release_twice_or_of_nothing_is_no_error_and_changes_nothing(self):
        lease = self.berth.running("a", memory=100)
        self.assertTrue(self.berth.release(lease)["released"])
        newer = self.berth.running("b", memory=200)
        for _ in range(2):
            self.assertFalse(self.berth.release(lease)["released"])
            self.assertFalse(self.berth.release("l-ffff")["released"])
            self.assertFalse(self.berth.release("no/such".replace("/", "-"))["released"])
            self.assertFalse(self.berth.release_key("a")["released"])
            self.assertFalse(self.berth.release_key("never seen")["released"])
            self.assertFalse(self.berth.ok("DELETE", f"/v1/leases/{lease['id']}", status=200)["released"])
        self.assertEqual(self.berth.state(newer), "active")
        self.assertEqual(self.berth.device()["promised_mib"], 200)
        self.assertIsNone(self.berth.release("l-ffff")["lease"])

    def test_leases_B43_by_key_is_the_exact_key(self):
        lease = self.berth.running("dag/run/task/1", memory=100)
        for key in ("dag/run/task/", "dag/run/task", "dag/run/task/11", "DAG/run/task/1"):
            self.assertFalse(self.berth.release_key(key)["released"])
        self.assertEqual(self.berth.state(lease), "active")
        self.assertTrue(self.berth.release_key("dag/run/task/1")["released"])

    def test_leases_B44_what_is_still_held_after_a_release_is_foreign_until_it_is_gone(self):
        usable = self.headroom()
        process = self.process()
        lease = self.berth.running(process.pid, memory=9000)
        self.berth.simulate(self.uuid(), used_mib=7000, processes=[{"pid": process.pid, "used_mib": 7000}])
        self.assertEqual(self.berth.release(lease)["lease"]["state"], "released")
        device = self.berth.device()
        self.assertEqual((device["promised_mib"], device["foreign_mib"], device["headroom_mib"]), (0, 7000, usable - 7000))
        self.assertEqual(self.berth.waiting(memory=9000)["queue"]["shortfall_mib"], 7000 + 9000 - usable)
        self.berth.simulate(self.uuid(), used_mib=0, processes=[])
        self.assertEqual(self.berth.device()["foreign_mib"], 0)

    def test_leases_ending_release_if_gone_waits_for_the_processes(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=9000)
        answer = self.berth.release(lease, if_gone=True)
        self.assertTrue(answer["released"])
        shown = answer["lease"]
        self.assertEqual((shown["state"], shown["reason"]), ("ending", "process-alive"))
        self.assertEqual(self.berth.device()["promised_mib"], 9000)
        for call in ("renew", "confirm"):
            self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/{call}", {}), 410, "lost")
        self.assertFalse(self.berth.release(lease, if_gone=True)["released"])
        self.berth.advance(T + 10)
        self.assertEqual(self.berth.state(lease), "ending")
        process.kill()
        process.wait()
        self.soon(lambda: self.berth.state(lease) == "released", 2)
        self.assertEqual(self.berth.device()["promised_mib"], 0)

    def test_leases_ending_is_forced_after_F_and_a_plain_release_ends_it_at_once(self):
        process = self.process()
        first, second = (self.berth.running(process.pid, memory=100) for _ in range(2))
        for lease in (first, second):
            self.berth.release(lease, if_gone=True)
        self.assertEqual(self.berth.release(second)["lease"]["state"], "released")
        self.berth.advance(F - 1)
        self.assertEqual(self.berth.state(first), "ending")
        self.berth.advance(1)
        self.assertEqual(self.berth.state(first), "released")

    def test_leases_ending_without_proof_of_a_process_it_is_freed_at_once(self):
        for lease in (self.berth.granted(memory=100), self.berth.running(memory=100)):
            self.assertEqual(self.berth.release(lease, if_gone=True)["lease"]["state"], "released")
        self.assertEqual(self.berth.device()["promised_mib"], 0)


    def test_leases_B42_a_process_of_another_daemons_lease_keeps_none_of_ours(self):
        """Two daemons, or two state directories after each other, give the same ids."""
        env = dict(os.environ, BERTH_LEASE_ID="l-0001")
        stranger = subprocess.Popen(("sleep", "600"), env=env, start_new_session=True)
        self.addCleanup(end_process, stranger)
        time.sleep(0.02)  # start times are kept in hundredths of a second
        process = self.process()
        lease = self.berth.running(process.pid, memory=100)
        self.assertEqual(lease["id"], "l-0001")
        process.kill()
        process.wait()
        self.soon(lambda: self.berth.state(lease) == "released", 3)


class Keys(BerthTest):
    spec = "2x16GiB"

    def test_leases_B45_the_same_key_is_the_same_lease(self):
        lease = self.berth.granted("a", memory=100)
        again = self.berth.ask("a", memory="100")
        self.assertEqual((again.status, again.json["id"], again.json["version"]), (200, lease["id"], lease["version"]))
        self.berth.confirm(lease)
        self.assertEqual(self.berth.ask("a", memory=100).json["state"], "active")
        self.assertEqual(sum(device["promised_mib"] for device in self.berth.devices()), 100)

    def test_leases_B45_another_claim_under_it_is_a_conflict(self):
        lease = self.berth.granted("a", memory=100)
        others = ({"memory": 101}, {"memory": 0}, {}, {"exclusive": True}, {"memory": 100, "memory_limit": 200}, {"memory": 100, "count": 2})
        for fields in others:
            with self.subTest(fields):
                self.refused(self.berth.ask("a", **fields), 409, "key-conflict", "key")
        self.berth.release(lease)
        self.refused(self.berth.ask("a", memory=101), 409, "key-conflict", "key")

    def test_leases_B45_keys_of_two_owners_are_two_keys(self):
        mine = self.berth.granted("a", memory=100)
        other = self.user()
        theirs = other.granted("a", memory=200)
        self.assertNotEqual(mine["id"], theirs["id"])
        self.assertTrue(other.release_key("a")["released"])
        self.assertEqual(self.berth.state(mine), "granted")

    def test_leases_known_keys_of_ended_leases_grant_nothing(self):
        ended = self.berth.running("released", memory=100)
        self.berth.release(ended)
        blockers = [self.berth.granted(memory=self.headroom()), self.berth.granted(memory=self.headroom(1))]
        cancelled = self.berth.waiting("cancelled", memory=100)
        self.berth.release(cancelled)
        timed_out = self.berth.waiting("timed-out", memory=100, queue_timeout_seconds=10)
        self.berth.advance(10)
        for lease in blockers:
            self.berth.release(lease)
        for lease in (ended, cancelled, timed_out):
            again = self.berth.ask(lease["key"], memory=100)
            self.assertEqual((again.status, again.json["id"], again.json["state"]), (200, lease["id"], lease["key"]))
        self.assertEqual([device["promised_mib"] for device in self.berth.devices()], [0, 0])

    def test_leases_B46_the_next_try_releases_the_ones_before_it(self):
        first = self.berth.running("d/r/t/1", memory=9000)
        waits = self.berth.waiting("d/r/t/2", memory=16000, wait_for_hardware=True)
        other = self.berth.running("d/r/u/1", memory=100)
        third = self.berth.granted("d/r/t/3", memory=9000, supersedes="d/r/t/")
        shown = self.berth.lease(first)
        self.assertEqual((shown["state"], shown["reason"]), ("released", "superseded"))
        self.assertEqual(self.berth.state(waits), "cancelled")
        self.assertEqual(self.berth.state(other), "active")
        again = self.berth.ask("d/r/t/3", memory=9000, supersedes="d/r/t/")
        self.assertEqual((again.status, again.json["id"]), (200, third["id"]))
        self.assertEqual(self.berth.state(third), "granted")

    def test_leases_B46_a_try_that_still_runs_counts_until_it_is_gone(self):
        process = self.process()
        first = self.berth.running("t/1", process.pid, memory=15000)
        self.berth.granted(memory=15000)
        second = self.berth.waiting("t/2", memory=15000, supersedes="t/")
        self.assertEqual(self.berth.lease(first)["state"], "ending")
        process.kill()
        process.wait()
        self.soon(lambda: self.berth.state(second) == "granted", 2)
        self.assertEqual(self.berth.lease(first)["state"], "released")

    def test_leases_B46_the_leases_of_others_stay(self):
        mine = self.berth.granted("t/1", memory=100)
        self.user().granted("t/2", memory=100, supersedes="t/")
        self.assertEqual(self.berth.state(mine), "granted")

    def test_leases_B46_a_refused_try_supersedes_nothing(self):
        first = self.berth.granted("t/1", memory=100)
        self.refused(self.berth.ask("t/2", memory=10**6, supersedes="t/"), 422, "never")
        self.refused(self.berth.ask("t/2", memory="a", supersedes="t/"), 400, "invalid-memory")
        self.refused(self.berth.ask("t/2", memory=1, queue="nowhere", supersedes="t/"), 400, "invalid-field")
        self.assertEqual(self.berth.state(first), "granted")


class Times(BerthTest):
    def test_leases_B47_a_grant_that_is_not_confirmed_within_G_goes_back(self):
        lease = self.berth.granted("a", memory=self.headroom())
        waits = self.berth.waiting("b", memory=100)
        self.berth.advance(G - 1)
        self.berth.renew(lease)  # a sign of life is no confirmation
        self.berth.renew(waits)
        self.assertEqual(self.berth.state(lease), "granted")
        self.berth.advance(1)
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["reason"]), ("expired", "not-confirmed"))
        self.assertEqual(self.berth.state(waits), "granted")
        self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/confirm", {}), 410, "lost")

    def test_leases_B47_asking_again_keeps_the_age(self):
        first = self.berth.granted("a", memory=self.headroom())
        self.berth.advance(1)
        later = self.berth.waiting("b", memory=9000)
        self.berth.advance(G - 1)
        self.assertEqual((self.berth.state(first), self.berth.state(later)), ("expired", "granted"))
        self.berth.confirm(later)
        third = self.berth.waiting("c", memory=15000)
        again = self.berth.waiting("a", memory=first["memory_mib"])
        self.assertNotEqual(again["id"], first["id"])
        self.assertEqual(again["queued_at"], first["queued_at"])
        self.assertEqual(again["queue"]["position"], 1)
        self.assertEqual(self.berth.lease(third)["queue"]["position"], 2)
        self.assertEqual(self.berth.state(first), "expired")
        self.assertEqual(self.berth.reserve("a", memory=first["memory_mib"])["id"], again["id"])

    def test_leases_B47_but_not_beyond_A(self):
        first = self.berth.granted("a", memory=self.headroom())
        self.berth.advance(G + A + 1)
        again = self.berth.granted("a", memory=first["memory_mib"])
        self.assertNotEqual(again["queued_at"], first["queued_at"])
        self.assertEqual(again["waited_seconds"], 0)

    def test_leases_B47_G_is_per_lease(self):
        lease = self.berth.granted(memory=100, confirm_seconds=5)
        self.berth.advance(4)
        self.assertEqual(self.berth.state(lease), "granted")
        self.berth.advance(1)
        self.assertEqual(self.berth.state(lease), "expired")

    def test_leases_B48_not_renewed_within_T_is_suspect_while_its_process_lives(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=9000)
        self.berth.advance(T)
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["reason"]), ("suspect", "not-renewed"))
        self.assertEqual(self.berth.device()["promised_mib"], 9000)
        self.assertEqual(self.berth.renew(lease)["state"], "active")
        self.berth.advance(T)
        self.assertEqual(self.berth.state(lease), "suspect")
        process.kill()
        process.wait()
        self.soon(lambda: self.berth.state(lease) == "expired", 2)
        self.assertEqual(self.berth.device()["promised_mib"], 0)
        self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/renew"), 410, "lost")

    def test_leases_B48_renewals_keep_it_for_ever(self):
        lease = self.berth.running(memory=100, ttl_seconds=30)
        for _ in range(20):
            self.berth.advance(29)
            self.assertEqual(self.berth.renew(lease)["version"], lease["version"])
        self.assertEqual(self.berth.state(lease), "active")
        self.berth.advance(30)
        self.assertEqual(self.berth.state(lease), "expired")

    def test_leases_times_confirm_is_idempotent_and_a_sign_of_life(self):
        lease = self.berth.running(memory=100)
        self.berth.advance(T - 1)
        self.assertEqual(self.berth.confirm(lease)["version"], lease["version"])
        self.berth.advance(T - 1)
        self.assertEqual(self.berth.state(lease), "active")

    def test_leases_times_one_that_waits_must_be_heard_from_within_W(self):
        self.berth.running(memory=self.headroom(), ttl_seconds=100000)
        silent, renewed, read, streamed = (self.berth.waiting(key, memory=100) for key in "abcd")
        stream = self.berth.events(streamed)
        self.assertEqual(stream.next()["event"], "waiting")
        for _ in range(3):
            self.berth.advance(W / 3)
            self.berth.renew(renewed)
            self.berth.lease(read)
        states = {lease["key"]: (lease["state"], lease["reason"]) for lease in self.berth.leases() if lease["key"] in "abcd"}
        self.assertEqual(states["a"], ("expired", "client-silent"))
        for key in "bcd":
            self.assertEqual(states[key][0], "waiting", key)
        self.assertEqual(self.berth.lease(silent)["state"], "expired")
        stream.close()
        self.soon(lambda: self.berth.metric("berth_watches") == 0)
        self.berth.advance(W)
        self.assertEqual(self.berth.state(streamed), "expired")

    def test_leases_times_reading_by_somebody_else_does_not_keep_it(self):
        self.user().running(memory=self.headroom(), ttl_seconds=100000)
        lease = self.user().waiting(memory=100)
        for _ in range(3):
            self.berth.advance(W / 3)
            shown = self.berth.lease(lease)
        self.assertEqual(shown["state"], "expired")

    def test_leases_times_the_deadline_of_waiting(self):
        self.berth.running(memory=self.headroom(), ttl_seconds=100000)
        lease = self.berth.waiting(memory=100, queue_timeout_seconds=60)
        self.assertIsNotNone(lease["deadline"])
        self.berth.advance(59)
        self.assertEqual(self.berth.state(lease), "waiting")
        self.berth.advance(1)
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["reason"]), ("timed-out", "queue-timeout"))
        self.assertIsNone(self.berth.waiting(memory=100)["deadline"])

    def test_leases_times_the_deadline_does_not_touch_what_runs(self):
        lease = self.berth.running(memory=100, queue_timeout_seconds=5, ttl_seconds=1000)
        self.berth.advance(100)
        self.assertEqual(self.berth.state(lease), "active")

    def test_leases_times_a_deadline_begins_anew_when_asked_again(self):
        lease = self.berth.granted("a", memory=self.headroom(), queue_timeout_seconds=60)
        self.berth.advance(G)
        self.berth.running(memory=100, ttl_seconds=100000)
        again = self.berth.waiting("a", memory=lease["memory_mib"], queue_timeout_seconds=60)
        self.berth.advance(59)
        self.assertEqual(self.berth.state(again), "waiting")
        self.berth.advance(1)
        self.assertEqual(self.berth.state(again), "timed-out")

    def test_leases_times_ended_leases_stay_readable_for_D(self):
        lease = self.berth.granted("a", memory=100)
        self.berth.release(lease)
        self.berth.advance(D - 1)
        self.assertEqual(self.berth.state(lease), "released")
        self.berth.advance(1)
        self.refused(self.berth.call("GET", f"/v1/leases/{lease['id']}"), 404, "unknown-lease")
        self.assertNotEqual(self.berth.granted("a", memory=200)["id"], lease["id"])


class Kaapana(BerthTest):
    spec = "2x16GiB"

    def test_leases_B54_kaapanas_form(self):
        config = {"cpu_millicores": None, "ram_mem_mb": 500, "gpu_mem_mb": 4096, "enable_job_scheduler": True}
        lease = self.berth.granted(executor_config=config)
        gpu = lease["executor_config"]["gpu_device"]
        self.assertEqual(gpu, {"gpu_id": "0", "gpu_uuid": lease["device"]["uuid"], "gpu_mem": 4096})
        self.assertEqual(lease["gpu_device"], gpu)
        self.assertEqual({name: lease["executor_config"][name] for name in config}, config)
        blockers = [self.berth.granted(memory=self.headroom(n), devices=[self.uuid(n)]) for n in (0, 1)]
        waits = self.berth.waiting(executor_config=config)
        self.assertNotIn("gpu_device", waits["executor_config"])
        stream = self.berth.events(waits)
        self.assertEqual(stream.next()["event"], "waiting")
        self.assertTrue(stream.quiet())
        self.berth.release(blockers[0])
        event = stream.next()
        self.assertEqual((event["event"], event["data"]["executor_config"]["gpu_device"]["gpu_mem"]), ("granted", 4096))


if __name__ == "__main__":
    harness.main()
