"""What schemathesis does not try: that the document names all that a daemon takes and no more, and how a stream looks.

    python3 tests/api/document_test.py        standard library only
"""

import json
import re
import unittest

from daemon import Daemon, UnixConnection


def known_names(answer):
    """The names that a refusal of an unknown field or parameter lists."""
    error = answer.json["error"]
    assert error["code"] == "unknown-field", error
    if "takes no" in error["hint"]:
        return set()
    return set(re.search(r"[kK]nown are (.*)$", error["hint"]).group(1).split(", "))


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--simulate-clock", "manual").__enter__()
        cls.document = cls.daemon.call("GET", "/v1/openapi.json").json
        cls.uuid = cls.daemon.call("GET", "/v1/devices").json["devices"][0]["uuid"]
        cls.lease = cls.daemon.call("POST", "/v1/leases", {"key": "a", "memory": 1024}).json["id"]
        cls.job = cls.daemon.call("POST", "/v1/jobs", {"command": ["true"], "directory": "/"}).json["jobs"][0]["id"]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def operations(self):
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                id = self.job if path.startswith("/v1/jobs") else self.lease
                yield method.upper(), path.replace("{uuid}", self.uuid).replace("{id}", id), operation

    def properties(self, operation):
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        return set(self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["properties"])

    def test_every_body_has_the_fields_that_the_daemon_knows(self):
        bodies = 0
        for method, path, operation in self.operations():
            if "requestBody" in operation and method != "DELETE":
                with self.subTest(method=method, path=path):
                    self.assertEqual(known_names(self.daemon.call(method, path, {"no_such": 1})), self.properties(operation))
                    bodies += 1
        self.assertEqual(bodies, 10)

    def test_every_query_has_the_parameters_that_the_daemon_knows(self):
        queries = 0
        for method, path, operation in self.operations():
            documented = {p["name"] for p in operation.get("parameters", []) if p["in"] == "query"}
            if documented:
                with self.subTest(method=method, path=path):
                    answer = self.daemon.call(method, path + "?no_such=1", {} if method == "POST" else None)
                    self.assertEqual(known_names(answer), documented)
                    queries += 1
        self.assertEqual(queries, 6)

    def test_every_call_is_there(self):
        for method, path, operation in self.operations():
            if operation["operationId"] in ("leaseEvents", "deleteSimulated", "deleteLease", "release"):
                continue  # endless, or ends what the other tests use
            with self.subTest(method=method, path=path):
                answer = self.daemon.call(method, path, {} if "requestBody" in operation else None)
                self.assertIn(str(answer.status), operation["responses"])
                if answer.status >= 400 and answer.status != 503:
                    self.assertNotEqual(answer.json["error"]["code"], "unknown-call")

    def test_without_a_simulation_its_calls_are_not_there(self):
        answer = self.daemon.call("POST", "/v1/simulated/nothing", {})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (404, "unknown-call"))

    def test_a_stream_has_the_form_that_is_written(self):
        lease = self.daemon.call("POST", "/v1/leases", {"key": "stream", "memory": 512}).json
        connection = UnixConnection(self.daemon.socket)
        connection.request("GET", f"/v1/leases/{lease['id']}/events")
        stream = connection.getresponse()
        self.assertEqual(stream.headers["Content-Type"], "text/event-stream")
        self.assertEqual(stream.headers["Cache-Control"], "no-store")
        self.daemon.call("POST", f"/v1/leases/{lease['id']}/release")
        events = [block.split("\n") for block in stream.read().decode().split("\n\n") if block]
        self.assertEqual([block[1] for block in events], ["event: granted", "event: released"])
        versions = [int(block[0].removeprefix("id: ")) for block in events]
        self.assertEqual(versions, sorted(set(versions)))
        last = json.loads(events[-1][2].removeprefix("data: "))
        self.assertEqual((last["id"], last["state"]), (lease["id"], "released"))
        connection.close()


if __name__ == "__main__":
    unittest.main()
