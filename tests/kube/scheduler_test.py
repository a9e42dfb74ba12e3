"""`berth scheduler` on a real API server: bindings and what can become of them, words, restarts, leaders."""

import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from berth import RIGHTS, Scheduler, until  # noqa: E402
from cluster import ControlPlane, Recorder, check, objects  # noqa: E402
from cluster.faults import FaultProxy  # noqa: E402

BINDING = {"method": "POST", "path": "/binding$"}


def node_of(plane, name):
    return plane.admin.pod(name)["spec"].get("nodeName")


def condition(plane, name):
    for one in plane.admin.pod(name).get("status", {}).get("conditions", []):
        if one["type"] == "PodScheduled":
            return one
    return {}


class SchedulerBinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.plane.grant("scheduler", RIGHTS)
        cls.admin = cls.plane.admin
        cls.admin.create_nodes([objects.node(f"n{i}", gpus=2) for i in range(2)])
        cls.faults = FaultProxy(cls.plane)
        cls.berth = Scheduler(cls.faults.kubeconfig())
        cls.addClassCleanup(cls.berth.end)
        cls.berth.wait_ready()
        cls.recorder = Recorder(cls.admin)
        cls.recorder.__enter__()
        cls.addClassCleanup(cls.recorder.__exit__, None, None, None)

    def tearDown(self):
        self.faults.clear()
        for pod in self.admin.get("/api/v1/namespaces/default/pods")["items"]:
            self.admin.delete_pod(pod["metadata"]["name"])
        until(lambda: self.berth.get("/v1/leases")["leases"] == [])
        verdict = check(self.recorder.caught_up(), self.plane.audit_log)
        self.assertEqual(verdict.faults, [], str(verdict))

    def create(self, name, annotations=None, **fields):
        self.admin.create_pods([objects.pod(name, annotations or {"gpu-memory": "4096"}, **fields)])

    def bound(self, name, seconds=20):
        until(lambda: node_of(self.plane, name), seconds, lambda: f"{name}: {condition(self.plane, name)}\n{self.berth.tail()}")
        return self.admin.pod(name)

    # kubernetes-api.md 23.5.
    def test_node_and_devices_appear_in_one_write(self):
        self.create("one")
        self.bound("one")
        seen = 0
        for record in self.recorder.caught_up().records:
            if record.resource == "pods" and record.object["metadata"]["name"] == "one":
                seen += 1
                self.assertEqual("nodeName" in record.object["spec"],
                                 "berth.dev/grant" in record.object["metadata"].get("annotations", {}))
        self.assertGreaterEqual(seen, 2)
        self.assertEqual(self.admin.pod("one")["metadata"]["annotations"]["received-resource-type"], "Fraction")

    def test_an_answer_that_is_lost_after_the_write_leaves_one_binding(self):
        self.faults.rule("drop_answer", times=1, **BINDING)
        self.create("lost-answer")
        self.bound("lost-answer")
        until(lambda: self.berth.get("/v1/leases/default/lost-answer")["state"] == "active")

    def test_a_binding_that_is_lost_before_the_write_is_sent_again(self):
        self.faults.rule("drop", times=1, **BINDING)
        self.create("lost-binding")
        self.bound("lost-binding", 30)

    def test_overload_and_errors_are_waited_out(self):
        self.faults.answer(429, retry_after=1, times=2, **BINDING)
        self.create("overload")
        self.bound("overload", 30)
        self.faults.answer(500, times=2, **BINDING)
        self.create("error")
        self.bound("error", 30)

    def test_a_pod_that_was_replaced_meanwhile_is_another_request(self):
        with self.faults.holding(**BINDING) as held:
            self.create("replaced")
            held.wait()
            self.admin.delete_pod("replaced")
            self.create("replaced", {"gpu-memory": "1024"})
        pod = self.bound("replaced")
        self.assertEqual(pod["metadata"]["annotations"]["berth.dev/main.memory-request-mib"], "1024")

    def test_a_pod_that_is_deleted_meanwhile_is_let_go(self):
        with self.faults.holding(**BINDING) as held:
            self.create("deleted")
            held.wait()
            self.admin.delete_pod("deleted")
        until(lambda: self.berth.get("/v1/leases")["leases"] == [])

    def test_a_pod_that_another_scheduler_bound_meanwhile_counts_there(self):
        with self.faults.holding(**BINDING) as held:
            self.create("taken", {"note": "no GPU, so that it may be bound without a grant"})
            held.wait()
            self.admin.bind(self.admin.pod("taken"), "n1")
        until(lambda: node_of(self.plane, "taken") == "n1")
        until(lambda: self.berth.get("/v1/leases/default/taken")["state"] == "active")
        self.assertEqual(self.berth.get("/v1/leases/default/taken")["devices"], [])

    def test_a_refused_binding_says_so_and_gives_the_place_back(self):
        self.faults.answer(422, message="the binding is malformed", times=1, **BINDING)
        self.create("refused")
        until(lambda: condition(self.plane, "refused").get("reason") == "SchedulerError")
        self.assertIn("the API server refuses the binding", condition(self.plane, "refused")["message"])
        promised = sum(device["promised_mib"] for device in self.berth.get("/v1/devices")["devices"])
        self.assertEqual(promised, 0)

    def test_kill_9_between_decision_and_answer_doubles_nothing(self):
        with self.faults.holding(after=True, **BINDING) as held:
            self.create("survivor")
            held.wait()
            self.berth.restart()
        self.berth.wait_ready()
        until(lambda: self.berth.get("/v1/leases/default/survivor")["state"] == "active")


