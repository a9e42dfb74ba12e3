"""What the tests of `berth run` share: a real daemon with devices that are not there, and looks at processes."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))
from daemon import BERTH, Daemon  # noqa: E402

CARDS = "2x16GiB"


def soon(condition, seconds=15):
    """Waits until `condition()` is true; the last value of it."""
    until = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < until:
        time.sleep(0.01)
    return value


def lives(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def children(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class RunTest(unittest.TestCase):
    files = {}  # name of an option of the daemon -> content of its file

    def setUp(self):
        words = []
        for option, content in self.files.items():
            path = Path(tempfile.mkdtemp(prefix="berth-run-")) / "file.yaml"
            self.addCleanup(shutil.rmtree, path.parent)
            path.write_text(content)
            words += [option, str(path)]
        self.daemon = Daemon(*words, simulate=CARDS).__enter__()
        self.addCleanup(lambda: self.daemon.__exit__())
        self.folder = self.daemon.folder
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "CUDA_", "NVIDIA_", "LD_PRELOAD"))},
            "BERTH_SOCKET": self.daemon.socket,
        }
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            for pid in [process.pid, *children(process.pid)]:
                if process.poll() is None or pid != process.pid:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def run_berth(self, *words, **more):
        """`berth run WORDS` to its end."""
        return subprocess.run(
            [BERTH, "run", *words], capture_output=True, text=True, timeout=60, env=self.environment, **more
        )

    def start(self, *words, **more):
        process = subprocess.Popen(
            [BERTH, "run", *words],
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=more.pop("env", self.environment),
            **more,
        )
        self.started.append(process)
        return process

    def start_holder(self, *words):
        """Takes both cards whole with a program that lasts; its lease."""
        process = self.start("--gpus", "2", *words, "--", "sleep", "1000")
        self.assertTrue(soon(lambda: self.leases("active")), "the holder got no place")
        return process

    def leases(self, *states):
        all_leases = self.daemon.call("GET", "/v1/leases").json["leases"]
        return [lease for lease in all_leases if not states or lease["state"] in states]

    def lease(self):
        (lease,) = self.leases()
        return lease

    def read_line(self, stream):
        ready, _, _ = select.select([stream], [], [], 15)
        self.assertTrue(ready, "nothing was said")
        return stream.readline()
