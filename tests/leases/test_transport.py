"""The wire: errors, lists, long polls, streams, evictions, who may do what (leases.md 3.1, 3.5, interfaces.md 4)."""

import hashlib
import json
import re
import tempfile
import threading
import time
from pathlib import Path

import harness
from harness import Berth, BerthTest, together


class Errors(BerthTest):
    def test_leases_errors_bad_json(self):
        for body in ("{", "", "[]", "null", "1", '"a"', '{"key":"a"} x', "{'key':'a'}", '{"key":"a",}', "\xff", '{"key": "\\ud800"}'):
            with self.subTest(body=body):
                raw = body.encode("latin-1") if body == "\xff" else body
                answer = self.berth.call("POST", "/v1/leases", raw)
                self.assertEqual(answer.status, 400, answer.text)
                self.assertIn(answer.code, ("bad-json", "invalid-key"))
        self.refused(self.berth.call("POST", "/v1/leases", '{"key":"a","memory":1,"memory":2}'), 400, "bad-json")
        deep = "[" * 20000 + "]" * 20000
        self.refused(self.berth.call("POST", "/v1/leases", '{"key":"a","labels":%s}' % deep), 400, "bad-json")
        self.assertEqual(self.berth.leases(), [])

    def test_leases_errors_unknown_leases_and_calls(self):
        for method, path in (
            ("GET", "/v1/leases/l-ffff"),
            ("GET", "/v1/leases/l-ffff/events"),
            ("GET", "/v1/leases/l-ffff/explain"),
            ("POST", "/v1/leases/l-ffff/confirm"),
            ("POST", "/v1/leases/l-ffff/renew"),
            ("GET", "/v1/leases/" + "x" * 3000),
        ):
            with self.subTest(path=path[:40]):
                self.refused(self.berth.call(method, path), 404, "unknown-lease")
        for method, path, status in (
            ("GET", "/", 404),
            ("GET", "/v1", 404),
            ("GET", "/v2/leases", 404),
            ("GET", "/v1/lease", 404),
            ("POST", "/v1/leases/l-ffff/steal", 404),
            ("PUT", "/v1/leases", 405),
            ("DELETE", "/v1/leases", 405),
            ("GET", "/v1/release", 405),
            ("PATCH", "/v1/leases/l-ffff", 405),
        ):
            with self.subTest(method=method, path=path):
                answer = self.berth.call(method, path)
                self.assertEqual(answer.status, status, answer.text)
                if status == 405:
                    self.assertTrue(answer.headers["allow"])

    def test_leases_errors_bodies_beyond_64_kib(self):
        body = json.dumps({"key": "a", "labels": {"x": "y" * 66000}})
        self.refused(self.berth.call("POST", "/v1/leases", body), 413, "too-large")
        self.assertEqual(self.berth.granted(memory=1)["state"], "granted")

    def test_leases_errors_name_field_and_value_and_are_one_line(self):
        error = self.berth.ask(memory='4Gi\n<script>"').error
        self.assertEqual(error["field"], "memory")
        self.assertNotIn("\n", error["value"] + error["message"] + error["hint"])
        self.assertLess(len(self.berth.ask(memory="9" * 5000).text), 2000)
        self.assertEqual(set(error), {"code", "field", "value", "message", "hint"})

    def test_leases_errors_confirm_of_processes_that_cannot_be(self):
        lease = self.berth.granted(memory=1)
        ended = self.process(("true",))
        ended.wait()
        for body in ({"pid": 0}, {"pid": -1}, {"pid": "7"}, {"pid": 1.5}, {"pid": 2**40}, {"pid": ended.pid}, {"cgroup": 7}, {"cgroup": "/"}, {"pod_uid": 1}):
            with self.subTest(body):
                self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/confirm", body), 400, "invalid-field")
        self.assertEqual(self.berth.state(lease), "granted")

    def test_leases_errors_of_somebody_elses_process(self):
        user = self.user()
        lease = user.granted(memory=1)
        self.refused(user.call("POST", f"/v1/leases/{lease['id']}/confirm", {"pid": self.process().pid}), 403, "forbidden")

    def test_leases_errors_health_and_readiness(self):
        self.assertEqual(self.berth.ok("GET", "/healthz", status=200)["status"], "ok")
        self.assertEqual(self.berth.ok("GET", "/readyz", status=200)["status"], "ready")
        metrics = self.berth.call("GET", "/metrics")
        self.assertTrue(metrics.headers["content-type"].startswith("text/plain"))
        names = {line.split("{")[0].split()[0] for line in metrics.text.splitlines() if line and line[0] != "#"}
        self.assertTrue(all(name.startswith("berth_") for name in names), names)


