"""Devices that change: indices, nodes, loss, errors, MIG, draining (B32-B38)."""

import harness
from harness import BerthTest

NEW = "GPU-00000000-1111-2222-3333-444444444444"


class Identity(BerthTest):
    spec = "2x16GiB"

    def test_leases_B32_indices_may_change_and_leases_stay_where_they_are(self):
        first, second = (device["uuid"] for device in self.berth.devices())
        lease = self.berth.running(memory=1000, devices=[first])
        waits = self.berth.waiting(memory=self.headroom() + 1, devices=[first])
        self.berth.simulate(first, index=1)
        self.berth.simulate(second, index=0)
        self.assertEqual({d["uuid"]: d["index"] for d in self.berth.devices()}, {first: 1, second: 0})
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["device"]["uuid"], shown["env"]), ("active", first, lease["env"]))
        self.assertEqual(self.berth.device(first)["promised_mib"], 1000)
        self.assertEqual(self.berth.state(waits), "waiting")
        fresh = self.berth.granted(memory=1, devices=[first])
        self.assertEqual((fresh["gpu_device"]["gpu_id"], fresh["env"]["CUDA_VISIBLE_DEVICES"]), ("1", first))


class Nodes(BerthTest):
    spec = "n1=1x16GiB,n2=1x16GiB"

    def test_leases_B33_equal_indices_of_two_nodes_do_not_collide(self):
        here = self.berth.granted(memory=15000)
        self.assertEqual((here["device"]["node"], here["device"]["index"]), ("n1", 0))
        there = self.berth.granted(memory=15000, node="n2")
        self.assertEqual((there["device"]["node"], there["device"]["index"]), ("n2", 0))
        self.assertNotEqual(here["device"]["uuid"], there["device"]["uuid"])
        self.books_hold()

    def test_leases_B33_a_plain_process_on_the_socket_gets_a_device_of_this_node_only(self):
        self.berth.granted(memory=15000)
        self.assertEqual(self.berth.waiting(memory=1000)["reason"], "no-room")
        self.assertEqual(self.berth.device(1)["promised_mib"], 0)

    def test_leases_B33_several_devices_are_of_one_node(self):
        self.refused(self.berth.ask(memory=1, count=2), 422, "never")


