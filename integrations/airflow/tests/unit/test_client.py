"""The client against things that are no daemon, or one of another version. The right one is met in tests/dags."""

import http.server
import json
import threading
import time
from types import SimpleNamespace

import pytest

from airflow_provider_berth.client import BerthClient, BerthError, BerthSettingsError, BerthUnavailable, Endpoint, endpoint_of


def connection(**fields):
    extra = fields.pop("extra", {})
    return SimpleNamespace(
        **{"conn_id": "c", "conn_type": "berth", "host": "", "port": None, "schema": "", "password": None, **fields},
        extra_dejson=extra,
    )


@pytest.mark.parametrize(
    ("fields", "socket"),
    [
        ({}, "/run/berth/berth.sock"),
        ({"host": "/tmp/b.sock"}, "/tmp/b.sock"),
        ({"host": "unix:/tmp/b.sock"}, "/tmp/b.sock"),
        ({"schema": "unix", "host": "/tmp/b.sock"}, "/tmp/b.sock"),
    ],
)
def test_a_socket(fields, socket):
    assert endpoint_of(connection(**fields)).socket == socket


def test_tcp_has_tls_and_a_token_that_is_not_shown():
    endpoint = endpoint_of(connection(host="gpu1", port=7443, password="secret", extra={"timeout": "2.5", "verify": "false"}))
    assert (endpoint.url, endpoint.timeout, endpoint.verify) == ("https://gpu1:7443", 2.5, False)
    assert endpoint.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(endpoint) and "secret" not in str(endpoint)
    assert endpoint_of(connection(host="::1", port=1, password="x")).url == "https://[::1]:1"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"conn_type": "http"}, "give it the type 'berth'"),
        ({"schema": "http", "host": "h", "port": 1}, "berth serves TCP with TLS only"),
        ({"schema": "https"}, "needs host and port"),
        ({"schema": "https", "host": "h"}, "needs host and port"),
        ({"schema": "https", "host": "h", "port": 1}, "berth token new airflow"),
        ({"schema": "https", "host": "h", "port": 1, "password": "x", "extra": {"ca": "/no/such/file"}}, "there is no CA file"),
        ({"schema": "unix", "host": "run/berth.sock"}, "no absolute path"),
        ({"extra": {"tiemout": 1}}, "known are ca, verify, timeout"),
        ({"extra": {"timeout": "soon"}}, "'timeout'"),
        ({"extra": {"timeout": 0}}, "0.1 to 600"),
        ({"extra": {"verify": "perhaps"}}, "'verify'"),
    ],
)
def test_a_wrong_connection_says_what_to_change(fields, sentence):
    with pytest.raises(BerthSettingsError) as refusal:
        endpoint_of(connection(**fields))
    assert sentence in str(refusal.value)


@pytest.fixture
def server():
    """Answers every call with what the test has put into `answer`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        answer = (200, {}, b"{}")
        delay = 0.0

        def do_POST(self):
            time.sleep(self.delay)
            status, headers, body = type(self).answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815  http.server's names

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        Handler.client = BerthClient(Endpoint(url=f"http://127.0.0.1:{listening.server_address[1]}", timeout=0.5))
        yield Handler
        Handler.client.close()
        listening.shutdown()


@pytest.mark.parametrize(
    "answer", [(404, {}, b"<html>not found</html>"), (200, {}, b"OK"), (404, {}, b'{"detail":"Not Found"}')]
)
def test_what_is_no_berth_of_this_api_is_named(server, answer):
    server.answer = answer
    with pytest.raises(BerthError, match="speaks API v1: check host and port"):
        server.client.reserve({"key": "k"})


def test_a_daemon_that_does_not_know_a_field_is_of_another_version(server):
    error = {"code": "unknown-field", "field": "max_seconds", "message": "max_seconds is no field", "hint": "did you mean"}
    server.answer = (400, {}, json.dumps({"error": error}).encode())
    with pytest.raises(BerthError, match="does not know 'max_seconds', so it is older than this provider") as refusal:
        server.client.reserve({"key": "k"})
    assert not refusal.value.passes


def test_what_passes_by_itself_says_when(server):
    server.answer = (503, {"Retry-After": "7"}, json.dumps({"error": {"code": "not-ready", "message": "starting"}}).encode())
    with pytest.raises(BerthError) as refusal:
        server.client.read("l-1")
    assert refusal.value.passes and refusal.value.retry_after == 7


def test_every_call_has_a_time_limit(server):
    server.delay = 3.0
    begin = time.monotonic()
    with pytest.raises(BerthUnavailable, match="no answer from the daemon at http://127"):
        server.client.devices()
    assert time.monotonic() - begin < 2


def test_nobody_listens():
    with (
        BerthClient(Endpoint(url="http://berth", socket="/no/such.sock")) as client,
        pytest.raises(BerthUnavailable, match=r"no answer from the daemon at unix:/no/such\.sock"),
    ):
        client.health()
