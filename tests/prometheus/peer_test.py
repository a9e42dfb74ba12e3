"""A real Prometheus between two daemons: it scrapes the metrics of one, and a page of dcgm-exporter that this test
serves; the other daemon reads its devices back through Prometheus's own interface (leases.md 5, B22 to B27, F17, F18)."""

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
    def __init__(self, folder, *words):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen(
            [BIN / "berth", "serve", "--listen", f"unix:{self.folder}/berth.sock", "--state", self.folder / "state",
             "--guard", "none", *words],
            stderr=self.log,
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
    def test_prometheus_between_two_daemons(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        exporter = Exporter()
        port = free_port()
        metrics_port = free_port()
        secret = "berth_" + secrets.token_hex(32)
        line = f"prometheus user sha256:{hashlib.sha256(secret.encode()).hexdigest()}"
        tokens = Path(folder, "tokens")
        tokens.write_text(line + "\n")
        tokens.chmod(0o600)
        first = Daemon(
            Path(folder, "first"), "--simulate", "1x16GiB", "--listen", f"127.0.0.1:{metrics_port}", "--tokens", tokens,
            "--plain-loopback",
        )
        self.addCleanup(first.stop)
        Path(folder, "prometheus.yml").write_text(
            f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: berth
    authorization: {{credentials: "{secret}"}}
    static_configs: [{{targets: ["127.0.0.1:{metrics_port}"]}}]
  - job_name: dcgm
    static_configs: [{{targets: ["127.0.0.1:{exporter.port}"]}}]
"""
        )
        peer = subprocess.Popen(
            [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.addCleanup(peer.wait)
        self.addCleanup(peer.kill)

        def query(text):
            url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(text)}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]["result"]

        first.call("POST", "/v1/leases", {"key": "a", "memory": "4Gi"})
        allocated = 'berth_device_memory_bytes{state="allocated"}'
        wait_until(lambda: query(allocated)[0]["value"][1] == str(4096 * 2**20), "Prometheus shows the promise")
        self.assertEqual(query('up{job="berth"}')[0]["value"][1], "1")
        self.assertGreater(len(query('{__name__=~"berth_.+"}')), 20)

        second = Daemon(
            Path(folder, "second"), "--nvml", "none", "--prometheus", f"http://127.0.0.1:{port}", "--node", "n1"
        )
        self.addCleanup(second.stop)
        wait_until(lambda: len(second.devices()) == 2, "the devices come through Prometheus")
        devices = second.devices()
        self.assertEqual(devices["GPU-aaaa"]["total_mib"], 16384)
        self.assertEqual(devices["GPU-aaaa"]["used_mib"], 1000)
        self.assertEqual(devices["GPU-aaaa"]["foreign_mib"], 1000)
        self.assertEqual(devices["GPU-bbbb"]["used_mib"], 0)
        self.assertFalse(devices["GPU-aaaa"]["attribution"])
        status, lease = second.call("POST", "/v1/leases", {"key": "b", "memory": "8Gi"})
        self.assertEqual((status, lease["device"]["uuid"]), (201, "GPU-bbbb"), lease)

        exporter.used["GPU-aaaa"] = 9000
        wait_until(lambda: second.devices()["GPU-aaaa"]["foreign_mib"] == 9000, "foreign use rises")
        status, lease = second.call("POST", "/v1/leases", {"key": "c", "memory": "8Gi"})
        self.assertEqual((status, lease["reason"]), (202, "no-room"), lease)

        exporter.stop()
        wait_until(
            lambda: second.devices()["GPU-aaaa"]["reason"] in ("stale-samples", "no-source"),
            "samples that nobody renews are old", 60,
        )
        status, lease = second.call("POST", "/v1/leases", {"key": "d", "memory": "1Gi"})
        self.assertEqual(status, 202)
        self.assertIn(lease["reason"], ("stale-samples", "no-source"))
        self.assertEqual(second.call("GET", "/v1/leases?state=granted")[1]["leases"][0]["key"], "b")


if __name__ == "__main__":
    unittest.main()
