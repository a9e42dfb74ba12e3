"""Waits until a claim would be granted at once, and reserves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_berth import words
from airflow_provider_berth.claims import ClaimError, claim_mib
from airflow_provider_berth.client import BerthError, BerthUnavailable
from airflow_provider_berth.hooks.berth import BerthHook
from airflow_provider_berth.version_compat import AirflowFailException, BaseSensorOperator, Context


class GpuRoomSensor(BaseSensorOperator):
    """True once `gpu_mem_mb` would be granted. Use it for work that is not Airflow's; GPU tasks wait by themselves.

    What is free now may be taken a moment later. ``mode="reschedule"`` holds no worker between looks.
    """

    template_fields: Sequence[str] = ("gpu_mem_mb", "gpu_queue")

    def __init__(
        self,
        *,
        gpu_mem_mb: int | str,
        gpu_queue: str | None = None,
        gpu_node: str | None = None,
        gpu_conn_id: str = BerthHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("mode", "reschedule")
        super().__init__(**kwargs)
        self.gpu_mem_mb = gpu_mem_mb
        self.gpu_queue = gpu_queue
        self.gpu_node = gpu_node
        self.gpu_conn_id = gpu_conn_id

    def poke(self, context: Context) -> bool:
        try:
            mib = claim_mib(self.gpu_mem_mb)
        except ClaimError as error:
            raise AirflowFailException(str(error)) from None
        hook = BerthHook(self.gpu_conn_id)
        node = self.gpu_node or hook.endpoint().node
        # A container may be started on any node, so a claim without a node asks about all of them.
        body = {"key": "airflow:sensor", "memory": mib, "queue": self.gpu_queue or "default", "container": node is None}
        if node is not None:
            body["node"] = node
        try:
            with hook.get_conn() as client:
                verdict = client.dry_run(body)
        except BerthUnavailable as error:
            self.log.warning("%s; looking again", error)
            return False
        except BerthError as error:
            if not error.passes:
                raise AirflowFailException(str(error)) from None
            self.log.warning("%s; looking again", error)
            return False
        if verdict["verdict"] == "never":
            raise AirflowFailException(words.never(str(verdict.get("message")), verdict.get("largest_mib")))
        self.log.info("%s: %s", verdict["verdict"], verdict.get("message") or verdict.get("reason") or "there is room")
        return bool(verdict["verdict"] == "granted")
