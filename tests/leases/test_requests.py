"""Requests: which are accepted, what they come to, and how each field is refused (leases.md 3.2, B1-B7)."""

import harness
from harness import BerthTest

LARGEST = 1 << 40


class Claims(BerthTest):
    def no_gpu(self, **fields):
        lease = self.berth.ask(**fields)
        self.assertEqual(lease.status, 201, lease.text)
        lease = lease.json
        self.assertEqual(lease["state"], "active")
        self.assertIsNone(lease["device"])
        self.assertEqual(lease["devices"], [])
        self.assertEqual(lease["env"], {"NVIDIA_VISIBLE_DEVICES": "none", "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(lease["memory_mib"], 0)
        self.assertIsNone(lease["queue"]["position"])
        return lease

    def test_leases_B01_without_memory_there_is_no_gpu(self):
        for fields in ({}, {"gpu_mem_mb": None}, {"memory": None}, {"executor_config": {"gpu_mem_mb": None}}):
            with self.subTest(fields):
                self.no_gpu(**fields)
        self.assertEqual(self.berth.device()["leases"], [])
        self.assertEqual(self.berth.ok("GET", "/v1/queues")["queues"][0]["running"], 0)

    def test_leases_B01_needs_no_device_and_is_never_queued(self):
        self.berth.granted(memory=self.headroom())
        self.berth.waiting(memory=100)
        self.no_gpu()
        self.berth.source(up=False)
        self.no_gpu()

    def test_leases_B01_needs_no_confirmation_and_no_renewal(self):
        lease = self.no_gpu(key="cpu")
        self.berth.advance(10 * harness.T)
        self.assertEqual(self.berth.state(lease), "active")
        self.assertEqual(self.berth.confirm(lease)["state"], "active")
        self.assertEqual(self.berth.renew(lease)["state"], "active")
        self.assertIsNone(self.berth.lease(lease)["renew_by"])
        self.assertEqual(self.berth.release(lease)["lease"]["state"], "released")

    def test_leases_B02_zero_is_no_gpu_too(self):
        for fields in (
            {"gpu_mem_mb": 0},
            {"memory": 0},
            {"memory": "0"},
            {"memory": "0Gi"},
            {"gpu_mem_mb": 0, "memory": "0Mi"},
            {"executor_config": {"gpu_mem_mb": 0, "ram_mem_mb": 500}},
            {"exclusive": False},
            {"fraction": None},
            {"fraction": 0},
            {"fraction": "0"},
            {"count": 4, "memory": 0},
            {"count": 0},
        ):
            with self.subTest(fields):
                self.no_gpu(**fields)

    def test_leases_B03_what_is_no_size_is_refused_and_never_taken_for_no_gpu(self):
        bad = [-1, -4096, 1.5, 4096.0, True, False, LARGEST + 1, 2**63 - 1, 2**64 - 1, [4096], {"mib": 4096}, 1e300]
        for value in bad:
            for field in ("memory", "gpu_mem_mb"):
                with self.subTest(field=field, value=value):
                    error = self.refused(self.berth.ask(**{field: value}), 400, "invalid-memory", field)
                    self.assertTrue(error["value"])
        for value in ("", " ", "NaN", "nan", "inf", "-4Gi", "+4Gi", "4.5G", "4,5G", "0x10", "4 Gi", " 4Gi", "1e3"):
            with self.subTest(value=value):
                self.refused(self.berth.ask(memory=value), 400, "invalid-memory", "memory")
        for value in ("4096", "4Gi"):
            with self.subTest(gpu_mem_mb=value):
                self.refused(self.berth.ask(gpu_mem_mb=value), 400, "invalid-memory", "gpu_mem_mb")
        for text in ("NaN", "Infinity", "-Infinity", "4096.", "04096", "1" + 30 * "0"):
            with self.subTest(json=text):
                answer = self.berth.call("POST", "/v1/leases", '{"key":"x","memory":%s}' % text)
                self.refused(answer, 400, "bad-json")
        self.assertEqual(self.berth.leases(), [])

    def test_leases_B03_the_same_within_executor_config(self):
        for value in (-1, 1.5, True, "4Gi", LARGEST + 1):
            with self.subTest(value=value):
                answer = self.berth.ask(executor_config={"gpu_mem_mb": value})
                self.refused(answer, 400, "invalid-memory")
                self.assertIn("gpu_mem_mb", answer.error["field"])

    def test_leases_B03_two_names_of_the_claim_must_agree(self):
        self.assertEqual(self.berth.granted(memory="4Gi", gpu_mem_mb=4096)["memory_mib"], 4096)
        self.refused(self.berth.ask(memory="4Gi", gpu_mem_mb=4000), 400, "invalid-field", "gpu_mem_mb")
        self.refused(self.berth.ask(memory=0, gpu_mem_mb=4000), 400, "invalid-field", "gpu_mem_mb")

    def test_leases_B04_what_no_device_could_ever_hold_is_refused_with_the_largest_possible(self):
        usable = self.headroom()
        for fields in ({"memory": usable + 1}, {"gpu_mem_mb": LARGEST}, {"executor_config": {"gpu_mem_mb": 20000}}):
            with self.subTest(fields):
                error = self.refused(self.berth.ask(**fields), 422, "never")
                self.assertEqual(error["reason"], "too-large")
                self.assertEqual(error["largest_mib"], usable)
                self.assertIn(str(usable), error["message"])
        self.assertEqual(self.berth.leases(), [])

    def test_leases_B04_measured_use_makes_nothing_impossible(self):
        usable = self.headroom()
        self.berth.simulate(self.uuid(), used_mib=10000)
        self.berth.granted(memory=1000)
        self.assertEqual(self.berth.waiting(memory=usable)["reason"], "no-room")

    def test_leases_B04_unless_the_caller_waits_for_hardware(self):
        usable = self.headroom()
        lease = self.berth.waiting(memory=usable + 1, wait_for_hardware=True)
        self.assertEqual(lease["reason"], "no-eligible-device")
        small = self.berth.granted(memory=100)
        self.assertEqual(self.berth.state(small), "granted")
        self.berth.put_device("GPU-00000000-1111-2222-3333-444444444444", node="n0", total_mib=81920, model="H100")
        self.assertEqual(self.berth.state(lease), "granted")

    def test_leases_B04_no_device_of_that_name(self):
        for fields in ({"models": ["H100"]}, {"devices": ["GPU-none"]}, {"node": "elsewhere"}, {"mig_profile": "1g.5gb"}):
            with self.subTest(fields):
                amount = {} if "mig_profile" in fields else {"memory": 100}
                error = self.refused(self.berth.ask(**amount, **fields), 422, "never")
                self.assertEqual(error["reason"], "no-such-device")

    def test_leases_B05_exactly_what_is_left_is_granted(self):
        self.berth.granted(memory=self.headroom())
        self.assertEqual(self.headroom(), 0)

    def test_leases_B05_one_mebibyte_more_waits(self):
        self.berth.granted(memory=4096)
        lease = self.berth.waiting(memory=self.headroom() + 1)
        self.assertEqual(lease["queue"]["shortfall_mib"], 1)
        self.assertEqual(lease["reason"], "no-room")

    def test_leases_B06_units(self):
        sizes = {
            "4G": 4096, "4Gi": 4096, "4GiB": 4096, "4096": 4096, "4096M": 4096, "4096Mi": 4096, "4096MiB": 4096,
            "4194304K": 4096, "4194304Ki": 4096, "4194304KiB": 4096, "4GB": 3815, "1MB": 1, "1KB": 1, "1K": 1,
            "1025K": 2, "1024Ki": 1, "2049KiB": 3, "1000MB": 954, "1": 1,
        }  # fmt: skip
        for text, mib in sizes.items():
            with self.subTest(text):
                lease = self.berth.granted(memory=text)
                self.assertEqual(lease["memory_mib"], mib)
                self.assertEqual(lease["memory_bytes"], mib << 20)
                self.berth.release(lease)
        for text, mib in {"1T": 1 << 20, "1Ti": 1 << 20, "1TiB": 1 << 20, "1TB": 953675}.items():
            with self.subTest(text):
                lease = self.berth.waiting(memory=text, wait_for_hardware=True)
                self.assertEqual(lease["memory_mib"], mib)
                self.berth.release(lease)
        for text in ("4g", "4gb", "4mi", "4B", "4P", "4Pi", "4GIB", "4GiBB", "GiB", "4 GiB", "4.0G", "1_000"):
            with self.subTest(text):
                self.refused(self.berth.ask(memory=text), 400, "invalid-memory", "memory")

    def test_leases_B06_sizes_beyond_counting_are_refused(self):
        for text in ("99999999999999999999", "18446744073709551616", "1099511627777", "1048577T", "9" * 400):
            with self.subTest(text):
                self.refused(self.berth.ask(memory=text), 400, "invalid-memory", "memory")
        self.refused(self.berth.ask(memory=str(LARGEST)), 422, "never")

    def test_leases_B06_the_limit_has_the_same_units(self):
        lease = self.berth.granted(memory="2Gi", memory_limit="4G")
        self.assertEqual((lease["memory_mib"], lease["limit_mib"]), (2048, 4096))
        self.assertEqual(lease["env"]["BERTH_MEMORY_LIMIT_MIB"], "4096")
        self.assertEqual(self.berth.granted(memory="2Gi")["limit_mib"], 2048)
        self.refused(self.berth.ask(memory="2Gi", memory_limit="1Gi"), 400, "invalid-field", "memory_limit")
        self.refused(self.berth.ask(memory="2Gi", memory_limit="4x"), 400, "invalid-memory", "memory_limit")

    def test_leases_B06_a_limit_without_a_claim_is_a_mistake(self):
        for fields in ({}, {"memory": 0}, {"memory": None}):
            with self.subTest(fields):
                self.refused(self.berth.ask(memory_limit="4Gi", **fields), 400, "invalid-field", "memory_limit")
        self.no_gpu(memory=0, memory_limit=0)


class Fields(BerthTest):
    spec = "2x16GiB"

    def test_leases_fields_unknown_ones_are_named_with_the_nearest(self):
        error = self.refused(self.berth.ask(memmory=1), 400, "unknown-field", "memmory")
        self.assertIn("memory", error["hint"])
        for call, body in (("confirm", {"pids": 1}), ("release", {"force": True})):
            lease = self.berth.granted(memory=10)
            self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/{call}", body), 400, "unknown-field")
        self.refused(self.berth.call("POST", "/v1/release", {"key": "a", "id": "b"}), 400, "unknown-field", "id")
        self.refused(self.berth.ask(executor_config={"gpu_mem": 1}), 400, "unknown-field", "executor_config.gpu_mem")
        self.refused(self.berth.call("GET", "/v1/leases?stat=waiting"), 400, "unknown-field", "stat")
        self.refused(self.berth.call("POST", "/v1/leases?dryrun=1", {"key": "a"}), 400, "unknown-field", "dryrun")

    def test_leases_fields_renew_takes_a_body_of_no_fields(self):
        lease = self.berth.running(memory=10)
        path = f"/v1/leases/{lease['id']}/renew"
        self.assertEqual(self.berth.call("POST", path, {}).status, 200)
        self.refused(self.berth.call("POST", path, {"ttl": 5}), 400, "unknown-field", "ttl")
        self.refused(self.berth.call("POST", path, "{"), 400, "bad-json")

    def test_leases_fields_a_key_has_1_to_512_bytes(self):
        for key in ("", "x" * 513, "é" * 257, 7, True, ["a"], {"a": 1}):
            with self.subTest(key=key):
                self.refused(self.berth.ask(key), 400, "invalid-key", "key")
        self.refused(self.berth.call("POST", "/v1/leases", {"memory": 1}), 400, "invalid-key", "key")
        self.refused(self.berth.call("POST", "/v1/leases", {"memory": 1, "key": None}), 400, "invalid-key", "key")
        for key in ("x", "x" * 512, "é" * 256, "airflow:d/r/t/-1/1", ' "\\\n\t'):
            with self.subTest(key=key):
                self.assertEqual(self.berth.reserve(key)["key"], key)
        self.refused(self.berth.call("POST", "/v1/release", {}), 400, "invalid-key", "key")
        self.refused(self.berth.call("POST", "/v1/release", {"key": 4}), 400, "invalid-key", "key")

    def test_leases_fields_each_refuses_what_it_is_not(self):
        bad = {
            "container": [1, "true", 0],
            "guard": ["no", 0],
            "preemptible": [1, "yes"],
            "wait_for_hardware": [1],
            "owner": [1, True, ["a"], "x" * 200],
            "labels": [1, [], "a", {"a": 1}, {"": "x"}, {str(i): "x" for i in range(17)}],
            "queue": [1, True, "nowhere", ["default"]],
            "priority": ["high", 1.5, True, 10**18, "5"],
            "node": [1, True],
            "devices": ["GPU-1", [1], 1, {"a": 1}, [""]],
            "models": ["H100", [None], 1],
            "policy": [1, True, "fastest", "spreed", "nodes=pack,devices=never"],
            "queue_timeout_seconds": [-1, "10", 1.5, True, 10**12],
            "confirm_seconds": [-1, 0, "10", 1.5, 10**12],
            "ttl_seconds": [-1, 0, "10", 1.5, 10**12],
            "max_seconds": [-1, 0, "10", 1.5, 10**12],
            "supersedes": [1, True, "x" * 600],
            "count": [-1, 0, 17, "2", 1.5, True],
            "compute_milli": [-1, 0, 1001, "500", True],
            "cpu_milli": [-1, "1", 1.5, True],
            "ram_mib": [-1, "1Gi", 1.5, True],
            "memory_limit": [-1, "4x", True, 1.5],
            "executor_config": [1, "a", []],
            "mps": [1, "true"],
        }
        for field, values in bad.items():
            for value in values:
                with self.subTest(field=field, value=value):
                    answer = self.berth.ask(**{"memory": 100, field: value})
                    self.assertEqual(answer.status, 400, answer.text)
                    self.assertEqual(answer.error["field"], field)
                    self.assertTrue(answer.error["hint"])
        self.assertEqual(self.berth.leases(), [])

    def test_leases_fields_the_wrong_one_is_wrong_without_a_gpu_too(self):
        for field, value in (("count", 17), ("count", "x"), ("devices", "a"), ("compute_milli", -4), ("node", 7), ("mps", 1)):
            with self.subTest(field=field, value=value):
                self.refused(self.berth.ask(**{field: value}), 400, "invalid-field", field)

    def test_leases_fields_null_is_absent(self):
        fields = (
            "memory_limit container owner labels queue priority node devices models policy queue_timeout_seconds "
            "confirm_seconds ttl_seconds supersedes count wait_for_hardware exclusive fraction mig_profile "
            "compute_milli cpu_milli ram_mib max_seconds executor_config preemptible guard mps"
        ).split()
        lease = self.berth.granted(memory=100, **dict.fromkeys(fields))
        self.assertEqual((lease["memory_mib"], lease["limit_mib"], lease["queue"]["name"]), (100, 100, "default"))

    def test_leases_fields_one_amount_only(self):
        amounts = {"memory": 100, "exclusive": True, "fraction": "0.5", "mig_profile": "1g.10gb"}
        for one in amounts:
            for other in amounts:
                if one < other:
                    with self.subTest(f"{one} and {other}"):
                        answer = self.berth.ask(**{one: amounts[one], other: amounts[other]})
                        self.assertEqual(answer.status, 400, answer.text)
        self.refused(self.berth.ask(exclusive=True, memory_limit=100), 400, "invalid-field", "memory_limit")
        self.assertEqual(self.berth.granted(exclusive=True, memory=0)["memory_mib"], self.headroom(1))

    def test_leases_fields_a_fraction_is_a_part_of_one_device(self):
        usable = self.headroom()
        lease = self.berth.granted(fraction="0.5")
        self.assertAlmostEqual(lease["memory_mib"], usable / 2, delta=1)
        self.assertGreaterEqual(lease["memory_mib"] * 2, usable)
        for value in ("1", "1.5", "-0.1", "NaN", "inf", "", "0,5", "1e-12", 0.5, 2, True, "half"):
            with self.subTest(value=value):
                self.refused(self.berth.ask(fraction=value), 400, "invalid-field", "fraction")

    def test_leases_fields_a_whole_device_is_taken_alone(self):
        whole = self.berth.granted(exclusive=True)
        uuid = whole["device"]["uuid"]
        self.assertEqual(whole["memory_mib"], 16384 - self.berth.device(uuid)["reserve_mib"])
        self.assertEqual(self.berth.device(uuid)["mode"], "exclusive")
        small = self.berth.granted(memory=1)
        self.assertNotEqual(small["device"]["uuid"], uuid)
        self.assertEqual(self.berth.waiting(exclusive=True)["reason"], "no-room")
        self.assertEqual(self.berth.waiting(memory=1, devices=[uuid])["reason"], "no-room")

    def test_leases_fields_a_whole_device_may_have_a_little_foreign_use(self):
        uuid = self.uuid()
        usable = self.headroom()
        self.berth.simulate(uuid, used_mib=500)
        self.assertEqual(self.berth.granted(exclusive=True, devices=[uuid])["memory_mib"], usable - 500)
        other = self.uuid(1)
        self.berth.simulate(other, used_mib=600, processes=[{"pid": 1 << 21, "used_mib": 600}])
        waits = self.berth.waiting(exclusive=True, devices=[other])
        self.assertIn(str(1 << 21), waits["message"] + str(self.berth.explain(waits)))
        self.berth.simulate(other, used_mib=0, processes=[])
        self.assertEqual(self.berth.state(waits), "granted")

    def test_leases_fields_count_gives_distinct_devices_with_the_full_claim_each(self):
        lease = self.berth.granted(memory="4Gi", count=2)
        uuids = [device["uuid"] for device in lease["devices"]]
        self.assertEqual(sorted(uuids), sorted(device["uuid"] for device in self.berth.devices()))
        self.assertEqual(len(set(uuids)), 2)
        self.assertEqual(lease["device"], lease["devices"][0])
        self.assertEqual(lease["gpu_device"]["gpu_uuid"], uuids[0])
        self.assertEqual(lease["memory_mib"], 4096)
        self.assertEqual(lease["env"]["BERTH_MEMORY_MIB"], "4096")
        for name in ("NVIDIA_VISIBLE_DEVICES", "BERTH_DEVICE_UUID", "CUDA_VISIBLE_DEVICES"):
            self.assertEqual(lease["env"][name], ",".join(uuids))
        for device in self.berth.devices():
            self.assertEqual(device["promised_mib"], 4096)
        self.refused(self.berth.ask(memory=1, count=3), 422, "never")
        contained = self.berth.granted(memory=1, count=2, container=True)
        self.assertEqual(contained["env"]["CUDA_VISIBLE_DEVICES"], "0,1")
        self.berth.release(lease)
        self.assertEqual([device["promised_mib"] for device in self.berth.devices()], [1, 1])

    def test_leases_fields_count_waits_until_all_are_there(self):
        uuid = self.uuid(1)
        blocker = self.berth.granted(memory=self.headroom(), devices=[uuid])
        lease = self.berth.waiting(memory=100, count=2)
        self.assertEqual([device["promised_mib"] for device in self.berth.devices()], [0, self.headroom()])
        self.berth.release(blocker)
        self.assertEqual(self.berth.state(lease), "granted")

    def test_leases_fields_devices_and_models_narrow_the_choice(self):
        uuids = [device["uuid"] for device in self.berth.devices()]
        for uuid in (uuids[1], uuids[0], uuids[1]):
            self.assertEqual(self.berth.granted(memory=100, devices=[uuid])["device"]["uuid"], uuid)
        self.berth.put_device("GPU-00000000-0000-0000-0000-0000000000ff", node="n0", total_mib=8192, model="T4")
        self.assertEqual(self.berth.granted(memory=100, models=["T4"])["device"]["model"], "T4")
        self.assertEqual(self.berth.granted(memory=100, models=["T4", "GPU"], devices=[uuids[1]])["device"]["uuid"], uuids[1])
        self.refused(self.berth.ask(memory=9000, models=["T4"]), 422, "never")

    def test_leases_fields_the_node_on_the_socket_is_this_one(self):
        self.assertEqual(self.berth.granted(memory=1)["device"]["node"], "n0")
        self.assertEqual(self.berth.granted(memory=1, node="n0")["device"]["node"], "n0")

    def test_leases_fields_labels_and_owner_are_kept_as_written(self):
        labels = {"team": "vision", "note": 'ä "quoted"\n'}
        lease = self.berth.granted(memory=1, owner="dag/train", labels=labels)
        self.assertEqual((lease["owner"], lease["labels"]), ("dag/train", labels))
        self.assertEqual(self.berth.leases("?owner=dag/train")[0]["id"], lease["id"])
        self.assertEqual(self.berth.leases("?owner=dag"), [])

    def test_leases_fields_cpu_and_ram_are_admitted_against_the_node(self):
        lease = self.berth.granted(memory=1, cpu_milli=500, ram_mib=10)
        self.assertEqual(lease["state"], "granted")
        answer = self.berth.ask(memory=1, cpu_milli=10**9 // 2)
        self.assertIn(answer.status, (202, 422), answer.text)
        self.assertNotEqual(answer.status, 201)

    def test_leases_fields_compute_is_admitted_too(self):
        uuid = self.uuid()
        self.berth.granted(memory=1, compute_milli=600, devices=[uuid])
        lease = self.berth.waiting(memory=1, compute_milli=600, devices=[uuid])
        self.assertEqual(lease["reason"], "no-room")
        self.berth.granted(memory=1, compute_milli=400, devices=[uuid])

    def test_leases_fields_limits_stay_within_the_burst_ratio(self):
        usable = self.headroom()
        uuid = self.uuid()
        self.berth.granted(memory=1000, memory_limit=usable, devices=[uuid])
        self.berth.granted(memory=1000, memory_limit=usable, devices=[uuid])
        lease = self.berth.waiting(memory=1000, memory_limit=usable, devices=[uuid])
        self.assertEqual(lease["reason"], "no-room")

    def test_leases_fields_policy_of_one_claim(self):
        first = self.berth.granted(memory=100)["device"]["uuid"]
        self.assertNotEqual(self.berth.granted(memory=10)["device"]["uuid"], first)
        for policy in ("pack", "nodes=spread,devices=pack", "best-fit"):
            self.assertEqual(self.berth.granted(memory=100, policy=policy)["device"]["uuid"], first, policy)
        for policy in ("spread", "most-free"):
            self.assertNotEqual(self.berth.granted(memory=10, policy=policy)["device"]["uuid"], first, policy)
        for policy in ("tetris", "nodes=pack", "nodes=,devices=", "devices=pack,nodes=pack", "Spread"):
            with self.subTest(policy):
                self.refused(self.berth.ask(memory=1, policy=policy), 400, "invalid-field", "policy")

    def test_leases_fields_dry_run_books_nothing(self):
        granted = self.berth.ok("POST", "/v1/leases?dry_run=1", {"key": "a", "memory": 100}, 200)
        self.assertEqual(granted["verdict"], "granted")
        self.berth.granted(memory=self.headroom(), devices=[self.uuid()])
        self.berth.granted(memory=self.headroom(1), devices=[self.uuid(1)])
        waits = self.berth.ok("POST", "/v1/leases?dry_run=1", {"key": "a", "memory": 100}, 200)
        self.assertEqual((waits["verdict"], waits["reason"], waits["shortfall_mib"]), ("waiting", "no-room", 100))
        self.assertEqual(len(waits["devices"]), 2)
        never = self.berth.ok("POST", "/v1/leases?dry_run=1", {"key": "a", "memory": 10**6}, 200)
        largest = self.berth.ask("b", memory=10**6).error["largest_mib"]
        self.assertEqual((never["verdict"], never["reason"], never["largest_mib"]), ("never", "too-large", largest))
        self.assertIsNone(waits["largest_mib"])
        self.refused(self.berth.call("POST", "/v1/leases?dry_run=1", {"key": "a", "memory": -1}), 400, "invalid-memory")
        self.assertEqual(len(self.berth.leases()), 2)
        self.assertEqual(self.berth.reserve("a", memory=100)["state"], "waiting")


if __name__ == "__main__":
    harness.main()
