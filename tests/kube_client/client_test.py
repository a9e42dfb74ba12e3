"""The client of the Kubernetes API (src/kube/client) on a real API server, through faults.

A probe (probe.cc) is driven by lines; what it prints is held against what the server says.
"""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cluster"))

from cluster import ControlPlane, objects  # noqa: E402
from cluster.faults import FaultProxy  # noqa: E402

PROBE = os.environ.get("PROBE", "build/tests/kube_client_probe")
RULES = [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
         {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]
PODS = "/api/v1/namespaces/default/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHO_BODY = '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'


class Probe:
    """One probe process. Its lines are kept; objects that it was told are in `stores`, breaches of order in `faults`."""

    def __init__(self, kubeconfig, **environment):
        self.lines, self.stores, self.faults, self.versions = [], {}, [], {}
        self.new = queue.Queue()
        self.process = subprocess.Popen([PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[0] in "+~-":
                self._object(*words[:3], words[3] if len(words) == 5 else "", int(words[-1]))
            self.lines.append(line.rstrip("\n"))

    def _object(self, mark, name, key, uid, version):
        store = self.stores.setdefault(name, {})
        known = store.get(key)
        if mark == "+" and known is not None:
            self.faults.append(f"{name} {key} added twice")
        if mark != "+" and (known is None or known[0] != uid):
            self.faults.append(f"{name} {key} {mark} of {uid}, known is {known}")
        if mark == "~" and known is not None and version <= known[1]:
            self.faults.append(f"{name} {key} went from {known[1]} to {version}")
        if mark == "-":
            store.pop(key, None)
        else:
            store[key] = uid, version

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, start, seconds=30, since=0):
        """The first line after number `since` that starts so."""
        deadline = time.monotonic() + seconds
        while True:
            for line in self.lines[since:]:
                if line.startswith(start):
                    return line
            if time.monotonic() > deadline or (self.process.poll() is not None and not self.reader.is_alive()):
                raise AssertionError(f"no line {start!r} within {seconds} s; the last are {self.lines[-8:]}")
            time.sleep(0.01)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()


class Suite:
    """One control plane with a proxy for all tests of a class."""

    def setUp(self):
        self.faults.thaw()
        self.faults.clear()
        self.faults.control("POST", "/release")

    def probe(self, direct=False, **environment):
        probe = Probe(self.configs[direct], **environment)
        self.addCleanup(probe.end)
        return probe

    @classmethod
    def start(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.plane.grant("scheduler", RULES)
        cls.plane.admin.namespace("berth-system")
        cls.faults = FaultProxy(cls.plane)
        cls.configs = {True: cls.plane.kubeconfig(), False: cls.faults.kubeconfig()}  # written once: probes read it
        cls.plane.admin.create_nodes([objects.node(f"n{i}") for i in range(3)])


def of_server(plane, path):
    return {(f"{item['metadata']['namespace']}/" if "namespace" in item["metadata"] else "") + item["metadata"]["name"]:
            item["metadata"]["uid"] for item in plane.admin.list(path)}


class Following(Suite, unittest.TestCase):
    setUpClass = classmethod(lambda cls: cls.start())

    def same(self, probe, name, path, seconds=90):
        """Until the probe's store is the server's."""
        deadline = time.monotonic() + seconds
        while True:
            wanted = of_server(self.plane, path)
            have = {key: uid for key, (uid, _) in dict(probe.stores.get(name, {})).items()}
            if have == wanted:
                break
            if time.monotonic() > deadline:
                self.fail(f"{name}: too many {set(have.items()) - set(wanted.items())}, "
                          f"missing {set(wanted.items()) - set(have.items())}; {probe.lines[-5:]}")
            time.sleep(0.1)
        self.assertEqual(probe.faults, [])

    def test_both_protocols_show_what_the_server_has(self):
        probe = self.probe()
        probe.tell("watch nodes auto /api/v1/nodes")
        probe.tell("watch listed list /api/v1/nodes")
        probe.wait("synced nodes")
        probe.wait("synced listed")
        self.plane.admin.create_nodes([objects.node("late")])
        probe.wait("+ nodes late")
        probe.wait("+ listed late")
        self.plane.admin.delete("/api/v1/nodes/late")
        self.plane.admin.create_nodes([objects.node("late")])
        self.same(probe, "nodes", "/api/v1/nodes")
        self.same(probe, "listed", "/api/v1/nodes")
        before = len(probe.lines)
        self.plane.admin.delete("/api/v1/nodes/late")
        probe.wait("- nodes late", since=before)

    def test_falls_back_where_the_watch_list_is_refused(self):
        self.faults.answer(400, reason="BadRequest", path="sendInitialEvents")
        probe = self.probe()
        probe.tell("watch nodes auto /api/v1/nodes")
        probe.wait("synced nodes")
        self.same(probe, "nodes", "/api/v1/nodes")
        paths = [one["path"] for one in self.faults.log()][-3:]
        self.assertIn("sendInitialEvents", paths[0])
        self.assertEqual(paths[1], "/api/v1/nodes?resourceVersion=0")

    def test_a_terminal_pod_leaves_by_its_selector(self):
        probe = self.probe()
        probe.tell(f"watch running auto {PODS} fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed")
        probe.wait("synced running")
        self.plane.admin.create_pods([objects.pod("ends")])
        probe.wait("+ running default/ends")
        self.plane.admin.pod_status("ends", "Succeeded")
        probe.wait("- running default/ends")
        self.plane.admin.delete_pod("ends")

    def test_stays_the_same_through_every_fault_of_a_watch(self):
        probes = [self.probe(SILENCE_MS="1000") for _ in range(2)]
        for probe, how in zip(probes, ("auto", "list")):
            probe.tell(f"watch pods {how} {PODS}")
            probe.wait("synced pods")
        faults = [dict(action="bytewise", watch=True), dict(action="duplicate", watch=True), dict(action="cut", watch=True, events=3),
                  dict(action="cut", watch=True, bytes=700), dict(action="end", watch=True, events=2),
                  dict(action="expire", watch=True, events=2), dict(action="goaway", watch=True),
                  dict(action="answer", code=410, reason="Expired", watch=True),
                  dict(action="answer", code=429, retry_after=1), dict(action="answer", code=504, reason="Timeout"),
                  dict(action="drop"), dict(action="cut_connection"), dict(action="slow", delay_ms=20, watch=True),
                  dict(action="stall", watch=True, events=1, delay_ms=2000),
                  dict(action="answer", code=400, path="sendInitialEvents")]
        chance = random.Random(7)
        for round_, fault in enumerate(faults):
            self.faults.clear()
            self.faults.rule(**{"path": "pods", "times": 3, **fault})
            self.faults.close_connections()
            for step in range(8):
                name = f"p{chance.randrange(12)}"
                existing = {item["metadata"]["name"] for item in self.plane.admin.list(PODS)}
                if name in existing:
                    self.plane.admin.delete_pod(name)
                    if chance.random() < 0.5:
                        self.plane.admin.create_pods([objects.pod(name)])
                else:
                    self.plane.admin.create_pods([objects.pod(name)])
            if round_ % 5 == 4:
                for probe in probes:
                    self.same(probe, "pods", PODS)
        self.faults.clear()
        for probe in probes:
            self.same(probe, "pods", PODS)

    def test_survives_restarts_of_the_server_and_of_its_store(self):
        probe = self.probe(direct=True)
        probe.tell("watch nodes auto /api/v1/nodes")
        probe.wait("synced nodes")
        self.plane.kill("kube-apiserver")
        self.plane.start_api_server()
        self.plane.admin.create_nodes([objects.node("after")])
        probe.wait("+ nodes after", seconds=60)
        self.plane.kill("etcd")
        self.plane.start_etcd()
        self.plane.admin.until(lambda: self.plane.answers(self.plane.admin), "the server is back")
        self.plane.admin.delete("/api/v1/nodes/after")
        self.same(probe, "nodes", "/api/v1/nodes")

    def test_notices_a_cable_that_was_pulled(self):
        probe = self.probe(SILENCE_MS="1500")
        probe.tell("watch nodes auto /api/v1/nodes")
        probe.wait("synced nodes")
        self.faults.freeze()
        self.plane.admin.create_nodes([objects.node("unseen")])
        time.sleep(4)
        self.faults.thaw()
        probe.wait("+ nodes unseen", seconds=60)
        probe.tell("figures")
        self.assertNotIn(" lost=0", probe.wait("figures"))
        self.plane.admin.delete("/api/v1/nodes/unseen")

    def test_finds_out_what_the_server_has(self):
        probe = self.probe()
        probe.tell("discover")
        self.assertEqual(probe.wait("discovery"), "discovery v1.36.3 1.36 slices=v1 podgroups=")


class Writing(Suite, unittest.TestCase):
    setUpClass = classmethod(lambda cls: cls.start())

    def pod(self):
        (pod,) = self.plane.admin.create_pods([objects.pod(f"w-{time.monotonic_ns():x}")])
        return pod

    def bind(self, probe, pod, tag="b"):
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid, "annotations": {"berth.dev/grant": "g"}},
                "target": {"kind": "Node", "name": "n0"}}
        probe.tell(f"write {tag} POST {PODS}/{name}/binding {json.dumps(body)}")
        return probe.wait(f"done {tag} ")

    def node_of(self, pod):
        return self.plane.admin.pod(pod["metadata"]["name"])["spec"].get("nodeName")

    def bindings(self, pod, since=0):
        return [one for one in self.faults.log(since) if one["path"].endswith(f"{pod['metadata']['name']}/binding")]

    def test_binds_with_annotations_in_one_write(self):
        probe, pod = self.probe(), self.pod()
        self.assertIn("done b answered 201", self.bind(probe, pod))
        bound = self.plane.admin.pod(pod["metadata"]["name"])
        self.assertEqual((bound["spec"]["nodeName"], bound["metadata"]["annotations"]["berth.dev/grant"]), ("n0", "g"))

    def test_hears_why_a_binding_is_refused(self):
        probe, pod = self.probe(), self.pod()
        self.bind(probe, pod)
        self.assertIn("done again answered 409", self.bind(probe, pod, "again"))
        pod["metadata"]["uid"] = "11111111-1111-4111-8111-111111111111"
        self.assertIn("Precondition failed: UID in precondition", self.bind(probe, pod, "uid"))

    def test_an_answer_that_is_lost_is_unknown_and_nothing_is_sent_twice(self):
        for action in ("drop", "drop_answer", "cut_connection"):
            with self.subTest(action):
                probe, pod = self.probe(), self.pod()
                self.bind(probe, self.pod(), "warm")  # the connection is in use already
                rule = self.faults.rule(action, method="POST", path=f"{pod['metadata']['name']}/binding", times=1)
                self.assertIn("done b unknown", self.bind(probe, pod))
                self.assertEqual(self.node_of(pod), None if action == "drop" else "n0")
                time.sleep(0.5)
                self.assertEqual(len(self.bindings(pod)), 1)
                self.faults.clear(rule)
                self.assertIn("done after answered", self.bind(probe, pod, "after"))

    def test_a_binding_that_is_held_ends_in_time_and_is_unknown(self):
        probe, pod = self.probe(), self.pod()
        with self.faults.holding(method="POST", path="/binding$") as held:
            name = pod["metadata"]["name"]
            probe.tell(f"write b POST {PODS}/{name}/binding {{}}")
            held.wait()
            self.assertIn("done b unknown", probe.wait("done b "))
        self.assertEqual(len(self.bindings(pod)), 1)

    def test_overload_is_told_for_bindings_and_waited_out_for_reads(self):
        probe, pod = self.probe(), self.pod()
        self.faults.answer(429, retry_after=1, times=2)
        self.assertIn("done b answered 429", self.bind(probe, pod))
        probe.tell(f"call r GET {PODS}/{pod['metadata']['name']} ")
        self.assertIn("done r answered 200", probe.wait("done r "))

    def test_many_bindings_share_one_connection_and_a_goaway_loses_none(self):
        probe = self.probe()
        pods = self.plane.admin.create_pods([objects.pod(f"many{i}") for i in range(200)])
        self.faults.rule("goaway", method="POST", path="/binding$", skip=20, times=5)
        for index, pod in enumerate(pods):
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
                    "target": {"kind": "Node", "name": "n1"}}
            probe.tell(f"write m{index} POST {PODS}/{pod['metadata']['name']}/binding {json.dumps(body)}")
        outcomes = {}
        for index in range(len(pods)):
            words = probe.wait(f"done m{index} ").split(maxsplit=4)
            outcomes.setdefault(words[2], []).append(index)
        for index in outcomes.get("answered", []):
            self.assertEqual(self.node_of(pods[index]), "n1")
        for index in outcomes.get("not_sent", []):
            self.assertIsNone(self.node_of(pods[index]))
        self.assertGreater(len(outcomes["answered"]), 100)
        for pod in pods:
            self.assertLessEqual(len(self.bindings(pod)), 1)


