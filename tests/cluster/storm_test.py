"""The storm and the checker together: a scheduler that reads everything anew before each decision survives, one that trusts its
memory is found out."""

import http.client
import json
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import ApiError, ControlPlane, objects  # noqa: E402
from cluster.client import STRATEGIC_MERGE  # noqa: E402
from cluster.faults import FaultProxy  # noqa: E402
from cluster.storm import Storm  # noqa: E402

RIGHTS = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
          {"apiGroups": [""], "resources": ["pods/binding", "pods/status"], "verbs": ["create", "patch"]}]
AWAY = (OSError, http.client.HTTPException, ValueError, ApiError)


class FirstFit(threading.Thread):
    """Takes the first device that has room, for requests by memory; everything else is told to wait. `forgetful`: it
    counts only what it reads once, at its start."""

    def __init__(self, api, forgetful=False):
        super().__init__(daemon=True)
        self.api, self.forgetful = api, forgetful
        self.stopping = threading.Event()
        self.promised = {}
        self.number = 0

    def run(self):
        while not self.stopping.wait(0.05):
            try:
                self.round()
            except AWAY:
                pass  # everything is read anew

    def round(self):
        pods, nodes = self.api.list("/api/v1/pods"), self.api.list("/api/v1/nodes")
        if not self.forgetful:
            self.promised = {}
        for pod in pods:
            if not self.forgetful and pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                for container in json.loads(pod["metadata"]["annotations"].get("berth.dev/grant", '{"containers":[]}'))["containers"]:
                    for device in container["devices"]:
                        self.promised[device["uuid"]] = self.promised.get(device["uuid"], 0) + device["requestMiB"]
        for pod in pods:
            if not pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == "berth-scheduler":
                self.place(pod, nodes)

    def place(self, pod, nodes):
        mib = int(pod["metadata"].get("annotations", {}).get("gpu-memory", 0))
        for node in nodes if mib else ():
            if node["spec"].get("unschedulable"):
                continue
            for device in json.loads(node["metadata"]["annotations"]["berth.dev/devices"])["devices"]:
                if self.promised.get(device["uuid"], 0) + mib <= device["totalMiB"] - device["reserveMiB"]:
                    return self.bind(pod, node["metadata"]["name"], device["uuid"], mib)
        if not any(c["type"] == "PodScheduled" for c in pod["status"].get("conditions", ())):
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
            why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
            self.api.patch(path, {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [why]}}, STRATEGIC_MERGE)
        return None

    def bind(self, pod, node, uuid, mib):
        self.number += 1
        share = {"uuid": uuid, "requestMiB": mib, "limitMiB": mib}
        grant = {"containers": [{"devices": [share], "exclusive": False, "kind": "app", "mode": "time-slicing", "name": "main"}],
                 "id": f"g-{self.number:08x}", "node": node, "v": 1}
        if not self.forgetful:
            self.promised[uuid] = self.promised.get(uuid, 0) + mib
        self.api.bind(pod, node, {"berth.dev/grant": json.dumps(grant, sort_keys=True, separators=(",", ":"))})

    def end(self):
        self.stopping.set()
        self.join()


class Storms(unittest.TestCase):
    def through(self, forgetful, seconds, pods, restarts=False):
        with ControlPlane() as plane:
            plane.grant("scheduler", RIGHTS)
            faults = FaultProxy(plane)
            storm = Storm(plane, faults, nodes=6, gpus=2, restarts=restarts)
            scheduler = FirstFit(faults.api(), forgetful)
            scheduler.start()
            try:
                storm.blow(seconds, pods)
                if forgetful:  # more than any device holds, all of which he puts on the first one
                    plane.admin.create_pods([objects.pod(f"flood-{n}", {"gpu-memory": "8192"}) for n in range(12)])
                storm.calm()
                return storm.verdict()
            finally:
                scheduler.end()
                storm.end()

    def test_who_reads_everything_anew_survives_it(self):
        verdict = self.through(forgetful=False, seconds=25, pods=150, restarts=True)
        self.assertEqual(verdict.faults, [], str(verdict))
        self.assertGreater(verdict.bound, 20, str(verdict))
        self.assertEqual(verdict.gaps, 0)

    def test_who_trusts_his_memory_is_found_out(self):
        verdict = self.through(forgetful=True, seconds=8, pods=60)
        self.assertIn("OverPromised", verdict.kinds(), str(verdict))


if __name__ == "__main__":
    unittest.main()
