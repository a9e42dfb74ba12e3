"""The page behind the extra link: the leases of one task instance, and why the newest of them waits.

One text for all versions, from the daemon at the moment of the look; 3.x serves it as an ASGI application, 2.11 as a Flask
blueprint. Both ask Airflow first whether the user may read the DAG's task instances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from airflow_provider_berth.client import BerthClient, BerthError, BerthSettingsError, BerthUnavailable, endpoint_of
from airflow_provider_berth.hooks.berth import installation_of, missing_connection
from airflow_provider_berth.keys import task_prefix
from airflow_provider_berth.links import PAGE, PREFIX
from airflow_provider_berth.version_compat import AIRFLOW_3, AirflowNotFoundException, BaseHook, option

LIMIT = 5.0  # seconds for each call: a web server's thread waits for it
MOST_TRIES = 5
REFRESH = 10  # seconds

_LIVE = ("waiting", "granted", "active", "suspect", "ending")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1d2733;background:#fff}
h1{font-size:1.3rem;margin:0 0 .2rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}p{margin:.3rem 0}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid #d9dfe6;
vertical-align:top}th{font-weight:600;color:#51606f}td.n{text-align:right;font-variant-numeric:tabular-nums}
.s{display:inline-block;padding:.05rem .6rem;border-radius:.7rem;background:#e4e9ef;font-weight:600}
.s.waiting{background:#ffe6a8}.s.active,.s.granted{background:#c7ecd0}.s.lost,.s.never,.s.timed-out{background:#f7c6c1}
.m{color:#51606f}code{font-size:.9em}
@media(prefers-color-scheme:dark){body{background:#14191f;color:#dde4eb}th,.m{color:#9fb0c0}th,td{border-color:#2c3641}
.s{color:#14191f}}
"""


def _row(name: str, value: object) -> str:
    return f"<tr><th scope=row>{escape(name)}</th><td>{escape(str(value))}</td></tr>"


def _facts(lease: Mapping[str, Any], explained: Mapping[str, Any]) -> str:
    queue = lease.get("queue") or {}
    device = lease.get("device") or {}
    rows = [
        _row("asked", explained.get("asked") or f"{lease.get('memory_mib')} MiB"),
        _row("in the queue since", lease["queued_at"]),
    ]
    if lease["state"] == "waiting":
        rows.append(_row("position", f"{queue.get('position')} of {queue.get('of')} in queue {queue.get('name')}"))
        if queue.get("shortfall_mib"):
            rows.append(
                _row("short of", f"{queue['shortfall_mib']} MiB on {queue.get('nearest_device') or 'the nearest device'}")
            )
        if queue.get("eta_seconds") is not None:
            rows.append(_row("expected in", f"{queue['eta_seconds']} s"))
        if explained.get("would_help"):
            rows.append(_row("what would help", explained["would_help"]))
    elif device:
        rows.append(_row("device", f"{device.get('uuid')} ({device.get('model')}), node {device.get('node')}"))
        rows.append(_row("waited", f"{lease.get('waited_seconds')} s"))
        rows.append(_row("isolation", lease.get("isolation")))
        if lease.get("use_bytes") is not None:
            rows.append(_row("measured use", f"{lease['use_bytes'] // 2**20} of {lease.get('memory_mib')} MiB"))
    return f"<table>{''.join(rows)}</table>"


