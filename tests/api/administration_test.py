"""What an administrator does to a daemon that runs: configuration files, reloads, tokens over TLS, alerts.

    python3 tests/api/administration_test.py        standard library only, and openssl
"""

import http.client
import os
import re
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from daemon import BERTH, ROOT, Daemon


class Administration(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-admin-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = self.folder / "berth.yaml"

    def daemon(self, *words):
        daemon = Daemon("--config", str(self.config), *words, folder=self.folder)
        return daemon

    def log(self):
        return (self.folder / "log").read_text()

    def reload(self, daemon):
        before = self.log().count(" reloaded\n")
        daemon.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while self.log().count(" reloaded\n") == before:
            self.assertLess(time.monotonic(), deadline, self.log())
            time.sleep(0.02)

    def ttl(self, daemon, key):
        return daemon.call("POST", "/v1/leases", {"key": key, "memory": 64}).json["ttl_seconds"]

    def test_a_reload_says_what_changed_and_takes_what_it_can(self):
        self.config.write_text("leases: {ttl: 2min}\nlimits: {device_cap: 4}\n")
        with self.daemon() as daemon:
            self.assertEqual(self.ttl(daemon, "a"), 120)
            self.config.write_text("leases: {ttl: 5min}\nlimits: {device_cap: 2}\n")
            self.reload(daemon)
            self.assertEqual(self.ttl(daemon, "b"), 300)
            self.assertIn("info reload: leases.ttl: 2min -> 5min (from now on)", self.log())
            self.assertIn("warning reload: limits.device_cap: 4 -> 2 (needs a restart)", self.log())
            self.assertEqual(daemon.call("POST", "/v1/leases", {"key": "c", "memory": 64}).status, 201)

    def test_below_systemd_lines_carry_a_priority_and_no_time(self):
        self.config.write_text("{}\n")
        (self.folder / "log").touch()
        log = os.stat(self.folder / "log")
        os.environ["JOURNAL_STREAM"] = f"{log.st_dev}:{log.st_ino}"
        self.addCleanup(os.environ.pop, "JOURNAL_STREAM")
        with self.daemon() as daemon:
            self.assertTrue(self.log().splitlines()[0].startswith("<6>info "), self.log())
            other = Daemon("--config", str(self.config), folder=self.folder)
            with open(self.folder / "log", "ab") as errors:
                self.assertEqual(subprocess.run(other.words, stderr=errors, timeout=20).returncode, 1)
            self.assertIn("\n<3>berth serve: ", self.log())
            self.assertEqual(daemon.call("GET", "/readyz").status, 200)

    def test_a_wrong_file_changes_nothing_and_is_told(self):
        self.config.write_text("leases: {ttl: 2min}\n")
        with self.daemon() as daemon:
            self.config.write_text("leases: {ttl: 5min, tll: 1s}\n")
            self.reload(daemon)
            self.assertEqual(self.ttl(daemon, "a"), 120)
            self.assertRegex(self.log(), r"error reload: \S+berth.yaml:1:21: tll: .*did you mean 'ttl'")
            self.assertIn(" warning not all was reloaded\n", self.log())

    def test_a_policy_and_a_switched_off_gpu_count_at_a_reload(self):
        self.config.write_text("policy: spread\n")
        with self.daemon() as daemon:
            self.config.write_text("policy: pack\ngpu: {enabled: false}\n")
            self.reload(daemon)
            refused = daemon.call("POST", "/v1/leases", {"key": "a", "memory": 64})
            self.assertEqual((refused.status, refused.json["error"]["reason"]), (422, "gpu-disabled"))
            self.assertIn("reload: policy: spread -> pack (from now on)", self.log())

    def test_what_is_said_wins_over_the_file(self):
        self.config.write_text(f"node: filed\nstate_dir: {self.folder}/elsewhere\n")
        with self.daemon("--node", "n0"):
            self.assertFalse((self.folder / "elsewhere").exists())

    def test_a_token_is_taken_away_while_in_use(self):
        certificate, key = self.folder / "tls.pem", self.folder / "tls.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
            check=True,
            capture_output=True,
        )
        tokens = self.folder / "tokens"
        made = subprocess.run(
            [BERTH, "token", "new", "airflow", "--file", tokens], check=True, capture_output=True, text=True
        )
        self.config.write_text(
            f'listen: ["unix:{self.folder}/berth.sock", "127.0.0.1:0"]\n'
            f"tokens_file: {tokens}\ntls: {{certificate: {certificate}, key: {key}}}\n"
        )
        daemon = self.daemon()
        # The file's addresses, not the test's.
        del daemon.words[2:4]
        with daemon:
            port = int(re.search(r"listening on https://127\.0\.0\.1:(\d+)", self.log()).group(1))

            def status():
                context = ssl.create_default_context(cafile=certificate)
                connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
                connection.request("GET", "/v1/leases", headers={"Authorization": "Bearer " + made.stdout.strip()})
                try:
                    return connection.getresponse().status
                finally:
                    connection.close()

            self.assertEqual(status(), 200)
            tokens.write_text("")
            os.chmod(tokens, 0o600)
            self.reload(daemon)
            self.assertEqual(status(), 401)

    def test_the_alerts_ask_for_metrics_that_there_are(self):
        alerts = (ROOT / "docs" / "examples" / "berth-alerts.yaml").read_text()
        self.config.write_text("")
        with self.daemon() as daemon:
            daemon.call("POST", "/v1/leases", {"key": "a", "memory": 64})
            families = set(re.findall(r"^# TYPE (berth_\w+)", daemon.call("GET", "/metrics").text, re.MULTILINE))
        asked = set(re.findall(r"\b(berth_[a-z_]+)", alerts))
        self.assertGreater(len(asked), 5)
        self.assertLessEqual(asked, families)


if __name__ == "__main__":
    unittest.main()
