"""A real Prometheus between two daemons: it scrapes the metrics of one, and a page of dcgm-exporter that this test
serves; the other daemon reads its devices back through Prometheus's own interface (leases.md 5, B22 to B31, F17, F18)."""

import hashlib
import http.server
import json
import os
import secrets
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("BERTH_BIN_DIR", ROOT / "build" / "bin"))
PROMETHEUS = ROOT / "build" / "prometheus" / "root" / "usr" / "bin" / "prometheus"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Exporter:
    """What dcgm-exporter shows of two GPUs of node n1."""

    def __init__(self):
        self.used = {"GPU-aaaa": 1000, "GPU-bbbb": 0}
        exporter = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = exporter.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server.server_address[1]

    def text(self):
        lines = []
        for metric in ("FREE", "USED", "RESERVED"):
            lines.append(f"# TYPE DCGM_FI_DEV_FB_{metric} gauge")
            # The order of the series differs from metric to metric, as it may.
            for index, uuid in sorted(enumerate(self.used), reverse=metric == "USED"):
                value = {"FREE": 16000 - self.used[uuid], "USED": self.used[uuid], "RESERVED": 384}[metric]
                lines.append(
                    f'DCGM_FI_DEV_FB_{metric}{{gpu="{index}",UUID="{uuid}",device="nvidia{index}",'
                    f'modelName="NVIDIA A10",Hostname="n1"}} {value}'
                )
        return "\n".join(lines) + "\n"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Daemon:
    def __init__(self, folder, *words, env=None):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen(
            [BIN / "berth", "serve", "--listen", f"unix:{self.folder}/berth.sock", "--state", self.folder / "state",
             "--guard", "none", *words],
            stderr=self.log, env={**os.environ, **(env or {})},
        )
        wait_until(lambda: (self.folder / "berth.sock").exists(), "the daemon listens")

    def call(self, method, path, body=None):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(20)
        sock.connect(str(self.folder / "berth.sock"))
        data = json.dumps(body) if body is not None else ""
        sock.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n"
            f"Content-Length: {len(data)}\r\n\r\n{data}".encode()
        )
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
        sock.close()
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(text)

    def devices(self):
        return {device["uuid"]: device for device in self.call("GET", "/v1/devices")[1]["devices"]}

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        self.log.close()


