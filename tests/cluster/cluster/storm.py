"""Churn and faults at random, for a scheduler to survive: pods come, run, end and are deleted, nodes are cordoned, deleted and made
anew, the proxy does its worst, servers are killed. Then everything calms down, and checker.py has the last word.

    storm = Storm(plane, faults, nodes=20, seed=7)
    storm.blow(seconds=30, pods=200)
    storm.calm()                    # nothing more happens; every pod must be bound or told why
    verdict = storm.verdict()

The same seed gives the same decisions here; what the scheduler makes of them depends on the machine's timing.

What a test does besides (a scheduler killed, a webhook down) it adds: `rare` are happenings of which one comes every `rare_s`
seconds, in an order drawn anew each round, so that each has its turn. `hold_s` is the longest time for which any of it holds up a
scheduler or what it sees; the checker's grace follows from it.
"""

import http.client
import random
import time
from collections import Counter

from . import objects
from .checker import check
from .client import ApiError
from .recorder import Recorder

# Requests of one container, by annotations.md 1.2: annotations, limits.
REQUESTS = [({"gpu-memory": "8192"}, None), ({"gpu-memory": "20000", "gpu-memory.limit": "40Gi"}, None),
            ({"gpu-fraction": "0.25"}, None), ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, None),
            ({}, {"nvidia.com/gpu": "1"}), ({}, {"nvidia.com/gpu": "2"}), ({}, {"nvidia.com/gpumem": "10000"})]

# The six causes of a 409 (kubernetes-api.md 4). Where it is not so the text lies, and the scheduler has to look.
CONFLICTS = ["Precondition failed: UID in precondition: a, UID in object meta: b",
             "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: 2",
             "pod p is being deleted, cannot be assigned to a host", 'pod p is already assigned to node "storm-0"',
             'pod p is already assigned to node "storm-1"', "pod p has non-empty .spec.schedulingGates"]

# Faults of the proxy, each for so many requests; writes and watches.
FAULTS = [
    {"action": "answer", "code": 429, "reason": "TooManyRequests", "retry_after": 1, "method": "POST", "path": "/binding"},
    {"action": "answer", "code": 500, "reason": "InternalError", "method": "POST", "path": "/binding"},
    {"action": "answer", "code": 504, "reason": "Timeout", "method": "POST", "path": "/binding"},
    *({"action": "answer", "code": 409, "reason": "Conflict", "message": message, "method": "POST", "path": "/binding"}
      for message in CONFLICTS),
    {"action": "drop", "method": "POST", "path": "/binding"}, {"action": "drop_answer", "method": "POST", "path": "/binding"},
    {"action": "cut_connection", "method": "POST", "path": "/binding"}, {"action": "twice", "method": "POST", "path": "/binding"},
    {"action": "delay", "delay_ms": 700, "method": "POST", "path": "/binding"}, {"action": "goaway"},
    {"action": "answer", "code": 500, "reason": "InternalError", "method": "PATCH"},
    {"action": "answer", "code": 410, "reason": "Expired", "watch": True}, {"action": "expire", "watch": True, "events": 3},
    {"action": "cut", "watch": True, "events": 2}, {"action": "cut", "watch": True, "bytes": 5000},
    {"action": "end", "watch": True, "events": 1}, {"action": "stall", "watch": True, "events": 2, "delay_ms": 1500},
    # One resource's watch behind the others': what happened comes in another order.
    {"action": "stall", "watch": True, "path": "/pods", "events": 1, "delay_ms": 1200},
    {"action": "stall", "watch": True, "path": "/nodes", "events": 1, "delay_ms": 1200},
    {"action": "slow", "watch": True, "delay_ms": 30}, {"action": "duplicate", "watch": True}, {"action": "bytewise", "watch": True},
    {"action": "answer", "code": 500, "reason": "InternalError", "method": "GET", "watch": False}]

AWAY = (OSError, http.client.HTTPException)
UNTIL_WRITTEN_S = 3  # from the end of what held up a write until it is written


