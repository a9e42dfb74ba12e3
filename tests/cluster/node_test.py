"""Real nodes: pods start in containers, see what their binding says, and nothing is left on the machine."""

import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import objects  # noqa: E402
from cluster.programs import ROOT  # noqa: E402
from cluster.node import KERNEL_FLAGS  # noqa: E402
from cluster.with_nodes import Cluster, sweep_after_the_killed  # noqa: E402


def flags():
    return {flag: Path("/proc/sys", flag).read_text(encoding="ascii") for flag in KERNEL_FLAGS}


def traces(folder, identity):
    """What a cluster has left on this machine: mounts, interfaces, cgroups, processes, its folder."""
    mounts = [line for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines() if str(folder) in line]
    interfaces = [i for i in ("d0", "d1") if Path(f"/sys/class/net/{i}").exists()]
    cgroups = [str(cgroup) for cgroup in Path("/sys/fs/cgroup").glob(f"**/berth-cluster-{identity}")]
    processes = subprocess.run(["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False).stdout.splitlines()
    folders = [str(folder)] if Path(folder).exists() else []
    return mounts + interfaces + cgroups + processes + folders


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.flags = flags()
        cls.cluster = Cluster(kubelets=2).start()
        cls.addClassCleanup(cls.end)
        cls.admin = cls.cluster.admin
        for node in cls.cluster.nodes.values():
            node.until_ready()

    @classmethod
    def end(cls):
        folder, identity = cls.cluster.folder, cls.cluster.identity
        assert any("/sys/fs/cgroup" in trace for trace in traces(folder, identity)), "it has no cgroup to begin with"
        cls.cluster.end()
        assert traces(folder, identity) == [], f"left behind: {traces(folder, identity)}"
        assert flags() == cls.flags, f"kernel flags were {cls.flags}, are {flags()}"

    def run_pod(self, name, command, node="n0", annotations=None, phase="Succeeded", **fields):
        """A pod that runs a shell command on a node: its log when it is over."""
        spec = {key: fields.pop(key) for key in ("runtimeClassName",) if key in fields}
        (pod,) = self.admin.create_pods([objects.pod(
            name, containers=[objects.container(args=[command], **fields)], restartPolicy="Never", **spec)])
        began = time.monotonic()
        self.admin.bind(pod, node, annotations)
        self.admin.until(lambda: self.admin.pod(name)["status"]["phase"] == phase, f"{name} is {phase}", 60)
        self.took = time.monotonic() - began
        print(f"{name}: {self.took:.1f} s from its binding to {phase}", file=sys.stderr)
        return self.cluster.kubectl("logs", name)

    def test_a_container_sees_what_came_with_the_binding(self):
        key = "berth.dev/main.devices"
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}]
        for node in ("n0", "n1"):
            text = self.run_pod(f"see-{node}", "echo $NVIDIA_VISIBLE_DEVICES", node, {key: f"GPU-{node}"}, env=env)
            self.assertEqual(text, f"GPU-{node}\n")
        self.assertLess(self.took, 30)

    def test_a_variable_of_the_image_holds_where_the_pod_sets_none(self):
        self.assertEqual(self.run_pod("image", "echo $NVIDIA_VISIBLE_DEVICES"), "all\n")

    def test_a_pod_reaches_the_api_server(self):
        _, host, port = self.cluster.inner_server.replace("//", "").split(":")
        text = self.run_pod("reach", f"nc -w 5 {host} {port} < /dev/null && echo reached; nc -w 1 {host} 1 || echo refused")
        self.assertIn("reached", text)
        self.assertIn("refused", text)

    def test_the_image_of_berth_runs(self):
        archive = self.cluster.folder / "berth.tar"
        subprocess.run([ROOT / "tools" / "image", "--out", archive, "--name", "localhost/berth:test"], check=True,
                       capture_output=True)
        self.cluster.nodes["n0"].load(archive)
        program = ROOT / "build" / "bin" / "berth"
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.run_pod("berth", "--version", image="localhost/berth:test"), said)

    def test_the_second_runtime_handler_is_asked(self):
        self.admin.create("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        self.run_pod("handler", "true", runtimeClassName="nvidia")
        self.assertTrue(any(" create " in call for call in self.cluster.nodes["n0"].nvidia_calls()))

    def test_containers_live_through_restarts_of_kubelet_and_containerd(self):
        node = self.cluster.nodes["n1"]
        (pod,) = self.admin.create_pods([objects.pod("lives", containers=[objects.container(args=["sleep 1000"])])])
        self.admin.bind(pod, "n1")
        self.admin.until(lambda: self.admin.pod("lives")["status"]["phase"] == "Running", "it runs", 60)
        started = self.admin.pod("lives")["status"]["containerStatuses"][0]["containerID"]
        node.kill("kubelet")
        node.kill("containerd")
        node.start_containerd()
        node.start_kubelet()
        self.run_pod("after", "true", "n1")
        status = self.admin.pod("lives")["status"]["containerStatuses"][0]
        self.assertEqual((status["containerID"], status["restartCount"]), (started, 0))

    def test_the_usual_places_are_where_programs_of_a_node_look_for_them(self):
        for node in self.cluster.nodes.values():
            listed = node.run("ls", "/var/lib/kubelet/device-plugins", "/run/containerd", "/run/nri")
            for name in ("kubelet.sock", "containerd.sock", "nri.sock"):
                self.assertIn(name, listed)

    def test_nodes_report_their_handlers(self):
        status = json.loads(self.cluster.kubectl("get", "node", "n0", "-o", "json"))["status"]
        self.assertLessEqual({"runc", "nvidia"}, {h["name"] for h in status["runtimeHandlers"]})


class KilledNodes(unittest.TestCase):
    """A test with nodes that is killed: processes, mounts and the folder go at once, the cgroups with the next test."""

    def test_nothing_is_left(self):
        script = ("import sys, time; sys.path.insert(0, sys.argv[1]); from cluster.with_nodes import Cluster\n"
                  "cluster = Cluster().start(); print(cluster.folder, cluster.identity, flush=True); time.sleep(60)")
        here = str(Path(__file__).resolve().parent)
        with subprocess.Popen([sys.executable, "-B", "-c", script, here], stdout=subprocess.PIPE, text=True) as test:
            folder, identity = test.stdout.readline().split()
            test.kill()
            test.wait()

        def all_but_cgroups():
            return [trace for trace in traces(folder, identity) if not trace.startswith("/sys/fs/cgroup")]

        deadline = time.monotonic() + 30
        while all_but_cgroups() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(all_but_cgroups(), [])
        with tempfile.TemporaryDirectory() as temporary:
            sweep_after_the_killed(temporary)
        self.assertEqual(traces(folder, identity), [])


if __name__ == "__main__":
    unittest.main()
