"""A whole cluster: a control plane and real nodes, in a box of their own (box.py).

    with Cluster(kubelets=1) as cluster:
        node = cluster.nodes["n0"].until_ready()

The machine reaches the API server at `cluster.server`, on the loopback interface, as the box does. `enter()` leads into
the box. Needs root.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

from . import box
from .asking import Asking
from .control_plane import ControlPlane, StartFailed
from .node import Node
from .programs import HERE, program


class Cluster(ControlPlane):
    """Nodes of real kubelets are called n0, n1, …"""

    host = "0.0.0.0"  # in the box: its loopback interface, and the address that pods reach

    def __init__(self, kubelets=1, **options):
        super().__init__(**options)
        self.kubelets = kubelets
        self.nodes = {}
        self.identity = None

    def _prepare(self):
        if os.geteuid() != 0:
            raise StartFailed("a node needs root: namespaces, mounts and cgroups are made for it")
        for group in ("node", "controllers") if self.controllers else ("node",):
            program("kubelet", group)
        super()._prepare()
        self.identity = f"{'kept' if self.keep else os.getpid()}-{os.urandom(3).hex()}"
        sweep_after_the_killed(self.folder)
        names = [f"n{number}" for number in range(self.kubelets)]
        for name in names:
            self.users[f"system:node:{name}"] = (os.urandom(16).hex(), f"system:node:{name}", ["system:nodes"])
        self.write_tokens()
        certificate, key = self.admin_certificate
        self.flags += [f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}",
                       "--kubelet-preferred-address-types=InternalIP",
                       # Webhooks are reached at the addresses of their pods: no kube-proxy is needed.
                       "--enable-aggregator-routing=true"]

    @property
    def inner_server(self):
        """The API server as pods and kubelets reach it."""
        return f"https://{box.ADDRESS}:{self.ports['api']}"

    def box_command(self, *arguments):
        return [sys.executable, "-B", str(HERE / "box.py"), "--id", self.identity, "--folder", str(self.folder), *arguments]

    def _keep(self):
        self.outside = self.start_keeper("outside")
        self.keeper = self.start_keeper("keeper", lambda command: self.box_command("--", *command), last=False)
        self.expose(self.ports["api"])
        # What kube-proxy would do for the one service that every pod is told of.
        self.launch("kubernetes-service", [sys.executable, "-B", HERE / "relay.py", f"{box.SERVICE}:443",
                                           f"127.0.0.1:{self.ports['api']}"])

    def expose(self, port):
        """The port has the same number out here."""
        name, inside = f"relay-{port}", f"/proc/{box_pid(self.folder / 'keeper.sock')}/ns/net"
        here = f"127.0.0.1:{port}"
        self.launch(name, [sys.executable, "-B", HERE / "relay.py", here, here, inside], outside=True)
        self.ready(name, lambda: self.outside.listens(port), outside=True)

    def start(self):
        super().start()
        try:
            for number in range(self.kubelets):
                self.nodes[f"n{number}"] = Node(self, f"n{number}", number).start()
        except BaseException:
            self.end()
            raise
        return self

    def enter(self, *command):
        """The command line that runs a command in the box, for a process of this machine."""
        pid = str(box_pid(self.folder / "keeper.sock"))
        return ["nsenter", "-t", pid, "--net", "--mount", "--pid", "--cgroup", "--", *command]

    def clean(self):
        if self.identity:
            done = subprocess.run(self.box_command("--sweep"), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"the box left cgroups behind: {done.stderr}")

    def facts(self):
        return {**super().facts(), "identity": self.identity, "kubelets": self.kubelets}

    def load(self, facts):
        super().load(facts)
        self.identity, self.kubelets = facts["identity"], facts["kubelets"]

    def attach(self):
        super().attach()
        self.outside = Asking(self.folder / "outside.sock", seconds=1)
        programs = self.keeper.programs()
        for number in range(self.kubelets):
            node = self.nodes[f"n{number}"] = Node(self, f"n{number}", number)
            node.room = programs.get(f"n{number}-room", {}).get("pid")
        return self


def sweep_after_the_killed(folder):
    """A test that is killed cannot remove the cgroups of its box: the next one does. The name has the pid of who made it."""
    for cgroup in Path("/sys/fs/cgroup").glob("*/**/berth-cluster-*"):
        identity = cgroup.name.removeprefix("berth-cluster-")
        maker = identity.partition("-")[0]
        if maker.isdigit() and not Path(f"/proc/{maker}").exists():
            subprocess.run([sys.executable, "-B", str(HERE / "box.py"), "--id", identity, "--folder", str(folder), "--sweep"],
                           capture_output=True, check=False)


def box_pid(path):
    """The pid, on this machine, of who serves a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        return int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
