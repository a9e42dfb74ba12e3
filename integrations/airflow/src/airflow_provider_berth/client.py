"""The daemon's HTTP API, for tasks (BerthClient) and for triggers (AsyncBerthClient).

Every call has a time limit. A call that got no answer is not repeated here: who calls knows how long to go on. Repeating
is harmless, for a reservation carries its key and everything else its lease.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

API = "v1"

_ours: ContextVar[bool] = ContextVar("berth call", default=False)


@contextmanager
def _quietly() -> Iterator[None]:
    """httpx logs a line for every call, which Airflow 2 shows in the task's log; ours are told in better words."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


logging.getLogger("httpx").addFilter(lambda _record: not _ours.get())


class BerthError(Exception):
    """The daemon's refusal. ``status`` is that of HTTP; ``code``, ``field`` and ``reason`` are those of docs/api.md."""

    def __init__(self, status: int, error: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.code = str(error.get("code", ""))
        self.field = str(error.get("field") or "")
        self.value = error.get("value")
        self.reason = error.get("reason")
        self.largest_mib: int | None = error.get("largest_mib")
        self.hint = str(error.get("hint") or "")
        self.message = str(error.get("message") or f"HTTP {status}")
        self.retry_after = retry_after
        super().__init__(f"{self.message}; {self.hint}" if self.hint else self.message)

    @property
    def passes(self) -> bool:
        """Will the same call succeed later, without anybody changing anything?"""
        return self.status in (429, 500, 502, 503, 504)

    @property
    def of_identity(self) -> bool:
        """Is it the token, or whose lease it is, that is wrong?"""
        return self.status in (401, 403)


class BerthUnavailable(Exception):
    """No answer: nobody listens, the connection broke, or the time limit passed. Nothing is known about the outcome."""


class BerthSettingsError(Exception):
    """The connection says something that cannot be; one sentence on what to change."""


@dataclass(frozen=True)
class Endpoint:
    """Where the daemon is, and who calls it."""

    url: str
    socket: str | None = None
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    verify: bool = True
    timeout: float = 10.0
    node: str | None = None
    installation: str | None = None

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def verification(self) -> ssl.SSLContext | bool:
        """What TLS trusts. Raises BerthSettingsError for a CA file that cannot be read."""
        if self.socket or not self.verify:
            return False
        if not self.ca:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise BerthSettingsError(f"the CA file {self.ca!r} of the connection cannot be read: {error}") from error

    def limits(self, wait: float) -> httpx.Timeout:
        return httpx.Timeout(self.timeout + wait, connect=min(self.timeout, 5.0))


def _settings(value: Any, name: str, kind: type, otherwise: Any) -> Any:
    """A member of the connection's extra, which forms write as text."""
    if value is None or value == "":
        return otherwise
    try:
        if kind is bool:
            if isinstance(value, bool):
                return value
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[str(value).lower()]
        return kind(value)
    except (KeyError, ValueError):
        raise BerthSettingsError(f"the extra {name!r} of the connection is {value!r}, which is no {kind.__name__}") from None


def endpoint_of(connection: Any) -> Endpoint:
    """Reads an Airflow connection of type ``berth``. Raises BerthSettingsError with what to change."""
    name = connection.conn_id
    if connection.conn_type != "berth":
        raise BerthSettingsError(
            f"connection {name!r} has the type {connection.conn_type!r}; give it the type 'berth' (Admin > Connections)"
        )
    extra = connection.extra_dejson
    known = ("ca", "verify", "timeout", "node", "installation")
    for member in extra:
        if member not in known:
            raise BerthSettingsError(
                f"connection {name!r} has the extra {member!r}, which nobody reads; known are {', '.join(known)}"
            )
    common: dict[str, Any] = {
        "ca": _settings(extra.get("ca"), "ca", str, None),
        "verify": _settings(extra.get("verify"), "verify", bool, True),
        "timeout": _settings(extra.get("timeout"), "timeout", float, 10.0),
        "node": _settings(extra.get("node"), "node", str, None),
        "installation": _settings(extra.get("installation"), "installation", str, None),
    }
    if not 0.1 <= common["timeout"] <= 600:
        raise BerthSettingsError(f"connection {name!r}: the extra 'timeout' is a number of seconds from 0.1 to 600")
    host = (connection.host or "").strip()
    schema = (connection.schema or "").strip().lower()
    if host.startswith("unix:"):
        host, schema = host[len("unix:") :], "unix"
    if schema == "unix" or (not schema and (host.startswith("/") or not host)):
        path = host or "/run/berth/berth.sock"
        if not path.startswith("/"):
            raise BerthSettingsError(f"connection {name!r}: the socket {path!r} is no absolute path")
        return Endpoint(url="http://berth", socket=path, **common)
    if schema not in ("", "https"):
        raise BerthSettingsError(
            f"connection {name!r} has the schema {schema!r}; write unix with the socket as host, or https with host, port "
            f"and the token as password: berth serves TCP with TLS only"
        )
    if not host or not connection.port:
        raise BerthSettingsError(f"connection {name!r} needs host and port for https, such as gpu1.example.org and 7443")
    if not connection.password:
        raise BerthSettingsError(
            f"connection {name!r} has no token; make one with `berth token new airflow` and write it as its password"
        )
    if common["ca"] and not Path(common["ca"]).is_file():
        raise BerthSettingsError(f"connection {name!r}: there is no CA file {common['ca']!r} on this machine")
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return Endpoint(url=f"https://{shown}:{connection.port}", token=connection.password, **common)


def _answer(endpoint: Endpoint, path: str, response: httpx.Response) -> dict[str, Any]:
    """The body of a success, or BerthError."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success and isinstance(body, dict):
        return body
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not error.get("code"):
        raise BerthError(
            response.status_code,
            {
                "code": "no-berth",
                "message": f"{endpoint} answers {path} with HTTP {response.status_code} and no words of Berth's",
                "hint": f"this provider speaks API {API}: check host and port of the connection, and that the daemon there "
                "is a berth of that API (`berth --version`)",
            },
        )
    if error["code"] == "unknown-field":
        error = {
            **error,
            "hint": f"the daemon does not know {error.get('field')!r}, so it is older than this provider: upgrade berth on "
            f"{endpoint}, or install the airflow-provider-berth that came with it",
        }
    try:
        retry_after = float(response.headers.get("retry-after", ""))
    except ValueError:
        retry_after = None
    raise BerthError(response.status_code, error, retry_after)


def _lost(endpoint: Endpoint, error: Exception) -> BerthUnavailable:
    what = str(error) or type(error).__name__
    return BerthUnavailable(f"no answer from the daemon at {endpoint}: {what}")


def _lease_path(lease: str, rest: str = "") -> str:
    return f"/{API}/leases/{quote(lease, safe='')}{rest}"


def _http_settings(endpoint: Endpoint) -> dict[str, Any]:
    """Of a connection. What the environment says of proxies and certificates is for other servers."""
    return {"base_url": endpoint.url, "headers": endpoint.headers, "verify": endpoint.verification(), "trust_env": False}


class BerthClient:
    """For one thread. Raises BerthError (a refusal) or BerthUnavailable (no answer)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        transport = httpx.HTTPTransport(uds=endpoint.socket) if endpoint.socket else None
        self._http = httpx.Client(transport=transport, **_http_settings(endpoint))

    def __enter__(self) -> BerthClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, wait: float = 0, limit: float | None = None) -> dict[str, Any]:
        """`wait`: seconds that the daemon may take by design. `limit`: seconds in place of the connection's."""
        timeout = self.endpoint.limits(wait) if limit is None else httpx.Timeout(limit)
        try:
            with _quietly():
                response = self._http.request(method, path, json=body, timeout=timeout)
        except (httpx.HTTPError, OSError) as error:
            raise _lost(self.endpoint, error) from error
        return _answer(self.endpoint, path, response)

    def reserve(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"/{API}/leases", body)

    def dry_run(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"/{API}/leases?dry_run=1", body)

    def read(self, lease: str, wait: int = 0, version: int = 0) -> dict[str, Any]:
        """Answers after `wait` seconds (at most 60), or as soon as the lease has a version beyond `version`."""
        return self.call("GET", _lease_path(lease, f"?wait={wait}&version={version}"), wait=wait)

    def confirm(self, lease: str, pid: int | None) -> dict[str, Any]:
        return self.call("POST", _lease_path(lease, "/confirm"), {} if pid is None else {"pid": pid})

    def renew(self, lease: str) -> dict[str, Any]:
        return self.call("POST", _lease_path(lease, "/renew"))

    def release(self, lease: str, reason: str, if_gone: bool = False, limit: float | None = None) -> dict[str, Any]:
        return self.call("POST", _lease_path(lease, "/release"), {"reason": reason[:512], "if_gone": if_gone}, limit=limit)

    def explain(self, lease: str, limit: float | None = None) -> dict[str, Any]:
        return self.call("GET", _lease_path(lease, "/explain"), limit=limit)

    def leases(self, key_prefix: str, state: str = "", limit: float | None = None) -> list[dict[str, Any]]:
        query = f"?key_prefix={quote(key_prefix, safe='')}" + (f"&state={state}" if state else "")
        found: list[dict[str, Any]] = self.call("GET", f"/{API}/leases{query}", limit=limit)["leases"]
        return found

    def devices(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/{API}/devices")["devices"]
        return found

    def health(self) -> dict[str, Any]:
        return self.call("GET", "/healthz")


class AsyncBerthClient:
    """What a trigger needs, for one event loop. Raises as BerthClient does."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        transport = httpx.AsyncHTTPTransport(uds=endpoint.socket) if endpoint.socket else None
        self._http = httpx.AsyncClient(transport=transport, **_http_settings(endpoint))

    async def __aenter__(self) -> AsyncBerthClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, body: Any = None, wait: float = 0) -> dict[str, Any]:
        try:
            with _quietly():
                response = await self._http.request(method, path, json=body, timeout=self.endpoint.limits(wait))
        except (httpx.HTTPError, OSError) as error:
            raise _lost(self.endpoint, error) from error
        return _answer(self.endpoint, path, response)

    async def reserve(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self.call("POST", f"/{API}/leases", body)

    async def read(self, lease: str, wait: int, version: int) -> dict[str, Any]:
        return await self.call("GET", _lease_path(lease, f"?wait={wait}&version={version}"), wait=wait)

    async def release(self, lease: str, reason: str) -> dict[str, Any]:
        """Only if no process of the lease is left: a trigger is never the work itself."""
        return await self.call("POST", _lease_path(lease, "/release"), {"reason": reason[:512], "if_gone": True})