class Loss(BerthTest):
    spec = "2x16GiB"

    def setUp(self):
        super().setUp()
        self.first, self.second = (device["uuid"] for device in self.berth.devices())

    def test_leases_B34_a_device_that_vanishes_takes_its_leases_along(self):
        lost = self.berth.running(memory=1000, devices=[self.first])
        granted = self.berth.granted(memory=1000, devices=[self.first])
        kept = self.berth.running(memory=1000, devices=[self.second])
        stream = self.berth.events(lost)
        self.assertEqual(stream.next()["event"], "active")
        self.berth.remove_device(self.first)
        self.assertEqual(stream.next()["event"], "lost")
        self.assertIsNone(stream.next())
        for lease in (lost, granted):
            shown = self.berth.lease(lease)
            self.assertEqual((shown["state"], shown["reason"], shown["device"]), ("lost", "device-lost", None))
            self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/renew"), 410, "lost")
        self.assertEqual(self.berth.state(kept), "active")
        self.assertEqual([device["uuid"] for device in self.berth.devices()], [self.second])
        self.assertEqual(self.berth.granted(memory=1)["device"]["uuid"], self.second)
        self.books_hold()

    def test_leases_B34_a_critical_error_loses_the_leases_and_closes_the_device(self):
        for number, xid in enumerate((79, 48, 74, 95, "119")):
            with self.subTest(xid=xid):
                lease = self.berth.running(key=f"x-{number}", memory=1000, devices=[self.first])
                self.berth.simulate(self.first, xid=xid)
                self.assertEqual(self.berth.state(lease), "lost")
                device = self.berth.device(self.first)
                self.assertEqual((device["eligible"], device["reason"], device["health"]), (False, "unhealthy", "lost"))
                waits = self.berth.waiting(memory=1, devices=[self.first])
                self.assertEqual(waits["reason"], "unhealthy")
                self.berth.advance(10)
                self.assertEqual(self.berth.state(waits), "waiting")
                self.berth.simulate(self.first, health="ok", xid=0)
                self.assertEqual(self.berth.state(waits), "granted")
                self.berth.release(waits)

    def test_leases_B34_unhealthy_takes_nothing_new(self):
        lease = self.berth.running(memory=1000, devices=[self.first])
        self.berth.simulate(self.first, health="unhealthy")
        self.assertEqual(self.berth.device(self.first)["reason"], "unhealthy")
        self.assertEqual(self.berth.waiting(memory=1, devices=[self.first])["reason"], "unhealthy")
        self.assertEqual(self.berth.granted(memory=1)["device"]["uuid"], self.second)
        self.assertIn(self.berth.state(lease), ("active", "lost"))

    def test_leases_B34_who_can_never_be_served_any_more_is_told(self):
        self.berth.put_device(NEW, node="n0", total_mib=81920, model="H100")
        blocker = self.berth.granted(memory=70000)
        lease = self.berth.waiting(memory=70000)
        hopeful = self.berth.waiting(memory=70000, wait_for_hardware=True)
        stream = self.berth.events(lease)
        self.assertEqual(stream.next()["event"], "waiting")
        self.berth.remove_device(NEW)
        self.assertEqual(stream.next()["event"], "never")
        shown = self.berth.lease(lease)
        self.assertEqual((shown["state"], shown["verdict"], shown["reason"]), ("never", "never", "too-large"))
        self.assertIn("70000", shown["message"])
        self.assertEqual(self.berth.lease(hopeful)["reason"], "no-eligible-device")
        self.assertEqual(self.berth.state(blocker), "lost")
        # "never" is judged anew when it is asked again.
        self.refused(self.berth.ask(lease["key"], memory=70000), 422, "never")
        self.berth.put_device(NEW, node="n0", total_mib=81920, model="H100")
        self.assertEqual(self.berth.state(hopeful), "granted")
        self.assertEqual(self.berth.waiting(lease["key"], memory=70000)["reason"], "no-room")

    def test_leases_B34_one_of_several_devices_is_enough_to_lose_the_lease(self):
        lease = self.berth.running(memory=1000, count=2)
        self.berth.remove_device(self.second)
        self.assertEqual(self.berth.state(lease), "lost")
        self.assertEqual(self.berth.device(self.first)["promised_mib"], 0)

    def test_leases_B34_memory_that_is_still_held_after_a_loss_is_foreign(self):
        process = self.process()
        lease = self.berth.running(process.pid, memory=1000, devices=[self.first])
        self.berth.simulate(self.first, used_mib=900, processes=[{"pid": process.pid, "used_mib": 900}])
        self.berth.simulate(self.first, xid=79)
        self.assertEqual(self.berth.state(lease), "lost")
        self.berth.simulate(self.first, xid=0, health="ok")
        device = self.berth.device(self.first)
        self.assertEqual((device["promised_mib"], device["foreign_mib"]), (0, 900))

    def test_leases_B35_errors_of_programs_close_nothing(self):
        lease = self.berth.running(memory=1000, devices=[self.first])
        # 94 is a memory error that the card has kept to the program that met it (nvidia-node.md 7).
        for xid in (13, 31, 43, 45, 68, 94, 109):
            with self.subTest(xid=xid):
                self.berth.simulate(self.first, xid=xid)
                device = self.berth.device(self.first)
                self.assertEqual((device["eligible"], device["health"]), (True, "ok"))
                self.assertEqual(self.berth.state(lease), "active")
                self.assertIn(f"XID {xid}", self.daemon.said())
        self.assertEqual(self.berth.granted(memory=1, devices=[self.first])["state"], "granted")

    def test_leases_B36_the_same_device_comes_back_without_its_leases(self):
        lease = self.berth.running(memory=1000, devices=[self.first])
        self.berth.remove_device(self.first)
        self.berth.put_device(self.first, node="n0", total_mib=16384)
        device = self.berth.device(self.first)
        self.assertEqual((device["eligible"], device["promised_mib"], device["leases"]), (True, 0, []))
        self.assertEqual(self.berth.state(lease), "lost")
        self.assertEqual(self.berth.granted(memory=device["headroom_mib"], devices=[self.first])["state"], "granted")

    def test_leases_B36_only_after_a_clean_sample(self):
        self.berth.remove_device(self.first)
        self.berth.put_device(self.first, node="n0", total_mib=16384)
        self.berth.simulate(self.first, used_mib="NaN")
        self.assertEqual(self.berth.waiting(memory=1, devices=[self.first])["reason"], "unknown-memory")

    def test_leases_B36_a_new_uuid_is_a_new_device(self):
        lease = self.berth.running(memory=1000, devices=[self.first])
        self.berth.remove_device(self.first)
        self.berth.put_device(NEW, node="n0", total_mib=16384)
        self.assertEqual(self.berth.device(NEW)["leases"], [])
        self.assertEqual(self.berth.state(lease), "lost")


