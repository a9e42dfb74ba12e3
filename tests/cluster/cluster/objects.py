"""Makers of nodes and pods as dictionaries, with devices as interfaces.md 7 and requests as annotations.md 1 write them."""

import json
import uuid

_NAMES = uuid.UUID("6f1d2c3a-7b1e-4a58-9a51-2d2f6f2f0b7e")
DEFAULT_RESERVE_PERCENT = 3


def device_uuid(node, index):
    """The same on every run."""
    return f"GPU-{uuid.uuid5(_NAMES, f'{node}/{index}')}"


def reserve_mib(total):
    """annotations.md 1.4, until an agent has measured it: max(256 MiB, ceil(3 % of T))."""
    return max(256, -(-total * DEFAULT_RESERVE_PERCENT // 100))


def devices(machine, count, total_mib=81559, model="H100", reserve=None, **fields):
    """The annotation berth.dev/devices for `count` equal devices. `fields`: backend, cdi, owned, ready."""
    reserve = reserve_mib(total_mib) if reserve is None else reserve
    listed = [{"uuid": device_uuid(machine, index), "index": index, "model": model, "totalMiB": total_mib,
               "reserveMiB": reserve, "numa": 0, "mig": None} for index in range(count)]
    return json.dumps({"v": 1, "backend": "none", "cdi": False, "owned": True, **fields, "devices": listed})


def node(name, gpus=8, total_mib=81559, reserve=None, cpu="64", memory="512Gi", pods="110", labels=None, annotations=None,
         whole=True, machine=None, **fields):
    """A node without a kubelet: allocatable and Ready. `whole`: it also offers nvidia.com/gpu. `machine`: what its UUIDs come
    from, if not its name."""
    resources = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "1Ti"}
    if whole and gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    notes = {"berth.dev/devices": devices(machine or name, gpus, total_mib, reserve=reserve, **fields)} if gpus else {}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "stands in for a kubelet"}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                         "annotations": {**notes, **(annotations or {})}},
            "spec": {}, "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]}}


def container(name="main", image="localhost/busybox:1", limits=None, **fields):
    # Nothing is pulled anywhere: no registry exists.
    body = {"name": name, "image": image, "imagePullPolicy": "Never", **fields}
    if limits:
        body["resources"] = {"limits": limits, "requests": limits}
    return body


def pod(name, annotations=None, limits=None, namespace="default", scheduler="berth-scheduler", labels=None, containers=None,
        **spec):
    """A pod of one container unless `containers` is given: pod("a", {"gpu-memory": "4096"}), pod("b", limits={"nvidia.com/gpu": "1"})."""
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "enableServiceLinks": False,
                     "containers": containers or [container(limits=limits)], **spec}}
