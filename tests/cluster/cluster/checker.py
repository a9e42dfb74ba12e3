"""Finds what a scheduler did wrong, from what the API server says and nothing else.

    with Recorder(plane.admin) as recorder:
        …
        verdict = check(recorder.caught_up(), plane.audit_log)
    assert not verdict.faults, verdict

Every version of every pod and node is gone through in the order of writing, and the books are recomputed at each. A pod is
judged at the moment when it is bound, against the node as it was then or at any time within a grace before: no scheduler can
know what was written while its binding was on the way. `grace_s` is at least the longest time for which the test holds up what
the scheduler sees or sends, or the scheduler itself. Of promises on a device there is no grace: all of them are the
scheduler's own.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from . import books

GRACE_S = 3.0
SCHEDULER = "berth-scheduler"


@dataclass
class Fault:
    """What went wrong: `kind` is one of the names below."""

    kind: str
    pod: str
    text: str
    version: int = 0

    def __str__(self):
        return f"{self.kind} {self.pod} at {self.version}: {self.text}"


@dataclass
class Verdict:
    faults: list = field(default_factory=list)
    bound: int = 0  # pods seen becoming bound
    bindings: Counter = field(default_factory=Counter)  # answers to bindings, from the audit log: {201: 40, 409: 2}
    waiting: list = field(default_factory=list)  # pods of the scheduler that are not bound at the end
    gaps: int = 0
    unseen: int = 0  # bindings that the audit log has and the watch never showed: only possible in a gap

    def kinds(self):
        return Counter(fault.kind for fault in self.faults)

    def __str__(self):
        head = f"{self.bound} bound, bindings {dict(self.bindings)}, {len(self.waiting)} waiting, {self.gaps} gaps"
        return "\n".join([head, *(str(fault) for fault in self.faults[:20])])


class Checker:
    def __init__(self, overcommit_percent=200, scheduler=SCHEDULER, grace_s=GRACE_S):
        self.grace_s = grace_s
        self.overcommit_percent = overcommit_percent
        self.scheduler = scheduler
        self.nodes = {}  # name -> [(time from which, NodeBook)], the last one is now
        self.pods = {}  # uid -> the last version
        self.bound = {}  # uid -> books.Bound
        self.on_device = defaultdict(dict)  # device uuid -> {uid: books.Share}
        self.on_node = defaultdict(dict)  # node -> {uid: books.Bound}
        self.verdict = Verdict()

    def fault(self, kind, pod, version, text):
        self.verdict.faults.append(Fault(kind, pod, text, version))

    # --- versions ----------------------------------------------------------------------------

    def take(self, record):
        if record.resource == "nodes":
            book = books.node_book(record.object) if record.type != "DELETED" else books.NodeBook(unschedulable=True)
            self.nodes.setdefault(record.object["metadata"]["name"], []).append((record.at, book))
        else:
            self.take_pod(record)

    def take_pod(self, record):
        pod, version = record.object, record.version
        meta = pod["metadata"]
        uid, name = meta["uid"], f"{meta['namespace']}/{meta['name']}"
        before = self.pods.get(uid)
        node = pod["spec"].get("nodeName")
        grant = meta.get("annotations", {}).get(books.GRANT)
        if before is not None:
            self.compare(before, pod, version)
        if grant is not None and node is None:
            self.fault("GrantWithoutNode", name, version, "a grant on a pod that is not bound")
        if record.type == "DELETED":
            self.pods.pop(uid, None)
            self.leave(uid)
            return
        self.pods[uid] = pod
        if books.is_over(pod):
            self.leave(uid)
        elif node is not None:
            first = uid not in self.bound and (before is None or before["spec"].get("nodeName") is None)
            self.enter(pod, version, record.at, first)

    def compare(self, before, pod, version):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        was, now = before["spec"].get("nodeName"), pod["spec"].get("nodeName")
        if was is not None and was != now:
            self.fault("Rebound", name, version, f"from {was} to {now}")
        old, new = (p["metadata"].get("annotations", {}).get(books.GRANT) for p in (before, pod))
        if was is not None and old != new:
            self.fault("GrantChanged", name, version, f"after the binding: {old} became {new}")

    def enter(self, pod, version, at, first):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        try:
            entry = books.bound(pod)
        except books.BadGrant as error:
            if first:
                self.fault("BadGrant", name, version, str(error))
            return
        self.leave(entry.uid)
        self.bound[entry.uid] = entry
        self.on_node[entry.node][entry.uid] = entry
        for uuid, share in entry.shares.items():
            self.on_device[uuid][entry.uid] = share
        if first:
            self.verdict.bound += 1
            self.judge(pod, entry, version, at)

    def leave(self, uid):
        entry = self.bound.pop(uid, None)
        if entry is not None:
            del self.on_node[entry.node][uid]
            for uuid in entry.shares:
                del self.on_device[uuid][uid]

    # --- the moment of binding -----------------------------------------------------------------

    def judge(self, pod, entry, version, at):
        history = self.nodes.get(entry.node)
        if not history:
            self.fault("NoSuchNode", entry.name, version, entry.node)
            return
        recent = [book for since, book in history[:-1] if self.valid_until(history, since) > at - self.grace_s] + [history[-1][1]]
        if all(book.unschedulable for book in recent):
            self.fault("Cordoned", entry.name, version, f"node {entry.node} is cordoned or gone")
        grant = pod["metadata"].get("annotations", {}).get(books.GRANT)
        if grant is not None and json.loads(grant)["node"] != entry.node:
            self.fault("NodeMismatch", entry.name, version, f"bound to {entry.node}, grant for {json.loads(grant)['node']}")
        if grant is None and pod["spec"].get("schedulerName") == self.scheduler and books.wants_gpu(pod):
            self.fault("NoGrant", entry.name, version, "asks for a GPU and was bound without a grant")
        for uuid in entry.shares:
            self.judge_device(entry, uuid, recent, version)
        self.judge_node(entry, recent, version)

    @staticmethod
    def valid_until(history, since):
        later = [start for start, _ in history if start > since]
        return min(later, default=float("inf"))

    def judge_device(self, entry, uuid, recent, version):
        known = [book.devices[uuid] for book in recent if uuid in book.devices]
        if not known:
            self.fault("NoSuchDevice", entry.name, version, f"{uuid} is not on {entry.node}")
            return
        usable = max(device.usable for device in known)
        held = list(self.on_device[uuid].values())
        promised = sum(share.mib for share in held)
        if promised > usable:
            self.fault("OverPromised", entry.name, version, f"{uuid}: {promised} MiB promised of {usable}")
        if sum(share.nano for share in held) > books.NANO:
            self.fault("OverPromised", entry.name, version, f"{uuid}: fractions add up to more than 1")
        if len(held) > 1 and any(share.exclusive for share in held):
            self.fault("SharedWhole", entry.name, version, f"{uuid} is wholly someone's and has {len(held)} holders")
        if sum(share.limit for share in held) * 100 > usable * self.overcommit_percent and not held[0].exclusive:
            self.fault("LimitOvercommit", entry.name, version, f"{uuid}: limits add up to more than {self.overcommit_percent} %")
        if len(frozenset().union(*(share.modes for share in held))) > 1:
            self.fault("MixedModes", entry.name, version, f"{uuid}: more than one compute mode")

    def judge_node(self, entry, recent, version):
        here = self.on_node[entry.node].values()
        used = {name: sum(b.resources[name] for b in here) for name in books.RESOURCES}
        used |= {"pods": len(here), books.WHOLE: sum(b.whole for b in here)}
        for resource, amount in used.items():
            room = max((book.allocatable.get(resource, 0) for book in recent), default=0)
            if amount > room and (resource in ("pods", *books.RESOURCES) or entry.whole):
                self.fault("NodeFull", entry.name, version, f"{entry.node}: {float(amount):g} of {float(room):g} {resource}")

    # --- the end -------------------------------------------------------------------------------

    def finish(self):
        """Who waits, and who was forgotten: neither bound nor told why."""
        for pod in self.pods.values():
            if pod["spec"].get("schedulerName") != self.scheduler or pod["spec"].get("nodeName") or books.is_over(pod):
                continue
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if pod["spec"].get("schedulingGates") or pod["metadata"].get("deletionTimestamp"):
                continue
            self.verdict.waiting.append(name)
            said = [c for c in pod.get("status", {}).get("conditions", ()) if c["type"] == "PodScheduled"]
            if not any(c["status"] == "False" and c.get("reason") for c in said):
                self.fault("Forgotten", name, int(pod["metadata"]["resourceVersion"]), "neither bound nor told why it waits")
        return self.verdict


def read_audit(path):
    """The entries of an audit log; a half-written last line is left out."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def bindings(audit):
    """Of every binding that reached the server: uid of the pod, node, code of the answer, user."""
    for entry in audit:
        ref = entry.get("objectRef", {})
        if ref.get("resource") == "pods" and ref.get("subresource") == "binding" and entry["verb"] == "create":
            asked = entry.get("requestObject", {})
            yield (asked.get("metadata", {}).get("uid") or f"{ref.get('namespace')}/{ref.get('name')}",
                   asked.get("target", {}).get("name"), entry.get("responseStatus", {}).get("code"), entry["user"]["username"])


def check(recorder, audit_log=None, **settings):
    """The verdict on everything that a recorder saw."""
    checker = Checker(**settings)
    records = recorder.in_order()
    for record in records:
        checker.take(record)
    verdict = checker.finish()
    verdict.gaps = recorder.gaps()
    if audit_log is not None:
        done = Counter()
        for uid, _, code, _ in bindings(read_audit(audit_log)):
            verdict.bindings[code] += 1
            done[uid] += code == 201
        for uid, times in done.items():
            if times > 1:
                checker.fault("BoundTwice", uid, 0, f"{times} bindings of one pod succeeded")
        seen = {r.object["metadata"]["uid"] for r in records if r.resource == "pods" and r.object["spec"].get("nodeName")}
        verdict.unseen = sum(1 for uid, times in done.items() if times and uid not in seen and "/" not in uid)
        if verdict.unseen and not verdict.gaps:
            checker.fault("Unseen", "-", 0, f"{verdict.unseen} bindings succeeded that no watch has shown")
    return verdict
