"""What every test of the leases needs: a daemon of its own in a folder of its own, a client, processes that run.

    class Admission(BerthTest):
        spec = "1x16GiB"

        def test_leases_B05_the_last_mebibyte_is_granted(self):
            self.assertEqual(self.berth.reserve(memory=self.headroom())["state"], "granted")

The daemon is the real program, started per test (some 40 ms): simulated devices, and a clock that stands until
`berth.advance()`. Nothing outside the temporary folder is touched; every process that a test starts is ended with it.
"""

import http.client
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("BERTH_PROGRAM", str(ROOT / "build" / "bin" / "berth"))

# leases.md 1, the defaults, in seconds.
S, G, T, W, F, A, D = 3, 300, 120, 300, 3600, 3600, 24 * 3600

LIVE = ("waiting", "granted", "active", "suspect", "ending")
HOLDS = ("granted", "active", "suspect", "ending")


class Answer:
    """One answer: status, headers, and the body as JSON where it is JSON."""

    def __init__(self, status, headers, data):
        self.status = status
        self.headers = headers
        self.text = data.decode()
        is_json = headers.get("content-type", "").startswith("application/json")
        self.json = json.loads(data) if is_json and data else None

    @property
    def error(self):
        """The refusal of leases.md 3.5."""
        assert self.status >= 400, f"no refusal: {self.status} {self.text}"
        return self.json["error"]

    @property
    def code(self):
        return self.error["code"]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Berth:
    """A client with one connection, as one caller. For one thread."""

    keys = itertools.count(1)

    def __init__(self, address, token=None, uid=None, timeout=30):
        self.address = address
        self.token = token
        self.uid = uid
        self.timeout = timeout
        self.connection = None

    def another(self, **changes):
        """The same caller, or another one, by a connection of its own."""
        return Berth(self.address, **{"token": self.token, "uid": self.uid, "timeout": self.timeout, **changes})

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def connect(self):
        if self.address.startswith("unix:"):
            self.connection = _UnixConnection(self.address[5:], self.timeout)
        else:
            host, _, port = self.address.removeprefix("http://").rpartition(":")
            self.connection = http.client.HTTPConnection(host, int(port), timeout=self.timeout)
        if self.uid is None:
            self.connection.connect()
        else:
            # The kernel tells the daemon who connected, so that is all that has to be somebody else.
            os.setegid(self.uid)
            os.seteuid(self.uid)
            try:
                self.connection.connect()
            finally:
                os.seteuid(0)
                os.setegid(0)

    def _send(self, method, path, body, headers):
        headers = dict(headers or {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        for attempt in (1, 2):
            fresh = self.connection is None
            if fresh:
                self.connect()
            try:
                self.connection.request(method, path, body, headers)
                return self.connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # A kept connection may be gone (the daemon was started again); a fresh one may not.
                self.close()
                if fresh or attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def call(self, method, path, body=None, headers=None):
        response = self._send(method, path, body, headers)
        data = response.read()
        got = {name.lower(): value for name, value in response.getheaders()}
        if got.get("connection") == "close":
            self.close()
        return Answer(response.status, got, data)

    def ok(self, method, path, body=None, status=None):
        """The body of an answer that must be a success, or exactly `status`."""
        answer = self.call(method, path, body)
        right = answer.status == status if status else 200 <= answer.status < 300
        assert right, f"{method} {path} {body}: {answer.status} {answer.text}"
        return answer.json

    def events(self, lease, last=None):
        """Server-sent events of a lease, on a connection of its own."""
        return Events(self.another(), lease, last)

    # --- calls -------------------------------------------------------------------------------

    def ask(self, key=None, **fields):
        """POST /v1/leases, whatever comes of it."""
        fields["key"] = key if key is not None else f"k-{next(self.keys)}"
        return self.call("POST", "/v1/leases", fields)

    def reserve(self, key=None, **fields):
        """A reservation that must be accepted: the lease."""
        answer = self.ask(key, **fields)
        assert answer.status in (200, 201, 202), f"{fields}: {answer.status} {answer.text}"
        return answer.json

    def granted(self, key=None, **fields):
        answer = self.ask(key, **fields)
        assert answer.status == 201, f"{fields}: {answer.status} {answer.text}"
        return answer.json

    def waiting(self, key=None, **fields):
        answer = self.ask(key, **fields)
        assert answer.status == 202, f"{fields}: {answer.status} {answer.text}"
        return answer.json

    def running(self, key=None, pid=None, **fields):
        """A lease that was granted and confirmed. The key may be left out: `running(process.pid, memory=100)`."""
        if isinstance(key, int):
            key, pid = pid, key
        return self.confirm(self.granted(key, **fields), pid)

    def lease(self, lease):
        return self.ok("GET", f"/v1/leases/{id_of(lease)}")

    def state(self, lease):
        return self.lease(lease)["state"]

    def confirm(self, lease, pid=None, **proof):
        if pid is not None:
            proof["pid"] = pid
        return self.ok("POST", f"/v1/leases/{id_of(lease)}/confirm", proof)

    def renew(self, lease):
        return self.ok("POST", f"/v1/leases/{id_of(lease)}/renew")

    def release(self, lease, **body):
        return self.ok("POST", f"/v1/leases/{id_of(lease)}/release", body)

    def release_key(self, key, **body):
        return self.ok("POST", "/v1/release", {"key": key, **body})

    def explain(self, lease):
        return self.ok("GET", f"/v1/leases/{id_of(lease)}/explain")

    def leases(self, query=""):
        return self.ok("GET", f"/v1/leases{query}")["leases"]

    def devices(self):
        return self.ok("GET", "/v1/devices")["devices"]

    def device(self, which=0):
        """By its place in the list or by its UUID."""
        devices = self.devices()
        if isinstance(which, int):
            return devices[which]
        return next(device for device in devices if device["uuid"] == which)

    def headroom(self, which=0):
        return self.device(which)["headroom_mib"]

    def drain(self, uuid, drained=True):
        return self.ok("PATCH", f"/v1/devices/{uuid}", {"drained": drained})

    def metric(self, line):
        """The value of a line of /metrics, or nothing."""
        for text in self.call("GET", "/metrics").text.splitlines():
            name, _, value = text.rpartition(" ")
            if name == line:
                return float(value)
        return None

    # --- the simulation ----------------------------------------------------------------------

    def simulate(self, uuid, **patch):
        return self.ok("PATCH", f"/v1/simulated/devices/{uuid}", patch)

    def put_device(self, uuid, **device):
        return self.ok("PUT", f"/v1/simulated/devices/{uuid}", device)

    def remove_device(self, uuid):
        return self.ok("DELETE", f"/v1/simulated/devices/{uuid}")

    def source(self, **patch):
        return self.ok("PATCH", "/v1/simulated/source", patch)

    def advance(self, seconds):
        return self.ok("POST", "/v1/simulated/clock", {"advance_ms": round(seconds * 1000)})["time_ms"]


class Events:
    """An open stream of server-sent events."""

    def __init__(self, client, lease, last):
        self.client = client
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        client.connect()
        self.socket = client.connection.sock
        self.response = client._send("GET", f"/v1/leases/{id_of(lease)}/events", None, headers)
        assert self.response.status == 200, f"{self.response.status} {self.response.read()}"
        assert self.response.getheader("content-type").startswith("text/event-stream")

    def next(self, seconds=10):
        """The next event as a dictionary with id, event and data; nothing when the stream has ended."""
        self.socket.settimeout(seconds)
        event = {}
        while True:
            line = self.response.readline().decode()
            if line == "":
                return None
            line = line.rstrip("\r\n")
            if line == "" and "data" in event:
                event["data"] = json.loads(event["data"])
                return event
            name, separator, value = line.partition(":")
            if separator and name:
                event[name] = value.removeprefix(" ")

    def quiet(self, seconds=0.15):
        """Nothing comes for so long."""
        return not select.select([self.socket], [], [], seconds)[0]

    def close(self):
        self.response.close()  # it keeps the socket otherwise
        self.client.close()


class Daemon:
    """`berth serve` in a folder of its own, on simulated devices unless `spec` is nothing."""

    def __init__(self, folder, spec, clock="manual", queues=None, config=None, arguments=()):
        self.folder = Path(folder)
        self.address = f"unix:{folder}/berth.sock"
        self.log = self.folder / "log"
        self.process = None
        self.command = [PROGRAM, "serve", "--listen", self.address, "--state", f"{folder}/state", *arguments]
        if spec is not None:
            self.command += ["--simulate", spec, "--simulate-clock", clock]
        if config is not None:
            (self.folder / "berth.yaml").write_text(config, encoding="utf-8")
            self.command += ["--config", str(self.folder / "berth.yaml")]
        if queues is not None:
            (self.folder / "queues.yaml").write_text(queues, encoding="utf-8")
            self.command += ["--queues", str(self.folder / "queues.yaml")]

    def start(self, ready=True):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while True:
            probe = Berth(self.address)
            try:
                status = probe.call("GET", "/readyz").status
                if status == 200 or not ready:
                    return self
            except OSError:
                pass
            finally:
                probe.close()
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon ended with {self.process.returncode}:\n{self.said()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the daemon does not become ready:\n{self.said()}")
            time.sleep(0.004)

    def said(self):
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def kill(self):
        """As by `kill -9`."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        return self.start()

    def stop(self):
        """Asked to end; the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon does not end:\n{self.said()}") from None


class BerthTest(unittest.TestCase):
    """One daemon per test: `self.daemon`, and `self.berth`, a client that may do everything."""

    spec = "1x16GiB"
    clock = "manual"
    queues = None  # text of a queue file
    config = None  # text of a configuration file
    arguments = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-leases-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o711)
        self.folder = Path(folder.name)
        self.daemon = Daemon(folder.name, self.spec, self.clock, self.queues, self.config, self.arguments).start()
        self.addCleanup(self._end)
        self.berth = self.client()

    def _end(self):
        status = self.daemon.stop()
        self.assertEqual(status, 0, self.daemon.said())

    def client(self, **who):
        client = Berth(self.daemon.address, **who)
        self.addCleanup(client.close)
        return client

    def user(self, uid=4242):
        """Somebody else on this machine, without rights over others."""
        if os.geteuid() != 0:
            self.skipTest("only root can call as somebody else")
        return self.client(uid=uid)

    def process(self, command=("sleep", "600")):
        """A process that runs, alone in its session, until the test ends it."""
        process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
        self.addCleanup(end_process, process)
        return process

    def uuid(self, which=0):
        return self.berth.devices()[which]["uuid"]

    def headroom(self, which=0):
        return self.berth.headroom(which)

    def refused(self, answer, status, code, field=None):
        self.assertEqual((answer.status, answer.json["error"]["code"]), (status, code), answer.text)
        if field is not None:
            self.assertEqual(answer.json["error"]["field"], field, answer.text)
        self.assertTrue(answer.json["error"]["message"], answer.text)
        return answer.json["error"]

    def soon(self, question, seconds=5):
        """What must come true by itself within real time: ends of processes, other threads."""
        deadline = time.monotonic() + seconds
        while True:
            got = question()
            if got:
                return got
            self.assertLess(time.monotonic(), deadline, "it does not come true")
            time.sleep(0.005)

    def books_hold(self):
        """No device has promised more than it has, and its sums are those of its leases."""
        claims = {}
        for lease in self.berth.leases("?limit=10000"):
            if lease["state"] in HOLDS:
                for device in lease["devices"]:
                    claims[device["uuid"]] = claims.get(device["uuid"], 0) + device["memory_mib"]
        for device in self.berth.devices():
            claimed = claims.pop(device["uuid"], 0)
            self.assertEqual(device["promised_mib"], claimed, device)
            self.assertLessEqual(claimed, device["total_mib"] - device["reserve_mib"], device)
        self.assertEqual(claims, {}, "claims on devices that are not there")


def id_of(lease):
    return lease if isinstance(lease, str) else lease["id"]


def end_process(process):
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def together(*calls):
    """Starts all at the same moment, each on a thread of its own; their results in order."""
    barrier = threading.Barrier(len(calls))
    results = [None] * len(calls)

    def work(place, call):
        barrier.wait()
        try:
            results[place] = call()
        except BaseException as error:  # handed to the caller below
            results[place] = error

    threads = [threading.Thread(target=work, args=(place, call)) for place, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def main():
    unittest.main()
