"""The books of devices, recomputed from nodes and pods alone: nothing here is Berth's own code.

A device is promised what the grants of its bound, unfinished pods say (annotations.md 3.2, berth.dev/grant).
"""

import json
from dataclasses import dataclass, field

from .quantity import in_phases, quantity, requested

GRANT = "berth.dev/grant"
DEVICES = "berth.dev/devices"
NANO = 10**9
RESOURCES = ("cpu", "memory")
WHOLE = "nvidia.com/gpu"


@dataclass
class Share:
    """What one pod has of one device."""

    mib: int = 0
    limit: int = 0
    nano: int = 0
    exclusive: bool = False
    modes: frozenset = frozenset()


@dataclass
class Bound:
    """A pod that counts on its node."""

    uid: str
    name: str
    node: str
    shares: dict  # device uuid -> Share
    resources: dict
    whole: int  # nvidia.com/gpu, whoever hands it out


@dataclass
class Device:
    uuid: str
    usable: int  # MiB


@dataclass
class NodeBook:
    devices: dict = field(default_factory=dict)
    allocatable: dict = field(default_factory=dict)
    unschedulable: bool = False


class BadGrant(ValueError):
    """berth.dev/grant is not what annotations.md 3.2 says; the text says what."""


def read_grant(text):
    """The grant as a dictionary, or BadGrant."""
    try:
        grant = json.loads(text)
        if grant["v"] != 1:
            raise BadGrant(f"version {grant['v']}")
        for container in grant["containers"]:
            if container["kind"] not in ("app", "init", "sidecar"):
                raise BadGrant(f"kind {container['kind']!r}")
            if not container["devices"] or len({d["uuid"] for d in container["devices"]}) != len(container["devices"]):
                raise BadGrant(f"container {container['name']} has no devices, or one twice")
            for device in container["devices"]:
                if not (isinstance(device["requestMiB"], int) and device["requestMiB"] > 0):
                    raise BadGrant(f"requestMiB {device['requestMiB']!r}")
                if device.get("limitMiB", device["requestMiB"]) < device["requestMiB"]:
                    raise BadGrant("a limit below the request")
        grant["node"], grant["id"]  # both are needed
    except (ValueError, KeyError, TypeError) as error:
        raise error if isinstance(error, BadGrant) else BadGrant(f"{type(error).__name__}: {error}") from None
    return grant


def _spec_order(pod, grant):
    """The containers of a grant in the order in which they start: init containers and sidecars, then apps."""
    names = [c["name"] for c in pod["spec"].get("initContainers", ())] + [c["name"] for c in pod["spec"]["containers"]]
    unknown = [c["name"] for c in grant["containers"] if c["name"] not in names]
    if unknown:
        raise BadGrant(f"names no container of the pod: {', '.join(unknown)}")
    return sorted(grant["containers"], key=lambda c: names.index(c["name"]))


def is_initialized(pod):
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Initialized" and c["status"] == "True" for c in conditions)


def shares(pod, grant):
    """What a pod has of each device in its present phase."""
    initialized = is_initialized(pod)
    per_device = {}
    for container in _spec_order(pod, grant):
        for device in container["devices"]:
            per_device.setdefault(device["uuid"], []).append((container, device))
    found = {}
    for uuid, parts in per_device.items():
        def phase(amount, parts=parts):
            return int(in_phases([(c["kind"], amount(c, d)) for c, d in parts], initialized))

        running = [(c, d) for c, d in parts if c["kind"] != "init" or not initialized]
        found[uuid] = Share(
            mib=phase(lambda c, d: d["requestMiB"]), limit=phase(lambda c, d: d.get("limitMiB", d["requestMiB"])),
            nano=phase(lambda c, d: 0 if c["exclusive"] else c.get("nano", 0)),
            exclusive=any(c["exclusive"] for c, _ in running),
            modes=frozenset(c.get("mode", "time-slicing") for c, _ in running if not c["exclusive"]))
    return {uuid: share for uuid, share in found.items() if share.mib or share.exclusive}


def node_book(node):
    """A node's own words. A malformed annotation promises no device."""
    book = NodeBook(unschedulable=node["spec"].get("unschedulable", False))
    for name, amount in node.get("status", {}).get("allocatable", {}).items():
        book.allocatable[name] = quantity(amount)
    try:
        listed = json.loads(node["metadata"].get("annotations", {}).get(DEVICES, '{"devices":[]}'))["devices"]
        for device in listed:
            book.devices[device["uuid"]] = Device(device["uuid"], device["totalMiB"] - device["reserveMiB"])
    except (ValueError, KeyError, TypeError):
        book.devices.clear()
    return book


def is_over(pod):
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def wants_gpu(pod):
    """By annotations.md 1.2, roughly: any sizing key or any nvidia.com resource."""
    keys = pod["metadata"].get("annotations", {})
    if any(k in ("gpu-memory", "gpu-fraction") or k.startswith("nvidia.com/container.") and ".gpu-memory." in k for k in keys):
        return True
    every = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return any(name.startswith("nvidia.com/") and str(amount) != "0" for c in every
               for name, amount in c.get("resources", {}).get("limits", {}).items())


def bound(pod):
    """The book entry of a bound pod. BadGrant if it has a grant that nobody can read."""
    meta = pod["metadata"]
    text = meta.get("annotations", {}).get(GRANT)
    held = shares(pod, read_grant(text)) if text is not None else {}
    resources = {name: requested(pod, name) for name in RESOURCES}
    return Bound(meta["uid"], f"{meta['namespace']}/{meta['name']}", pod["spec"]["nodeName"], held, resources,
                 int(requested(pod, WHOLE)))
