"""`berth run` where no daemon runs: it starts one and says so."""

import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from harness import BERTH


class StartsADaemon(unittest.TestCase):
    """Of a user for whom none runs. Not as root, whose daemon would be the machine's."""

    def setUp(self):
        self.home = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.as_user = []
        if os.geteuid() == 0:
            os.chown(self.home, 65534, 65534)
            self.as_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            if subprocess.run([*self.as_user, BERTH, "version"], capture_output=True).returncode != 0:
                self.skipTest("an unprivileged user cannot reach the program here")
        if os.path.exists("/run/berth/berth.sock"):
            self.skipTest("this machine has a daemon")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home / "run")}
        (self.home / "run").mkdir()
        if self.as_user:
            os.chown(self.home / "run", 65534, 65534)

    def run_berth(self, *words):
        return subprocess.run([*self.as_user, BERTH, "run", *words], capture_output=True, text=True, timeout=60,
                              env=self.environment)

    def daemons(self):
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue
                if words[:2] == ["berth", "serve"] and any(str(self.home) in word for word in words):
                    found.append(int(entry.name))
        return found

    def test_and_says_so_once(self):
        self.addCleanup(lambda: [os.kill(pid, signal.SIGTERM) for pid in self.daemons()])
        done = self.run_berth("--gpu-memory", "4Gi", "--wait-timeout", "1s", "--", "true")
        log = self.home / ".local/state/berth/serve.log"
        self.assertTrue(done.stderr.startswith(
            f"berth run: no daemon was running, so one was started for you; its log is {log}\n"), done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(log.exists())
        (pid,) = self.daemons()
        self.assertEqual(os.getsid(pid) == os.getsid(0), False)
        again = self.run_berth("--gpu-memory", "4Gi", "--wait-timeout", "1s", "--", "true")
        self.assertNotIn("no daemon was running", again.stderr)
        self.assertEqual(self.daemons(), [pid])

    def test_but_not_where_the_machine_has_one_that_does_not_run(self):
        if os.geteuid() != 0:
            self.skipTest("a machine with a daemon takes a mount namespace")
        # The books of the machine's daemon are there, nobody listens.
        inside = ["mount -t tmpfs tmpfs /var/lib", "mkdir /var/lib/berth", 'exec "$@"']
        self.as_user = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "; ".join(inside), "sh",
                        *self.as_user]
        done = self.run_berth("--gpu-memory", "4Gi", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("berth run: the daemon of this machine does not run: nobody listens on "
                                               "/run/berth/berth.sock. `systemctl status berth` says why"), done.stderr)
        self.assertEqual(self.daemons(), [])

    def test_and_names_the_reason_when_it_cannot(self):
        state = self.home / ".local/state"
        state.mkdir(parents=True)
        (state / "berth").write_text("in the way")
        done = self.run_berth("--gpu-memory", "4Gi", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{state}/berth", done.stderr)

    def test_but_not_where_berth_socket_names_another(self):
        self.environment["BERTH_SOCKET"] = str(self.home / "other.sock")
        done = self.run_berth("--gpu-memory", "4Gi", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("but nobody listens there; start `berth serve --listen unix:", done.stderr)
        self.assertEqual(self.daemons(), [])


if __name__ == "__main__":
    unittest.main()
