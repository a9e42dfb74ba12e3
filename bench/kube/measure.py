"""What is measured, and how: times come from the audit log of the API server, CPU and memory from the kernel.

Each run has a control plane of its own (etcd without fsync; said in the rows' notes). A burst is created while no scheduler runs;
then the scheduler starts, and its rate is that between its first and its last binding, so that neither its start nor the
creation of pods is in the figure.
"""

import datetime
import http.client
import threading
import time
from collections import Counter
from dataclasses import dataclass

from cluster import ControlPlane, objects
from cluster.checker import read_audit
from cluster.programs import ROOT

from schedulers import Running

SHARE = {"gpu-memory": "20389", "gpu-memory.limit": "40779Mi"}
WHOLE = {"nvidia.com/gpu": "1"}


@dataclass
class Result:
    pods_per_s: float
    cpu_ms_per_pod: float
    rss_mib: float
    writes: dict  # per pod: {"bindings", "events", "others"}
    latencies_ms: list


def stamp(entry):
    return datetime.datetime.fromisoformat(entry["stageTimestamp"]).timestamp()


def one_pod(name, whole):
    return objects.pod(name, {} if whole else SHARE, limits=WHOLE if whole else None)


class Bench:
    """A control plane with nodes of 8 devices."""

    def __init__(self, nodes):
        self.counters = []
        self.plane = ControlPlane().start()
        self.admin = self.plane.admin
        # All run as Berth's account, with the rights and the flow control that it is installed with.
        for file in ("namespace", "accounts", "flow-control"):
            self.plane.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / f"{file}.yaml"))
        self.admin.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "bench-kube-scheduler"},
            "subjects": [{"kind": "User", "name": self.plane.users["scheduler"][1]}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kube-scheduler"}})
        self.admin.create_nodes([objects.node(f"node-{number:05}") for number in range(nodes)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for counter in self.counters:
            counter.ended = True
        self.plane.end()

    def start(self, scheduler, name="scheduler-under-test"):
        return Running(self.plane, name, scheduler.argv(self.plane))

    def create(self, count, whole, prefix="p"):
        self.admin.create_pods([one_pod(f"{prefix}-{number:06}", whole) for number in range(count)])

    def audit(self, since=0.0):
        return [entry for entry in read_audit(self.plane.audit_log) if stamp(entry) >= since]

    def bindings(self):
        """Name of a pod -> when its binding was answered with 201."""
        return {e["objectRef"]["name"]: stamp(e) for e in read_audit(self.plane.audit_log)
                if e["objectRef"].get("subresource") == "binding" and e.get("responseStatus", {}).get("code") == 201}

    def creations(self):
        return {e["objectRef"]["name"]: stamp(e) for e in read_audit(self.plane.audit_log)
                if e["verb"] == "create" and e["objectRef"].get("resource") == "pods" and not e["objectRef"].get("subresource")}

    def watch_bound(self):
        self.counters.append(BoundCounter(self.admin))
        return self.counters[-1]

    def writes_per_pod(self, user, pods):
        counts = Counter()
        for entry in read_audit(self.plane.audit_log):
            if entry["user"]["username"] == user and entry["verb"] in ("create", "update", "patch", "delete"):
                ref = entry["objectRef"]
                kind = {"binding": "bindings"}.get(ref.get("subresource"), "events" if ref["resource"] == "events" else "others")
                if ref["resource"] != "leases":
                    counts[kind] += 1
        return {kind: counts[kind] / pods for kind in ("bindings", "events", "others")}


class BoundCounter:
    """Counts pods as they become bound, by a watch of its own."""

    def __init__(self, api):
        self.count = 0
        self.ended = False
        self.changed = threading.Condition()
        version = api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        self.thread = threading.Thread(target=self.follow, args=(api, version), daemon=True)
        self.thread.start()

    def follow(self, api, version):
        """The server ends the watch of who reads too slowly: it goes on where it was."""
        seen = set()
        while not self.ended:
            try:
                for kind, pod in api.watch("/api/v1/pods?fieldSelector=spec.nodeName!=", version):
                    version = pod["metadata"]["resourceVersion"]
                    if kind in ("ADDED", "MODIFIED"):
                        seen.add(pod["metadata"]["uid"])
                        with self.changed:
                            self.count = len(seen)
                            self.changed.notify_all()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)  # at the end of a run the server goes first

    def wait(self, count, running, seconds=240):
        deadline = time.monotonic() + seconds
        with self.changed:
            while self.count < count:
                if not self.changed.wait(timeout=2) and not running.alive():
                    raise AssertionError(f"{running.name} has ended; see {running.plane.log(running.name)}")
                if time.monotonic() > deadline:
                    raise AssertionError(f"{running.name} bound {self.count} of {count} pods in {seconds} s")


def burst(scheduler, nodes=1000, pods=5000, whole=False):
    """One run: pods that wait, a scheduler that starts."""
    with Bench(nodes) as bench:
        bench.create(pods, whole)
        bound = bench.watch_bound()
        running = bench.start(scheduler)
        bound.wait(1, running)
        cpu_at_first = running.cpu_ms()
        bound.wait(pods, running)
        cpu = running.cpu_ms() - cpu_at_first
        rss = running.rss_mib()
        time.sleep(2)  # events may follow the burst
        running.end()
        times = sorted(bench.bindings().values())
        writes = bench.writes_per_pod(bench.plane.users["scheduler"][1], pods)
    rate = (len(times) - 1) / (times[-1] - times[0])
    return Result(rate, cpu / pods, rss, writes, [])


def steady(scheduler, nodes=1000, per_second=50, seconds=20):
    """Pods that come evenly: from the answer to the creation to that of the binding."""
    with Bench(nodes) as bench:
        bound = bench.watch_bound()
        running = bench.start(scheduler)
        bench.create(20, False, "warm")
        bound.wait(20, running)
        began = time.monotonic()
        total = per_second * seconds
        for number in range(total):
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            bench.create(1, False, f"steady{number}")
        bound.wait(total + 20, running)
        running.end()
        bindings, creations = bench.bindings(), bench.creations()
        latencies = [(bindings[name] - made) * 1000 for name, made in creations.items() if name.startswith("steady")]
    return Result(0, 0, 0, {}, sorted(latencies))


def percentile(ordered, percent):
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
