"""A real node: containerd, runc and kubelet, in mounts of their own inside the box of a cluster.

To a program in the node everything is where it is on any node: /var/lib/kubelet, /run/containerd/containerd.sock,
/var/run/nri/nri.sock, /etc/cdi. /run, /var/lib and /var/log are tmpfs and go with the node.
"""

import json
import signal
import subprocess

from . import box, images, kubeconfig
from .programs import program

RUNC = "/usr/sbin/runc"

CONTAINERD = """version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
      BinaryName = "{folder}/nvidia-runc"
      SystemdCgroup = false
"""

# The second handler, RuntimeClass `nvidia`: runc too, and it notes what it was asked.
NVIDIA_RUNC = """#!/bin/sh
echo "$*" >> {folder}/nvidia-runc.log
exec {runc} "$@"
"""

# Everything that a node's programs write outside of the cluster's folder lies on tmpfs. The kubelet would also set these kernel
# flags, for the whole machine: it finds them as it wants them, in files of the room.
KERNEL_FLAGS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
                "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}
ROOM = """set -e
for place in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs $place; done
mkdir -p /run/netns /run/lock /var/lib/kubelet
while read -r flag value; do
  mkdir -p "/run/kernel-flags/${{flag%/*}}"
  echo "$value" > "/run/kernel-flags/$flag"
  mount --bind "/run/kernel-flags/$flag" "/proc/sys/$flag"
done << FLAGS
{flags}
FLAGS
mount --make-rshared /
for hierarchy in /sys/fs/cgroup/*; do mkdir -p "$hierarchy/{name}"; done
echo "the node's room is ready"
exec sleep infinity
"""


class Node:
    """`number` tells the nodes of a cluster apart: ports and addresses come from it."""

    def __init__(self, cluster, name, number):
        self.cluster, self.name, self.number = cluster, name, number
        self.folder = cluster.folder / "nodes" / name
        self.port = 10250 + number
        self.room = None

    def log(self, what):
        return self.cluster.log(f"{self.name}-{what}")

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        room = f"{self.name}-room"
        flags = "\n".join(f"{flag} {value}" for flag, value in KERNEL_FLAGS.items())
        self.room = self.cluster.launch(room, ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                               ROOM.format(name=self.name, flags=flags)])
        self.cluster.ready(room, lambda: "is ready" in self.log("room").read_text(encoding="utf-8"))
        self.start_containerd()
        for image in images.make(self.cluster.folder / "images"):
            self.load(image)
        self.start_kubelet()
        return self

    def _configure(self):
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(pause=images.PAUSE, folder=self.folder, runc=RUNC))
        wrapper = self.folder / "nvidia-runc"
        wrapper.write_text(NVIDIA_RUNC.format(folder=self.folder, runc=RUNC))
        wrapper.chmod(0o755)
        (self.folder / "cni").mkdir(exist_ok=True)
        (self.folder / "cni" / "10-test.conflist").write_text(json.dumps({
            "cniVersion": "1.0.0", "name": "test", "plugins": [{"type": "ptp", "ipam": {
                "type": "host-local", "routes": [{"dst": "0.0.0.0/0"}],
                "ranges": [[{"subnet": f"10.98.{self.number}.0/24"}]]}}]}))
        (self.folder / "kubelet.json").write_text(json.dumps({
            "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": str(self.cluster.ca)}},
            "authorization": {"mode": "Webhook"}, "port": self.port, "healthzPort": 0, "readOnlyPort": 0,
            "failCgroupV1": False, "failSwapOn": False, "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.name}",
            "enforceNodeAllocatable": [], "localStorageCapacityIsolation": False, "resolvConf": "",
            "volumePluginDir": str(self.folder / "volume-plugins"), "evictionHard": {"memory.available": "100Mi"}, "registerNode": True,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            # A test does not wait for what a large cluster is spared.
            "nodeStatusUpdateFrequency": "2s", "syncFrequency": "10s"}))
        user = f"system:node:{self.name}"
        token = self.cluster.users[user][0]
        kubeconfig.write(self.folder / "kubeconfig", self.cluster.inner_server, self.cluster.ca, {"token": token})

    # --- programs ----------------------------------------------------------------------------

    def inside(self, *command):
        """The command line that runs a command in the node, for a program that the keeper starts."""
        return ["nsenter", f"--mount=/proc/{self.room}/ns/mnt", "--", *command]

    def run(self, *command, check=True):
        """Runs a command in the node and waits: its output."""
        done = subprocess.run(self.cluster.enter(*self.inside(*map(str, command))), capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start_containerd(self):
        name = f"{self.name}-containerd"
        folder = program("containerd", "node").parent
        before = self.boots_of_containerd()  # the log goes on over restarts
        # The shim is looked for on the PATH.
        self.cluster.launch(name, self.inside(folder / "containerd", "--config", self.folder / "containerd.toml"),
                            {"PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"})
        self.cluster.ready(name, lambda: self.boots_of_containerd() > before)

    def boots_of_containerd(self):
        log = self.log("containerd")
        return log.read_text(errors="replace").count("containerd successfully booted") if log.exists() else 0

    def start_kubelet(self):
        self.cluster.launch(f"{self.name}-kubelet", self.inside(
            program("kubelet", "node"), "--config", self.folder / "kubelet.json", "--kubeconfig", self.folder / "kubeconfig",
            "--hostname-override", self.name, "--cert-dir", self.folder / "kubelet-pki",
            "--node-ip", box.ADDRESS,  # else it looks up its name for ten seconds, again and again: there is no name server
            "--v=2"),
            {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def kill(self, what, number=signal.SIGKILL):
        """kubelet or containerd, as by kill -9; containers go on."""
        return self.cluster.kill(f"{self.name}-{what}", number)

    def load(self, archive):
        """An image from an archive: no registry exists here."""
        self.run(program("ctr", "node"), "-n", "k8s.io", "images", "import", "--all-platforms", archive)

    def is_ready(self):
        for node in self.cluster.admin.list("/api/v1/nodes"):
            if node["metadata"]["name"] == self.name:
                return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        return False

    def until_ready(self, seconds=60):
        self.cluster.admin.until(self.is_ready, f"node {self.name} is Ready; see {self.log('kubelet')}", seconds)
        return self

    def stop(self):
        """Ends what runs on the node, containers and all."""
        for what in ("kubelet", "containerd"):
            self.kill(what, signal.SIGTERM)
        self.kill("room")

    def nvidia_calls(self):
        """What the second runtime handler was asked, line by line."""
        log = self.folder / "nvidia-runc.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


