"""The wall clock jumps an hour forward and back under a daemon: leases end by the machine's own clock, and what is shown
of times follows the wall."""

import calendar
import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(os.environ["BERTH_BIN_DIR"])


class ClockJumps(unittest.TestCase):
    def call(self, method, path, body=None):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        sock.connect(f"{self.folder}/berth.sock")
        data = json.dumps(body) if body is not None else ""
        sock.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n"
            f"Content-Length: {len(data)}\r\n\r\n{data}".encode()
        )
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    def state(self, lease):
        return self.call("GET", f"/v1/leases/{lease['id']}")["state"]

    def test_an_hour_forward_and_back(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        offset = Path(self.folder, "offset")
        offset.write_text("0")
        daemon = subprocess.Popen(
            [BIN / "berth", "serve", "--simulate", "1x16GiB", "--listen", f"unix:{self.folder}/berth.sock", "--state",
             f"{self.folder}/state", "--guard", "none"],
            env={
                **os.environ,
                "LD_PRELOAD": os.environ["WALL_CLOCK"],
                "WALL_CLOCK_OFFSET": str(offset),
                # A build with the address sanitizer starts with nothing loaded before the sanitizer's own library,
                # unless it is told that what comes first calls on to the next.
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            },
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        for _ in range(100):
            if Path(self.folder, "berth.sock").exists():
                break
            time.sleep(0.05)
        for seconds in (3600, -3600, 0):
            lease = self.call("POST", "/v1/leases", {"key": f"a{seconds}", "memory": "1Gi", "ttl_seconds": 2})
            waits = self.call("POST", "/v1/leases", {"key": f"w{seconds}", "exclusive": True, "queue_timeout_seconds": 2})
            self.assertEqual((lease["state"], waits["state"]), ("granted", "waiting"))
            self.call("POST", f"/v1/leases/{lease['id']}/confirm", {})
            hour_before = lease["queued_at"][11:13]
            offset.write_text(str(seconds))
            time.sleep(0.7)
            # Nothing ends, and nothing is stale, because somebody set a clock.
            self.assertEqual((self.state(lease), self.state(waits)), ("active", "waiting"))
            self.assertIsNone(self.call("GET", "/v1/devices")["devices"][0]["reason"])
            self.assertEqual(self.call("GET", f"/v1/leases/{lease['id']}")["queued_at"][11:13], hour_before)
            # The wall is what is shown, so the shim is in force.
            shown = calendar.timegm(time.strptime(self.call(
                "POST", "/v1/leases", {"key": f"n{seconds}", "memory": 1})["queued_at"], "%Y-%m-%dT%H:%M:%SZ"))
            self.assertAlmostEqual(shown, time.time() + seconds, delta=5)
            time.sleep(1.8)
            self.assertEqual((self.state(lease), self.state(waits)), ("expired", "timed-out"))


if __name__ == "__main__":
    unittest.main()
