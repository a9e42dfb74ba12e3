"""Volumes that lie on nodes, with the controller that binds claims on a real API server: a pod goes where its volume is, and where a
volume could be (kubernetes-api.md 15).

Three nodes of one device; n0 is the one that Berth would choose for every pod here, by its name.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import Installed  # noqa: E402
from cluster import ControlPlane, objects  # noqa: E402

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
DRIVER = "disks.example.org"


def volume(name, node, size="10Gi", storage_class="local", **spec):
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    return {"metadata": {"name": name},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
                     "persistentVolumeReclaimPolicy": "Retain", "local": {"path": f"/mnt/{name}"},
                     "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, **spec}}


def claim(name, size="5Gi", storage_class="local", **spec):
    return {"metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
                     "resources": {"requests": {"storage": size}}, **spec}}


def mounts(*claims):
    return [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}} for number, name in enumerate(claims)]


class VolumesOnNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane(controllers=["persistentvolume-binder-controller"]).start()
        cls.addClassCleanup(cls.plane.end)
        cls.admin = cls.plane.admin
        cls.admin.create_nodes([objects.node(f"n{number}", gpus=1) for number in range(3)])
        for name, mode in (("local", "WaitForFirstConsumer"), ("at-once", "Immediate")):
            cls.admin.create("/apis/storage.k8s.io/v1/storageclasses",
                             {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
        cls.berth = Installed(cls.plane, {"allowAdvisory": True}).start()

    def create(self, name, *claims, **fields):
        self.admin.create_pods([objects.pod(name, {"gpu-memory": "1000"}, volumes=mounts(*claims), **fields)])
        self.addCleanup(self.admin.delete_pod, name)

    def node_of(self, name):
        return self.berth.until_bound(name)["spec"]["nodeName"]

    def bound_to(self, name):
        found = self.admin.get(f"{CLAIMS}/{name}")
        return found["spec"].get("volumeName") if found["status"]["phase"] == "Bound" else None

    def says(self, name):
        self.admin.until(lambda: self.berth.condition(name), f"{name} is told why it waits")
        return self.berth.condition(name)[1]

    def test_a_pod_without_claims_goes_to_the_first_node(self):
        self.create("plain")
        self.assertEqual(self.node_of("plain"), "n0")

    def test_a_claim_that_waits_for_its_consumer_gets_the_smallest_volume_that_fits(self):
        for name, node, size in (("large", "n2", "100Gi"), ("fits", "n2", "6Gi"), ("small", "n0", "1Gi")):
            self.admin.create(VOLUMES, volume(name, node, size))
        self.admin.create(CLAIMS, claim("waits"))
        self.create("first", "waits")
        self.assertEqual(self.node_of("first"), "n2")
        self.assertEqual(self.bound_to("waits"), "fits", "bound before the pod was")
        # Who comes to the same claim later has to go there, too.
        self.create("second", "waits")
        self.assertEqual(self.node_of("second"), "n2")

    def test_a_bound_claim_draws_its_pod(self):
        self.admin.create(VOLUMES, volume("there", "n1", storage_class="at-once"))
        self.admin.create(CLAIMS, claim("bound", storage_class="at-once"))
        self.admin.until(lambda: self.bound_to("bound") == "there", "the controller binds it")
        self.create("drawn", "bound")
        self.assertEqual(self.node_of("drawn"), "n1")

    def test_two_claims_of_one_pod_need_two_volumes_of_one_node(self):
        for name, node in (("pair-0", "n0"), ("pair-1", "n1"), ("pair-2", "n1")):
            self.admin.create(VOLUMES, volume(name, node, accessModes=["ReadWriteMany"]))
        for name in ("left", "right"):
            self.admin.create(CLAIMS, claim(name, accessModes=["ReadWriteMany"]))
        self.create("pair", "left", "right")
        self.assertEqual(self.node_of("pair"), "n1")
        self.assertEqual({self.bound_to("left"), self.bound_to("right")}, {"pair-1", "pair-2"})

    def test_a_block_device_is_no_file_system(self):
        self.admin.create(VOLUMES, volume("raw", "n0", "7Ti", volumeMode="Block"))
        self.admin.create(CLAIMS, claim("files", size="6Ti"))
        self.create("mounts", "files")
        self.assertIn("3 Volume", self.says("mounts"))
        self.admin.create(VOLUMES, volume("formatted", "n2", "7Ti"))
        self.assertEqual(self.node_of("mounts"), "n2")

    def test_where_it_waits_it_says_so(self):
        self.create("absent", "nobodys")
        self.assertEqual(self.says("absent"), "waits for PersistentVolumeClaim default/nobodys, which does not exist")
        self.admin.create(CLAIMS, claim("homeless", storage_class="at-once", size="1Pi"))
        self.create("immediate", "homeless")
        self.assertIn("unbound immediate PersistentVolumeClaims: default/homeless", self.says("immediate"))

    def test_a_driver_attaches_so_many_volumes_to_a_node_and_no_more(self):
        self.admin.create(CSI_NODES, {"metadata": {"name": "n0"},
                                      "spec": {"drivers": [{"name": DRIVER, "nodeID": "n0", "allocatable": {"count": 1}}]}})
        for number in range(2):
            name = f"disk-{number}"
            disk = volume(name, "n0", storage_class="at-once")
            disk["spec"].pop("local")
            disk["spec"].pop("nodeAffinity")
            disk["spec"] |= {"csi": {"driver": DRIVER, "volumeHandle": name}, "claimRef": {"namespace": "default", "name": name}}
            self.admin.create(VOLUMES, disk)
            self.admin.create(CLAIMS, claim(name, storage_class="at-once"))
            self.admin.until(lambda name=name: self.bound_to(name) == name, "the controller binds it")
        self.create("disk-a", "disk-0")
        self.assertEqual(self.node_of("disk-a"), "n0")
        self.create("disk-b", "disk-1")
        self.assertNotEqual(self.node_of("disk-b"), "n0")


if __name__ == "__main__":
    unittest.main()
