"""What makes any operator a GPU task: ``class MyOperator(GpuOperatorMixin, AnyOperator)``."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn

from airflow_provider_berth import words
from airflow_provider_berth.claims import ClaimError, claim_mib, seconds_of
from airflow_provider_berth.client import BerthClient, BerthError, BerthUnavailable, Endpoint
from airflow_provider_berth.hold import (
    NO_GPU,
    Hold,
    Interrupter,
    LeaseLost,
    end_processes,
    environment_of,
    process_environment,
)
from airflow_provider_berth.hooks.berth import BerthHook, installation_of
from airflow_provider_berth.keys import key_of
from airflow_provider_berth.links import GpuLeaseLink
from airflow_provider_berth.triggers.lease import GpuLeaseTrigger
from airflow_provider_berth.version_compat import (
    AIRFLOW_3,
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    BaseOperator,
    Context,
    TaskDeferred,
    option,
    priority_of,
    time_limit,
    unwrapped,
)

# After a deferral Airflow 3.3 fails tasks whose trigger fires while the scheduler still books it: 3 of 30 when that came
# within 3 s, none of 30 at 15 s. 2.11 showed none at 4 s.
MINIMUM_HOLD = "15" if AIRFLOW_3 else "5"
IN_WORKER_WAIT = "8"
MOST_KEYS = 20

GPU_FIELDS = ("gpu_mem_mb", "gpu_mem_limit_mb", "gpu_queue")


class TaskEndedByAirflow(AirflowException):
    """Airflow has told the task to stop: marked, cleared, or its DAG run was ended."""


class GpuOperatorMixin(BaseOperator):
    """Reserves GPU memory, waits deferred, runs the operator beside it on the one granted device, gives back.

    :param gpu_mem_mb: the claim: MiB, or a size such as ``"4Gi"``; None and 0 are a task without a GPU, which asks nobody
    :param gpu_mem_limit_mb: burst limit, at least the claim
    :param gpu_queue: queue of the daemon; default its queue ``default``
    :param gpu_priority: higher goes first; default the operator's ``priority_weight``
    :param gpu_preemptible: may be told to leave for others
    :param gpu_models: names of the only device models that will do
    :param gpu_node: node of the devices, over TCP; default the connection's, else this worker's host name
    :param gpu_wait_timeout: longest time in the queue; the run's own time is ``execution_timeout``, counted from the grant
    :param gpu_in_worker_wait: seconds to wait in the worker before deferring; default ``[berth] in_worker_wait``, 8
    :param gpu_conn_id: connection of type ``berth``
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields = cls.template_fields
        if isinstance(fields, (tuple, list)):
            cls.template_fields = (*fields, *(name for name in GPU_FIELDS if name not in fields))
        links = cls.operator_extra_links
        if isinstance(links, (tuple, list)) and not any(isinstance(link, GpuLeaseLink) for link in links):
            cls.operator_extra_links = (*links, GpuLeaseLink())

    def __init__(
        self,
        *,
        gpu_mem_mb: int | str | None = None,
        gpu_mem_limit_mb: int | str | None = None,
        gpu_queue: str | None = None,
        gpu_priority: int | None = None,
        gpu_preemptible: bool = False,
        gpu_models: Sequence[str] | None = None,
        gpu_node: str | None = None,
        gpu_wait_timeout: timedelta | float | None = None,
        gpu_in_worker_wait: float | None = None,
        gpu_conn_id: str = BerthHook.default_conn_name,
        execution_timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        # Airflow 2 counts the time in the queue, too: the limit is kept from it and counted here, from the grant on.
        super().__init__(execution_timeout=None, **kwargs)
        self.gpu_mem_mb = gpu_mem_mb
        self.gpu_mem_limit_mb = gpu_mem_limit_mb
        self.gpu_queue = gpu_queue
        self.gpu_priority = gpu_priority
        self.gpu_preemptible = gpu_preemptible
        self.gpu_models = gpu_models
        self.gpu_node = gpu_node
        self.gpu_wait_timeout = gpu_wait_timeout
        self.gpu_in_worker_wait = gpu_in_worker_wait
        self.gpu_conn_id = gpu_conn_id
        self.gpu_run_timeout = execution_timeout
        self.gpu_device: dict[str, Any] | None = None
        self.gpu_env: dict[str, str] | None = None

    # --- what subclasses may change ----------------------------------------------------------

    def gpu_request(self) -> dict[str, Any]:
        """The claim as fields of POST /v1/leases; empty for a task without a GPU. Raises ClaimError."""
        mib = claim_mib(self.gpu_mem_mb)
        if mib == 0:
            return {}
        request: dict[str, Any] = {"memory": mib}
        if (limit := claim_mib(self.gpu_mem_limit_mb, "gpu_mem_limit_mb")) > 0:
            request["memory_limit"] = limit
        return request

    def gpu_granted(self, context: Context, lease: Mapping[str, Any]) -> None:
        """Called with the granted lease, before the work."""

    # --- Airflow's entrances -----------------------------------------------------------------

    def execute(self, context: Context) -> Any:
        try:
            request = self.gpu_request()
            if not request:
                return self._work(context, NO_GPU)
            endpoint = BerthHook(self.gpu_conn_id).endpoint()
            body = self._reservation(context, endpoint, request)
        except ClaimError as error:
            raise AirflowFailException(f"{error} (task {self.task_id} of DAG {self.dag_id})") from None
        return self._admit(context, endpoint, body)

    def execute_granted(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Where a deferred task goes on. All it needs is in the event: `dag.test()` of 3.3 hands nothing else over."""
        status = event.get("status")
        message = str(event.get("message") or "")
        if status == "never":
            raise AirflowFailException(words.never(message, event.get("largest_mib")))
        if status == "timeout":
            raise AirflowException(f"no GPU within gpu_wait_timeout={self.gpu_wait_timeout}: {message}")
        if status != "granted":
            raise AirflowException(message or f"the trigger says {dict(event)!r}")
        endpoint = BerthHook(self.gpu_conn_id).endpoint()
        lease_id, body, host = str(event["lease_id"]), dict(event["body"]), event.get("host")
        if host is not None and host != socket.gethostname():
            self.log.info("the task goes on at %s; its lease was for %s and is given back", socket.gethostname(), host)
            self._give_back(endpoint, lease_id)
            return self._admit(context, endpoint, self._reservation(context, endpoint, self.gpu_request()))
        return self._admit(context, endpoint, body, lease_id)

    def on_kill(self) -> None:
        super().on_kill()
        if self.gpu_env is not None:
            self.log.info("told to stop; lease %s is given back when the work has ended", self.gpu_env.get("BERTH_LEASE_ID"))
        elif self._asked is None:
            return
        if AIRFLOW_3 and threading.current_thread() is threading.main_thread() and not self._stops:
            # Airflow 3 goes on with the work after this call and might then report success.
            self._stops = True
            raise TaskEndedByAirflow("Airflow has told the task to stop")

    _stops = False
    # While it waits in the worker: the lease that it has asked for.
    _asked: tuple[Endpoint, str] | None = None

    # --- admission ---------------------------------------------------------------------------

    def _reservation(self, context: Context, endpoint: Endpoint, request: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that the daemon is asked for. Raises ClaimError."""
        ti = context["ti"]
        key = key_of(ti, installation_of(endpoint))
        labels = {
            "airflow/dag": ti.dag_id,
            "airflow/run": ti.run_id,
            "airflow/task": ti.task_id,
            "airflow/map_index": str(getattr(ti, "map_index", -1)),
            "airflow/try": str(ti.try_number),
        }
        body = {
            **request,
            "key": key.text,
            "supersedes": key.prefix,
            "owner": f"{ti.dag_id}.{ti.task_id}"[:64],
            "labels": labels,
            "priority": self._priority(context),
            "queue": self.gpu_queue or "default",
        }
        if self.gpu_preemptible:
            body["preemptible"] = True
        if self.gpu_models:
            body["models"] = list(self.gpu_models)
        if (wait := seconds_of(self.gpu_wait_timeout, "gpu_wait_timeout")) is not None:
            body["queue_timeout_seconds"] = wait
        if (run := seconds_of(self.gpu_run_timeout, "execution_timeout")) is not None:
            body["max_seconds"] = run
        if not endpoint.socket:
            body["node"] = self.gpu_node or endpoint.node or socket.gethostname()
        elif self.gpu_node:
            body["node"] = self.gpu_node
        return body

    def _priority(self, context: Context) -> int:
        if self.gpu_priority is None:
            return priority_of(self, context)
        if isinstance(self.gpu_priority, bool) or not isinstance(self.gpu_priority, int):
            raise ClaimError(f"gpu_priority={self.gpu_priority!r} is no whole number; higher goes first, 0 is usual")
        return self.gpu_priority

    def _give_back_asked(self) -> None:
        if self._asked is not None:
            self._give_back(*self._asked)
            self._asked = None

    def _give_back(self, endpoint: Endpoint, lease: str) -> None:
        with suppress(BerthError, BerthUnavailable), BerthClient(endpoint) as client:
            client.release(lease, "the task does not run under it", if_gone=True, limit=5)

    def _admit(self, context: Context, endpoint: Endpoint, body: dict[str, Any], known: str | None = None) -> Any:
        """Runs the work as soon as its lease is granted; waits a little here, then deferred."""
        try:
            lease = self._granted_soon(endpoint, body, known)
        except TaskDeferred:
            raise
        except BaseException:
            # Failed, marked or cleared by then: nobody waits for it any more.
            self._give_back_asked()
            raise
        self._asked = None
        return self._run_under(context, endpoint, lease)

    def _granted_soon(self, endpoint: Endpoint, body: dict[str, Any], known: str | None) -> dict[str, Any]:
        """The confirmed lease. Defers when that takes longer than a worker is to wait."""
        deadline = time.monotonic() + self._in_worker_wait()
        told = ""
        lease_id = known
        with BerthHook(self.gpu_conn_id).get_conn() as client:
            while True:
                left = max(0.0, deadline - time.monotonic())
                try:
                    lease = self._next(client, body, lease_id, told, left)
                    lease_id = lease["id"]
                    self._asked = (endpoint, str(lease_id))
                    if lease["state"] == "granted":
                        confirmed = self._confirm(client, endpoint, lease)
                        if confirmed is not None:
                            return confirmed
                        continue
                    told = told or words.place(lease)
                except BerthUnavailable as error:
                    self.log.warning("%s; nothing runs without a lease: the task waits", error)
                    time.sleep(min(1.0, left))
                except BerthError as error:
                    self._refused(error)
                    self.log.warning("%s; the task waits", error)
                    time.sleep(min(error.retry_after or 1.0, left))
                if time.monotonic() >= deadline:
                    self._wait_deferred(endpoint, body, lease_id)

    def _in_worker_wait(self) -> float:
        value: Any = self.gpu_in_worker_wait
        if value is None:
            value = option("in_worker_wait", IN_WORKER_WAIT)
        try:
            return max(0.0, min(float(value), 3600.0))
        except ValueError:
            raise AirflowFailException(f"in_worker_wait={value!r} is no number of seconds") from None

    def _next(self, client: BerthClient, body: dict[str, Any], lease_id: str | None, told: str, left: float) -> dict[str, Any]:
        """The lease, granted or waiting: asked for, or watched for at most `left` seconds. Raises what ends the task."""
        if lease_id is None:
            return self._reserve(client, body)
        lease = client.read(lease_id)
        if lease.get("key") != body["key"]:
            self.log.warning("lease %s is another's by now; asking again", lease_id)
            return self._reserve(client, body)
        if lease["state"] == "waiting" and left >= 1:
            if not told:
                self.log.info("%s", words.place(lease))
            lease = client.read(lease_id, min(55, int(left)), lease["version"])
        if lease["state"] in ("expired", "lost"):
            self.log.warning("%s; asking again, its age is kept", words.end(lease))
            return self._reserve(client, body)
        if lease["state"] == "never":
            raise AirflowFailException(words.never(str(lease.get("message")), lease.get("largest_mib")))
        if lease["state"] not in ("waiting", "granted"):
            raise AirflowException(words.end(lease))
        return lease

    def _reserve(self, client: BerthClient, body: dict[str, Any]) -> dict[str, Any]:
        """A lease that waits or is granted, under the key, or under `key#n` where one of that name has had its end."""
        key = body["key"]
        for number in range(MOST_KEYS):
            body["key"] = f"{key}#{number}" if number else key
            lease = client.reserve(body)
            if lease["state"] in ("waiting", "granted"):
                return lease
        raise AirflowException(f"{MOST_KEYS} leases of the key {key} have ended already; clear the task for a new try")

    def _confirm(self, client: BerthClient, endpoint: Endpoint, lease: Mapping[str, Any]) -> dict[str, Any] | None:
        """The active lease, or nothing when it was lost meanwhile: then the next look at it asks again."""
        node = (lease.get("device") or {}).get("node")
        here = bool(endpoint.socket) or node in (socket.gethostname(), socket.getfqdn())
        try:
            return client.confirm(lease["id"], os.getpid() if here else None)
        except BerthError as error:
            if error.status == 410:
                self.log.warning("%s; asking again", error)
                return None
            if error.field != "pid":
                raise
        # The daemon counts processes differently: the worker is in a container of its own.
        self.log.info("the daemon does not know this process; the lease lives by its renewals alone")
        return client.confirm(lease["id"], None)

    def _refused(self, error: BerthError) -> None:
        """Ends the task, unless it passes by itself."""
        if error.passes:
            return
        if error.code == "never":
            raise AirflowFailException(words.never(error.message, error.largest_mib)) from None
        if error.of_identity:
            raise AirflowException(
                f"{error}: give connection {self.gpu_conn_id!r} a token of `berth token list` of that daemon"
            ) from None
        raise AirflowFailException(str(error)) from None

    def _wait_deferred(self, endpoint: Endpoint, body: dict[str, Any], lease_id: str | None) -> NoReturn:
        self.log.info(
            "waiting without a worker; the triggerer asks for %s and this log goes on there",
            f"lease {lease_id}" if lease_id else "a lease",
        )
        hold = float(option("minimum_hold", MINIMUM_HOLD))
        automatic = not endpoint.socket and not self.gpu_node and not endpoint.node
        self.defer(
            trigger=GpuLeaseTrigger(
                self.gpu_conn_id, body, lease_id, time.time() + hold, socket.gethostname() if automatic else None
            ),
            method_name="execute_granted",
        )
        raise AssertionError("defer returned")

    # --- the work ----------------------------------------------------------------------------

    def _run_under(self, context: Context, endpoint: Endpoint, lease: Mapping[str, Any]) -> Any:
        self.log.info("running under %s", words.grant(lease))
        self.gpu_device = lease["gpu_device"]
        with Interrupter() as interrupter:
            hold = Hold(endpoint, lease, self.log, lambda why: interrupter.interrupt(LeaseLost(why)))
            hold.start()
            reason = "the task has failed"
            try:
                self.gpu_granted(context, lease)
                result = self._work(context, hold.env)
                reason = "the task has ended"
                return result
            except LeaseLost as error:
                reason = str(error)
                raise AirflowException(f"{error}; the work was stopped") from None
            except TaskDeferred:
                reason = "the task has deferred under it"
                raise AirflowFailException(
                    f"{type(self).__name__} defers by itself while it holds a GPU, which nobody then uses; give it "
                    "deferrable=False, or defer in a task without gpu_mem_mb"
                ) from None
            finally:
                hold.release(reason)

    def _work(self, context: Context, env: Mapping[str, str]) -> Any:
        """The operator beside this class, with the environment of the lease, within its time."""
        self.gpu_env = dict(env)
        own = getattr(self, "env", None)
        if isinstance(own, dict):
            self.env: Any = environment_of(own, env)
        try:
            with process_environment(env), time_limit(self.gpu_run_timeout):
                return unwrapped(super().execute)(self, context)
        except (AirflowTaskTimeout, LeaseLost, TaskEndedByAirflow, KeyboardInterrupt, SystemExit) as error:
            self._stop(env, error)
            raise
        except BaseException as error:
            if type(error).__name__ == "AirflowTaskTerminated":  # what 2.11 makes of SIGTERM
                self._stop(env, error)
            raise
        finally:
            self.gpu_env = None

    def _stop(self, env: Mapping[str, str], error: BaseException) -> None:
        """What the work has started ends before the lease does."""
        self._stops = True
        # A second signal of Airflow's must not keep the first from being carried out.
        before = signal.getsignal(signal.SIGTERM)
        main = threading.current_thread() is threading.main_thread()
        if main:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            if not isinstance(error, TaskEndedByAirflow):
                with suppress(Exception):
                    super().on_kill()
            end_processes(env, self.log)
        finally:
            if main:
                signal.signal(signal.SIGTERM, before)