def _devices(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "<tr><th>device</th><th>node</th><th>total MiB</th><th>promised MiB</th><th>free MiB</th><th>why not here</th></tr>"
    lines = []
    for row in rows:
        why = row.get("hindrance") or row.get("reason") or ""
        if row.get("shortfall_mib"):
            why += f", short of {row['shortfall_mib']} MiB"
        numbers = "".join(
            f"<td class=n>{escape(str(row.get(name)))}" for name in ("total_mib", "committed_mib", "headroom_mib")
        )
        lines.append(f"<tr><td>{escape(str(row['uuid']))}<td>{escape(str(row['node']))}{numbers}<td>{escape(why)}</tr>")
    return f"<h2>Devices</h2><table>{head}{''.join(lines)}</table>"


def document(title: str, leases: Sequence[Mapping[str, Any]], explained: Mapping[str, Any], trouble: str = "") -> str:
    """The page. `leases`: newest first; `explained`: of the first of them."""
    parts = [f"<h1>{escape(title)}</h1>"]
    again = ""
    if trouble:
        parts.append(f"<p><span class='s lost'>no answer</span></p><p>{escape(trouble)}</p>")
        again = f"<meta http-equiv=refresh content={REFRESH}>"
    elif not leases:
        parts.append(
            "<p>The daemon knows no lease of this task. Either it asks for no GPU, or it has not asked yet, or it ended more "
            "than a day ago, or the web server names this Airflow otherwise than its workers do "
            "(<code>[berth] installation</code>).</p>"
        )
    for number, lease in enumerate(leases[:MOST_TRIES]):
        state = str(lease["state"])
        attempt = (lease.get("labels") or {}).get("airflow/try", "?")
        parts.append(
            f"<h2>Try {escape(attempt)}: <span class='s {escape(state)}'>{escape(state)}</span> {escape(lease['id'])}</h2>"
        )
        if state in _LIVE:
            again = f"<meta http-equiv=refresh content={REFRESH}>"
        if lease.get("message"):
            parts.append(f"<p>{escape(str(lease['message']))}</p>")
        parts.append(_facts(lease, explained if number == 0 else {}))
        if number == 0 and state == "waiting" and explained.get("devices"):
            parts.append(_devices(explained["devices"]))
    if leases:
        parts.append(f"<p class=m>The same on the machine: <code>berth why {escape(leases[0]['id'])}</code></p>")
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)}</title>{again}"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def page(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Asks the daemon of ``[berth] conn_id``. Never raises for what can go wrong there: the page says it."""
    title = f"{dag_id}.{task_id}" + (f"[{map_index}]" if map_index >= 0 else "") + f", {run_id}"
    conn_id = option("conn_id", "berth_default")
    try:
        endpoint = endpoint_of(BaseHook.get_connection(conn_id))
        with BerthClient(endpoint) as client:
            found = client.leases(task_prefix(installation_of(endpoint), dag_id, run_id, task_id, map_index), limit=LIMIT)
            # A try may have had several leases; of two at one instant the later id is the later one.
            leases = sorted(found, key=lambda lease: (lease["queued_at"], len(lease["id"]), lease["id"]), reverse=True)
            explained = client.explain(leases[0]["id"], limit=LIMIT) if leases else {}
    except AirflowNotFoundException:
        return document(title, [], {}, missing_connection(conn_id))
    except (BerthError, BerthSettingsError, BerthUnavailable) as error:
        return document(title, [], {}, str(error))
    return document(title, leases, explained)


class Application:
    """ASGI, for 3.x. The web server alone pays for what it imports, when it is asked for the first time."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            self._app = _fastapi()
        await self._app(scope, receive, send)


def _fastapi() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse

    app = FastAPI(title="Berth", openapi_url=None)

    def answer(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> HTMLResponse:
        return HTMLResponse(page(dag_id, run_id, task_id, map_index), headers={"Cache-Control": "no-store"})

    # Not by decorator, and with names that are there at run time: annotations of this file are strings.
    answer.__annotations__ = {"dag_id": str, "run_id": str, "task_id": str, "map_index": int}
    app.get(
        PAGE, response_class=HTMLResponse, dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE))]
    )(answer)
    return app


def blueprints() -> list[Any]:
    """For 2.11."""
    if AIRFLOW_3:
        return []
    from flask import Blueprint, Response, request

    made = Blueprint("berth", __name__, url_prefix=PREFIX)

    def reply() -> Response:
        dag_id, run_id, task_id = (request.args.get(name, "") for name in ("dag_id", "run_id", "task_id"))
        text = page(dag_id, run_id, task_id, request.args.get("map_index", -1, type=int))
        return Response(text, mimetype="text/html", headers={"Cache-Control": "no-store"})

    def answer() -> Any:
        # Asked for here, where there is a web server: no other process has to import it.
        from airflow.auth.managers.models.resource_details import DagAccessEntity
        from airflow.www.auth import has_access_dag

        return has_access_dag("GET", DagAccessEntity.TASK_INSTANCE)(reply)()

    made.add_url_rule(PAGE, "task", answer)
    return [made]


def apps() -> list[dict[str, Any]]:
    return [{"app": Application(), "url_prefix": PREFIX, "name": "Berth"}] if AIRFLOW_3 else []
