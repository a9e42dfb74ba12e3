"""The scenarios of annotations.md 6 on a real API server: the files that drive the engine, played with nodes and pods under `berth
scheduler` and `berth webhook` as they are installed. One server for all of them; each document has a scheduler of its own.

    python3 -B tests/kube/scenario_test.py [F07 B13 …]      some of them
"""

import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import ROOT, Installed  # noqa: E402
from cluster import ApiError, ControlPlane, Recorder, check  # noqa: E402
from cluster import books  # noqa: E402

FILES = ROOT / "tests" / "scenario" / "annotations"
PROGRAM = Path(os.environ.get("BERTH_TEST_DIR", ROOT / "build" / "tests")) / "kube_stories"
HOLD = "scenario.berth.dev/not-gone-yet"
SECONDS = 15

# What a cluster does not say of a device: the harbour's test compares these with the same file.
UNSEEN = {"releasing", "promised", "blocked", "compute", "committed"}


class Unmet(Exception):
    """What differs, for as long as it may still come."""


class Play:
    """One document."""

    def __init__(self, plane, berth, story):
        self.plane, self.berth, self.story = plane, berth, story
        self.api, self.namespaces, self.up = plane.admin, {}, False

    def run(self):
        settings = self.story["configuration"]
        self.berth.configuration = {"allowAdvisory": True, "wholeDevices": "berth", **settings}
        self.berth.queues = json.dumps(self.story["queues"]) if self.story["queues"] else None
        with Recorder(self.api) as recorder:
            try:
                self.api.create_nodes(self.story["nodes"])
                for deed in self.story["deeds"]:
                    if deed["do"] != "adopt" and not self.up:
                        self.start()  # what was bound before anybody looked is bound before it starts
                    try:
                        getattr(self, deed["do"])(deed)
                    except Unmet as error:
                        raise AssertionError(f"{self.story['file']}:{deed['line']}: {error}\n{self.berth.log()[-3000:]}") from None
                verdict = check(recorder.caught_up(), overcommit_percent=int(settings.get("limitOvercommitPercent", 200)))
                if verdict.faults:
                    raise AssertionError(f"{self.story['file']}: {verdict}")
            finally:
                self.clean()

    def start(self):
        self.berth.start_scheduler()
        self.up = True

    def clean(self):
        for pod in self.api.list("/api/v1/pods"):
            self.remove(pod["metadata"]["name"], pod["metadata"]["namespace"])
        if self.up:
            self.plane.kill("scheduler")
        for node in self.story["nodes"]:
            self.api.gone(f"/api/v1/nodes/{node['metadata']['name']}")

    # --- deeds -----------------------------------------------------------------------------------

    def path(self, name):
        return f"/api/v1/namespaces/{self.namespaces.get(name, 'default')}/pods/{name}"

    def create(self, pod):
        priority = pod["spec"].pop("priority")
        if priority:
            pod["spec"]["priorityClassName"] = f"scenario-{priority}"
            try:
                self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses",
                                {"metadata": {"name": f"scenario-{priority}"}, "value": priority})
            except ApiError as error:
                if error.code != 409:
                    raise
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.api.namespace(namespace)
        self.namespaces[name] = namespace
        return self.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    def submit(self, deed):
        name, refused = deed["pod"]["metadata"]["name"], deed["refused"]
        if refused:
            return self.must_be_refused(lambda: self.create(deed["pod"]), refused)
        self.create(deed["pod"])
        # A scenario's tasks arrive one after the other.
        self.until(lambda: self.decided(name))
        return None

    def must_be_refused(self, write, code):
        try:
            write()
        except ApiError as error:
            if code not in str(error):
                raise Unmet(f"refused, but without {code}: {error}") from None
            return
        raise Unmet(f"accepted; it should be refused with {code}")

    def decided(self, name):
        pod = self.api.get(self.path(name))
        if not pod["spec"].get("nodeName") and not said(pod):
            raise Unmet(f"{name} is neither bound nor told why")

    def adopt(self, deed):
        if deed["foreign"]:  # KAI writes its annotations first, and then binds
            deed["pod"]["metadata"]["annotations"] |= deed["annotations"]
            self.api.bind(self.create(deed["pod"]), deed["node"])
        else:
            self.plane.api("scheduler").bind(self.create(deed["pod"]), deed["node"], deed["annotations"])
        self.api.pod_status(deed["pod"]["metadata"]["name"], "Running", deed["pod"]["metadata"]["namespace"])

    def end(self, deed):
        self.remove(deed["name"], self.namespaces.get(deed["name"], "default"))

    def remove(self, name, namespace):
        try:
            if self.api.pod(name, namespace)["metadata"].get("finalizers"):
                self.api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}", {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.code != 404:
                raise
        self.api.delete_pod(name, namespace)

    def releasing(self, deed):
        self.api.patch(self.path(deed["name"]), {"metadata": {"finalizers": [HOLD]}})
        self.api.delete(self.path(deed["name"]), {"gracePeriodSeconds": 0})
        # The devices do not show it, but a pod that comes next must be decided knowing of it.
        self.until(lambda: self.state_is(deed["name"], "ending"))

    def state_is(self, name, state):
        if (found := self.lease(name)["state"]) != state:
            raise Unmet(f"{name} is {found}, not {state}")

    def initialized(self, deed):
        self.api.pod_status(deed["name"], "Running", conditions=[{"type": "Initialized", "status": "True"}])

    def edit(self, deed):
        def write():
            self.plane.api("tenant").patch(self.path(deed["name"]), {"metadata": {"annotations": deed["annotations"]}})
        if deed["refused"]:
            self.must_be_refused(write, deed["refused"])
        else:
            write()

    def restart(self, _):
        self.plane.kill("scheduler")
        self.start()

    def expect(self, deed):
        self.until(lambda: self.all_met(deed))
        time.sleep(0.2)
        self.all_met(deed)  # it stays so

    # --- expectations ----------------------------------------------------------------------------

    def until(self, look):
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return look()
            except Unmet:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.03)

    def lease(self, name):
        return self.berth.face(f"/v1/leases/{self.namespaces.get(name, 'default')}/{name}/explain")

    def all_met(self, deed):
        for name, wanted in deed["workloads"].items():
            Workload(self, name, wanted).look()
        devices = {device["uuid"]: device for device in self.berth.face("/v1/devices")["devices"]}
        pods = [books.bound(p) for p in self.api.list("/api/v1/pods") if p["spec"].get("nodeName") and not books.is_over(p)]
        for uuid, page in deed["devices"].items():
            same(uuid, {k: v for k, v in page.items() if k not in UNSEEN}, figures(devices[uuid], uuid, pods, page))
        for name, page in deed["nodes"].items():
            node = books.node_book(self.api.get(f"/api/v1/nodes/{name}"))
            free = node.allocatable["memory"] - sum(p.resources["memory"] for p in pods if p.node == name)
            same(name, {k: v for k, v in page.items() if k == "ram_free"}, {"ram_free": free / 2**20})


