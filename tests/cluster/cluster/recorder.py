"""Records what the API server says about pods and nodes, version by version, for checker.py.

It only watches. Where history was lost (410 after the server was restarted) it lists and notes a gap: what happened in between
is then known from the audit log alone. To be spared that, watch a witness (`ControlPlane.start_witness`).
"""

import http.client
import threading
import time
from dataclasses import dataclass

from .client import ApiError

PATHS = {"pods": "/api/v1/pods", "nodes": "/api/v1/nodes"}


@dataclass
class Record:
    """One version of an object. `type`: ADDED, MODIFIED, DELETED; GAP with no object."""

    resource: str
    type: str
    object: dict
    at: float  # local time, in seconds

    @property
    def version(self):
        return int(self.object["metadata"]["resourceVersion"])


class Recorder:
    def __init__(self, api):
        self.api = api
        self.records = []
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.versions = {}  # the last one seen per resource
        self.present = {resource: {} for resource in PATHS}  # uid -> the object as it was seen last
        self.stopping = False
        self.threads = []

    def __enter__(self):
        for resource, path in PATHS.items():
            listed = self.api.get(path)
            for item in listed["items"]:
                self.note(resource, "ADDED", item)
            self.versions[resource] = int(listed["metadata"]["resourceVersion"])
            thread = threading.Thread(target=self.follow, args=(resource, path), daemon=True)
            thread.start()
            self.threads.append(thread)
        return self

    def __exit__(self, *_):
        self.stopping = True

    def note(self, resource, kind, item):
        with self.changed:
            self.records.append(Record(resource, kind, item, time.time()))
            if kind == "DELETED":
                self.present[resource].pop(item["metadata"]["uid"], None)
            elif kind != "GAP":
                self.present[resource][item["metadata"]["uid"]] = item
            self.changed.notify_all()

    def follow(self, resource, path):
        while not self.stopping:
            try:
                for kind, item in self.api.watch(path, self.versions[resource]):
                    if self.stopping:
                        return
                    if kind == "ERROR":
                        if item.get("code") == 410:
                            self.again(resource, path)
                        break
                    if kind != "BOOKMARK":
                        self.note(resource, kind, item)
                    with self.changed:
                        self.versions[resource] = int(item["metadata"]["resourceVersion"])
                        self.changed.notify_all()
            except ApiError as error:
                if error.code == 410:
                    self.again(resource, path)
            except (OSError, ValueError, http.client.HTTPException):
                pass  # the server is away: the next try goes on where this one ended
            time.sleep(0.02)

    def again(self, resource, path):
        """After lost history: what is there now, and what is not there any more."""
        try:
            listed = self.api.get(path)
        except (OSError, ValueError, ApiError, http.client.HTTPException):
            return
        with self.lock:
            last = {}
            for record in self.records:
                if record.resource == resource and record.type != "GAP":
                    last[record.object["metadata"]["uid"]] = record
        self.note(resource, "GAP", {})
        present = {item["metadata"]["uid"] for item in listed["items"]}
        version = listed["metadata"]["resourceVersion"]
        for uid, record in last.items():
            if uid not in present and record.type != "DELETED":
                gone = {**record.object, "metadata": {**record.object["metadata"], "resourceVersion": version}}
                self.note(resource, "DELETED", gone)
        for item in listed["items"]:
            self.note(resource, "ADDED" if item["metadata"]["uid"] not in last else "MODIFIED", item)
        self.versions[resource] = int(version)

    def caught_up(self, seconds=30):
        """Waits until everything written before this call was seen. Both resources need a write of their own for that,
        since versions of quiet resources do not move: a pod and a node of the recorder's."""
        name = f"recorder-{time.monotonic_ns():x}"
        pod = {"metadata": {"name": name, "namespace": "default"},
               "spec": {"schedulerName": "nobody", "containers": [{"name": "none", "image": "none"}]}}
        marks = {"nodes": self.api.create("/api/v1/nodes", {"metadata": {"name": name}, "spec": {"unschedulable": True}}),
                 "pods": self.api.create("/api/v1/namespaces/default/pods", pod)}
        wanted = {resource: int(mark["metadata"]["resourceVersion"]) for resource, mark in marks.items()}
        try:
            with self.changed:
                if not self.changed.wait_for(lambda: all(self.versions[r] >= v for r, v in wanted.items()), seconds):
                    raise AssertionError(f"the recorder is at {self.versions}, not at {wanted}")
        finally:
            self.api.delete(f"/api/v1/nodes/{name}")
            self.api.gone(f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        return self

    def now(self, resource):
        """What is there, as far as it was seen; without asking the server."""
        with self.lock:
            return list(self.present[resource].values())

    def in_order(self):
        """Everything recorded, in the order in which the server wrote it."""
        with self.lock:
            records = list(self.records)
        ordered = [r for r in records if r.type != "GAP"]
        ordered.sort(key=lambda r: r.version)  # stable: one resource's records are in order already
        return ordered

    def gaps(self):
        with self.lock:
            return sum(1 for record in self.records if record.type == "GAP")