class Parties(BerthTest):
    def test_leases_roles_a_user_sees_and_ends_its_own_only(self):
        mine = self.berth.granted("mine", memory=100)
        user, other = self.user(4242), self.user(4243)
        theirs = user.granted("theirs", memory=100)
        for lease in (mine, theirs):
            path = f"/v1/leases/{lease['id']}"
            for method, call in (("GET", ""), ("GET", "/explain"), ("GET", "/events"), ("POST", "/confirm"), ("POST", "/renew"), ("POST", "/release"), ("DELETE", "")):
                with self.subTest(method=method, call=call, lease=lease["key"]):
                    self.refused(other.call(method, path + call), 403, "forbidden")
        self.assertEqual([lease["key"] for lease in user.leases()], ["theirs"])
        self.assertEqual(other.leases(), [])
        self.assertEqual(len(self.berth.leases()), 2)
        self.assertFalse(other.release_key("theirs")["released"])
        self.assertEqual(self.berth.state(theirs), "granted")
        self.assertTrue(self.berth.release(theirs)["released"])
        self.assertTrue(user.release(theirs)["released"] is False)

    def test_leases_roles_an_administrator_releases_by_key(self):
        self.user().granted("theirs", memory=100)
        self.assertTrue(self.berth.release_key("theirs")["released"])

    def test_leases_roles_the_simulation_is_for_administrators(self):
        user = self.user()
        for method, path, body in (("POST", "/v1/simulated/clock", {"advance_ms": 1}), ("PATCH", "/v1/simulated/source", {"up": False})):
            self.refused(user.call(method, path, body), 403, "forbidden")

    def test_leases_roles_an_owner_name_gives_no_rights(self):
        user, other = self.user(4242), self.user(4243)
        lease = user.granted(memory=100)
        self.assertEqual(other.leases(f"?owner={lease['owner']}"), [])
        fake = other.granted(memory=100, owner="root")
        self.refused(user.call("GET", f"/v1/leases/{fake['id']}"), 403, "forbidden")


