"""The guide of docs/kubernetes.md, step by step: image, `kubectl apply -k`, Deployments as pods, the webhook by its service."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import BIN, ROOT  # noqa: E402
from cluster import ApiError, objects  # noqa: E402
from cluster.with_nodes import Cluster  # noqa: E402

SYSTEM = "/api/v1/namespaces/berth-system"
MANIFESTS = str(ROOT / "deploy" / "kubernetes")


class InstallGuide(unittest.TestCase):
    """One node, nothing but what the guide says; pods of other schedulers are bound by hand, since none runs here."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(kubelets=1, controllers=True).start()
        cls.addClassCleanup(cls.cluster.end)
        cls.admin = cls.cluster.admin
        cls.node = cls.cluster.nodes["n0"].until_ready()
        archive = cls.cluster.folder / "berth-image.tar"
        subprocess.run([sys.executable, "-B", ROOT / "tools" / "image", "--out", archive], check=True, capture_output=True)
        cls.node.load(archive)

    def place_others(self):
        """What kube-scheduler would do for Berth's own pods."""
        for pod in self.admin.list(f"{SYSTEM}/pods"):
            if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
                self.admin.bind(pod, "n0")
        return True

    def pods_of(self, name):
        return [pod for pod in self.admin.list(f"{SYSTEM}/pods?labelSelector=app.kubernetes.io%2Fname%3D{name}")
                if not pod["metadata"].get("deletionTimestamp")]

    def log_of(self, name):
        return "\n".join(self.cluster.kubectl("-n", "berth-system", "logs", "--tail=20", pod["metadata"]["name"])
                         for pod in self.pods_of(name))

    def rolled_out(self, name, seconds=90):
        def ready():
            self.place_others()
            status = self.admin.get(f"/apis/apps/v1/namespaces/berth-system/deployments/{name}")["status"]
            return status.get("readyReplicas", 0) == 2
        try:
            self.admin.until(ready, f"{name} is rolled out", seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.cluster.kubectl('-n', 'berth-system', 'describe', 'pods')[-4000:]}\n"
                                 f"{self.log_of(name)}") from late

    def berth(self, *words):
        done = subprocess.run([BIN / "berth", *words, "--kubeconfig", self.cluster.kubeconfig("admin")], capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{words}\n{done.stdout}")
        return done.stdout

    def bound(self, name, seconds=40):
        self.admin.until(lambda: self.admin.pod(name)["spec"].get("nodeName"), f"{name} is bound", seconds)
        return self.admin.pod(name)

    def try_until_admitted(self, pod, seconds=40):
        """The webhook fails closed: until the API server reaches it, pods of ours are refused."""
        def admitted():
            try:
                self.admin.create_pods([pod])
            except ApiError as refused:
                self.assertIn("webhook", refused.message)
                return False
            return True
        self.admin.until(admitted, f"{pod['metadata']['name']} is admitted", seconds)

    def leader(self):
        return self.admin.get("/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth-scheduler")["spec"]["holderIdentity"]

    def test_from_apply_to_delete(self):
        self.cluster.kubectl("apply", "-f", f"{MANIFESTS}/examples/runtimeclass.yaml")
        before = set(self.everything())
        self.cluster.kubectl("apply", "-k", MANIFESTS)
        for name in ("berth-scheduler", "berth-webhook"):
            self.rolled_out(name)
        note = objects.devices("n0", 2, total_mib=16384, reserve=1024)
        self.cluster.kubectl("annotate", "node", "n0", "--overwrite", f"berth.dev/devices={note}")
        # No backend holds shares on this node, so the configuration has to allow it; as the guide says, by a restart.
        words = self.admin.get(f"{SYSTEM}/configmaps/berth-scheduler")["data"]["scheduler.yaml"]
        self.admin.patch(f"{SYSTEM}/configmaps/berth-scheduler", {"data": {"scheduler.yaml": words + "allowAdvisory: true\n"}})
        self.cluster.kubectl("-n", "berth-system", "rollout", "restart", "deployment", "berth-scheduler")
        self.admin.until(lambda: self.place_others() and "successfully rolled out" in self.cluster.kubectl(
            "-n", "berth-system", "rollout", "status", "--watch=false", "deployment", "berth-scheduler"), "it is rolled out anew", 120)

        show = objects.container(args=["echo $NVIDIA_VISIBLE_DEVICES $BERTH_MEMORY_MIB; sleep 1000"])
        self.try_until_admitted(objects.pod("train", {"gpu-memory": "4096"}, containers=[show]))
        pod = self.bound("train")
        (device,) = json.loads(pod["metadata"]["annotations"]["berth.dev/grant"])["containers"][0]["devices"]
        self.admin.until(lambda: self.admin.pod("train")["status"]["phase"] == "Running", "train runs", 60)
        self.admin.until(lambda: self.cluster.kubectl("logs", "train").strip() == f"{device['uuid']} 4096", "it prints its grant", 60)
        self.assertIn(f"4096 MiB of {device['uuid']}", self.cluster.kubectl("describe", "pod", "train"))
        with self.assertRaises(ApiError) as error:
            self.admin.create_pods([objects.pod("wrong", {"gpu-memory": "much"})])
        self.assertIn("BadMemory: gpu-memory=much", error.exception.message)

        # Readers, through the API server and the service.
        self.admin.create_pods([objects.pod("late", {"gpu-memory": "15Gi", "gpu-fraction-num-devices": "2"})])
        self.admin.until(lambda: "default/late" in self.berth("ps", "--kube"), "late is told of")
        self.assertIn("default/late waits: ", self.berth("why", "late", "-n", "default"))
        self.assertIn("4GiB", self.berth("gpus", "--kube"))

        # One replica is enough, and it takes over.
        first = self.leader()
        gone = next(p["metadata"]["name"] for p in self.pods_of("berth-scheduler") if p["metadata"]["name"] in first)
        self.admin.delete_pod(gone, "berth-system")
        self.admin.delete_pod("train")
        self.admin.until(lambda: self.place_others() and self.leader() not in ("", first), "another leads", 40)
        self.bound("late")

        self.admin.delete_pod("late")
        self.cluster.kubectl("delete", "-k", MANIFESTS)
        self.admin.until(lambda: not set(self.everything()) - before, lambda: f"left: {set(self.everything()) - before}", 60)
        self.admin.create_pods([objects.pod("afterwards", {"gpu-memory": "1024"})])  # nobody is asked any more

    def everything(self):
        kinds = ["namespaces", "clusterroles", "clusterrolebindings", "mutatingwebhookconfigurations",
                 "validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
                 "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "flowschemas", "prioritylevelconfigurations"]
        return self.cluster.kubectl("get", ",".join(kinds), "-o", "name").split()


if __name__ == "__main__":
    unittest.main()
