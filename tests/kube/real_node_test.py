"""From a manifest to a container on a real kubelet: what the program inside sees is exactly what was granted."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import Installed  # noqa: E402
from cluster import ApiError, objects  # noqa: E402
from cluster.with_nodes import Cluster  # noqa: E402

SHOW = "echo $NVIDIA_VISIBLE_DEVICES $BERTH_MEMORY_MIB $BERTH_MEMORY_LIMIT_MIB"
GIB = 1024


class RealNode(unittest.TestCase):
    """One node with two devices of 16 GiB, 15 of them usable."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(kubelets=1).start()
        cls.addClassCleanup(cls.cluster.end)
        cls.cluster.nodes["n0"].until_ready()
        cls.admin = cls.cluster.admin
        cls.uuids = [objects.device_uuid("n0", index) for index in range(2)]
        note = objects.devices("n0", 2, total_mib=16 * GIB, reserve=GIB)
        cls.admin.patch("/api/v1/nodes/n0", {"metadata": {"annotations": {"berth.dev/devices": note}}})
        cls.berth = Installed(cls.cluster, {"allowAdvisory": True, "wholeDevices": "berth"}).start()

    def run_pod(self, name, annotations=None, limits=None, containers=None, **spec):
        """The pod when it is over, and the log of each container."""
        containers = containers or [objects.container(args=[SHOW], limits=limits)]
        self.admin.create_pods([objects.pod(name, annotations, containers=containers, restartPolicy="Never", **spec)])
        self.addCleanup(self.admin.delete_pod, name)
        try:
            self.admin.until(lambda: self.admin.pod(name)["status"]["phase"] == "Succeeded", f"{name} has succeeded", 60)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.admin.pod(name)['status']}\n{self.berth.log()[-3000:]}") from late
        pod = self.admin.pod(name)
        every = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        return pod, {c["name"]: self.cluster.kubectl("logs", name, "-c", c["name"]).strip() for c in every}

    def granted(self, pod):
        grant = json.loads(pod["metadata"]["annotations"]["berth.dev/grant"])
        return {c["name"]: c["devices"] for c in grant["containers"]}

    def test_a_share_sees_its_device_and_its_memory(self):
        pod, logs = self.run_pod("share", {"gpu-memory": "4096", "gpu-memory.limit": "8Gi"})
        (device,) = self.granted(pod)["main"]
        self.assertIn(device["uuid"], self.uuids)
        self.assertEqual(device, {"uuid": device["uuid"], "requestMiB": 4096, "limitMiB": 8192})
        self.assertEqual(logs["main"], f"{device['uuid']} 4096 8192")

    def test_a_fraction_is_of_the_usable_memory(self):
        _, logs = self.run_pod("fraction", {"gpu-fraction": "0.25"})
        self.assertEqual(logs["main"].split()[1:], ["3840", "3840"])

    def test_every_container_has_a_share_of_its_own_and_a_preparing_one_before(self):
        key = "nvidia.com/container.{}.gpu-memory.request".format
        pod, logs = self.run_pod(
            "several", {key("first"): "12Gi", key("a"): "6Gi", key("b"): "2Gi"},
            containers=[objects.container(name, args=[SHOW]) for name in ("a", "b", "bare")],
            initContainers=[objects.container("first", args=[SHOW])])
        granted = self.granted(pod)
        self.assertEqual({name: logs[name].split()[1] for name in ("first", "a", "b")},
                         {"first": "12288", "a": "6144", "b": "2048"})
        for name in ("first", "a", "b"):
            self.assertEqual(logs[name].split()[0], granted[name][0]["uuid"])
        # The image says "all"; a container that asks for nothing sees nothing.
        self.assertEqual(logs["bare"], "void")

    def test_two_devices_are_two(self):
        _, logs = self.run_pod("two", {"gpu-memory": "1024", "gpu-fraction-num-devices": "2"})
        self.assertEqual(sorted(logs["main"].split()[0].split(",")), sorted(self.uuids))

    def test_a_whole_device_is_named_by_its_uuid(self):
        pod, logs = self.run_pod("whole", limits={"nvidia.com/gpu": "1"})
        self.assertIn(logs["main"].split()[0], self.uuids)
        self.assertEqual(self.granted(pod)["main"][0]["requestMiB"], 15 * GIB)

    def test_who_does_not_fit_waits_until_there_is_room_and_is_told_why(self):
        sleeper = [objects.container(args=["sleep 3600"])]
        self.admin.create_pods([objects.pod(f"holder{i}", {"gpu-memory": "12Gi"}, containers=sleeper) for i in range(2)])
        for i in range(2):
            self.addCleanup(self.admin.gone, f"/api/v1/namespaces/default/pods/holder{i}")
            self.berth.until_bound(f"holder{i}")
        self.admin.create_pods([objects.pod("late", {"gpu-memory": "4Gi"}, containers=sleeper)])
        self.addCleanup(self.admin.gone, "/api/v1/namespaces/default/pods/late")
        self.admin.until(lambda: self.berth.condition("late"), "late is told why it waits")
        reason, message = self.berth.condition("late")
        self.assertEqual(reason, "Unschedulable")
        self.assertIn("4096 MiB", message)
        self.admin.delete_pod("holder1")
        self.berth.until_bound("late")

    def test_readers_ask_the_scheduler_through_the_api_server(self):
        self.berth.lead_service_to_scheduler()
        sleeper = [objects.container(args=["sleep 3600"])]
        for name, size in (("reads", "2Gi"), ("long", "15Gi"), ("waits", "14Gi")):
            self.admin.create_pods([objects.pod(name, {"gpu-memory": size}, containers=sleeper)])
            self.addCleanup(self.admin.gone, f"/api/v1/namespaces/default/pods/{name}")
            if name != "waits":
                self.berth.until_bound(name)
        self.admin.until(lambda: self.berth.condition("waits"), "it is told why it waits")
        status, table, words = self.berth.berth("ps", "--kube")
        self.assertEqual((status, words), (0, ""), "the scheduler was not asked")
        rows = {line.split()[0]: line for line in table.splitlines()[1:]}
        self.assertIn("GPU", rows["default/reads"])
        self.assertIn("waiting", rows["default/waits"])
        self.assertIn("14GiB", rows["default/waits"])
        status, why, words = self.berth.berth("why", "waits", "-n", "default")
        self.assertEqual((status, words), (0, ""))
        self.assertIn("default/waits waits: needs 14336 MiB on one GPU; largest free is 13312 MiB", why)
        self.assertIn("SHORT BY", why)
        self.assertIn("1 of 1, nobody is before it", why)
        self.assertIn("What would help", why)
        status, gpus, words = self.berth.berth("gpus", "--kube", "-o", "json")
        self.assertEqual((status, words), (0, ""))
        promised = sorted(device["promised_mib"] for device in json.loads(gpus)["devices"])
        self.assertEqual(promised, [2048, 15360])
        status, queues, _ = self.berth.berth("queues", "--kube")
        self.assertEqual(status, 0)
        self.assertIn("default", queues)
        # Somebody without the right to ask the scheduler, but to read pods, is told what is missing.
        self.cluster.grant("tenant", [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}])
        status, table, words = self.berth.berth("ps", "--kube", user="tenant")
        self.assertEqual(status, 0, words)
        self.assertIn("read from pods and nodes alone", words)
        self.assertIn("default/waits", table)

    def test_a_forged_pod_gets_no_more(self):
        refused = {
            "grant": {"annotations": {"gpu-memory": "1024", "berth.dev/grant": "{}"}},
            "devices": {"annotations": {"gpu-memory": "1024", "berth.dev/main.devices": self.uuids[0]}},
            "environment": {"annotations": {"gpu-memory": "1024"},
                            "containers": [objects.container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])]},
            "limit": {"annotations": {"gpu-memory": "1024"},
                      "containers": [objects.container(env=[{"name": "BERTH_MEMORY_LIMIT_MIB", "value": "99999"}])]},
            "node": {"annotations": {"gpu-memory": "1024"}, "nodeName": "n0"},
            "privileged": {"annotations": {"gpu-memory": "1024"},
                           "containers": [objects.container(securityContext={"privileged": True})]},
        }
        for name, fields in refused.items():
            with self.subTest(name), self.assertRaises(ApiError) as error:
                self.admin.create_pods([objects.pod(f"forged-{name}", **fields)])
            self.assertIn(error.exception.code, (400, 403, 422))

    def test_a_size_cannot_be_changed_afterwards(self):
        self.admin.create_pods([objects.pod("grows", {"gpu-memory": "1024"}, containers=[objects.container(args=["sleep 3600"])])])
        self.addCleanup(self.admin.gone, "/api/v1/namespaces/default/pods/grows")
        self.berth.until_bound("grows")
        for change in ({"gpu-memory": "8192"}, {"gpu-memory": None}, {"berth.dev/grant": None},
                       {"nvidia.com/container.main.gpu-memory.limit": "16Gi"}):
            with self.subTest(change), self.assertRaises(ApiError):
                self.admin.patch("/api/v1/namespaces/default/pods/grows", {"metadata": {"annotations": change}})


if __name__ == "__main__":
    unittest.main()