def figures(device, uuid, pods, page):
    """A device as the scheduler sees it; its requests and limits from the pods alone, unless some of it is only promised."""
    held = [pod.shares[uuid] for pod in pods if uuid in pod.shares]
    found = {"headroom": device["headroom_mib"], "grants": len(device["leases"]), "usable": device["total_mib"] - device["reserve_mib"],
             "requests": device["promised_mib"] + device["foreign_mib"], "limits": sum(share.limit for share in held),
             "use": {"free": "free", "exclusive": "whole"}.get(device["mode"], "shared"), "mode": device["mode"]}
    if "promised" not in page and not device["foreign_mib"] and device["mode"] != "exclusive":
        found["requests"] = sum(share.mib for share in held)
    return found


def same(subject, wanted, found):
    for name, value in wanted.items():
        if found.get(name) != value:
            raise Unmet(f"{subject}: {name} is {found.get(name)!r}, not {value!r}")


def said(pod):
    """The condition that says why it waits."""
    return next((c for c in pod.get("status", {}).get("conditions", ())
                 if c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message")), None)


class Workload:
    """One pod against what is expected of it."""

    def __init__(self, play, name, wanted):
        self.play, self.name, self.wanted = play, name, wanted
        self.pod = play.api.get(play.path(name))
        self.notes = self.pod["metadata"].get("annotations", {})
        self.node = self.pod["spec"].get("nodeName")

    def look(self):
        state = self.wanted.get("state")
        if state == "granted" and not self.node:
            raise Unmet(f"{self.name} is not bound: {(said(self.pod) or {}).get('message')}")
        if state in ("promised", "waiting", "never") and self.node:
            raise Unmet(f"{self.name} is on {self.node}")
        if self.node:
            self.look_at_grant()
        else:
            self.look_at_verdict(state)

    def same(self, wanted, found):
        same(self.name, wanted, found)

    def look_at_grant(self):
        self.same({k: self.wanted[k] for k in ("node",) if k in self.wanted}, {"node": self.node})
        if books.GRANT in self.notes:
            shares = [d for c in books.read_grant(self.notes[books.GRANT])["containers"] for d in c["devices"]]
            found = {"on": [d["uuid"] for d in shares], "request": max(d["requestMiB"] for d in shares),
                     "limit": max(d["limitMiB"] for d in shares)}
            self.same({k: self.wanted[k] for k in found if k in self.wanted}, found)
        self.same(self.wanted["annotations"], self.notes)
        for container, variables in self.wanted["env"].items():
            self.same(variables, self.environment(container))

    def environment(self, name):
        """As a kubelet gives it: references to annotations are read when the container starts."""
        every = [*self.pod["spec"].get("initContainers", ()), *self.pod["spec"]["containers"]]
        found = {}
        for entry in next(c for c in every if c["name"] == name).get("env", ()):
            path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            found[entry["name"]] = self.notes.get(path[len("metadata.annotations['"):-2], "") if path else entry.get("value", "")
        return found

    def look_at_verdict(self, state):
        lease = self.play.lease(self.name)
        detail = lease.get("detail", {})
        condition = said(self.pod)
        if condition is None:
            raise Unmet(f"{self.name} waits and nobody says why")
        devices = detail.get("devices", {})
        found = {"state": self.state(detail), "cause": detail.get("cause"), "stage": detail.get("stage"), "reason": condition["reason"],
                 "summary": self.shorten(detail.get("summary", "")), "need": devices.get("needMiB"),
                 "largest_free": devices.get("largestFreeMiB"), "free_total": devices.get("freeTotalMiB"),
                 "nodes": detail.get("nodes", {}).get("byReason")}
        self.same({k: self.wanted[k] for k in found if k in self.wanted}, found)
        words = self.shorten(condition["message"])
        for part in self.wanted["says"]:
            if part not in words and part not in found["summary"]:
                raise Unmet(f"{self.name} says {words!r}, not {part!r}")
        if state == "promised":
            self.same({"on": self.wanted.get("on", self.promised_on())}, {"on": self.promised_on()})

    def promised_on(self):
        return [d["uuid"] for d in self.play.berth.face("/v1/devices")["devices"] if f"default/{self.name}" in d["leases"]]

    def state(self, detail):
        return "promised" if self.promised_on() else detail.get("outcome")

    def shorten(self, text):
        for uuid, short in self.play.story["names"].items():
            text = text.replace(uuid, short)
        return text


def stories(names=()):
    files = [f for f in sorted(FILES.glob("*.yaml")) if f.name[0] in "FB" or f.name.startswith("N-")]
    files = [f for f in files if not names or f.stem in names]
    printed = subprocess.run([PROGRAM, *files], capture_output=True, text=True, check=True).stdout
    return [story for line in printed.splitlines() for story in json.loads(line)]


class ScenariosOnAServer(unittest.TestCase):
    names = ()

    def test_come_to_the_same(self):
        played, left = 0, []
        with ControlPlane() as plane:
            berth = Installed(plane, {"allowAdvisory": True, "wholeDevices": "berth"}).start(scheduler=False)
            plane.grant("tenant", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}])
            for story in stories(self.names):
                if story["skip"]:
                    left.append(f"{story['file']}:{story['line']}: {story['skip']}")
                    continue
                with self.subTest(f"{story['file']}:{story['line']} {story['about']}"):
                    Play(plane, berth, story).run()
                played += 1
        print(f"{played} documents played; not for pods: {'; '.join(left) or 'none'}", file=sys.stderr)
        self.assertGreater(played, 0 if self.names else 50)


if __name__ == "__main__":
    ScenariosOnAServer.names = [word for word in sys.argv[1:] if not word.startswith("-") and word != "ScenariosOnAServer"]
    unittest.main(argv=sys.argv[:1])