class Leading(Suite, unittest.TestCase):
    setUpClass = classmethod(lambda cls: cls.start())

    def holder(self, name):
        return self.plane.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/{name}")["spec"]["holderIdentity"]

    def two(self, name):
        first, second = self.probe(), self.probe()
        first.tell(f"lease berth-system {name} one")
        first.wait("leading")
        second.tell(f"lease berth-system {name} two")
        second.wait("leader one")
        return first, second

    def test_a_paused_leader_writes_nothing_when_it_goes_on(self):
        first, second = self.two("paused")
        (pod,) = self.plane.admin.create_pods([objects.pod("fenced")])
        first.process.send_signal(signal.SIGSTOP)
        # It finds this as soon as it goes on.
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "fenced", "uid": pod["metadata"]["uid"]},
                "target": {"kind": "Node", "name": "n0"}}
        first.tell(f"write w POST {PODS}/fenced/binding {json.dumps(body)}")
        began = time.monotonic()
        second.wait("leading", seconds=25)
        self.assertLess(time.monotonic() - began, 15 + 2 + 1)
        time.sleep(max(0.0, 20 - (time.monotonic() - began)))
        since = self.faults.log()[-1]["n"]
        first.process.send_signal(signal.SIGCONT)
        first.wait("lost ")
        self.assertIn("done w not_sent", first.wait("done w "))
        self.assertNotIn("nodeName", self.plane.admin.pod("fenced")["spec"])
        written = [one for one in self.faults.log(since) if one["method"] != "GET" and "leases/paused" not in one["path"]]
        self.assertEqual(written, [])
        self.assertEqual(self.holder("paused"), "two")

    def test_a_clean_stop_hands_over_at_once(self):
        first, second = self.two("clean")
        first.tell("release")
        first.wait("released")
        second.wait("leading", seconds=3)
        self.assertEqual(self.holder("clean"), "two")

    def test_a_killed_leader_is_followed_in_time(self):
        first, second = self.two("killed")
        first.process.kill()
        began = time.monotonic()
        second.wait("leading", seconds=25)
        self.assertLess(time.monotonic() - began, 15 + 2 + 1)

    def test_lost_answers_cost_no_lease(self):
        first, second = self.two("answers")
        self.faults.rule("drop_answer", method="PUT", path="leases/answers", times=2)
        self.faults.rule("answer", code=500, method="PUT", path="leases/answers", times=1)
        time.sleep(9)
        self.assertEqual([line for line in first.lines if line.startswith("lost")], [])
        self.assertEqual(self.holder("answers"), "one")
        self.assertNotIn("leading", second.lines)