class Tokens(BerthTest):
    """Over TCP who one is comes from a token."""

    def setUp(self):
        # Tokens are made of 256 random bits each; any will do.
        self.secrets = {name: "berth_" + hashlib.sha256(name.encode()).hexdigest() for name in ("airflow", "other", "ops")}
        folder = tempfile.TemporaryDirectory(prefix="berth-tokens-")
        self.addCleanup(folder.cleanup)
        file = Path(folder.name) / "tokens"
        lines = [
            f"{name} {'admin' if name == 'ops' else 'user'} sha256:{hashlib.sha256(secret.encode()).hexdigest()}"
            for name, secret in self.secrets.items()
        ]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        file.chmod(0o600)
        self.arguments = ("--listen", "127.0.0.1:0", "--plain-loopback", "--tokens", str(file))
        super().setUp()
        port = re.search(r"listening on \S*127\.0\.0\.1:(\d+)", self.daemon.said())[1]
        self.address = f"http://127.0.0.1:{port}"

    def over_tcp(self, name=None, token=None):
        client = Berth(self.address, token=self.secrets[name] if name else token)
        self.addCleanup(client.close)
        return client

    def test_leases_roles_without_a_known_token_nothing_is_told(self):
        for token in (None, "berth_" + "0" * 64, "x", self.secrets["ops"][:-1]):
            for method, path in (("GET", "/v1/leases"), ("GET", "/metrics"), ("POST", "/v1/leases"), ("GET", "/nothing")):
                with self.subTest(token=token, path=path):
                    self.refused(self.over_tcp(token=token).call(method, path), 401, "unauthenticated")

    def test_leases_roles_by_token(self):
        airflow, other, ops = (self.over_tcp(name) for name in ("airflow", "other", "ops"))
        lease = airflow.granted("k", memory=100, node="n0")
        self.assertEqual(lease["owner"], "airflow")
        self.refused(other.call("GET", f"/v1/leases/{lease['id']}"), 403, "forbidden")
        self.refused(other.call("DELETE", f"/v1/leases/{lease['id']}"), 403, "forbidden")
        self.assertEqual(other.leases(), [])
        self.assertEqual(ops.lease(lease)["key"], "k")
        self.assertNotEqual(other.granted("k", memory=100, node="n0")["id"], lease["id"])
        self.refused(airflow.call("PATCH", f"/v1/devices/{self.uuid()}", {"drained": True}), 403, "forbidden")
        self.assertTrue(ops.drain(self.uuid())["drained"])
        self.refused(airflow.call("POST", "/v1/simulated/clock", {"advance_ms": 1}), 403, "forbidden")
        self.assertTrue(airflow.release(lease)["released"])

    def test_leases_roles_over_tcp_a_plain_process_names_its_node_and_gets_no_guard(self):
        airflow = self.over_tcp("airflow")
        self.refused(airflow.ask(memory=100), 400, "invalid-field", "node")
        self.assertEqual(airflow.granted(memory=100, container=True)["env"]["CUDA_VISIBLE_DEVICES"], "0")
        lease = airflow.granted(memory=100, node="n0")
        self.assertNotIn("LD_PRELOAD", lease["env"])
        self.assertEqual(airflow.granted()["state"], "active")
        job = airflow.call("POST", "/v1/jobs", {"command": ["true"], "directory": "/", "lease": {"memory": 100}})
        self.refused(job, 403, "forbidden", "caller")

    def test_leases_B10_socket_and_tcp_race_for_the_last_room(self):
        for number in range(30):
            self.berth.release(self.berth.granted(memory=1))
            room = self.headroom()
            answers = together(
                lambda m=room, n=number: self.berth.ask(f"s{n}", memory=m),
                lambda m=room, n=number, c=self.over_tcp("airflow"): c.ask(f"t{n}", memory=m, node="n0"),
            )
            self.assertEqual(sorted(answer.status for answer in answers), [201, 202])
            for answer in sorted(answers, key=lambda one: -one.status):
                self.berth.release(answer.json)


