"""Path K: a pod that asks for a part of a GPU itself. Needs apache-airflow-providers-cncf-kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

from airflow_provider_berth.claims import ClaimError, claim_mib, seconds_of
from airflow_provider_berth.version_compat import AirflowFailException, Context

SCHEDULER = "berth-scheduler"
# A pod that waits for memory is Pending; Kubernetes' own two minutes would fail it.
WAIT = timedelta(days=7)


class GpuPodOperator(KubernetesPodOperator):
    """``GpuPodOperator(task_id="train", image="my/train", gpu_mem_mb=4096, gpu_queue="research")``

    The pod is the request and its end the release: `berth scheduler` places it (docs/kubernetes.md). No connection of type
    ``berth`` is used. The task is deferred while the pod waits and runs.

    :param gpu_mem_mb: MiB, or a size such as ``"4Gi"``; None and 0 leave the pod to the default scheduler, without a GPU
    :param gpu_mem_limit_mb: burst limit, at least the claim
    :param gpu_queue: value of the label ``berth.dev/queue``
    :param gpu_preemptible: may be told to leave for others
    :param gpu_wait_timeout: longest time Pending; default a week
    """

    template_fields: Sequence[str] = (*KubernetesPodOperator.template_fields, "gpu_mem_mb", "gpu_mem_limit_mb", "gpu_queue")

    def __init__(
        self,
        *,
        gpu_mem_mb: int | str | None = None,
        gpu_mem_limit_mb: int | str | None = None,
        gpu_queue: str | None = None,
        gpu_preemptible: bool = False,
        gpu_wait_timeout: timedelta | float | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        wait = seconds_of(gpu_wait_timeout, "gpu_wait_timeout") or int(WAIT.total_seconds())
        kwargs.setdefault("schedule_timeout_seconds", wait)
        kwargs.setdefault("startup_timeout_seconds", max(wait, 120))
        super().__init__(deferrable=deferrable, **kwargs)
        self.gpu_mem_mb = gpu_mem_mb
        self.gpu_mem_limit_mb = gpu_mem_limit_mb
        self.gpu_queue = gpu_queue
        self.gpu_preemptible = gpu_preemptible
        self.gpu_wait_timeout = gpu_wait_timeout

    def build_pod_request_obj(self, context: Context | None = None, **kwargs: Any) -> Any:
        pod = super().build_pod_request_obj(context, **kwargs)
        try:
            mib = claim_mib(self.gpu_mem_mb)
            limit = claim_mib(self.gpu_mem_limit_mb, "gpu_mem_limit_mb")
        except ClaimError as error:
            raise AirflowFailException(f"{error} (task {self.task_id} of DAG {self.dag_id})") from None
        if mib == 0:
            return pod
        pod.spec.scheduler_name = SCHEDULER
        annotations: Mapping[str, str] = pod.metadata.annotations or {}
        asked = {"gpu-memory": str(mib)}
        if limit:
            asked["gpu-memory.limit"] = f"{limit}Mi"
        if self.gpu_preemptible:
            asked["berth.dev/preemptible"] = "true"
        pod.metadata.annotations = {**annotations, **asked}
        if self.gpu_queue:
            pod.metadata.labels = {**(pod.metadata.labels or {}), "berth.dev/queue": self.gpu_queue}
        return pod
