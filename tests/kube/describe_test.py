"""`kubectl describe pod` of pods that wait, each for another reason: the sentence that people read, with every number checked by hand.

The cluster: n0 has two devices of 16384 MiB (15892 usable: 3 % are kept back), n1 one of 81559 (79112), n2 says that its devices are
not Berth's, n3 is cordoned. `lives` holds 8000 MiB of n0's first, `big` n1's whole device.
"""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import Installed  # noqa: E402
from cluster import ControlPlane, objects  # noqa: E402

QUEUES = """
queues:
  - {name: default, dims: {"*/devices": {deserved: 100}}}
  - {name: small, dims: {"*/devices": {deserved: 0.25, limit: 0.25}}}
"""


class TenDescribes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.berth = Installed(cls.plane, {"allowAdvisory": True, "wholeDevices": "berth"}, queues=QUEUES).start()
        admin = cls.plane.admin
        nodes = [objects.node("n0", gpus=2, total_mib=16384, model="T4", cpu="8"),
                 objects.node("n1", gpus=1, total_mib=81559, model="H100", cpu="8"),
                 objects.node("n2", gpus=1, total_mib=81559, owned=False, cpu="8"),
                 objects.node("n3", gpus=1, total_mib=81559, cpu="8")]
        nodes[3]["spec"]["unschedulable"] = True
        admin.create_nodes(nodes)
        admin.create_pods([objects.pod("lives", {"gpu-memory": "8000"}, labels={"app": "lives"},
                                       nodeSelector={"kubernetes.io/hostname": "n0"})])
        cls.berth.until_bound("lives")
        admin.create_pods([objects.pod("big", limits={"nvidia.com/gpu": "1"}, nodeSelector={"kubernetes.io/hostname": "n1"})])
        cls.berth.until_bound("big")

    def described(self, name, annotations=None, **fields):
        """The line of the event, as a person reads it, with devices as n0/g0."""
        self.plane.admin.create_pods([objects.pod(name, annotations, **fields)])
        line = self.plane.admin.until(lambda: next((li for li in self.plane.kubectl("describe", "pod", name).splitlines()
                                                    if "FailedScheduling" in li), None), f"{name} is told why it waits", 20, every=0.2)
        text = re.split(r"berth.dev/scheduler\S*\s+", line, maxsplit=1)[-1]
        for node, gpus in (("n0", 2), ("n1", 1), ("n2", 1), ("n3", 1)):
            for index in range(gpus):
                text = text.replace(objects.device_uuid(node, index), f"g{index}")
        reason, message = self.berth.condition(name)
        self.assertTrue(message, name)
        print(f"{name:10} {reason}: {text}", file=sys.stderr)
        return f"{reason}: {text}"

    def expect(self, wanted, name, annotations=None, **fields):
        with self.subTest(name):
            self.assertEqual(self.described(name, annotations, **fields), wanted)

    def test_each_says_what_is_missing(self):
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}]}}
        busy = [objects.container(resources={"requests": {"cpu": "9"}})]
        self.expect(
            "Unschedulable: needs 15893 MiB on one GPU; largest free is 15892 MiB (n0/g1). 0/4 nodes: 1 "
            "DeviceExclusive, 1 DeviceNotOwned, 1 InsufficientMemory, 1 NodeCordoned.",
            "short", {"gpu-memory": "15893"})
        self.expect(
            "Unschedulable: needs 9000 MiB on each of 2 GPUs; the best node has 1 free (n0: 1 too full). 0/4 "
            "nodes: 2 InsufficientDevices, 1 DeviceNotOwned, 1 NodeCordoned.",
            "pair", {"gpu-memory": "9000", "gpu-fraction-num-devices": "2"})
        self.expect(
            "Unschedulable: needs 100000 MiB on one GPU; the largest device it may use holds 79112 MiB when empty "
            "(n1/g0). 0/4 nodes: 3 LargestDeviceTooSmall, 1 NodeCordoned.",
            "never", {"gpu-memory": "100000"})
        self.expect(
            "Unschedulable: needs 2 whole GPUs of one node; the best node has 1 free (n0: 1 in use); work that is "
            "not preemptible stands on 2 of 3 such nodes, queue default's on 2. 0/4 nodes: 3 InsufficientDevices, "
            "1 NodeCordoned.",
            "whole", limits={"nvidia.com/gpu": "2"})
        self.expect(
            "Unschedulable: needs 100 MiB on one GPU; 3 of 4 nodes have no model with A100 in its name (n0/g0 is "
            "another model). 0/4 nodes: 3 TypeMismatch, 1 NodeCordoned.",
            "type", {"gpu-memory": "100", "nvidia.com/use-gputype": "A100"})
        self.expect(
            "Unschedulable: needs 9 CPU cores on one node; n0 comes nearest with 8 cores and 524288 MiB in all. "
            "0/4 nodes: 3 InsufficientNodeResource, 1 NodeCordoned.",
            "cpu", {"gpu-memory": "100"}, containers=busy)
        self.expect(
            "QuotaExceeded: needs 0.252 of */devices; queue small holds 0 and its limit is 0.25. 0/4 nodes: 1 "
            "DeviceExclusive, 1 DeviceNotOwned, 1 NodeCordoned, 1 OverLimit.",
            "quota", {"gpu-memory": "4000"}, labels={"berth.dev/queue": "small"})
        self.expect(
            "Unschedulable: the rules of the pod and its neighbours leave no node. 0/4 nodes: 4 PodAffinity.",
            "lonely", {"gpu-memory": "100"}, affinity=affinity)
        self.expect(
            "Unschedulable: needs 100 MiB on one GPU; none of 4 nodes is labelled zone=mars. 0/4 nodes: 4 "
            "NoNodeMatches.",
            "selector", {"gpu-memory": "100"}, nodeSelector={"zone": "mars"})
        self.expect(
            "Unschedulable: needs 1 MIG instance 1g.5gb; 3 of 4 nodes have no MIG instance (n0 and 2 more). 0/4 "
            "nodes: 3 ResourceKindMismatch, 1 NodeCordoned.",
            "mig", limits={"nvidia.com/mig-1g.5gb": "1"})
        self.expect(
            "SchedulerError: queue nobodys does not exist; did you mean default? There are 2 queues: default, "
            "small. 0/4 nodes: 1 DeviceExclusive, 1 DeviceNotOwned, 1 NodeCordoned, 1 QueueDoesNotExist.",
            "queue", {"gpu-memory": "100"}, labels={"berth.dev/queue": "nobodys"})
        self.expect(
            "Unschedulable: waits for PersistentVolumeClaim default/data, which does not exist",
            "volume", {"gpu-memory": "100"}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
        self.expect(
            "Unschedulable: needs 100 MiB on one GPU; 1 of 4 nodes has no GPU that may be shared (n1/g0 is held "
            "by default/big). 0/4 nodes: 3 NoNodeMatches, 1 DeviceExclusive.",
            "mode", {"gpu-memory": "100", "nvidia.com/container.main.gpu-compute.mode": "sm-sharing"},
                    nodeSelector={"kubernetes.io/hostname": "n1"})


if __name__ == "__main__":
    unittest.main()