class Storm:
    def __init__(self, plane, faults, nodes=20, gpus=4, seed=1, restarts=False, rare=(), rare_s=6, hold_s=3):
        """`restarts`: etcd and the API server are killed too; the recorder then watches a witness."""
        self.plane, self.faults, self.admin = plane, faults, plane.admin
        self.random = random.Random(seed)
        self.gpus, self.rare_s, self.hold_s = gpus, rare_s, hold_s
        self.rare = list(rare) + ([self.kill_etcd, self.kill_api_server] if restarts else [])
        self.turn = []  # of this round of rare happenings
        self.recorder = Recorder(plane.start_witness() if restarts else plane.admin).__enter__()
        self.made = self.machines = 0
        self.names = [f"storm-{number}" for number in range(nodes)]
        self.admin.create_nodes([self.node(name) for name in self.names])
        self.did = Counter()

    def node(self, name):
        """Another machine each time."""
        self.machines += 1
        return objects.node(name, gpus=self.random.randint(1, self.gpus), machine=f"{name}-{self.machines}",
                            total_mib=self.random.choice([24576, 40960, 81559]))

    # --- what happens ------------------------------------------------------------------------

    def come(self):
        annotations, limits = self.random.choice(REQUESTS)
        self.made += 1
        self.admin.create_pods([objects.pod(f"s{self.made:05}", annotations, limits=limits)])

    def some_pod(self, bound):
        # What has ended stays so: no kubelet brings a pod back.
        pods = sorted((p for p in self.recorder.now("pods") if bool(p["spec"].get("nodeName")) == bound
                       and p["status"].get("phase") not in ("Succeeded", "Failed")), key=lambda p: p["metadata"]["name"])
        return self.random.choice(pods)["metadata"]["name"] if pods else None

    def run(self):
        if name := self.some_pod(bound=True):
            self.admin.pod_status(name, "Running")

    def over(self):
        if name := self.some_pod(bound=True):
            self.admin.pod_status(name, self.random.choice(["Succeeded", "Failed"]))

    def go(self):
        if name := self.some_pod(bound=self.random.random() < 0.8):
            self.admin.delete_pod(name)

    def again(self):
        """Deleted and made anew under the same name, at once."""
        if name := self.some_pod(bound=False):
            self.admin.delete_pod(name)
            annotations, limits = self.random.choice(REQUESTS)
            self.admin.create_pods([objects.pod(name, annotations, limits=limits)])

    def cordon(self):
        name = self.random.choice(self.names)
        self.admin.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": self.random.random() < 0.3 or None}})

    def other_devices(self):
        """A node that is gone and comes back as another machine. Its pods go with it, as a controller would have it."""
        name = self.random.choice(self.names)
        self.admin.gone(f"/api/v1/nodes/{name}")
        for pod in self.admin.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}"):
            self.admin.delete_pod(pod["metadata"]["name"])
        self.admin.create_nodes([self.node(name)])  # calm() makes it if this fails

    def fault(self):
        self.faults.rule(**self.random.choice(FAULTS), times=self.random.randint(1, 5))

    def close(self):
        self.faults.close_connections()

    def kill_etcd(self):
        self.plane.kill("etcd")
        self.plane.start_etcd()
        self.admin.until(lambda: self.plane.answers(self.admin), "the API server is ready again")

    def kill_api_server(self):
        self.plane.kill("kube-apiserver")
        self.plane.start_api_server()
        self.admin = self.plane.admin

    def blow(self, seconds, pods):
        """Things happen for so long; so many pods come, evenly."""
        happenings = [(self.run, 6), (self.over, 4), (self.go, 4), (self.again, 2), (self.cordon, 1), (self.other_devices, 1),
                      (self.fault, 6), (self.close, 0.3)]
        began = time.monotonic()
        next_rare, until = began + self.rare_s, self.made + pods
        already = self.made
        while (passed := time.monotonic() - began) < seconds or self.made < until:
            while self.made - already < pods * min(1, passed / seconds):
                self.attempt(self.come)
            if self.rare and time.monotonic() > next_rare:
                if not self.turn:
                    self.turn = self.random.sample(self.rare, len(self.rare))
                started = time.monotonic()
                self.attempt(self.turn.pop())
                # Servers take their time to come back on a busy machine; a write may wait inside them meanwhile.
                self.hold_s = max(self.hold_s, time.monotonic() - started + UNTIL_WRITTEN_S)
                next_rare = time.monotonic() + self.rare_s
            self.attempt(self.random.choices([h for h, _ in happenings], [w for _, w in happenings])[0])
            time.sleep(0.02)

    def attempt(self, happening):
        """What fails because a pod has just gone, or a server is away, is tried another time."""
        self.did[happening.__name__] += 1
        try:
            happening()
        except (ApiError, *AWAY):
            time.sleep(0.05)

    # --- the end -------------------------------------------------------------------------------

    def calm(self, seconds=60):
        """No more faults; every node is open. Waits until each pod is bound or told why, for two seconds in a row."""
        self.faults.clear()
        self.faults.thaw()
        for name in self.names:
            try:
                self.admin.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
            except ApiError as error:
                if error.code != 404:
                    raise
                self.admin.create_nodes([self.node(name)])
        deadline, quiet = time.monotonic() + seconds, 0
        while quiet < 4 and time.monotonic() < deadline:
            undecided = [p for p in self.admin.list("/api/v1/pods") if not self.is_decided(p)]
            quiet = 0 if undecided else quiet + 1
            time.sleep(0.5)

    @staticmethod
    def is_decided(pod):
        conditions = pod["status"].get("conditions", ())
        return bool(pod["spec"].get("nodeName")) or any(c["type"] == "PodScheduled" for c in conditions)

    def verdict(self):
        return check(self.recorder.caught_up(), self.plane.audit_log, grace_s=self.hold_s)

    def end(self):
        self.recorder.__exit__()
