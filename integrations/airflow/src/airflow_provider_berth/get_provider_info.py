"""What Airflow shows and loads of this package."""

from __future__ import annotations

from typing import Any

_P = "airflow_provider_berth"


def get_provider_info() -> dict[str, Any]:
    named = "Berth"
    return {
        "package-name": "airflow-provider-berth",
        "name": named,
        "description": "GPU shares for tasks: how many MiB they want, waiting without a worker, one device each.",
        "integrations": [{"integration-name": named, "external-doc-url": "", "tags": ["software"]}],
        "operators": [
            {
                "integration-name": named,
                "python-modules": [f"{_P}.operators.{name}" for name in ("base", "bash", "python", "kaapana", "pod")],
            }
        ],
        "sensors": [{"integration-name": named, "python-modules": [f"{_P}.sensors.room"]}],
        "hooks": [{"integration-name": named, "python-modules": [f"{_P}.hooks.berth"]}],
        "triggers": [{"integration-name": named, "python-modules": [f"{_P}.triggers.lease"]}],
        "connection-types": [
            {
                "connection-type": "berth",
                "hook-class-name": f"{_P}.hooks.berth.BerthHook",
                "hook-name": named,
                "ui-field-behaviour": {
                    "hidden-fields": ["login", "extra"],
                    "relabeling": {"host": "Socket or host", "schema": "unix or https", "password": "Token"},
                    "placeholders": {"host": "/run/berth/berth.sock", "schema": "unix", "port": "7443, for https"},
                },
                "conn-fields": {
                    "ca": {"label": "CA file", "schema": {"type": ["string", "null"]}},
                    "verify": {"label": "Verify the certificate", "schema": {"type": ["boolean", "null"], "default": True}},
                    "timeout": {"label": "Time limit of a call, seconds", "schema": {"type": ["string", "null"]}},
                    "node": {"label": "Node whose GPUs tasks use (TCP)", "schema": {"type": ["string", "null"]}},
                    "installation": {"label": "Name of this Airflow", "schema": {"type": ["string", "null"]}},
                },
            }
        ],
        "extra-links": [f"{_P}.links.GpuLeaseLink"],
        "task-decorators": [
            {"name": "gpu", "class-name": f"{_P}.decorators.gpu.gpu_task"},
            {"name": "gpu_bash", "class-name": f"{_P}.decorators.gpu.gpu_bash_task"},
        ],
        "config": {
            "berth": {
                "description": "GPU shares of Berth.",
                "options": {
                    name: {
                        "description": description,
                        "version_added": "0.1.0",
                        "type": kind,
                        "example": None,
                        "default": default,
                    }
                    for name, description, kind, default in (
                        ("installation", "Name of this Airflow in the keys of leases.", "string", ""),
                        ("in_worker_wait", "Seconds that a task waits in its worker before it defers.", "float", "8"),
                        ("minimum_hold", "Seconds from a deferral to its first event; default 15, in 2.x 5.", "string", ""),
                        ("largest_claim_mib", "A DAG whose task claims more is refused.", "integer", str(2**40)),
                        ("conn_id", "Connection that the page and the listener use.", "string", "berth_default"),
                    )
                },
            }
        },
    }
