"""A client of the API server for tests: plain HTTP/1.1 over TLS, JSON in and out, nothing cached.

    api = Api("https://127.0.0.1:6443", ca, token="…")
    api.create("/api/v1/namespaces/default/pods", pod)
    for kind, pod in api.watch("/api/v1/pods"):
        …

An `Api` may be shared by threads: each call takes one of its idle connections, or a new one.
"""

import concurrent.futures
import http.client
import json
import ssl
import threading
import time
import urllib.parse

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
IDLE_S = 30  # an API server closes connections that idle for 90 s


class ApiError(Exception):
    """An answer that is no success; `code`, `reason` and `message` are the Status's."""

    def __init__(self, method, path, code, body):
        try:
            status = json.loads(body)
        except ValueError:
            status = {}
        self.code = code
        self.status = status if isinstance(status, dict) else {}
        self.reason = self.status.get("reason", "")
        self.message = self.status.get("message", body.decode(errors="replace")[:500])
        super().__init__(f"{method} {path}: {code} {self.reason}: {self.message}")


def _lines(response):
    """Line by line as they come. Unlike readline(), it raises where the stream breaks off."""
    rest = b""
    while data := response.read1(1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        raise http.client.IncompleteRead(rest)


class Api:
    def __init__(self, server, ca, token=None, certificate=None, timeout=30):
        url = urllib.parse.urlsplit(server)
        self.server = server
        self.host, self.port = url.hostname, url.port
        self.ca = str(ca)
        self.token = token
        self.timeout = timeout
        self.tls = ssl.create_default_context(cafile=self.ca)
        if certificate:
            self.tls.load_cert_chain(*(str(file) for file in certificate))
        self.lock = threading.Lock()
        self.idle = []

    def connection(self, timeout=None):
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout or self.timeout, context=self.tls)

    def headers(self, content=None):
        headers = {"Accept": "application/json", "User-Agent": "berth-cluster-tests"}
        if content:
            headers["Content-Type"] = content
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def raw(self, method, path, body=None, content="application/json"):
        """Status code and bytes of one answer."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        while True:
            kept = self.kept()
            connection = kept or self.connection()
            try:
                connection.request(method, path, data, self.headers(content if data else None))
                response = connection.getresponse()
                answer = response.status, response.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                # A kept connection may have been closed meanwhile; only a read may be asked twice.
                if kept is None or method != "GET":
                    raise
            else:
                with self.lock:
                    self.idle.append((time.monotonic(), connection))
                return answer

    def kept(self):
        """A connection that has not idled for so long that the server may be closing it."""
        with self.lock:
            while self.idle:
                since, connection = self.idle.pop()
                if time.monotonic() - since < IDLE_S:
                    return connection
                connection.close()
        return None

    def close(self):
        """Closes the idle connections; the client stays usable."""
        with self.lock:
            idle, self.idle = self.idle, []
        for _, connection in idle:
            connection.close()

    def call(self, method, path, body=None, content="application/json"):
        status, data = self.raw(method, path, body, content)
        if status >= 400:
            raise ApiError(method, path, status, data)
        return json.loads(data) if data[:1] in b"{[" else data.decode()

    def get(self, path):
        return self.call("GET", path)

    def create(self, path, body):
        return self.call("POST", path, body)

    def replace(self, path, body):
        return self.call("PUT", path, body)

    def patch(self, path, body, content=MERGE):
        return self.call("PATCH", path, body, content)

    def delete(self, path, body=None):
        return self.call("DELETE", path, body)

    def gone(self, path, body=None):
        """Deletes; it may be gone already."""
        try:
            self.delete(path, body)
        except ApiError as error:
            if error.code != 404:
                raise

    def list(self, path):
        return self.get(path)["items"]

    def watch(self, path, version=None, seconds=3600, quiet=None):
        """Pairs of type and object, until the server ends the stream, or nothing comes for `quiet` seconds.

        Without a version the present objects come first, as ADDED. An ERROR is handed out like everything else; a stream
        that breaks off raises OSError or HTTPException."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        if version is not None:
            query["resourceVersion"] = str(version)
        separator = "&" if "?" in path else "?"
        connection, response = self.connection(quiet or seconds + 10), None
        try:
            connection.request("GET", f"{path}{separator}{urllib.parse.urlencode(query)}", headers=self.headers())
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError("GET", path, response.status, response.read())
            for line in _lines(response):
                event = json.loads(line)
                yield event["type"], event["object"]
        except TimeoutError:
            return
        finally:
            if response is not None:
                response.close()  # it keeps the socket otherwise
            connection.close()

    def all_of(self, calls, threads=8):
        """Many calls (method, path, body) side by side; the answers in order. The first refusal is raised."""
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda call: self.call(*call), calls))

    # --- what tests do all the time ------------------------------------------------------------

    def namespace(self, name, labels=None):
        metadata = {"name": name, "labels": labels or {}}
        try:
            return self.create("/api/v1/namespaces", {"metadata": metadata})
        except ApiError as error:
            if error.code != 409:
                raise
            return self.get(f"/api/v1/namespaces/{name}")

    def pod(self, name, namespace="default"):
        return self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def create_pods(self, pods, threads=8):
        path = "/api/v1/namespaces/{}/pods"
        return self.all_of([("POST", path.format(p["metadata"].get("namespace", "default")), p) for p in pods], threads)

    def create_nodes(self, nodes, threads=8):
        return self.all_of([("POST", "/api/v1/nodes", node) for node in nodes], threads)

    def delete_pod(self, name, namespace="default", grace=0):
        self.gone(f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": grace})

    def bind(self, pod, node, annotations=None):
        """As a scheduler does it: with the uid as the only precondition."""
        meta = pod["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "target": target,
                   "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
                                "annotations": annotations or {}}}
        return self.create(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", binding)

    def pod_status(self, name, phase, namespace="default", **status):
        """What a kubelet would report: {"phase": phase, …}."""
        return self.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": {"phase": phase, **status}},
                          STRATEGIC_MERGE)

    def until(self, condition, what, seconds=30, every=0.05):
        """The first true answer of `condition()`; AssertionError naming `what` when it never comes."""
        deadline = time.monotonic() + seconds
        while not (answer := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(every)
        return answer
