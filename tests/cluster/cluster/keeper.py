"""Starts the programs of a cluster and ends them, whatever happens to whoever asked for them.

    python3 -B keeper.py --socket PATH [--tied] [--remove FOLDER]

One process per cluster. It is asked over a Unix socket, one JSON object per line, one answer per line:

    {"op": "start", "name": N, "argv": [...], "env": {...}, "log": FILE}    -> {"pid": P}
    {"op": "signal", "name": N, "signal": 9}                                -> {}
    {"op": "wait", "name": N, "seconds": S}                                 -> {"status": X}, null while it runs
    {"op": "connect", "port": P}                                            -> {"accepted": true} if somebody listens there
    {"op": "list"}                                                          -> {"programs": {N: {"pid", "status"}}}
    {"op": "end"}                                                           -> {} when all have ended; then it ends too

`--tied` ends everything when standard input is closed, and `--remove FOLDER` then deletes that folder: so a test that is killed
leaves nothing. Every program gets
SIGKILL from the kernel when the keeper itself dies. In a PID namespace it is the first process and reaps for all.
Errors are answered as {"error": TEXT}.
"""

import argparse
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
TERM_SECONDS = 5  # from SIGTERM to SIGKILL at the end
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def exit_status(raw):
    """As a shell shows it: 128 + the signal for a program that was killed."""
    code = os.waitstatus_to_exitcode(raw)
    return code if code >= 0 else 128 - code


class Program:
    def __init__(self, pid):
        self.pid = pid
        self.status = None


class Keeper:
    def __init__(self, path):
        self.programs = {}
        self.waiting = []  # (connection, name, deadline)
        self.ending = False
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.path = path

    def accept(self):
        connection, _ = self.listener.accept()
        buffered = bytearray()
        self.selector.register(connection, selectors.EVENT_READ, lambda: self.read(connection, buffered))

    def read(self, connection, buffered):
        data = connection.recv(65536)
        if not data:
            self.selector.unregister(connection)
            connection.close()
            return
        buffered += data
        while b"\n" in buffered:
            line, _, rest = bytes(buffered).partition(b"\n")
            buffered[:] = rest
            try:
                answer = self.do(connection, json.loads(line))
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            if answer is not None:
                self.answer(connection, answer)

    @staticmethod
    def answer(connection, answer):
        try:
            connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # whoever asked has gone

    def do(self, connection, request):
        op = request["op"]
        if op == "start":
            return {"pid": self.start(request)}
        if op == "signal":
            self.signal(self.programs[request["name"]], request["signal"])
            return {}
        if op == "wait":
            self.waiting.append((connection, request["name"], time.monotonic() + request["seconds"]))
            return None
        if op == "connect":
            return {"accepted": self.connect(request["port"])}
        if op == "list":
            return {"programs": {n: {"pid": p.pid, "status": p.status} for n, p in self.programs.items()}}
        if op == "end":
            self.end()
            self.answer(connection, {})
            self.ending = True
            return None
        raise ValueError(f"unknown op {op!r}")

    def start(self, request):
        known = self.programs.get(request["name"])
        if known and known.status is None:
            raise ValueError(f"{request['name']} runs already")
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        failed, tell = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                _die_with_parent()
                os.dup2(nothing, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                os.execvpe(request["argv"][0], request["argv"], {**os.environ, **request.get("env", {})})
            except OSError as error:
                os.write(tell, str(error).encode())
            finally:
                os._exit(127)
        os.close(log)
        os.close(nothing)
        os.close(tell)
        reason = os.read(failed, 4096).decode()
        os.close(failed)
        if reason:
            os.waitpid(pid, 0)
            raise ValueError(f"{request['argv'][0]} does not start: {reason}")
        self.programs[request["name"]] = Program(pid)
        return pid

    @staticmethod
    def connect(port):
        """On the loopback interface, which may be that of a box."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    @staticmethod
    def signal(program, number):
        if program.status is None:
            os.kill(program.pid, number)

    def reap(self):
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for program in self.programs.values():
                if program.pid == pid and program.status is None:
                    program.status = exit_status(raw)

    def answer_waiting(self):
        left = []
        for connection, name, deadline in self.waiting:
            program = self.programs.get(name)
            status = program.status if program else None
            if status is None and time.monotonic() < deadline:
                left.append((connection, name, deadline))
            else:
                self.answer(connection, {"status": status})
        self.waiting = left

    def end(self):
        """Last started, first ended: nothing outlives what it needs."""
        for program in reversed(list(self.programs.values())):
            self.signal(program, signal.SIGTERM)
            deadline = time.monotonic() + TERM_SECONDS
            while program.status is None:
                self.reap()
                if program.status is None and time.monotonic() > deadline:
                    self.signal(program, signal.SIGKILL)
                time.sleep(0.01)

    def run(self, tied):
        wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 4096))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "ending", True))
        if tied:
            self.selector.register(sys.stdin, selectors.EVENT_READ, self.untied)
        while not self.ending:
            nearest = min((deadline for _, _, deadline in self.waiting), default=None)
            timeout = None if nearest is None else max(0, nearest - time.monotonic())
            for key, _ in self.selector.select(timeout):
                key.data()
            self.reap()
            self.answer_waiting()
        self.end()

    def untied(self):
        if not os.read(sys.stdin.fileno(), 4096):
            self.ending = True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", required=True)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--remove", metavar="FOLDER")
    arguments = parser.parse_args()
    Keeper(arguments.socket).run(arguments.tied)
    if arguments.remove:
        shutil.rmtree(arguments.remove, ignore_errors=True)


if __name__ == "__main__":
    main()
