"""A real daemon with devices that are not there, for tests over HTTP: `with Daemon() as daemon: daemon.call(...)`."""

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BERTH = Path(os.environ.get("BERTH_BIN_DIR", ROOT / "build" / "bin")) / "berth"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


class Daemon:
    """`berth serve` in a folder of its own, which is gone at the end. Further words go to its command line."""

    def __init__(self, *words, simulate="2x16GiB", folder=None):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="berth-api-"))
        self.owned = folder is None
        self.socket = str(self.folder / "berth.sock")
        self.words = [str(BERTH), "serve", "--listen", f"unix:{self.socket}", "--state", str(self.folder / "state")]
        self.words += ["--simulate", simulate] if simulate else []
        self.words += words
        self.process = None

    def __enter__(self):
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 20
        while True:
            try:
                if self.call("GET", "/readyz").status == 200:
                    return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"the daemon did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        if self.owned:
            self.ended_log = (self.folder / "log").read_text()
            shutil.rmtree(self.folder)

    def call(self, method, path, body=None, headers=None, timeout=30):
        connection = UnixConnection(self.socket, timeout)
        try:
            text = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
            connection.request(method, path, text, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()


class Bridge:
    """A TCP port on the loopback address that leads to a Unix socket, for clients that know no such sockets."""

    def __init__(self, path):
        self.path = path
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started):
        async def pump(reader, writer):
            try:
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        async def serve(reader, writer):
            inner_reader, inner_writer = await asyncio.open_unix_connection(self.path)
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

        async def begin():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            started.set()

        self.loop.run_until_complete(begin())
        self.loop.run_forever()
