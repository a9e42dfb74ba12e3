"""The checker on made-up histories: each fault is found, and what is right is left alone."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import objects  # noqa: E402
from cluster.checker import Checker  # noqa: E402
from cluster.quantity import in_phases, quantity, requested  # noqa: E402
from cluster.recorder import Record  # noqa: E402

GPU = objects.device_uuid("n0", 0)


def grant(*containers, node="n0", identity="g-1"):
    """Containers as (name, MiB) or dictionaries with what differs."""
    listed = []
    for one in containers:
        one = one if isinstance(one, dict) else {"name": one[0], "mib": one[1]}
        mib = one.pop("mib")
        device = {"uuid": one.pop("uuid", GPU), "requestMiB": mib, "limitMiB": one.pop("limit", mib)}
        listed.append({"kind": "app", "mode": "time-slicing", "exclusive": False, **one, "devices": [device]})
    return json.dumps({"containers": listed, "id": identity, "node": node, "v": 1})


class History:
    """Versions of objects, as a watch would show them."""

    def __init__(self):
        self.records = []

    def say(self, resource, kind, item, at=None):
        version = len(self.records) + 1
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(version)
        self.records.append(Record(resource, kind, item, at if at is not None else version * 0.1))

    def node(self, name="n0", kind="ADDED", at=None, **options):
        self.say("nodes", kind, objects.node(name, **{"gpus": 1, "total_mib": 100, "reserve": 0, **options}), at)

    def pod(self, name, granted=None, node="n0", kind="MODIFIED", at=None, uid=None, status=None, **options):
        annotations = {"gpu-memory": "50"} | ({"berth.dev/grant": granted} if granted else {})
        pod = objects.pod(name, annotations, **options)
        pod["metadata"]["uid"] = uid or f"uid-{name}"
        if node:
            pod["spec"]["nodeName"] = node
        pod["status"] = status or {}
        self.say("pods", kind, pod, at)

    def verdict(self, **settings):
        checker = Checker(**settings)
        for record in self.records:
            checker.take(record)
        return checker.finish()

    def kinds(self, **settings):
        return sorted(set(self.verdict(**settings).kinds()))


class Checks(unittest.TestCase):
    def setUp(self):
        self.history = History()

    def test_the_last_mebibyte_is_no_fault_and_one_more_is(self):
        self.history.node()
        self.history.pod("a", grant(("main", 60)))
        self.history.pod("b", grant(("main", 40)))
        self.assertEqual(self.history.kinds(), [])
        self.history.pod("c", grant(("main", 1)))
        self.assertEqual(self.history.kinds(), ["OverPromised"])

    def test_a_fault_that_lasted_for_one_version_is_found(self):
        self.history.node()
        self.history.pod("a", grant(("main", 60)))
        self.history.pod("b", grant(("main", 60)))
        self.history.pod("a", grant(("main", 60)), kind="DELETED")
        self.assertEqual(self.history.kinds(), ["OverPromised"])

    def test_room_returns_when_a_pod_is_gone_or_over_and_not_before(self):
        self.history.node()
        self.history.pod("a", grant(("main", 60)))
        self.history.pod("a", grant(("main", 60)), status={"phase": "Succeeded"})
        self.history.pod("b", grant(("main", 60)))
        self.assertEqual(self.history.kinds(), [])

    def test_the_grace_is_as_long_as_the_test_says(self):
        self.history.node(at=0)
        self.history.node(kind="DELETED", at=10)
        self.history.pod("a", grant(("main", 60)), at=15)
        self.assertIn("Cordoned", self.history.kinds())
        self.assertEqual(self.history.kinds(grace_s=6), [])
        self.history.pod("b", grant(("main", 60)), at=15)
        self.assertEqual(self.history.kinds(grace_s=6), ["OverPromised"])  # there is no grace for that

    def test_whole_devices_are_shared_with_nobody(self):
        self.history.node()
        self.history.pod("a", grant({"name": "main", "mib": 100, "exclusive": True}))
        self.history.pod("b", grant(("main", 1)))
        self.assertIn("SharedWhole", self.history.kinds())

    def test_fractions_add_up_to_one_at_most(self):
        self.history.node()
        for name in "abc":
            self.history.pod(name, grant({"name": "main", "mib": 33, "nano": 335_000_000}))
        self.assertEqual(self.history.kinds(), ["OverPromised"])

    def test_limits_may_be_overcommitted_so_far(self):
        self.history.node()
        for name in "ab":
            self.history.pod(name, grant({"name": "main", "mib": 10, "limit": 100}))
        self.assertEqual(self.history.kinds(), [])
        self.assertEqual(self.history.kinds(overcommit_percent=199), ["LimitOvercommit"])

    def test_a_device_has_one_compute_mode(self):
        self.history.node()
        self.history.pod("a", grant({"name": "main", "mib": 10, "mode": "sm-sharing"}))
        self.history.pod("b", grant(("main", 10)))
        self.assertEqual(self.history.kinds(), ["MixedModes"])

    def test_an_init_container_is_charged_until_the_pod_is_initialized(self):
        init = {"initContainers": [objects.container("init")]}
        granted = grant({"name": "init", "mib": 60, "kind": "init"}, ("main", 50))
        self.history.node()
        self.history.pod("a", granted, **init)
        self.history.pod("a", granted, status={"conditions": [{"type": "Initialized", "status": "True"}]}, **init)
        self.history.pod("b", grant(("main", 50)))
        self.assertEqual(self.history.kinds(), [])
        self.history.records.pop(1)  # the pod that is not initialized is the one that is bound
        self.history.records.pop(1)
        self.history.pod("a", granted, **init)
        self.assertEqual(self.history.kinds(), ["OverPromised"])

    def test_grants_stay_as_they_are_bound(self):
        self.history.node()
        self.history.node("n1")
        self.history.pod("a", grant(("main", 10)))
        self.history.pod("a", grant(("main", 20)))
        self.assertEqual(self.history.kinds(), ["GrantChanged"])

    def test_a_pod_is_bound_once_and_to_the_node_of_its_grant(self):
        self.history.node()
        self.history.node("n1")
        self.history.pod("a", grant(("main", 10)))
        self.history.pod("a", grant(("main", 10)), node="n1")
        self.assertEqual(self.history.kinds(), ["Rebound"])
        self.history.pod("b", grant(("main", 10)), node="n1")
        self.assertEqual(self.history.kinds(), ["NoSuchDevice", "NodeMismatch", "Rebound"])

    def test_what_is_no_grant_is_named(self):
        self.history.node()
        self.history.pod("a", "{}")
        self.history.pod("b", grant(("other", 10)))
        self.assertEqual(self.history.kinds(), ["BadGrant"])
        self.history.pod("c")
        self.history.pod("d", grant(("main", 1)), node=None)
        self.assertEqual(self.history.kinds(), ["BadGrant", "Forgotten", "GrantWithoutNode", "NoGrant"])

    def test_a_device_that_went_while_the_binding_was_on_its_way_is_nobodys_fault(self):
        self.history.node(at=0)
        self.history.node(gpus=0, kind="MODIFIED", at=10)
        self.history.pod("a", grant(("main", 10)), at=11)
        self.assertEqual(self.history.kinds(), [])
        self.history.pod("b", grant(("main", 10)), at=20)
        self.assertEqual(self.history.kinds(), ["NoSuchDevice"])

    def test_a_cordoned_node_takes_nobody(self):
        self.history.node(at=0)
        node = objects.node("n0", gpus=1, total_mib=100, reserve=0)
        node["spec"]["unschedulable"] = True
        self.history.say("nodes", "MODIFIED", node, at=1)
        self.history.pod("a", grant(("main", 10)), at=10)
        self.assertEqual(self.history.kinds(), ["Cordoned"])

    def test_a_node_has_so_much_cpu_and_so_many_pods(self):
        self.history.node(cpu="3", pods="2")
        self.history.pod("a", grant(("main", 1)), limits={"cpu": "1500m"})
        self.history.pod("b", grant(("main", 1)), limits={"cpu": "1.5"})
        self.assertEqual(self.history.kinds(), [])
        self.history.pod("c", grant(("main", 1)), limits={"cpu": "1m"})
        self.assertEqual(self.history.verdict().kinds(), {"NodeFull": 2})

    def test_who_waits_has_to_be_told_why(self):
        said = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        self.history.node()
        self.history.pod("a", node=None, status=said)
        self.history.pod("b", node=None, scheduler="other")
        self.history.pod("c", node=None, schedulingGates=[{"name": "gate"}])
        self.assertEqual(self.history.kinds(), [])
        self.assertEqual(self.history.verdict().waiting, ["default/a"])
        self.history.pod("d", node=None)
        self.assertEqual(self.history.kinds(), ["Forgotten"])

    def test_quantities_are_exact(self):
        for text, value in (("1500m", "3/2"), ("4k", "4000"), ("1.5Gi", "1610612736"), ("2e3", "2000"), ("7", "7"), ("1E", "1000000000000000000")):
            self.assertEqual(str(quantity(text)), value, text)

    def test_the_effective_request_of_a_pod(self):
        self.assertEqual(in_phases([("init", 60), ("app", 50)]), 60)
        self.assertEqual(in_phases([("sidecar", 30), ("init", 40), ("app", 50)]), 80)
        pod = objects.pod("p", limits={"cpu": "1"}, overhead={"cpu": "250m"},
                          initContainers=[objects.container("i", limits={"cpu": "2"})])
        self.assertEqual(float(requested(pod, "cpu")), 2.25)


if __name__ == "__main__":
    unittest.main()
