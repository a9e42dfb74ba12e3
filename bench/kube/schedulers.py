"""The schedulers that are compared: each is a command line and a user, the same for all."""

import json
import os
import shlex
from pathlib import Path

from cluster import program

TICKS = os.sysconf("SC_CLK_TCK")
NAME = "berth-scheduler"

class Running:
    """A scheduler that was started on a plane: its CPU time and memory, as the kernel counts them."""

    def __init__(self, plane, name, argv):
        self.plane = plane
        self.name = name
        self.pid = plane.launch(name, argv)

    def cpu_ms(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / TICKS

    def rss_mib(self):
        """The most it ever had."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"{self.name} has ended")

    def alive(self):
        return self.plane.keeper.programs()[self.name]["status"] is None

    def end(self):
        self.plane.kill(self.name, 15)


class Null:
    """Binds everything to the next node: what the API server allows."""

    name = "null binder"

    def __init__(self, whole=False):
        self.whole = whole

    def argv(self, plane):
        return [program("nullbinder", "scheduler"), f"--kubeconfig={plane.kubeconfig()}", f"--scheduler-name={NAME}",
                f"--whole={str(self.whole).lower()}"]


class KubeScheduler:
    """The default scheduler with its client limits lifted."""

    name = "kube-scheduler"

    def argv(self, plane):
        config = plane.folder / "kube-scheduler.json"
        config.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False}, "profiles": [{"schedulerName": NAME}],
            "clientConnection": {"kubeconfig": str(plane.kubeconfig()), "qps": 100_000, "burst": 100_000}}), encoding="utf-8")
        return [program("kube-scheduler", "scheduler"), f"--config={config}", "--secure-port=0", "--leader-elect=false"]


class UnderTest:
    """A command line in which {kubeconfig}, {config} (of Berth's) and {folder} are replaced."""

    name = "Berth"

    def __init__(self, command):
        self.command = command

    def argv(self, plane):
        config = plane.folder / "scheduler.yaml"
        # Nodes without agents, pods that came past no webhook: what is measured is the scheduler.
        config.write_text("allowAdvisory: true\nrequireAdmission: false\n", encoding="utf-8")
        places = {"kubeconfig": plane.kubeconfig(), "config": config, "folder": plane.folder}
        return [part.format(**places) for part in shlex.split(self.command)]
