"""Quantities and the effective request of a pod, computed anew here and nowhere taken from Berth (annotations.md 1.4)."""

from fractions import Fraction

_SUFFIX = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
           **{s: Fraction(1000**i) for i, s in enumerate("kMGTPE", 1)},
           **{s + "i": Fraction(1024**i) for i, s in enumerate("KMGTPE", 1)}}


def quantity(text):
    """A Kubernetes quantity, exactly."""
    text = str(text)
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits):]
    if suffix in _SUFFIX and digits:
        return Fraction(digits) * _SUFFIX[suffix]
    return Fraction(text)  # 1e3


def is_sidecar(container):
    return container.get("restartPolicy") == "Always"


def in_phases(amounts, initialized=False):
    """The charge of a pod on one thing: `amounts` are pairs of kind (app, init, sidecar) and amount, in spec order with the
    init containers first. max(apps + sidecars; each init container + the sidecars before it)."""
    sidecars, highest = Fraction(0), Fraction(0)
    for kind, amount in amounts:
        if kind == "sidecar":
            sidecars += amount
        elif kind == "init" and not initialized:
            highest = max(highest, sidecars + amount)
    return max(highest, sidecars + sum((a for kind, a in amounts if kind == "app"), Fraction(0)))


def containers(pod):
    """Pairs of kind and container, in the order in which they start."""
    spec = pod["spec"]
    return ([("sidecar" if is_sidecar(c) else "init", c) for c in spec.get("initContainers", ())] +
            [("app", c) for c in spec["containers"]])


def requested(pod, resource):
    """The effective request of a resource: a container that names only a limit requests it."""
    amounts = []
    for kind, container in containers(pod):
        resources = container.get("resources", {})
        amount = resources.get("requests", {}).get(resource, resources.get("limits", {}).get(resource, 0))
        amounts.append((kind, quantity(amount)))
    return in_phases(amounts) + quantity(pod["spec"].get("overhead", {}).get(resource, 0))
