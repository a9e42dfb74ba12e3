"""The tables of docs/kubernetes-migration.md with manifests as users of the other systems write them: one line is changed."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import Installed  # noqa: E402
from cluster import ControlPlane, objects, program  # noqa: E402

MANIFESTS = Path(__file__).resolve().parent / "manifests"
USABLE = 15 * 1024


def for_berth(manifest):
    """The one line: schedulerName."""
    if "schedulerName:" in manifest:
        return re.sub(r"schedulerName: .*", "schedulerName: berth-scheduler", manifest)
    return manifest.replace("\nspec:\n", "\nspec:\n  schedulerName: berth-scheduler\n")


class Migration(unittest.TestCase):
    """Two nodes, each with two devices of which 15 GiB are usable; one is sold in four parts."""

    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.admin = cls.plane.admin
        card = {"gpus": 2, "total_mib": 16 * 1024, "reserve": 1024}
        cls.admin.create_nodes([objects.node("n0", **card), objects.node("n1", labels={"nvidia.com/gpu.replicas": "4"}, **card)])
        cls.berth = Installed(cls.plane, {"allowAdvisory": True, "wholeDevices": "berth"}).start()
        cls.manifests = {}
        for file in MANIFESTS.glob("*.yaml"):
            for manifest in file.read_text(encoding="utf-8").split("\n---\n"):
                cls.manifests[re.search(r"name: ([a-z0-9-]+)", manifest)[1]] = manifest
        cls.tried = set()

    def apply(self, name):
        """Exit status and what kubectl says, refusals and warnings."""
        self.tried.add(name)
        done = subprocess.run([program("kubectl"), "--kubeconfig", self.plane.kubeconfig("admin"), "apply", "-f", "-"],
                              input=for_berth(self.manifests[name]), capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def granted(self, name):
        """Of the container with GPUs: name, requests and limits in MiB, and its environment."""
        status, said = self.apply(name)
        self.assertEqual(status, 0, said)
        self.addCleanup(self.admin.delete_pod, name)
        pod = self.berth.until_bound(name)
        (container,) = json.loads(pod["metadata"]["annotations"]["berth.dev/grant"])["containers"]
        devices = container["devices"]
        self.assertEqual(len({device["uuid"] for device in devices}), len(devices), "distinct devices")
        self.assertEqual(pod["metadata"]["annotations"][f"berth.dev/{container['name']}.devices"],
                         ",".join(device["uuid"] for device in devices))
        return container, [(device["requestMiB"], device["limitMiB"]) for device in devices], said

    def refused(self, name, code):
        status, said = self.apply(name)
        self.assertEqual(status, 1, said)
        self.assertIn(code, said)

    def test_from_kai(self):
        for name, container, sizes in (
                ("kai-half", "train", [(USABLE // 2, USABLE // 2)]), ("kai-memory", "train", [(2000, 2000)]),
                ("kai-two-devices", "train", [(USABLE // 4, USABLE // 4)] * 2), ("kai-container", "train", [(1000, 1000)]),
                ("kai-fractions", "train", [(1024, 4096)]), ("kai-whole", "train", [(USABLE, USABLE)])):
            with self.subTest(name):
                found, devices, _ = self.granted(name)
                self.assertEqual((found["name"], devices), (container, sizes))
                self.assertEqual(found["exclusive"], name == "kai-whole")

    def test_from_hami(self):
        for name, sizes in (("hami-memory", [(3000, 3000)]), ("hami-cores", [(3000, 3000)]),
                            ("hami-percentage", [(USABLE // 2, USABLE // 2)]), ("hami-two", [(2000, 2000)] * 2)):
            with self.subTest(name):
                self.assertEqual(self.granted(name)[1], sizes)
        self.refused("hami-unit", "BadMemoryUnit")
        status, said = self.apply("volcano-share")
        self.addCleanup(self.admin.delete_pod, "volcano-share")
        self.assertEqual(status, 0, said)
        self.assertIn("UnsupportedFamily", said)

    def test_from_hami_a_model_that_is_not_here(self):
        status, said = self.apply("hami-type")
        self.assertEqual(status, 0, said)
        self.addCleanup(self.admin.delete_pod, "hami-type")
        self.admin.until(lambda: self.berth.condition("hami-type"), "it is told why it waits")
        self.assertIn("T4", self.berth.condition("hami-type")[1])

    def test_from_time_slicing(self):
        self.assertEqual(self.granted("sliced-one")[1], [(USABLE, USABLE)])
        container, sizes, _ = self.granted("sliced-shared")
        self.assertEqual(sizes, [(USABLE // 4, USABLE // 4)])
        self.assertEqual(self.admin.pod("sliced-shared")["spec"]["nodeName"], "n1")
        self.refused("sliced-shared-two", "SharedCountAboveOne")

    def test_zz_every_manifest_was_tried(self):
        self.assertEqual(self.tried, set(self.manifests))


if __name__ == "__main__":
    unittest.main()
