"""What a task's log and page say about a lease, from the lease object of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def place(lease: Mapping[str, Any]) -> str:
    """Why it waits, for what, at which position, since when."""
    queue = lease.get("queue") or {}
    parts = [f"lease {lease['id']} waits: {lease.get('message') or lease.get('reason') or 'no reason is known'}"]
    if queue.get("position"):
        parts.append(f"position {queue['position']} of {queue['of']} in queue {queue['name']}")
    if queue.get("shortfall_mib"):
        near = f" on {queue['nearest_device']}" if queue.get("nearest_device") else ""
        parts.append(f"short of {queue['shortfall_mib']} MiB{near}")
    if queue.get("eta_seconds") is not None:
        parts.append(f"expected in {queue['eta_seconds']} s")
    parts.append(f"since {lease['queued_at']}")
    return "; ".join(parts)


def grant(lease: Mapping[str, Any]) -> str:
    device = lease.get("device") or {}
    return (
        f"lease {lease['id']}: {lease.get('memory_mib')} MiB of {device.get('uuid')} ({device.get('model')}, node "
        f"{device.get('node')}) after {lease.get('waited_seconds')} s; isolation {lease.get('isolation')}"
    )


def end(lease: Mapping[str, Any]) -> str:
    """How a lease ended that should not have."""
    why = lease.get("message") or lease.get("reason")
    return f"lease {lease['id']} is {lease['state']}" + (f": {why}" if why else "")


def never(message: str, largest_mib: int | None) -> str:
    if largest_mib is None:
        return f"this can never be granted: {message}"
    return f"this can never be granted: {message}. The largest possible value is gpu_mem_mb={largest_mib}"
