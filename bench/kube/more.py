"""The measurements beside the burst: start, idle, failover, the webhook."""

import contextlib
import http.client
import json
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse
import uuid

from cluster import ControlPlane, objects
from cluster.control_plane import free_port

from measure import Bench, percentile


def start_ms(scheduler, nodes=1000, pods=10000):
    """From the start of the process to its first binding, with so many pods already bound, and the server's own time for
    listing pods and nodes."""
    with Bench(nodes) as bench:
        filler = [objects.pod(f"old-{number:06}", nodeName=f"node-{number % nodes:05}", scheduler="other")
                  for number in range(pods)]
        bench.admin.create_pods(filler)
        bench.create(1, False, "first")
        began = time.monotonic()
        for path in ("/api/v1/pods?resourceVersion=0", "/api/v1/nodes?resourceVersion=0"):
            bench.admin.raw("GET", path)
        listed = (time.monotonic() - began) * 1000
        bound = bench.watch_bound()
        began = time.time()
        running = bench.start(scheduler)
        bound.wait(1, running)
        running.end()
        first = min(at for name, at in bench.bindings().items() if name.startswith("first"))
    return (first - began) * 1000, listed


def idle_calls(scheduler, nodes=10, pods=10000, quiet_s=30, minutes=1):
    """API calls per minute with pods that can never run, once everything was said: conditions first, events after them."""
    with Bench(nodes) as bench:
        bench.admin.create_pods([objects.pod(f"never-{number:06}", {"gpu-memory": "900000"}) for number in range(pods)])
        running = bench.start(scheduler)
        deadline = time.monotonic() + 600
        while unexplained(bench.admin) and time.monotonic() < deadline:
            time.sleep(1)
        user = bench.plane.users["scheduler"][1]

        def writes_since(when):
            return any(e["user"]["username"] == user and e["verb"] in ("create", "patch") for e in bench.audit(when))

        while writes_since(time.time() - quiet_s) and time.monotonic() < deadline:
            time.sleep(5)
        since = time.time()
        time.sleep(minutes * 60)
        calls = [e for e in bench.audit(since) if e["user"]["username"] == user]
        alive = running.alive()
        running.end()
    if not alive:
        raise AssertionError("the scheduler has ended")
    return len(calls) / minutes


def unexplained(api):
    return any(not any(c["type"] == "PodScheduled" for c in pod["status"].get("conditions", ()))
               for pod in api.list("/api/v1/pods"))


def failover_s(scheduler, nodes=100, per_second=10):
    """Two that elect a leader; the leader is killed while pods keep coming: the longest time without a binding."""
    with Bench(nodes) as bench:
        bound = bench.watch_bound()
        both = [bench.start(scheduler, f"leader-{number}") for number in (0, 1)]
        stopping = threading.Event()

        def coming():
            number = 0
            while not stopping.wait(1 / per_second):
                bench.create(1, False, f"come{number}")
                number += 1

        producer = threading.Thread(target=coming)
        producer.start()
        try:
            bound.wait(20, both[0])
            holder = next(lease["spec"]["holderIdentity"] for lease in bench.admin.list("/apis/coordination.k8s.io/v1/leases")
                          if lease["metadata"]["namespace"] == "berth-system")
            by_cpu = max(both, key=lambda one: one.cpu_ms())
            leader = next((one for one in both if str(one.pid) in holder), by_cpu)
            killed = time.time()
            bench.plane.kill(leader.name)
            other = next(one for one in both if one is not leader)
            bound.wait(bound.count + 20, other, 120)
        finally:
            stopping.set()
            producer.join()
        other.end()
        return min(at for at in bench.bindings().values() if at > killed) - killed


def record(bench, path, file, count):
    """Writes what a watch tells of so many objects that are there, a frame a line."""
    told = 0
    with open(file, "w", encoding="utf-8") as lines:
        for kind, found in bench.admin.watch(path, quiet=20):
            if kind == "ADDED":
                json.dump({"type": kind, "object": found}, lines, separators=(",", ":"))
                lines.write("\n")
                told += 1
                if told == count:
                    return
    raise AssertionError(f"the server told of {told} objects under {path}, not of {count}")


def decisions(program, nodes=5000, pods=20000):
    """What the program says of a stream that is recorded here."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/nodes", f"{folder}/pods"]
        with Bench(nodes) as bench:
            bench.create(pods, False)
            record(bench, "/api/v1/nodes", files[0], nodes)
            record(bench, "/api/v1/pods", files[1], pods)
        # Only now: it needs the cores.
        said = subprocess.run([program, *files], stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(said)


def review(number):
    """An AdmissionReview of a pod with a share."""
    pod = objects.pod(f"review-{number}", {"gpu-memory": "4096"})
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": str(uuid.uuid4()), "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "default", "name": pod["metadata"]["name"],
        "operation": "CREATE", "userInfo": {"username": "tenant"}, "object": pod, "dryRun": False}}


@contextlib.contextmanager
def own_webhook(program):
    """The URL of a webhook beside a control plane of its own. Nobody else asks it: the load alone is measured."""
    address = f"127.0.0.1:{free_port()}"
    with ControlPlane() as plane:
        running = subprocess.Popen([program, "webhook", "--kubeconfig", str(plane.kubeconfig("webhook")), "--listen", address],
                                   stderr=subprocess.PIPE, text=True)
        try:
            while "listening" not in (said := running.stderr.readline()):
                if not said:
                    raise AssertionError(f"berth webhook ended with {running.wait()}")
            yield f"https://{address}/mutate"
        finally:
            running.terminate()
            running.communicate()


def webhook_p99_ms(url, per_second=200, seconds=20, connections=8):
    """Reviews at an even rate over kept connections. `url`: https://HOST:PORT/PATH; its certificate is not what is measured."""
    place = urllib.parse.urlsplit(url)
    trusting = ssl._create_unverified_context()
    total, lock, times = per_second * seconds, threading.Lock(), []
    numbers = iter(range(total))
    began = time.monotonic()

    def send():
        connection = http.client.HTTPSConnection(place.hostname, place.port, timeout=10, context=trusting)
        connection.connect()
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return connection.close()
            body = json.dumps(review(number))
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            sent = time.monotonic()
            connection.request("POST", place.path or "/", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            reply = json.loads(answer.read())
            took = (time.monotonic() - sent) * 1000
            assert answer.status == 200 and reply["response"]["allowed"], reply
            with lock:
                times.append(took)

    senders = [threading.Thread(target=send) for _ in range(connections)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if len(times) != total:
        raise AssertionError(f"{total - len(times)} of {total} reviews failed")
    return percentile(sorted(times), 99)
