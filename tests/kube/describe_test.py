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
  - {name: default}
  - {name: small, dims: {"*/devices": {deserved: 1, limit: 1}}}
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
        self.expect("", "short", {"gpu-memory": "15893"})
        self.expect("", "pair", {"gpu-memory": "9000", "gpu-fraction-num-devices": "2"})
        self.expect("", "never", {"gpu-memory": "100000"})
        self.expect("", "whole", limits={"nvidia.com/gpu": "2"})
        self.expect("", "type", {"gpu-memory": "100", "nvidia.com/use-gputype": "A100"})
        self.expect("", "cpu", {"gpu-memory": "100"}, containers=busy)
        self.expect("", "quota", {"gpu-memory": "100", "gpu-fraction-num-devices": "2"}, labels={"berth.dev/queue": "small"})
        self.expect("", "lonely", {"gpu-memory": "100"}, affinity=affinity)
        self.expect("", "selector", {"gpu-memory": "100"}, nodeSelector={"zone": "mars"})
        self.expect("", "mig", limits={"nvidia.com/mig-1g.5gb": "1"})
        self.expect("", "queue", {"gpu-memory": "100"}, labels={"berth.dev/queue": "nobodys"})
        self.expect("", "volume", {"gpu-memory": "100"}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
        self.expect("", "mode", {"gpu-memory": "100", "nvidia.com/container.main.gpu-compute.mode": "sm-sharing"},
                    nodeSelector={"kubernetes.io/hostname": "n1"})


if __name__ == "__main__":
    unittest.main()
