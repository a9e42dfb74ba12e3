"""The extra link of a GPU task: the page that says why it waits, or what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow_provider_berth.version_compat import BaseOperatorLink

if TYPE_CHECKING:
    from airflow_provider_berth.version_compat import BaseOperator

PAGE = "/berth/task"


def page_of(dag: str, run: str, task: str, map_index: int) -> str:
    return f"{PAGE}?{urlencode({'dag': dag, 'run': run, 'task': task, 'map_index': map_index})}"


class GpuLeaseLink(BaseOperatorLink):
    """Position, shortfall, what it waits for and since when; the granted device once it runs."""

    name = "GPU: why does it wait?"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        map_index = getattr(ti_key, "map_index", -1)
        return page_of(ti_key.dag_id, ti_key.run_id, ti_key.task_id, -1 if map_index is None else map_index)