def wait_until(true, what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if true():
                return
        except (OSError, KeyError, IndexError, ValueError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"it did not come to pass within {seconds} s: {what}")


class Peer(unittest.TestCase):
    """One Prometheus per test, which scrapes the exporter, and whatever else it is told to, every second."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.exporter = Exporter()
        self.addCleanup(self.exporter.stop)
        self.port = free_port()

    def prometheus(self, further=""):
        Path(self.folder, "prometheus.yml").write_text(
            f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: dcgm
    static_configs: [{{targets: ["127.0.0.1:{self.exporter.port}"]}}]
{further}"""
        )
        peer = subprocess.Popen(
            [PROMETHEUS, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.addCleanup(peer.wait)
        self.addCleanup(peer.kill)

    def query(self, text):
        url = f"http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(text)}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"]["result"]

    def reader(self, env=None):
        """A daemon that knows its devices through Prometheus alone."""
        daemon = Daemon(
            Path(self.folder, "second"), "--nvml", "none", "--prometheus", f"http://127.0.0.1:{self.port}", "--node", "n1",
            env=env,
        )
        self.addCleanup(daemon.stop)
        wait_until(lambda: len(daemon.devices()) == 2, "the devices come through Prometheus")
        wait_until(lambda: daemon.devices()["GPU-aaaa"]["eligible"], "they are fresh")
        return daemon

    def shows(self, daemon, uuid, **fields):
        wait_until(
            lambda: all(daemon.devices()[uuid][name] == value for name, value in fields.items()), f"{uuid} shows {fields}"
        )

    def test_prometheus_between_two_daemons(self):
        metrics_port = free_port()
        secret = "berth_" + secrets.token_hex(32)
        line = f"prometheus user sha256:{hashlib.sha256(secret.encode()).hexdigest()}"
        tokens = Path(self.folder, "tokens")
        tokens.write_text(line + "\n")
        tokens.chmod(0o600)
        first = Daemon(
            Path(self.folder, "first"), "--simulate", "1x16GiB", "--listen", f"127.0.0.1:{metrics_port}", "--tokens", tokens,
            "--plain-loopback",
        )
        self.addCleanup(first.stop)
        self.prometheus(
            f"""  - job_name: berth
    authorization: {{credentials: "{secret}"}}
    static_configs: [{{targets: ["127.0.0.1:{metrics_port}"]}}]
"""
        )

        first.call("POST", "/v1/leases", {"key": "a", "memory": "4Gi"})
        allocated = 'berth_device_memory_bytes{state="allocated"}'
        wait_until(lambda: self.query(allocated)[0]["value"][1] == str(4096 * 2**20), "Prometheus shows the promise")
        self.assertEqual(self.query('up{job="berth"}')[0]["value"][1], "1")
        self.assertGreater(len(self.query('{__name__=~"berth_.+"}')), 20)

        second = self.reader()
        devices = second.devices()
        self.assertEqual(devices["GPU-aaaa"]["total_mib"], 16384)
        self.assertEqual(devices["GPU-aaaa"]["used_mib"], 1000)
        self.assertEqual(devices["GPU-aaaa"]["foreign_mib"], 1000)
        self.assertEqual(devices["GPU-bbbb"]["used_mib"], 0)
        self.assertFalse(devices["GPU-aaaa"]["attribution"])
        status, lease = second.call("POST", "/v1/leases", {"key": "b", "memory": "8Gi"})
        self.assertEqual((status, lease["device"]["uuid"]), (201, "GPU-bbbb"), lease)

        self.exporter.used["GPU-aaaa"] = 9000
        wait_until(lambda: second.devices()["GPU-aaaa"]["foreign_mib"] == 9000, "foreign use rises")
        status, lease = second.call("POST", "/v1/leases", {"key": "c", "memory": "8Gi"})
        self.assertEqual((status, lease["reason"]), (202, "no-room"), lease)

        self.exporter.stop()
        wait_until(
            lambda: second.devices()["GPU-aaaa"]["reason"] in ("stale-samples", "no-source"),
            "samples that nobody renews are old", 60,
        )
        status, lease = second.call("POST", "/v1/leases", {"key": "d", "memory": "1Gi"})
        self.assertEqual(status, 202)
        self.assertIn(lease["reason"], ("stale-samples", "no-source"))
        self.assertEqual(second.call("GET", "/v1/leases?state=granted")[1]["leases"][0]["key"], "b")

    def test_leases_B29_use_above_a_claim_counts_once_also_where_nobody_says_whose_it_is(self):
        self.prometheus()
        daemon = self.reader()
        claim = {"key": "a", "memory": 4000, "devices": ["GPU-aaaa"]}
        status, lease = daemon.call("POST", "/v1/leases", claim)
        self.assertEqual(status, 201, lease)
        daemon.call("POST", f"/v1/leases/{lease['id']}/confirm", {})
        usable = 16384 - daemon.devices()["GPU-aaaa"]["reserve_mib"]
        self.shows(daemon, "GPU-aaaa", headroom_mib=usable - 1000 - 4000)
        # It becomes visible: no second count (B13). It outgrows its claim: what is measured counts.
        self.exporter.used["GPU-aaaa"] = 1000 + 3000
        self.shows(daemon, "GPU-aaaa", used_mib=4000, headroom_mib=usable - 1000 - 4000)
        self.exporter.used["GPU-aaaa"] = 1000 + 9000
        self.shows(daemon, "GPU-aaaa", used_mib=10000, headroom_mib=usable - 1000 - 9000, attribution=False)
        more = usable - 10000 + 1
        status, other = daemon.call("POST", "/v1/leases", {"key": "b", "memory": more, "devices": ["GPU-aaaa"]})
        self.assertEqual((status, other["reason"]), (202, "no-room"))
        self.exporter.used["GPU-aaaa"] = 1000 + 4000
        wait_until(
            lambda: daemon.call("GET", f"/v1/leases/{other['id']}")[1]["state"] == "granted", "the room is there again"
        )
        self.assertEqual(daemon.call("GET", f"/v1/leases/{lease['id']}")[1]["state"], "active")

    def test_leases_B30_the_reserve_is_never_given_out(self):
        self.prometheus()
        daemon = self.reader()
        device = daemon.devices()["GPU-bbbb"]
        self.assertEqual(device["total_mib"], 16384)
        self.assertGreaterEqual(device["reserve_mib"], 384, "what the exporter says, or more")
        most = 16384 - device["reserve_mib"]
        only = {"devices": ["GPU-bbbb"]}
        status, refused = daemon.call("POST", "/v1/leases", {"key": "a", "memory": most + 1, **only})
        self.assertEqual((status, refused["error"]["largest_mib"]), (422, most), refused)
        self.assertEqual(daemon.call("POST", "/v1/leases", {"key": "b", "memory": most, **only})[0], 201)
        self.assertEqual(daemon.call("POST", "/v1/leases", {"key": "c", "memory": 1, **only})[0], 202)

    def test_leases_B31_stamps_of_a_clock_that_is_an_hour_ahead_or_behind(self):
        offset = Path(self.folder, "offset")
        offset.write_text("0")
        self.prometheus()
        daemon = self.reader({"LD_PRELOAD": os.environ["WALL_CLOCK"], "WALL_CLOCK_OFFSET": str(offset)})

        def state(lease):
            return daemon.call("GET", f"/v1/leases/{lease['id']}")[1]["state"]

        def said(word):
            return sum(f" {word} " in line for line in (daemon.folder / "log").read_text().splitlines())

        lease = daemon.call("POST", "/v1/leases", {"key": "a", "memory": 100, "devices": ["GPU-bbbb"]})[1]
        daemon.call("POST", f"/v1/leases/{lease['id']}/confirm", {})
        # The daemon's wall is behind, so samples seem to come from the future: their age is 0, and they count.
        offset.write_text("-3600")
        self.exporter.used["GPU-bbbb"] = 700
        self.shows(daemon, "GPU-bbbb", used_mib=700, eligible=True)
        self.assertLess(daemon.devices()["GPU-bbbb"]["sample_age_ms"], 3000)
        wait_until(lambda: said("clock-skew") > 0, "the skew is told")
        self.assertLessEqual(said("clock-skew"), 2, "once per device, not with every sample")
        self.assertEqual(daemon.call("POST", "/v1/leases", {"key": "b", "memory": 100})[0], 201)
        # It is ahead, so samples seem an hour old, and older than those before: the newest count until they are stale.
        offset.write_text("3600")
        wait_until(lambda: daemon.devices()["GPU-bbbb"]["reason"] == "stale-samples", "they are too old to grant upon")
        status, waits = daemon.call("POST", "/v1/leases", {"key": "c", "memory": 100})
        self.assertEqual((status, waits["reason"]), (202, "stale-samples"))
        self.assertEqual(state(lease), "active", "what runs is left alone, and no lease ends by the wall")
        offset.write_text("0")
        wait_until(lambda: state(waits) == "granted", "right again, and nobody had to start anything anew")
        self.assertEqual(state(lease), "active")


if __name__ == "__main__":
    unittest.main()
