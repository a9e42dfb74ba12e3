"""Two users of one machine and a daemon of root's: one set of books, and nobody in the other's way."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import BERTH, Daemon, soon

ALICE, BOB = 65_531, 65_532


def as_user(uid):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]


class TwoUsers(unittest.TestCase):
    """The daemon's state directory is one that it makes itself, not the machine's."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("two users take root")
        if subprocess.run([*as_user(ALICE), BERTH, "version"], capture_output=True).returncode != 0:
            self.skipTest("an unprivileged user cannot reach the program here")
        self.folder = Path(tempfile.mkdtemp(prefix="berth-users-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)

    def start_daemon(self):
        self.daemon = Daemon(simulate="1x16GiB", folder=self.folder).__enter__()
        self.addCleanup(lambda: self.daemon.__exit__())
        self.environment = {"PATH": os.environ["PATH"], "HOME": "/", "BERTH_SOCKET": self.daemon.socket}

    def start(self, uid, *words):
        process = subprocess.Popen([*as_user(uid), BERTH, *words], env=self.environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def said(self, uid, *words):
        done = subprocess.run([*as_user(uid), BERTH, *words], env=self.environment, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def log(self):
        return (self.folder / "log").read_text()

    def holder(self, words):
        """alice's program, which lasts until it is given a line; what its first line says."""
        process = self.start(ALICE, "run", "--gpu-memory", "12Gi", "--", "sh", "-c", words + "; read x")
        return process, process.stdout.readline().strip()

    def test_users_limits_are_open_to_their_own_programs_alone(self):
        self.start_daemon()
        _, grant = self.holder('cat "$BERTH_GRANT_DIR/policy" > /dev/null && : >> "$BERTH_GRANT_DIR/account" && '
                               "echo $BERTH_GRANT_DIR")
        self.assertTrue(grant.startswith(str(self.folder / "state")), grant)
        for words in (["ls", grant], ["cat", f"{grant}/policy"], ["sh", "-c", f": >> {grant}/account"]):
            done = subprocess.run([*as_user(BOB), *words], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn("ermission denied", done.stderr)
        done = subprocess.run([*as_user(BOB), "ls", str(self.folder / "state")], capture_output=True, text=True)
        self.assertIn("ermission denied", done.stderr, "what lies in the state directory is root's")
        self.assertNotIn("warning", self.log())

    def test_users_who_cannot_reach_their_limits_are_told_to_the_administrator(self):
        closed = self.folder / "closed"
        (closed / "state").mkdir(parents=True)
        closed.chmod(0o700)
        (self.folder / "state").symlink_to(closed / "state")
        self.start_daemon()
        process, said = self.holder('echo "grant:$BERTH_GRANT_DIR preload:$LD_PRELOAD"')
        self.assertEqual(said, "grant: preload:", "a guard that cannot open its limits would refuse everything")
        self.assertIn(f"limits of other users' programs are advisory: they lie below {closed}, which", self.log())
        process.communicate("\n", timeout=30)
        self.assertEqual(process.returncode, 0)

    def test_users_wait_for_each_other_and_end_their_own_alone(self):
        self.start_daemon()
        self.holder("echo here")
        waits = self.start(BOB, "run", "--gpu-memory", "8Gi", "--", "true")
        everything = lambda: self.daemon.call("GET", "/v1/leases?state=live").json["leases"]  # noqa: E731
        self.assertTrue(soon(lambda: len(everything()) == 2))
        alices, bobs = sorted((lease["id"] for lease in everything()), key=lambda i: i)
        for uid, own, foreign, owner in ((ALICE, alices, bobs, BOB), (BOB, bobs, alices, ALICE)):
            _, shown, _ = self.said(uid, "ps")
            self.assertIn(own, shown)
            self.assertNotIn(foreign, shown)
            for verb in ("why", "cancel"):
                status, _, words = self.said(uid, verb, foreign)
                self.assertEqual((status, words.splitlines()[0]),
                                 (1, f"berth {verb}: lease {foreign} belongs to uid:{owner}"))
        self.assertEqual(len(everything()), 2)
        self.assertEqual(self.said(BOB, "cancel", bobs)[0], 0)
        waits.communicate(timeout=30)
        self.assertEqual(waits.returncode, 1)


if __name__ == "__main__":
    unittest.main()
