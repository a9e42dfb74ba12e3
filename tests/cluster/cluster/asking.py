"""The other end of keeper.py: asks it to start, signal and end programs."""

import json
import socket
import threading
import time


class KeeperError(Exception):
    """The keeper refused, or is gone."""


class Asking:
    """A connection to the keeper behind a Unix socket; threads take turns."""

    def __init__(self, path, seconds=10):
        self.path = path
        self.socket = None
        deadline = time.monotonic() + seconds
        while self.socket is None:
            attempt = socket.socket(socket.AF_UNIX)
            try:
                attempt.connect(str(path))
                self.socket = attempt
            except OSError as error:
                attempt.close()
                if time.monotonic() > deadline:
                    raise KeeperError(f"nobody keeps {path}: {error}") from None
                time.sleep(0.01)
        self.stream = self.socket.makefile("rb")
        self.lock = threading.Lock()

    def ask(self, op, **fields):
        try:
            with self.lock:
                self.socket.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
                line = self.stream.readline()
        except OSError as error:
            raise KeeperError(f"the keeper of {self.path} is gone: {error}") from None
        if not line:
            raise KeeperError(f"the keeper of {self.path} is gone")
        answer = json.loads(line)
        if "error" in answer:
            raise KeeperError(answer["error"])
        return answer

    def start(self, name, argv, log, env=None):
        """Starts a program; its pid as the keeper sees it."""
        return self.ask("start", name=name, argv=[str(a) for a in argv], log=str(log), env=env or {})["pid"]

    def signal(self, name, number):
        self.ask("signal", name=name, signal=int(number))

    def wait(self, name, seconds=20):
        """The exit status, 128 + N after signal N; nothing if it still runs then."""
        return self.ask("wait", name=name, seconds=seconds)["status"]

    def listens(self, port):
        return self.ask("connect", port=port)["accepted"]

    def programs(self):
        return self.ask("list")["programs"]

    def end(self):
        self.ask("end")
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()
