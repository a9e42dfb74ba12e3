"""`berth run` on a real terminal under a real shell: job control, status line, Ctrl-C."""

import os
import pty
import re
import select
import signal
import time
import unittest
from pathlib import Path

from harness import BERTH, RunTest, children, soon


class Terminal:
    """A shell with job control on a terminal of its own."""

    def __init__(self, environment):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       {**environment, "PS1": "$ ", "TERM": "dumb", "HISTFILE": ""})
        self.pid = pid
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, seconds=15):
        """Waits for it; what was seen up to it is used up."""
        until = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise AssertionError(f"{pattern!r} was not seen in {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def close(self):
        for pid in [*children(self.pid), self.pid]:
            for below in [*children(pid), pid]:
                try:
                    os.kill(below, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class OnATerminal(RunTest):
    def setUp(self):
        super().setUp()
        self.terminal = Terminal(self.environment)
        self.addCleanup(self.terminal.close)

    def test_job_control_is_the_shells(self):
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- cat\n")
        self.assertTrue(soon(lambda: self.leases("active")))
        t.type("one\n")
        t.expect("one\r\none")
        t.type("\x1a")
        t.expect(r"\[1\]\+ +Stopped")
        t.type("jobs; echo $((6*7))\n")
        t.expect("42")
        t.type("fg\n")
        t.expect("run --gpu-memory")
        t.type("two\n")
        t.expect("two\r\ntwo")
        t.type("\x03")
        t.expect(r"\$ ")
        t.type("echo status=$?\n")
        t.expect("status=130")
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"))

    def test_a_stopped_program_keeps_its_lease(self):
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- cat\n")
        self.assertTrue(soon(lambda: self.leases("active")))
        time.sleep(1.3)
        t.type("\x1a")
        t.expect("Stopped")
        (run,) = [p for p in children(t.pid)]
        states = {Path(f"/proc/{p}/comm").read_text().strip(): self.state_of(p) for p in [run, *children(run)]}
        self.assertEqual((states["berth"], states["cat"]), ("T", "T"))
        self.assertNotEqual(states["berth-keeper"], "T", "it goes on renewing")
        t.type("kill %1; fg\n")
        t.expect("Terminated")

    @staticmethod
    def state_of(pid):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def test_in_a_pipeline_the_last_has_the_terminal(self):
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- sh -c 'echo a; sleep 0.2; echo b' | (read x </dev/tty; cat)\n")
        self.assertTrue(soon(lambda: self.leases("active", "released")))
        t.type("key\n")
        t.expect("a\r\nb\r\n")

    def test_the_line_of_a_waiter_is_written_over_and_goes(self):
        holder = self.start_holder()
        t = self.terminal
        t.type(f"TERM=xterm {BERTH} run --gpu-memory 4Gi -- echo started\n")
        t.expect(r"\rberth run: waiting, place 1 of 1")
        t.expect(r"\rberth run: waiting, place 1 of 1")
        holder.terminate()
        t.expect(r"\r\x1b\[Kberth run: GPU \d of .* after \d+s\r\n")
        t.expect("started")

    def test_on_a_dumb_terminal_nothing_is_written_over(self):
        holder = self.start_holder()
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- echo started\n")
        t.expect(r"\nberth run: waiting, place 1 of 1[^\x1b]*\r\n")
        holder.terminate()
        t.expect(r"^berth run: GPU \d of .* after \d+s\r\n")
        t.expect("started")

    def test_ctrl_c_while_it_waits_leaves_the_queue(self):
        self.start_holder()
        t = self.terminal
        t.type(f"{BERTH} run --gpu-memory 4Gi -- echo started\n")
        t.expect("waiting, place")
        t.type("\x03")
        t.expect("left the queue")
        t.type("echo status=$?\n")
        t.expect("status=130")
        self.assertEqual(self.leases("waiting"), [])

    def test_a_terminal_that_goes_away_ends_a_program_with_no_shell_between(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(BERTH, [BERTH, "run", "--gpu-memory", "4Gi", "--", "sleep", "1000"], self.environment)
        self.assertTrue(soon(lambda: self.leases("active")))
        os.close(fd)
        ended = soon(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.assertTrue(ended)
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"))


if __name__ == "__main__":
    unittest.main()
