"""Kubeconfig files for the users of a test cluster."""

import json
from pathlib import Path

SCHEDULER = "system:serviceaccount:berth-system:berth-scheduler"


def account(namespace, name):
    """User and groups of a service account."""
    return f"system:serviceaccount:{namespace}:{name}", ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]


def write(path, server, ca, user):
    """`user`: {"token": …}, {"tokenFile": …} or {"client-certificate": …, "client-key": …}. JSON, which is YAML too."""
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "test", "preferences": {},
              "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca)}}],
              "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
              "users": [{"name": "test", "user": {key: str(value) for key, value in user.items()}}]}
    path = Path(path)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return path
