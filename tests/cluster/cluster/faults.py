"""Faults between a client and the API server, by our proxy (go/faultproxy).

    with FaultProxy(plane) as faults:
        berth = start(kubeconfig=faults.kubeconfig())
        faults.answer(429, retry_after=1, method="POST", path="/binding$", times=3)
        with faults.holding(method="POST", path="/binding$") as held:
            held.wait()             # a binding is on its way and the server has not seen it
            plane.admin.delete_pod("p")
        …                           # now the server sees it, and refuses it for real

Which requests: `method`, `path` (regular expression of path and query), `watch` (True, False); after `skip` of them, `times`
times (0: always), each with `probability`. The first rule that matches applies. What can be done is in go/faultproxy/rules.go.
"""

import contextlib
import http.client
import json
import time

from .control_plane import free_port
from .programs import program


class Held:
    """The requests that a rule holds."""

    def __init__(self, proxy, rule):
        self.proxy = proxy
        self.rule = rule

    def list(self):
        return [one for one in self.proxy.control("GET", "/held") if one["rule"] == self.rule]

    def wait(self, count=1, seconds=20):
        """Until so many are held: what they are."""
        deadline = time.monotonic() + seconds
        while len(held := self.list()) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(held)} requests held after {seconds} s, not {count}")
            time.sleep(0.005)
        return held

    def release(self):
        for one in self.list():
            self.proxy.control("POST", f"/release?n={one['n']}")


class FaultProxy:
    """A proxy in front of a control plane's API server; it ends with the plane at the latest."""

    count = 0

    def __init__(self, plane, seed=1):
        FaultProxy.count += 1
        self.plane = plane
        self.name = f"faultproxy-{FaultProxy.count}"
        self.port, self.control_port = free_port(), free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        pki = plane.authority.folder
        plane.launch(self.name, [program("faultproxy"), f"--listen=127.0.0.1:{self.port}",
                                 f"--control=127.0.0.1:{self.control_port}", f"--upstream={plane.server}", f"--ca={plane.ca}",
                                 f"--cert={pki}/server.crt", f"--key={pki}/server.key", f"--seed={seed}"], outside=True)
        plane.ready(self.name, self._answers, outside=True)

    def _answers(self):
        try:
            self.rules()
            self.plane.api("tenant", self.server).raw("GET", "/version")
        except (OSError, http.client.HTTPException):
            return False
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.plane.kill(self.name, outside=True)

    def kubeconfig(self, user="scheduler"):
        return self.plane.kubeconfig(user, self.server)

    def api(self, user="scheduler"):
        return self.plane.api(user, self.server)

    def control(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.control_port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise ValueError(f"{method} {path} {body}: {answer.status} {text.strip()}")
            return json.loads(text)
        finally:
            connection.close()

    # --- rules -------------------------------------------------------------------------------

    def rule(self, action, **fields):
        """Adds a rule; its id. `method`, `path`, `watch`, `skip`, `times`, `probability`, and the action's own fields."""
        return self.control("POST", "/rules", {"action": action, **fields})["id"]

    def rules(self):
        return self.control("GET", "/rules")

    def hits(self, rule):
        return next(r["hits"] for r in self.rules() if r["id"] == rule)

    def clear(self, rule=0):
        """Takes away one rule, or all."""
        self.control("DELETE", f"/rules?id={rule}")

    def answer(self, code, reason="", message="", retry_after=0, **which):
        """Answers in the server's place; the server never sees the request."""
        reason = reason or {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError",
                            504: "Timeout"}.get(code, "")
        return self.rule("answer", code=code, reason=reason, message=message or f"injected {code}", retry_after=retry_after,
                         **which)

    @contextlib.contextmanager
    def holding(self, after=False, **which):
        """Holds requests before the server sees them, or (`after`) when it has done what was asked; released at the end."""
        rule = self.rule("hold_answer" if after else "hold", **which)
        held = Held(self, rule)
        try:
            yield held
        finally:
            self.clear(rule)
            held.release()

    # --- what happened, and connections --------------------------------------------------------

    def log(self, since=0):
        """The requests after number `since`: n, method, path, code, upstream, action, start_ms, end_ms, events."""
        return self.control("GET", f"/log?since={since}")

    def close_connections(self):
        self.control("POST", "/connections?do=close")

    def freeze(self):
        """As if a cable were pulled: nothing is read, written or closed until `thaw()`."""
        self.control("POST", "/connections?do=freeze")

    def thaw(self):
        self.control("POST", "/connections?do=thaw")
