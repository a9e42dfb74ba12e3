"""Devices as dcgm-exporter tells of them, in a text that the test serves (leases.md 5, B22-B26)."""

import http.server
import threading
import time

import harness
from harness import BerthTest

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"


def series(metric, uuid, value, labels=""):
    return f'DCGM_FI_DEV_FB_{metric}{{gpu="0",UUID="{uuid}",Hostname="n1",modelName="A100"{labels}}} {value}\n'


class Exporter(BerthTest):
    """The daemon reads a page of an exporter every 50 ms, in real time."""

    spec = None

    def setUp(self):
        test = self
        self.text = self.page()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if test.text is None:
                    return self.send_error(503)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(test.text.encode())

            def log_message(self, *words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.arguments = ("--nvml", "none", "--dcgm", f"http://127.0.0.1:{server.server_address[1]}/metrics", "--sampling", "50ms", "--node", "n1")
        super().setUp()
        self.devices_are(2)

    def page(self, free_a=10000, used_a=6000, free_b=15000, used_b=1000):
        return (
            series("FREE", A, free_a) + series("FREE", B, free_b) + series("USED", B, used_b)
            + series("USED", A, used_a) + series("RESERVED", A, 400) + series("RESERVED", B, 400)
        )  # fmt: skip

    def devices_are(self, count):
        self.soon(lambda: len(self.berth.devices()) == count)

    def shows(self, uuid, **fields):
        """Within a few samples the device has these fields."""
        self.soon(lambda: all(self.berth.device(uuid)[name] == value for name, value in fields.items()))

    def test_leases_B24_series_are_joined_by_uuid_whatever_their_order(self):
        self.shows(A, used_mib=6000, total_mib=16400)
        self.shows(B, used_mib=1000, total_mib=16400)
        self.assertEqual(self.berth.granted(memory=12000)["device"]["uuid"], B)

    def test_leases_B24_with_a_series_missing_the_memory_is_unknown(self):
        self.text = "".join(line for line in self.page().splitlines(True) if not ("USED" in line and A in line))
        self.shows(A, eligible=False, reason="unknown-memory")
        self.shows(B, eligible=True, used_mib=1000)
        self.assertEqual(self.berth.granted(memory=100)["device"]["uuid"], B)
        self.assertEqual(self.berth.waiting(memory=100, devices=[A])["reason"], "unknown-memory")

    def test_leases_B25_duplicate_series_count_once(self):
        self.text = self.page() + self.page().replace('modelName="A100"', 'modelName="A100",pod="p"')
        self.shows(A, used_mib=6000, total_mib=16400)
        self.assertEqual(len(self.berth.devices()), 2)

    def test_leases_B26_both_generations_of_labels(self):
        for text in (self.page().replace("Hostname=", "hostname="), self.page().replace("UUID=", "uuid=")):
            self.text = text.replace("} 6000", "} 5000").replace("} 10000", "} 11000")
            self.shows(A, used_mib=5000, node="n1", total_mib=16400)
            self.text = self.page()
            self.shows(A, used_mib=6000)

    def test_leases_B21_values_that_are_none(self):
        for value in ("9223372036854775794", "NaN", "-1", "", "x", "+Inf"):
            with self.subTest(value=value):
                self.text = self.page(used_a=value)
                self.shows(A, eligible=False, reason="unknown-memory")
                self.shows(B, eligible=True)
                self.text = self.page()
                self.shows(A, eligible=True)

    def test_leases_B23_an_exporter_that_is_silent_loses_nothing(self):
        lease = self.berth.running(memory=100)
        good, self.text = self.text, "no metrics here\n"
        self.soon(lambda: not any(device["eligible"] for device in self.berth.devices()))
        self.assertEqual(self.berth.state(lease), "active")
        waits = self.berth.waiting(memory=100)
        self.assertIn(waits["reason"], ("stale-samples", "no-source", "unknown-memory"))
        self.text = good
        self.soon(lambda: self.berth.state(waits) == "granted")

    def test_leases_B49_nothing_is_granted_before_the_devices_were_seen(self):
        renewed, released = (self.berth.running(memory=1000) for _ in range(2))
        full = self.berth.granted(memory=self.berth.headroom(B), devices=[B])
        before = [self.berth.waiting(memory=15000 - n, wait_for_hardware=True) for n in range(3)]
        self.daemon.kill()
        good, self.text = self.text, None
        self.daemon.start(ready=False)
        answer = self.berth.call("GET", "/readyz")
        self.assertEqual((answer.status, answer.json["reason"]), (503, "reconciling"))
        self.assertEqual(self.berth.renew(renewed)["state"], "active")
        self.assertEqual(self.berth.confirm(full)["state"], "active")
        self.assertTrue(self.berth.release(released)["released"])
        fresh = self.berth.waiting(memory=100)
        self.assertEqual(fresh["reason"], "reconciling")
        self.assertTrue(all(lease["reason"] == "reconciling" for lease in self.berth.leases("?state=waiting")))
        self.assertEqual(self.berth.granted()["state"], "active", "without a GPU there is nothing to wait for")
        time.sleep(0.2)
        self.assertEqual(self.berth.state(fresh), "waiting")
        order = [lease["id"] for lease in self.berth.leases("?state=waiting")]
        self.assertEqual(order, [lease["id"] for lease in before] + [fresh["id"]])
        self.text = good
        self.soon(lambda: self.berth.call("GET", "/readyz").status == 200)
        self.soon(lambda: self.berth.lease(before[0])["reason"] != "reconciling")
        self.assertNotEqual(self.berth.lease(fresh)["reason"], "reconciling")
        self.assertEqual([lease["id"] for lease in self.berth.leases("?state=waiting")][:3], order[:3])


if __name__ == "__main__":
    harness.main()