class SchedulerSays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.plane.grant("scheduler", RIGHTS)
        cls.plane.admin.create_nodes([objects.node("n0", gpus=1, total_mib=16384, reserve=0)])
        cls.berth = Scheduler(cls.plane.kubeconfig(), settings="")
        cls.addClassCleanup(cls.berth.end)
        cls.berth.wait_ready()
        cls.plane.admin.create_pods([objects.pod("runs", {"gpu-memory": "12288"})])
        until(lambda: node_of(cls.plane, "runs"))

    def said(self, name, annotations=None, **fields):
        self.plane.admin.create_pods([objects.pod(name, annotations, **fields)])
        until(lambda: condition(self.plane, name).get("message"), 20, self.berth.tail)
        one = condition(self.plane, name)
        self.assertEqual(one["status"], "False")
        return f"{one['reason']}: {one['message']}"

    def test_what_is_missing_by_number_and_name(self):
        self.assertRegex(self.said("short", {"gpu-memory": "8192"}),
                         r"^Unschedulable: needs 8192 MiB on one GPU; largest free is 4096 MiB \(n0/GPU-.*\)\. "
                         r"0/1 nodes: 1 InsufficientMemory\.$")

    def test_what_can_never_be(self):
        self.assertRegex(self.said("huge", {"gpu-memory": "99999"}), "^Unschedulable: .*16384 MiB.*LargestDeviceTooSmall")

    def test_every_fault_of_its_words(self):
        text = self.said("wrong", {"gpu-memory": "abc", "gpu-fraction": "2"})
        self.assertTrue(text.startswith("SchedulerError: "), text)
        self.assertIn("BadMemory: gpu-memory=abc", text)
        self.assertIn("BadFraction: gpu-fraction=2", text)

    def test_a_rule_that_leaves_no_node(self):
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}]}}
        self.assertEqual(self.said("lonely", {"gpu-memory": "16"}, affinity=affinity),
                         "Unschedulable: the rules of the pod and its neighbours leave no node. 0/1 nodes: 1 PodAffinity.")

    def test_a_claim_that_does_not_exist(self):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        self.assertEqual(self.said("volume", {"gpu-memory": "16"}, volumes=volumes),
                         "Unschedulable: waits for PersistentVolumeClaim default/data, which does not exist")

    def test_a_constraint_that_nobody_evaluates(self):
        claims = [{"name": "gpu", "resourceClaimName": "x"}]
        self.assertIn("SchedulerError: unsupported constraint: ",
                      self.said("claims", {"gpu-memory": "16"}, resourceClaims=claims))

    def test_in_describe(self):
        self.said("described", {"gpu-memory": "8192"})
        until(lambda: "FailedScheduling" in self.plane.kubectl("describe", "pod", "described"))
        self.assertIn("needs 8192 MiB on one GPU", self.plane.kubectl("describe", "pod", "described"))
        until(lambda: "Successfully assigned default/runs to n0" in self.plane.kubectl("describe", "pod", "runs"))


class SchedulerLeads(unittest.TestCase):
    # kubernetes-api.md 7: lease duration, one retry period, and the rebuild.
    def test_another_takes_over_from_one_that_was_killed(self):
        with ControlPlane() as plane:
            plane.grant("scheduler", RIGHTS)
            plane.admin.namespace("berth-system")
            plane.admin.create_nodes([objects.node("n0")])
            short = "leaseDuration: 6s\nleaseFence: 4s\nleaseRetry: 1s\n"
            first = Scheduler(plane.kubeconfig(), "--leader-elect", "--identity", "first", settings=short)
            self.addCleanup(first.end)
            until(lambda: "standby" not in (first.text("/readyz")[1] or "standby"), 30, first.tail)
            second = Scheduler(plane.kubeconfig(), "--leader-elect", "--identity", "second", settings=short)
            self.addCleanup(second.end)
            until(lambda: "standby: first leads" in second.text("/readyz")[1], 30, second.tail)
            plane.admin.create_pods([objects.pod("before", {"gpu-memory": "4096"})])
            until(lambda: node_of(plane, "before"))
            with Recorder(plane.admin) as recorder:
                first.kill(signal.SIGKILL)
                killed = time.monotonic()
                plane.admin.create_pods([objects.pod("after", {"gpu-memory": "4096"})])
                until(lambda: node_of(plane, "after"), 30, second.tail)
                took = time.monotonic() - killed
                verdict = check(recorder.caught_up(), plane.audit_log)
            self.assertEqual(verdict.faults, [], str(verdict))
            self.assertLess(took, 6 + 1 + 2, "lease duration, a retry period and the rebuild")
            self.assertEqual(second.kill(signal.SIGTERM), 0)


class SchedulerRunsDry(unittest.TestCase):
    def test_it_decides_and_writes_nothing(self):
        with ControlPlane() as plane:
            plane.grant("scheduler", RIGHTS)
            plane.admin.create_nodes([objects.node("n0")])
            plane.admin.create_pods([objects.pod("p", {"gpu-memory": "4096"}), objects.pod("q", {"gpu-memory": "x"})])
            berth = Scheduler(plane.kubeconfig(), "--dry-run")
            self.addCleanup(berth.end)
            berth.wait_ready()
            until(lambda: "would-bind pod=default/p node=n0" in berth.log.read_text(), 20, berth.tail)
            time.sleep(1)
            self.assertIsNone(node_of(plane, "p"))
            self.assertEqual(condition(plane, "q"), {})


if __name__ == "__main__":
    unittest.main()
