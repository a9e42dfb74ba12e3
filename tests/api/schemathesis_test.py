"""What /v1/openapi.json says, held against a real daemon by schemathesis: hundreds of good and bad calls.

    build/python/api/bin/python tests/api/schemathesis_test.py [WORD...]     words go to `st run`

The daemon serves the document; here it becomes stricter (no member that it does not name) and nobody waits.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from daemon import Bridge, Daemon

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "negative_data_rejection",
]
SECONDS = 40


def without_strangers(schema):
    """Every object that names members has no others."""
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        for value in schema.values():
            without_strangers(value)
    elif isinstance(schema, list):
        for value in schema:
            without_strangers(value)


def strict(document):
    without_strangers(document["components"]["schemas"])
    paths = document["paths"]
    # A stream has no end; document_test.py reads one.
    del paths["/v1/leases/{id}/events"]
    # Nor does a test want to wait for a minute.
    read = paths["/v1/leases/{id}"]["get"]
    read["parameters"] = [p for p in read["parameters"] if p["name"] != "wait"]
    return document


def main():
    started = time.monotonic()
    with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
        served = daemon.call("GET", "/v1/openapi.json")
        assert served.status == 200 and served.headers["Content-Type"] == "application/json"
        path = Path(folder) / "openapi.json"
        path.write_text(json.dumps(strict(served.json)))
        words = [Path(sys.executable).parent / "st", "run", path, "--url", f"http://127.0.0.1:{Bridge(daemon.socket).port}"]
        words += ["--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing,stateful", "--max-examples", "15"]
        words += ["--generation-deterministic", "--request-timeout", "15", "--no-color", *sys.argv[1:]]
        outcome = subprocess.run(words, cwd=folder, check=False)
        alive = daemon.call("GET", "/readyz").status
    seconds = time.monotonic() - started
    print(f"schemathesis: exit {outcome.returncode}, daemon answers {alive}, {seconds:.1f} s of {SECONDS}")
    if outcome.returncode != 0:
        print(daemon.ended_log)
    return 0 if outcome.returncode == 0 and alive in (200, 503) else 1


if __name__ == "__main__":
    sys.exit(main())
