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

from . import box
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
        self.listener = None
        self.identity = None

    def _prepare(self):
        if os.geteuid() != 0:
            raise StartFailed("a node needs root: namespaces, mounts and cgroups are made for it")
        for group in ("node", "controllers") if self.controllers else ("node",):
            program("kubelet", group)
        super()._prepare()
        self.identity = f"{os.getpid()}-{os.urandom(3).hex()}"
        names = [f"n{number}" for number in range(self.kubelets)]
        for name in names:
            self.users[f"system:node:{name}"] = (os.urandom(16).hex(), f"system:node:{name}", ["system:nodes"])
        self.write_tokens()
        # Opened out here, served in there.
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.ports["api"] = self.listener.getsockname()[1]
        certificate, key = self.admin_certificate
        self.flags += [f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}",
                       "--kubelet-preferred-address-types=InternalIP"]

    @property
    def inner_server(self):
        """The API server as pods and kubelets reach it."""
        return f"https://{box.ADDRESS}:{self.ports['api']}"

    def box_command(self, *arguments):
        return [sys.executable, "-B", str(HERE / "box.py"), "--id", self.identity, "--folder", str(self.folder), *arguments]

    def keeper_command(self, command):
        return self.box_command("--", *command, "--fd", str(self.listener.fileno()))

    def keeper_fds(self):
        return (self.listener.fileno(),)

    def start_api_server(self):
        fd = self.listener.fileno()
        if "relay" not in self.keeper.programs():
            self.launch("relay", [sys.executable, "-B", HERE / "relay.py", fd, "127.0.0.1", self.ports["api"]], fds=(fd,))
            self.listener.close()
        super().start_api_server()

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
        if self.listener is not None:
            self.listener.close()
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
        programs = self.keeper.programs()
        for number in range(self.kubelets):
            node = self.nodes[f"n{number}"] = Node(self, f"n{number}", number)
            node.room = programs.get(f"n{number}-room", {}).get("pid")
        return self


def box_pid(path):
    """The pid, on this machine, of who serves a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        return int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
