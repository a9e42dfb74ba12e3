"""Each fault of the proxy, seen by a client of ours: what the client gets, and what the server has done."""

import http.client
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import ApiError, ControlPlane, objects  # noqa: E402
from cluster.client import IDLE_S  # noqa: E402
from cluster.faults import FaultProxy  # noqa: E402

BROKEN = (OSError, http.client.HTTPException)
RULES = [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.plane.grant("scheduler", RULES)
        cls.faults = FaultProxy(cls.plane)
        cls.api = cls.faults.api()
        cls.admin = cls.plane.admin
        cls.admin.create_nodes([objects.node("n0")])

    def setUp(self):
        self.api.close()  # an earlier test may have broken what is idle
        self.faults.thaw()
        self.faults.clear()
        self.faults.control("POST", "/release")

    def new_pod(self, name=None):
        name = name or f"p-{time.monotonic_ns():x}"
        (pod,) = self.admin.create_pods([objects.pod(name)])
        return pod

    def node_of(self, pod):
        return self.admin.pod(pod["metadata"]["name"])["spec"].get("nodeName")

    def refusal(self, call):
        with self.assertRaises(ApiError) as refused:
            call()
        return refused.exception

    def events(self, count=2, quiet=5, **fault):
        """What a watch of two new pods shows through a fault: names and types, and how it ended."""
        path = f"/api/v1/pods?labelSelector=test%3D{time.monotonic_ns():x}"
        label = path.rpartition("D")[2]
        self.faults.rule(watch=True, path="labelSelector", **fault)
        self.admin.create_pods([objects.pod(f"w{i}-{label}", labels={"test": label}) for i in range(count)])
        seen = []
        try:
            for kind, item in self.api.watch(path, seconds=2, quiet=quiet):
                if kind != "BOOKMARK":
                    seen.append((kind, item.get("metadata", {}).get("name", "").partition("-")[0] or item.get("code")))
            return seen, "ended"
        except BROKEN:
            return seen, "broken"

    # --- requests ----------------------------------------------------------------------------

    def test_passes_on_what_no_rule_names(self):
        pod = self.new_pod()
        self.api.bind(pod, "n0")
        self.assertEqual(self.node_of(pod), "n0")
        self.assertEqual(self.events(action="duplicate", skip=1), ([("ADDED", "w0"), ("ADDED", "w1")], "ended"))

    def test_answers_in_the_servers_place(self):
        self.faults.answer(429, retry_after=3, method="POST", path="/binding$", times=1)
        pod = self.new_pod()
        refused = self.refusal(lambda: self.api.bind(pod, "n0"))
        self.assertEqual((refused.code, refused.reason, refused.status["details"]["retryAfterSeconds"]),
                         (429, "TooManyRequests", 3))
        self.assertIsNone(self.node_of(pod))
        self.api.bind(pod, "n0")

    def test_cuts_before_and_after_the_server_has_done_it(self):
        for action, node in (("drop", None), ("drop_answer", "n0"), ("cut_connection", "n0")):
            self.faults.clear()
            rule = self.faults.rule(action, method="POST", path="/binding$", times=1)
            pod = self.new_pod()
            with self.assertRaises(BROKEN):
                self.api.bind(pod, "n0")
            self.assertEqual((self.node_of(pod), self.faults.hits(rule)), (node, 1), action)

    def test_holds_a_binding_until_the_pod_is_another(self):
        pod = self.new_pod()
        name = pod["metadata"]["name"]
        refused = []
        with self.faults.holding(method="POST", path="/binding$") as held:
            binding = threading.Thread(target=lambda: refused.append(self.refusal(lambda: self.api.bind(pod, "n0"))))
            binding.start()
            held.wait()
            self.admin.delete_pod(name)
            self.new_pod(name)
        binding.join()
        self.assertEqual(refused[0].code, 409)
        self.assertIn("Precondition failed: UID in precondition", refused[0].message)

    def test_holds_an_answer_when_the_server_has_done_it(self):
        pod = self.new_pod()
        with self.faults.holding(after=True, method="POST", path="/binding$") as held:
            binding = threading.Thread(target=self.api.bind, args=(pod, "n0"))
            binding.start()
            held.wait()
            self.assertEqual(self.node_of(pod), "n0")
            self.assertTrue(binding.is_alive())
        binding.join()

    def test_a_request_sent_twice_is_refused_the_second_time(self):
        self.faults.rule("twice", method="POST", path="/binding$")
        pod = self.new_pod()
        refused = self.refusal(lambda: self.api.bind(pod, "n0"))
        self.assertIn('is already assigned to node "n0"', refused.message)

    def test_delays(self):
        self.faults.rule("delay", delay_ms=300, path="^/version$", times=1)
        began = time.monotonic()
        self.api.get("/version")
        self.assertGreater(time.monotonic() - began, 0.3)

    def test_the_log_tells_what_reached_whom(self):
        since = self.faults.log()[-1]["n"]
        self.faults.answer(500, path="^/version$", times=1)
        self.refusal(lambda: self.api.get("/version"))
        self.api.get("/version")
        first, second = self.faults.log(since)
        self.assertEqual([(e["code"], e["upstream"], e.get("action")) for e in (first, second)],
                         [(500, 0, "answer"), (200, 200, None)])

    def test_rules_are_checked(self):
        for rule in ({"action": "explode"}, {"action": "answer"}, {"action": "drop", "path": "("}, {"action": "drop", "when": 1}):
            with self.assertRaises(ValueError):
                self.faults.rule(**rule)

    # --- watches -----------------------------------------------------------------------------

    def test_watches_are_cut_and_ended(self):
        self.assertEqual(self.events(action="cut", events=1), ([("ADDED", "w0")], "broken"))
        self.faults.clear()
        self.assertEqual(self.events(action="end", events=1), ([("ADDED", "w0")], "ended"))
        self.faults.clear()
        self.assertEqual(self.events(action="cut", bytes=100), ([], "broken"))

    def test_history_expires_in_the_middle_of_a_watch(self):
        self.assertEqual(self.events(action="expire", events=1), ([("ADDED", "w0"), ("ERROR", 410)], "ended"))

    def test_events_come_twice_late_byte_by_byte_and_made_up(self):
        two = [("ADDED", "w0"), ("ADDED", "w1")]
        self.assertEqual(self.events(action="duplicate")[0], [two[0], two[0], two[1], two[1]])
        self.faults.clear()
        began = time.monotonic()
        self.assertEqual(self.events(action="slow", delay_ms=200)[0], two)
        self.assertGreater(time.monotonic() - began, 0.4)
        self.faults.clear()
        self.assertEqual(self.events(action="bytewise")[0], two)
        self.faults.clear()
        strange = '{"type":"STRANGE","object":{"metadata":{"name":"x-1"}}}'
        self.assertEqual(self.events(action="inject", events=1, text=strange)[0], [two[0], ("STRANGE", "x"), two[1]])

    def test_a_stalled_watch_goes_on_when_it_is_released(self):
        threading.Timer(1, lambda: self.faults.control("POST", "/release")).start()
        began = time.monotonic()
        self.assertEqual(self.events(action="stall", events=1)[0], [("ADDED", "w0"), ("ADDED", "w1")])
        self.assertGreater(time.monotonic() - began, 0.9)

    # --- connections -------------------------------------------------------------------------

    def test_a_frozen_connection_is_neither_answered_nor_closed(self):
        self.api.get("/version")
        self.faults.freeze()
        threading.Timer(0.5, self.faults.thaw).start()
        began = time.monotonic()
        self.api.get("/version")
        self.assertGreater(time.monotonic() - began, 0.4)

    def test_connections_are_closed_at_once(self):
        api = self.faults.api()
        api.get("/version")
        self.faults.close_connections()
        ((_, kept),) = api.idle
        with self.assertRaises(BROKEN):
            kept.request("GET", "/version", headers=api.headers())
            kept.getresponse()

    def test_a_connection_that_idled_for_long_is_not_used_again(self):
        api = self.faults.api()
        api.get("/version")
        ((since, old),) = api.idle
        api.idle = [(since - IDLE_S, old)]
        api.get("/version")
        self.assertIsNone(old.sock)
        self.assertNotIn(old, [connection for _, connection in api.idle])

    def test_speaks_http_2_too(self):
        done = self.plane.kubectl("get", "nodes", "-o", "name", kubeconfig=self.faults.kubeconfig())
        self.assertEqual(done.strip(), "node/n0")
        self.assertIn("HTTP/2.0", {e["protocol"] for e in self.faults.log()})


if __name__ == "__main__":
    unittest.main()