class Mig(BerthTest):
    spec = "1x80GiB:A100"

    def test_leases_B37_instances_are_devices_and_their_parent_is_not(self):
        parent = self.uuid()
        for number in (1, 2):
            self.berth.put_device(f"MIG-00000000-0000-0000-0000-00000000000{number}", node="n0", total_mib=19968, mig_parent=parent, mig_profile="2g.20gb")
        rows = {device["uuid"]: device for device in self.berth.devices()}
        self.assertEqual((rows[parent]["eligible"], rows[parent]["reason"], rows[parent]["mode"]), (False, "mig-parent", "mig"))
        instances = [row for uuid, row in rows.items() if uuid.startswith("MIG-")]
        self.assertEqual([row["mig_parent"] for row in instances], [parent, parent])
        profile = {"mig_profile": "2g.20gb"}
        leases = [self.berth.granted(**profile), self.berth.granted(**profile)]
        self.assertEqual(len({lease["device"]["uuid"] for lease in leases}), 2)
        for lease in leases:
            self.assertTrue(lease["device"]["mig"])
            self.assertTrue(lease["device"]["uuid"].startswith("MIG-"))
            self.assertEqual(lease["env"]["NVIDIA_VISIBLE_DEVICES"], lease["device"]["uuid"])
            self.assertEqual(lease["env"]["CUDA_VISIBLE_DEVICES"], lease["device"]["uuid"])
            self.assertEqual(lease["isolation"], "hardware")
        self.assertEqual(self.berth.waiting(**profile)["reason"], "no-room")

    def test_leases_B37_memory_is_held_by_an_instance_as_by_any_device(self):
        parent = self.uuid()
        small, large = (f"MIG-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
        self.berth.put_device(large, node="n0", total_mib=40448, mig_parent=parent, mig_profile="3g.40gb")
        self.berth.put_device(small, node="n0", total_mib=9728, mig_parent=parent, mig_profile="1g.10gb")
        lease = self.berth.running(memory=4096)  # both are empty: the UUID decides, B15
        self.assertEqual((lease["device"]["uuid"], lease["device"]["mig"], lease["isolation"]), (small, True, "advisory"))
        self.assertEqual(lease["env"]["CUDA_VISIBLE_DEVICES"], small)
        self.assertEqual(self.berth.device(small)["isolation"], "advisory")
        self.assertEqual(self.berth.granted(memory=20000)["device"]["uuid"], large)
        # Whose it is in part it cannot be as a whole.
        whole = self.berth.waiting(mig_profile="1g.10gb")
        self.assertEqual(whole["reason"], "no-room")
        self.berth.release(lease)
        self.assertEqual(self.berth.lease(whole)["isolation"], "hardware")
        # As many as fit share one, B16; what fits none of them is never, though the GPU would hold it.
        self.assertEqual(self.berth.granted(fraction="0.4")["device"]["uuid"], large)
        largest = self.berth.device(large)
        error = self.refused(self.berth.ask(memory=50_000), 422, "never")
        self.assertEqual((error["reason"], error["largest_mib"]), ("too-large", largest["total_mib"] - largest["reserve_mib"]))

    def test_leases_B37_a_refusal_promises_no_memory_of_what_it_refuses(self):
        parent = self.uuid()
        self.berth.put_device("MIG-00000000-0000-0000-0000-000000000001", node="n0", total_mib=19968, mig_parent=parent)
        error = self.refused(self.berth.ask(exclusive=True), 422, "never")
        self.assertEqual(error["largest_mib"], 0)

    def test_leases_B37_a_profile_is_served_by_its_instances_alone(self):
        parent = self.uuid()
        self.berth.put_device("MIG-00000000-0000-0000-0000-000000000001", node="n0", total_mib=19968, mig_parent=parent, mig_profile="2g.20gb")
        lease = self.berth.granted(mig_profile="2g.20gb")
        self.assertEqual(lease["device"]["uuid"], "MIG-00000000-0000-0000-0000-000000000001")
        self.assertEqual(self.berth.waiting(mig_profile="2g.20gb")["reason"], "no-room")
        self.refused(self.berth.ask(mig_profile="3g.40gb"), 422, "never")
        self.refused(self.berth.ask(mig_profile="huge"), 400, "invalid-field", "mig_profile")

    def test_leases_B37_an_error_of_the_card_is_one_of_its_instances(self):
        parent = self.uuid()
        instance = "MIG-00000000-0000-0000-0000-000000000001"
        self.berth.put_device(instance, node="n0", total_mib=19968, mig_parent=parent, mig_profile="2g.20gb")
        lease = self.berth.running(mig_profile="2g.20gb")
        self.berth.simulate(parent, xid=79)
        self.assertEqual(self.berth.state(lease), "lost")


class Drain(BerthTest):
    spec = "2x16GiB"

    def test_leases_B38_a_drained_device_takes_nothing_new_and_its_leases_end_by_themselves(self):
        first, second = (device["uuid"] for device in self.berth.devices())
        lease = self.berth.running(memory=1000, devices=[first])
        self.assertEqual(self.berth.drain(first)["drained"], True)
        self.assertEqual(self.berth.device(first)["reason"], "drained")
        self.assertEqual(self.berth.granted(memory=1)["device"]["uuid"], second)
        waits = self.berth.waiting(memory=1, devices=[first])
        self.assertEqual(waits["reason"], "drained")
        self.assertEqual(self.berth.explain(waits)["reason"], "drained")
        self.assertEqual(self.berth.renew(lease)["state"], "active")
        self.berth.advance(60)
        self.assertEqual(self.berth.state(lease), "active")
        self.assertEqual(self.berth.state(waits), "waiting")
        self.assertTrue(self.berth.release(lease)["released"])
        self.berth.drain(first, False)
        self.assertEqual(self.berth.state(waits), "granted")

    def test_leases_B38_draining_survives_samples_and_restarts(self):
        first = self.uuid()
        self.berth.drain(first)
        self.daemon.restart()
        self.assertEqual(self.berth.device(first)["reason"], "drained")
        self.berth.advance(5)
        self.assertEqual(self.berth.device(first)["reason"], "drained")
        self.berth.drain(first, False)
        self.daemon.restart()
        self.assertTrue(self.berth.device(first)["eligible"])

    def test_leases_B38_only_of_devices_that_are_there_and_by_administrators(self):
        first = self.uuid()
        self.refused(self.berth.call("PATCH", "/v1/devices/GPU-none", {"drained": True}), 404, "invalid-field", "uuid")
        for body in ({}, {"drained": 1}, {"drained": None}, {"drain": True}):
            with self.subTest(body):
                self.assertEqual(self.berth.call("PATCH", f"/v1/devices/{first}", body).status, 400)
        self.refused(self.user().call("PATCH", f"/v1/devices/{first}", {"drained": True}), 403, "forbidden")
        self.assertTrue(self.berth.device(first)["eligible"])


if __name__ == "__main__":
    harness.main()
