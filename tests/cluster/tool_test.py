"""tools/cluster, as an engineer uses it."""

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster.asking import Asking  # noqa: E402
from cluster.programs import ROOT  # noqa: E402
from cluster.with_nodes import box_pid  # noqa: E402


class Tool(unittest.TestCase):
    def setUp(self):
        self.name = f"tool-test-{os.getpid()}"
        self.addCleanup(self.tool, "down", "--name", self.name, status=None)

    def tool(self, verb, *arguments, status=0):
        done = subprocess.run([ROOT / "tools" / "cluster", verb, *arguments], capture_output=True, text=True, check=False)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def folder(self, said):
        line = next(line for line in said.splitlines() if line.startswith("export KUBECONFIG="))
        return Path(line.partition("=")[2]).parent

    def test_up_status_kubectl_down(self):
        folder = self.folder(self.tool("up", "--name", self.name, "--nodes", "2"))
        config = json.loads((folder / "admin.kubeconfig").read_text(encoding="utf-8"))
        self.assertIn(config["clusters"][0]["cluster"]["server"], self.tool("status"))
        self.assertIn("node/sim1", self.tool("kubectl", "--name", self.name, "get", "nodes", "-o", "name"))
        self.assertIn("runs already", self.tool("up", "--name", self.name, status=1))
        self.tool("down", "--name", self.name)
        self.assertFalse(folder.exists())
        self.assertIn("there is no cluster", self.tool("kubectl", "--name", self.name, "get", "nodes", status=1))

    def test_what_was_killed_is_cleared_away_and_made_anew(self):
        folder = self.folder(self.tool("up", "--name", self.name))
        keeper = Asking(folder / "keeper.sock")
        programs = keeper.programs()
        keeper.close()
        os.kill(box_pid(folder / "keeper.sock"), signal.SIGKILL)
        for program in programs.values():
            self.until_gone(program["pid"])
        self.assertIn(f"{self.name}: ended", self.tool("status"))
        self.tool("up", "--name", self.name)
        self.tool("down", "--name", self.name)
        self.assertFalse(folder.exists())

    def until_gone(self, pid):
        for _ in range(200):
            if not Path(f"/proc/{pid}").exists():
                return
            subprocess.run(["sleep", "0.05"], check=True)
        self.fail(f"process {pid} goes on")


if __name__ == "__main__":
    unittest.main()
