"""`berth scheduler` beside a control plane, for the tests of this folder."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BERTH = ROOT / "build" / "bin" / "berth"
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from cluster.control_plane import free_port  # noqa: E402

# The least that deploy/kubernetes/accounts.yaml gives it.
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims"],
     "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["storage.k8s.io"],
     "resources": ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["persistentvolumes", "persistentvolumeclaims"], "verbs": ["update", "patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "update"]},
]


class Scheduler:
    """One process. `settings`: lines of its configuration besides those that a cluster without webhook and agent needs."""

    def __init__(self, kubeconfig, *words, settings=""):
        self.folder = tempfile.TemporaryDirectory(prefix="berth-scheduler-")
        configuration = Path(self.folder.name) / "scheduler.yaml"
        configuration.write_text("allowAdvisory: true\nrequireAdmission: false\n" + settings)
        self.port = free_port()
        self.words = [BERTH, "scheduler", "--kubeconfig", kubeconfig, "--config", configuration,
                      "--listen", f"127.0.0.1:{self.port}", *words]
        self.log = Path(self.folder.name) / "log"
        self.process = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.process.wait(20)

    def restart(self):
        self.kill()
        self.start()

    def end(self):
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)
        self.folder.cleanup()

    def text(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def get(self, path):
        return json.loads(self.text(path)[1])

    def wait_ready(self, seconds=30):
        until(lambda: self.text("/readyz")[0] == 200, seconds, lambda: f"not ready: {self.text('/readyz')}\n{self.tail()}")

    def metric(self, name):
        for line in self.text("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return 0.0

    def rss_mib(self):
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def tail(self, lines=15):
        return "\n".join(self.log.read_text().splitlines()[-lines:])


def until(condition, seconds=20, why=lambda: "it did not come"):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s: {why()}")
        time.sleep(0.05)
