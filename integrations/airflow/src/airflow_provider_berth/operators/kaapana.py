"""Kaapana's words: ``executor_config={"gpu_mem_mb": 5500, "ram_mem_mb": 500}`` says what a task needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_berth.claims import ClaimError, claim_mib, kaapana_config
from airflow_provider_berth.operators.base import GpuOperatorMixin
from airflow_provider_berth.operators.bash import GpuBashMixin
from airflow_provider_berth.version_compat import BashOperator, Context


class KaapanaStyleMixin(GpuOperatorMixin):
    """Reads the claim from `executor_config` as a whole, and writes the granted device back into it.

    While the task runs, ``executor_config["gpu_device"]`` of the operator and of the task instance is
    ``{"gpu_id": "0", "gpu_uuid": "GPU-…", "gpu_mem": 5500}``; the XCom ``gpu_device`` has it for later tasks. ``gpu_id`` is
    for display: what is visible is chosen by UUID.
    """

    def gpu_request(self) -> dict[str, Any]:
        config = kaapana_config(self.executor_config)
        if self.gpu_mem_mb is not None:
            if config.get("gpu_mem_mb") is not None:
                raise ClaimError("gpu_mem_mb stands beside executor_config['gpu_mem_mb']; give one of the two")
            return super().gpu_request()
        if claim_mib(config.get("gpu_mem_mb"), "executor_config['gpu_mem_mb']", text_allowed=False) == 0:
            return {}
        # An answer to an earlier try, or of a copied operator, asks for nothing.
        return {"executor_config": {name: value for name, value in config.items() if name != "gpu_device"}}

    def gpu_granted(self, context: Context, lease: Mapping[str, Any]) -> None:
        super().gpu_granted(context, lease)
        config = {**(self.executor_config or {}), "gpu_device": lease["gpu_device"]}
        ti = context["ti"]
        holder: Any
        for holder in (self, context.get("task"), ti, getattr(ti, "task", None)):
            if holder is not None and hasattr(holder, "executor_config"):
                holder.executor_config = config
        ti.xcom_push(key="gpu_device", value=lease["gpu_device"])


class KaapanaStyleOperator(KaapanaStyleMixin, GpuBashMixin, BashOperator):
    """A bash command that asks in Kaapana's words. For other operators: ``class Mine(KaapanaStyleMixin, TheirOperator)``."""

    custom_operator_name = "Kaapana GPU"