class Proving(Suite, unittest.TestCase):
    """Who we are to the server, while tokens change."""

    setUpClass = classmethod(lambda cls: cls.start())

    def config(self, name, user):
        path = self.plane.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                                    "clusters": [{"name": "c", "cluster": {"server": self.plane.server,
                                                                           "certificate-authority": str(self.plane.ca)}}],
                                    "users": [{"name": "u", "user": user}],
                                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}), encoding="utf-8")
        probe = Probe(path)
        self.addCleanup(probe.end)
        return probe

    def who(self, probe, tag):
        probe.tell(f"call {tag} POST {WHO} {WHO_BODY}")
        words = probe.wait(f"done {tag} ").split(maxsplit=4)
        return json.loads(words[4])["status"]["userInfo"]["username"] if words[3] == "201" else " ".join(words[2:])

    def token(self, user):
        return self.plane.users[user][0]

    def test_a_token_file_that_is_replaced_is_followed_without_a_failed_call(self):
        file = self.plane.folder / "token"
        file.write_text(self.token("tenant"), encoding="utf-8")
        probe = self.config("file", {"tokenFile": "token"})
        self.assertEqual(self.who(probe, "a"), "tenant")
        file.write_text("worthless", encoding="utf-8")
        self.assertEqual(self.who(probe, "b"), "tenant")  # nobody has looked yet
        file.write_text(self.token("scheduler"), encoding="utf-8")
        # The old token is taken away: the server forgets it with its next start.
        token, name, groups = self.plane.users["tenant"]
        self.plane.users["tenant"] = (token[::-1], name, groups)
        self.plane.write_tokens()
        self.plane.kill("kube-apiserver")
        self.plane.start_api_server()
        self.assertEqual(self.who(probe, "c"), "system:serviceaccount:berth-system:berth-scheduler")

    def test_a_plugin_gives_the_token(self):
        script = self.plane.folder / "plugin"
        script.write_text("#!/bin/sh\ncat <<END\n" + json.dumps(
            {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": self.token("webhook")}})
            + "\nEND\n", encoding="utf-8")
        script.chmod(0o700)
        probe = self.config("exec", {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin",
                                              "interactiveMode": "Never"}})
        self.assertEqual(self.who(probe, "a"), "system:serviceaccount:berth-system:berth-webhook")

    def test_a_client_certificate_and_another_name_for_it(self):
        certificate, key = (str(part) for part in self.plane.admin_certificate)
        probe = self.config("certificate", {"client-certificate": certificate, "client-key": key})
        self.assertEqual(self.who(probe, "a"), "berth-test-admin")
        probe = self.config("as", {"client-certificate": certificate, "client-key": key, "as": "someone", "as-groups": ["x"]})
        self.assertEqual(self.who(probe, "a"), "someone")

    def test_a_server_of_another_authority_is_not_trusted(self):
        path = self.plane.folder / "other.kubeconfig"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
                                    "clusters": [{"name": "c", "cluster": {"server": self.plane.server}}],
                                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}]}), encoding="utf-8")
        probe = Probe(path)
        self.addCleanup(probe.end)
        probe.tell(f"write a POST {WHO} {WHO_BODY}")
        line = probe.wait("done a ")
        self.assertIn("done a not_sent 0", line)
        self.assertIn("is not trusted: ", line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
