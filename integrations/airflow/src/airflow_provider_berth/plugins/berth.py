"""The plug-in, found by its entry point: listener, extra link, and the page behind it."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_berth.links import GpuLeaseLink
from airflow_provider_berth.plugins import listener, page


class BerthPlugin(AirflowPlugin):
    name = "berth"
    listeners: list[Any] = [listener]  # noqa: RUF012
    operator_extra_links: list[Any] = [GpuLeaseLink()]  # noqa: RUF012
    fastapi_apps: list[Any] = page.apps()
    flask_blueprints: list[Any] = page.blueprints()
