"""The control plane itself: what starts, who may do what, what is left when it ends."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import ApiError, ControlPlane, Recorder, check, objects  # noqa: E402

READS = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
         {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}]


class ControlPlanes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.admin = cls.plane.admin
        cls.plane.grant("scheduler", READS)

    def setUp(self):
        for pod in self.admin.list("/api/v1/pods"):
            self.admin.delete_pod(pod["metadata"]["name"])
        for node in self.admin.list("/api/v1/nodes"):
            self.admin.gone(f"/api/v1/nodes/{node['metadata']['name']}")

    def test_calls_itself_by_the_release_it_was_built_from(self):
        self.assertEqual(self.admin.get("/version")["gitVersion"], "v1.36.3")

    def test_keeps_the_status_and_the_annotations_of_a_node_that_no_kubelet_made(self):
        self.admin.create_nodes([objects.node("n0", gpus=2)])
        node = self.admin.get("/api/v1/nodes/n0")
        self.assertEqual(node["status"]["allocatable"]["nvidia.com/gpu"], "2")
        self.assertIn("GPU-", node["metadata"]["annotations"]["berth.dev/devices"])
        self.assertNotIn("taints", node["spec"])

    def test_lets_the_scheduler_bind_and_nothing_else(self):
        self.admin.create_nodes([objects.node("n0")])
        scheduler = self.plane.api("scheduler")
        (pod,) = self.admin.create_pods([objects.pod("p")])
        with self.assertRaises(ApiError) as refused:
            scheduler.delete_pod("p")
        self.assertEqual(refused.exception.code, 403)
        scheduler.bind(pod, "n0", {"berth.dev/note": "x"})
        bound = self.admin.pod("p")
        self.assertEqual((bound["spec"]["nodeName"], bound["metadata"]["annotations"]), ("n0", {"berth.dev/note": "x"}))

    def test_a_recorder_sees_every_version_and_the_audit_log_every_binding(self):
        with Recorder(self.admin) as recorder:
            self.admin.create_nodes([objects.node("n0")])
            pods = self.admin.create_pods([objects.pod(f"p{i}", scheduler="other") for i in range(50)])
            for pod in pods:
                self.admin.bind(pod, "n0")
            verdict = check(recorder.caught_up(), self.plane.audit_log)
        self.assertEqual((verdict.faults, verdict.bound, verdict.bindings[201] >= 50), ([], 50, True), str(verdict))

    def test_kubectl_speaks_to_it(self):
        self.assertIn("default", self.plane.kubectl("get", "namespaces", "-o", "name"))


class Lives(unittest.TestCase):
    """What becomes of the programs."""

    @staticmethod
    def pids_with(text):
        found = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and text in (process / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    def test_nothing_is_left_when_the_test_is_killed(self):
        script = ("import sys, time; sys.path.insert(0, sys.argv[1]); from cluster import ControlPlane\n"
                  "plane = ControlPlane().start(); print(plane.folder, flush=True); time.sleep(60)")
        here = str(Path(__file__).resolve().parent)
        with subprocess.Popen([sys.executable, "-B", "-c", script, here], stdout=subprocess.PIPE, text=True) as test:
            folder = test.stdout.readline().strip()
            self.assertGreaterEqual(len(self.pids_with(folder)), 3)
            os.kill(test.pid, signal.SIGKILL)
            test.wait()
        deadline = time.monotonic() + 20
        while (self.pids_with(folder) or Path(folder).exists()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual((self.pids_with(folder), Path(folder).exists()), ([], False))

    def test_goes_on_where_it_was_after_kills_of_etcd_and_of_the_api_server(self):
        with ControlPlane() as plane:
            witness = plane.start_witness()
            with Recorder(witness) as recorder:
                plane.admin.create_nodes([objects.node("n0")])
                plane.kill("etcd")
                plane.start_etcd()
                plane.admin.until(lambda: plane.answers(plane.admin), "the API server answers again")
                plane.admin.create_pods([objects.pod("p", scheduler="other")])
                plane.kill("kube-apiserver")
                plane.start_api_server()
                plane.admin.bind(plane.admin.pod("p"), "n0")
                verdict = check(recorder.caught_up(), plane.audit_log)
            self.assertEqual((verdict.bound, verdict.gaps, verdict.faults), (1, 0, []), str(verdict))


if __name__ == "__main__":
    unittest.main()
