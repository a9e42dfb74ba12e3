"""The extra link of a GPU task: the page that says why it waits, or what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.configuration import conf

from airflow_provider_berth.version_compat import AIRFLOW_3, BaseOperatorLink

if TYPE_CHECKING:
    from airflow_provider_berth.version_compat import BaseOperator

PREFIX = "/berth"
PAGE = "/task"


def page_of(dag: str, run: str, task: str, map_index: int) -> str:
    """Below the path at which the web server answers, so that a proxy in front of it does no harm."""
    base = urlsplit(conf.get("api" if AIRFLOW_3 else "webserver", "base_url", fallback="") or "").path.rstrip("/")
    query = urlencode({"dag_id": dag, "run_id": run, "task_id": task, "map_index": map_index})
    return f"{base}{PREFIX}{PAGE}?{query}"


class GpuLeaseLink(BaseOperatorLink):
    """Position, shortfall, what it waits for and since when; the granted device once it runs."""

    name = "GPU: why does it wait?"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        map_index = getattr(ti_key, "map_index", -1)
        return page_of(ti_key.dag_id, ti_key.run_id, ti_key.task_id, -1 if map_index is None else map_index)