class Lists(BerthTest):
    spec = "2x16GiB"

    def test_leases_list_filters(self):
        first, second = (device["uuid"] for device in self.berth.devices())
        self.berth.running("a/1", memory=100, devices=[first], owner="x")
        self.berth.granted("a/2", memory=100, devices=[second], owner="y")
        self.berth.waiting("b/1", memory=20000, wait_for_hardware=True)
        ended = self.berth.granted("b/2", memory=100)
        self.berth.release(ended)
        for query, keys in {
            "": ["b/1", "a/1", "a/2", "b/2"],
            "?state=waiting": ["b/1"],
            "?state=active": ["a/1"],
            "?state=released": ["b/2"],
            "?key_prefix=a/": ["a/1", "a/2"],
            "?key_prefix=a/2": ["a/2"],
            "?owner=y": ["a/2"],
            f"?device={second}&state=granted": ["a/2"],
            "?node=n0&state=active": ["a/1"],
            "?node=n1": [],
            "?queue=default&state=waiting": ["b/1"],
            "?queue=other": [],
            "?state=granted&owner=x": [],
        }.items():
            with self.subTest(query):
                self.assertEqual([lease["key"] for lease in self.berth.leases(query)], keys)
        for query in ("?state=nonsense", "?limit=0", "?limit=-1", "?limit=x", "?cursor=l-dead"):
            with self.subTest(query):
                self.refused(self.berth.call("GET", "/v1/leases" + query), 400, "invalid-field")

    def test_leases_list_pages_are_whole(self):
        for number in range(23):
            self.berth.granted(f"k{number:02}", memory=1)
        for number in range(5):
            self.berth.waiting(f"w{number}", memory=20000, wait_for_hardware=True)
        everything = [lease["key"] for lease in self.berth.leases()]
        self.assertEqual(len(everything), 28)
        pages, cursor = [], ""
        while True:
            page = self.berth.ok("GET", f"/v1/leases?limit=5{cursor}")
            self.assertLessEqual(len(page["leases"]), 5)
            pages += [lease["key"] for lease in page["leases"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        self.assertEqual(pages, everything)


class Polls(BerthTest):
    def full(self):
        return self.berth.granted(memory=self.headroom())

    def poll(self, lease, wait, version):
        return self.client().ok("GET", f"/v1/leases/{lease['id']}?wait={wait}&version={version}")

    def test_leases_poll_answers_with_what_is_newer(self):
        blocker = self.full()
        lease = self.berth.waiting(memory=100)
        got = []
        poller = threading.Thread(target=lambda: got.append(self.poll(lease, 20, lease["version"])))
        poller.start()
        self.soon(lambda: self.berth.metric("berth_watches") == 1)
        self.assertEqual(got, [])
        self.berth.release(blocker)
        poller.join(5)
        self.assertEqual(got[0]["state"], "granted")
        self.assertGreater(got[0]["version"], lease["version"])
        self.soon(lambda: self.berth.metric("berth_watches") == 0)

    def test_leases_poll_at_once_where_something_is_newer_already(self):
        lease = self.berth.granted(memory=100)
        started = time.monotonic()
        for version in (0, lease["version"] - 1, 10**6):
            self.assertEqual(self.poll(lease, 30, version)["version"], lease["version"])
        self.berth.release(lease)
        self.assertEqual(self.poll(lease, 30, 10**6)["state"], "released")
        self.assertLess(time.monotonic() - started, 5)

    def test_leases_poll_after_its_seconds_with_what_there_is(self):
        lease = self.berth.granted(memory=100)
        started = time.monotonic()
        self.assertEqual(self.poll(lease, 1, lease["version"])["version"], lease["version"])
        self.assertGreater(time.monotonic() - started, 0.9)

    def test_leases_poll_waits_60_seconds_at_most(self):
        lease = self.berth.granted(memory=100)
        for query in ("wait=61", "wait=-1", "wait=x", "version=-1", "version=x", "weight=1"):
            self.assertEqual(self.berth.call("GET", f"/v1/leases/{lease['id']}?{query}").status, 400, query)

    def test_leases_poll_position_and_time_change_no_version(self):
        blocker = self.full()
        first, second = self.berth.waiting(memory=10000), self.berth.waiting(memory=9000)
        before = self.berth.lease(second)
        self.berth.release(first)
        after = self.berth.lease(second)
        self.assertEqual((before["queue"]["position"], after["queue"]["position"]), (2, 1))
        self.berth.advance(10)
        if before["reason"] == after["reason"]:
            self.assertEqual(self.berth.lease(second)["version"], before["version"])
        self.berth.release(blocker)
        self.assertGreater(self.berth.lease(second)["version"], before["version"])


class Streams(BerthTest):
    def test_leases_stream_tells_every_state_and_ends_with_the_lease(self):
        blocker = self.berth.granted(memory=self.headroom())
        lease = self.berth.waiting(memory=100)
        stream = self.berth.events(lease)
        seen = [stream.next()]
        self.berth.release(blocker)
        seen.append(stream.next())
        self.berth.confirm(lease)
        seen.append(stream.next())
        self.berth.advance(harness.T)
        seen.append(stream.next())
        self.assertIsNone(stream.next())
        self.assertEqual([event["event"] for event in seen], ["waiting", "granted", "active", "expired"])
        versions = [int(event["id"]) for event in seen]
        self.assertEqual(versions, sorted(set(versions)))
        for event in seen:
            self.assertEqual((event["data"]["state"], event["data"]["version"]), (event["event"], int(event["id"])))
        self.soon(lambda: self.berth.metric("berth_watches") == 0)

    def test_leases_stream_resumes_after_the_last_event_that_was_read(self):
        lease = self.berth.granted(memory=100)
        stream = self.berth.events(lease, last=lease["version"])
        self.assertTrue(stream.quiet())
        self.berth.confirm(lease)
        self.assertEqual(stream.next()["event"], "active")
        stream.close()
        stream = self.berth.events(lease, last=lease["version"])
        self.assertEqual(stream.next()["event"], "active")
        # One that is ahead comes from before a backup was restored: its client has seen nothing of this journal.
        for last in ("", "x", "-5", "0", "1000000"):
            self.assertEqual(self.berth.events(lease, last=last).next()["event"], "active")

    def test_leases_stream_of_an_ended_lease_ends(self):
        lease = self.berth.granted(memory=100)
        ended = self.berth.release(lease)["lease"]
        stream = self.berth.events(lease)
        self.assertEqual(stream.next()["event"], "released")
        self.assertIsNone(stream.next())
        stream = self.berth.events(lease, last=ended["version"])
        self.assertIsNone(stream.next())
        self.soon(lambda: self.berth.metric("berth_watches") == 0)

    def test_leases_stream_many_of_one_lease(self):
        lease = self.berth.granted(memory=100)
        streams = [self.berth.events(lease) for _ in range(20)]
        for stream in streams:
            self.assertEqual(stream.next()["event"], "granted")
        self.berth.confirm(lease)
        for stream in streams:
            self.assertEqual(stream.next()["event"], "active")
            stream.close()
        self.soon(lambda: self.berth.metric("berth_watches") == 0)

    def test_leases_stream_one_that_closes_leaves_nothing(self):
        lease = self.berth.granted(memory=100)
        for _ in range(30):
            self.berth.events(lease).close()
        self.soon(lambda: self.berth.metric("berth_watches") == 0)

    def test_leases_stream_ends_with_the_daemon(self):
        lease = self.berth.granted(memory=100)
        stream = self.berth.events(lease)
        stream.next()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertIsNone(stream.next())


class Evictions(BerthTest):
    """Guarantee beats what is over quota: a preemptible lease is told to leave."""

    queues = """
queues:
- name: research
  reclaim: guarantee
  dims: {"*/memory": {deserved: 8GiB}}
- name: batch
  dims: {"*/memory": {deserved: 4GiB}}
"""
    GRACE = 30

    def test_leases_evicting_is_told_with_whom_why_and_until_when(self):
        victim = self.berth.running(queue="batch", memory=15000, preemptible=True, ttl_seconds=1000)
        stream = self.berth.events(victim)
        self.assertEqual(stream.next()["event"], "active")
        heir = self.berth.waiting(queue="research", memory=8000)
        event = stream.next()
        self.assertEqual(event["event"], "evicting")
        evicting = event["data"]["evicting"]
        self.assertEqual(evicting["beneficiary"], heir["id"])
        self.assertTrue(evicting["rule"])
        self.assertTrue(evicting["deadline"])
        self.assertEqual(self.berth.state(victim), "active")
        self.berth.advance(self.GRACE - 1)
        self.assertEqual(self.berth.state(heir), "waiting")
        self.berth.advance(1)
        self.assertEqual(stream.next()["event"], "lost")
        shown = self.berth.lease(victim)
        self.assertEqual((shown["state"], shown["reason"]), ("lost", "evicted"))
        self.assertEqual(self.berth.state(heir), "granted")
        again = self.berth.waiting(victim["key"], queue="batch", memory=15000, preemptible=True)
        self.assertEqual(again["queued_at"], victim["queued_at"])

    def test_leases_evicting_a_victim_that_leaves_by_itself_makes_room_at_once(self):
        victim = self.berth.running(queue="batch", memory=15000, preemptible=True, ttl_seconds=1000)
        heir = self.berth.waiting(queue="research", memory=8000)
        self.berth.release(victim)
        self.assertEqual(self.berth.state(heir), "granted")

    def test_leases_evicting_survives_a_restart(self):
        victim = self.berth.running(queue="batch", memory=15000, preemptible=True, ttl_seconds=1000)
        heir = self.berth.waiting(queue="research", memory=8000)
        self.assertIn("evicting", self.berth.lease(victim))
        self.daemon.restart()
        self.assertIn("evicting", self.berth.lease(victim))
        self.berth.advance(self.GRACE)
        self.assertEqual((self.berth.state(victim), self.berth.state(heir)), ("lost", "granted"))


if __name__ == "__main__":
    harness.main()
