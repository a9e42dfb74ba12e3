"""What /v1/openapi.json says, held against a real daemon by schemathesis: hundreds of good and bad calls.

    build/python/api/bin/python tests/api/schemathesis_test.py [WORD...]     words go to `st run`

The daemon serves the document; here it becomes stricter (no member that it does not name) and nobody waits. Programs
are not started at random either: jobs are handed in by hand, and their answers held against the same document.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jsonschema_rs
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


SUBMISSIONS = [
    (201, {"command": ["true"], "directory": "/"}),
    (201, {"command": ["sleep", "600"], "directory": "/", "lease": {"memory": "1GiB"}, "name": "runs", "umask": 18}),
    (201, {"command": ["true"], "directory": "/", "array": "0-2%1", "lease": None, "environment": ["A=b"], "grace_seconds": 1}),
    (201, {"command": ["no-such-program-at-all"], "directory": "/", "after": None, "after_rule": "any"}),
    (400, {"command": [], "directory": "/"}),
    (400, {"command": ["true"]}),
    (400, {"command": ["true"], "directory": "here"}),
    (400, {"command": ["true"], "directory": "/", "umask": "022"}),
    (400, {"command": ["true"], "directory": "/", "umask": 512}),
    (400, {"command": ["true"], "directory": "/", "after": ["j-ffff"]}),
    (400, {"command": ["true"], "directory": "/", "after_rule": "never"}),
    (400, {"command": ["true"], "directory": "/", "array": "3-1"}),
    (400, {"command": ["true"], "directory": "/", "grace_seconds": -1}),
    (400, {"command": ["true"], "directory": "/", "lease": {"key": "mine"}}),
    (422, {"command": ["true"], "directory": "/", "lease": {"memory": "999GiB"}}),
]


def submit(daemon, document):
    """Jobs of every kind; the ids of those that were taken."""
    ids = []
    answers = document["paths"]["/v1/jobs"]["post"]["responses"]
    for status, body in SUBMISSIONS:
        answer = daemon.call("POST", "/v1/jobs", body)
        assert answer.status == status, (body, answer.status, answer.text)
        described = answers[str(status)]
        if "$ref" in described:
            described = document["components"]["responses"][described["$ref"].rsplit("/", 1)[1]]
        schema = described["content"]["application/json"]["schema"]
        validator = jsonschema_rs.validator_for({**schema, "components": document["components"]})
        for error in validator.iter_errors(answer.json):
            raise AssertionError(f"{body}: {error}")
        if status == 201:
            ids += [name for job in answer.json["jobs"] for name in {job["id"], job["array"] or job["id"]}]
    return ids


def strict(document, jobs):
    paths = document["paths"]
    # A stream has no end; document_test.py reads one.
    del paths["/v1/leases/{id}/events"]
    # Nor does a test want to wait for a minute.
    for read in (paths["/v1/leases/{id}"]["get"], paths["/v1/jobs/{id}"]["get"]):
        read["parameters"] = [p for p in read["parameters"] if p["name"] != "wait"]
    for path in ("/v1/jobs/{id}", "/v1/jobs/{id}/log"):
        for call in paths[path].values():
            for parameter in call["parameters"]:
                if parameter["name"] == "id":
                    parameter["schema"] = {"type": "string", "enum": [*jobs, "j-ffff"]}
    log = paths["/v1/jobs/{id}/log"]["get"]
    log["parameters"] = [p for p in log["parameters"] if p["name"] != "follow"]
    return document


def main():
    started = time.monotonic()
    with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
        served = daemon.call("GET", "/v1/openapi.json")
        assert served.status == 200 and served.headers["Content-Type"] == "application/json"
        path = Path(folder) / "openapi.json"
        document = served.json
        without_strangers(document["components"]["schemas"])
        path.write_text(json.dumps(strict(document, submit(daemon, document))))
        words = [Path(sys.executable).parent / "st", "run", path, "--url", f"http://127.0.0.1:{Bridge(daemon.socket).port}"]
        words += ["--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing,stateful", "--max-examples", "15"]
        words += ["--generation-deterministic", "--request-timeout", "15", "--no-color"]
        # No program runs that nobody has chosen; submit() did it.
        words += ["--exclude-operation-id", "submitJob", *sys.argv[1:]]
        outcome = subprocess.run(words, cwd=folder, check=False)
        alive = daemon.call("GET", "/readyz").status
    seconds = time.monotonic() - started
    print(f"schemathesis: exit {outcome.returncode}, daemon answers {alive}, {seconds:.1f} s of {SECONDS}")
    if outcome.returncode != 0:
        print(daemon.ended_log)
    return 0 if outcome.returncode == 0 and alive in (200, 503) else 1


if __name__ == "__main__":
    sys.exit(main())
