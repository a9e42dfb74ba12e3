"""Waits for a lease on behalf of a deferred task. One long poll per minute and task; no worker, no pool slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow_provider_berth import words
from airflow_provider_berth.client import AsyncBerthClient, BerthError, BerthSettingsError, BerthUnavailable
from airflow_provider_berth.hooks.berth import endpoint_in_trigger
from airflow_provider_berth.version_compat import TRIGGER_HAS_ON_KILL, BaseTrigger, TriggerEvent, state_in_database

POLL_SECONDS = 55  # the daemon holds a read at most for 60
TELL_SECONDS = 300  # an unchanged place is told again so often
RETRY_SECONDS = 10.0  # between calls to a daemon that does not answer
IDENTITY_SECONDS = 120.0  # for so long a refused token may be put right


class GpuLeaseTrigger(BaseTrigger):
    """Fires once, with a dictionary whose ``status`` is

    ``granted``   the lease is there: the task confirms it and runs (``lease_id``, ``body``, ``host``)
    ``timeout``   the task's ``gpu_wait_timeout`` has passed
    ``never``     no device could ever hold the claim (``message``, ``largest_mib``)
    ``ended``     somebody ended the lease (``message``)
    ``refused``   the daemon refuses the caller or the request (``message``)

    :param conn_id: connection of type ``berth``, looked up when the trigger runs
    :param body: the reservation; it carries its key, so that asking again gives the same lease. No secrets.
    :param lease_id: of the lease that waits, or nothing where the daemon has not answered the task yet
    :param hold_until: wall clock, seconds: no event leaves before it. Airflow 3 fails tasks whose trigger fires while its
        scheduler still books the deferral.
    :param host: the only host on which the grant can be used, for the task
    """

    def __init__(
        self,
        conn_id: str,
        body: dict[str, Any],
        lease_id: str | None = None,
        hold_until: float = 0.0,
        host: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.body = body
        self.lease_id = lease_id
        self.hold_until = hold_until
        self.host = host
        self._fired = False
        self._told = ""
        self._told_at = 0.0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_provider_berth.triggers.lease.GpuLeaseTrigger",
            {
                "conn_id": self.conn_id,
                "body": self.body,
                "lease_id": self.lease_id,
                "hold_until": self.hold_until,
                "host": self.host,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        event = await self._wait()
        held = self.hold_until - time.time()
        if held > 0:
            await asyncio.sleep(min(held, 120.0))
        self._fired = True
        yield TriggerEvent(event)

    async def _wait(self) -> dict[str, Any]:
        """Until there is something to tell the task, whatever becomes of the daemon meanwhile."""
        refused_since: float | None = None
        away_since: float | None = None
        while True:
            try:
                async with AsyncBerthClient(await endpoint_in_trigger(self.conn_id)) as client:
                    async for lease in self._follow(client):
                        refused_since = None
                        if away_since is not None:
                            self.log.info("the daemon answers again, after %.0f s", time.monotonic() - away_since)
                            away_since = None
                        event = self._event_of(lease)
                        if event is not None:
                            return event
            except BerthUnavailable as error:
                away_since = away_since or time.monotonic()
                self.log.warning("%s; the task waits on, and asks again in %.0f s", error, RETRY_SECONDS)
                await asyncio.sleep(RETRY_SECONDS)
            except BerthError as error:
                if error.code == "never":
                    return {"status": "never", "message": error.message, "largest_mib": error.largest_mib}
                if error.passes:
                    pause = error.retry_after or RETRY_SECONDS
                    self.log.warning("%s; the task waits on, and asks again in %.0f s", error, pause)
                    await asyncio.sleep(min(max(pause, 1.0), 60.0))
                    continue
                if not error.of_identity:
                    return {"status": "refused", "message": str(error)}
                refused_since = refused_since or time.monotonic()
                left = IDENTITY_SECONDS - (time.monotonic() - refused_since)
                if left <= 0:
                    return {"status": "refused", "message": self._of_identity(error)}
                self.log.warning("%s; the task waits %.0f s for it to be put right", self._of_identity(error), left)
                await asyncio.sleep(RETRY_SECONDS)
            except BerthSettingsError as error:
                return {"status": "refused", "message": str(error)}

    def _of_identity(self, error: BerthError) -> str:
        if error.status == 403:
            return (
                f"{error}: worker and triggerer are different users to the daemon; let both use one token over TCP, or add "
                "the triggerer's user to `admins` of the daemon"
            )
        return f"{error}: give connection {self.conn_id!r} a token of `berth token list`"

    async def _follow(self, client: AsyncBerthClient) -> AsyncIterator[dict[str, Any]]:
        """The lease as it changes, and at least once a minute. A lease that was lost is asked for anew and keeps its age."""
        lease = await client.reserve(self.body) if self.lease_id is None else await self._known(client, self.lease_id)
        while True:
            if lease["state"] in ("expired", "lost"):
                self.log.warning("%s; asking again, its age is kept", words.end(lease))
                lease = await client.reserve(self.body)
            self.lease_id = lease["id"]
            yield lease
            lease = await client.read(lease["id"], POLL_SECONDS, lease["version"])

    async def _known(self, client: AsyncBerthClient, lease_id: str) -> dict[str, Any]:
        """The lease of that id if it is ours. After a loss of the daemon's state the id may be unknown, or another's."""
        try:
            lease = await client.read(lease_id, 0, 0)
        except BerthError as error:
            if error.code != "unknown-lease":
                raise
            self.log.warning("%s; asking again", error)
            return await client.reserve(self.body)
        if lease.get("key") != self.body["key"]:
            self.log.warning("lease %s is another's by now; asking again", lease_id)
            return await client.reserve(self.body)
        return lease

    def _event_of(self, lease: dict[str, Any]) -> dict[str, Any] | None:
        """What to tell the task, or nothing while it waits."""
        state = lease["state"]
        if state == "waiting":
            told = words.place(lease)
            if told != self._told or time.monotonic() - self._told_at > TELL_SECONDS:
                self._told, self._told_at = told, time.monotonic()
                self.log.info("%s", told)
            return None
        if state == "granted":
            self.log.info("granted: %s", words.grant(lease))
            return {"status": "granted", "lease_id": lease["id"], "body": self.body, "host": self.host}
        if state == "timed-out":
            return {"status": "timeout", "lease_id": lease["id"], "message": words.end(lease)}
        if state == "never":
            return {"status": "never", "message": str(lease.get("message")), "largest_mib": lease.get("largest_mib")}
        if state in ("expired", "lost"):
            return None  # asked for anew by `_follow`
        return {"status": "ended", "lease_id": lease["id"], "message": words.end(lease)}

    async def _give_back(self, reason: str) -> None:
        if self._fired or self.lease_id is None:
            return
        async with AsyncBerthClient(await endpoint_in_trigger(self.conn_id)) as client:
            await client.release(self.lease_id, reason)
        self._fired = True
        self.log.info("lease %s is given back: %s", self.lease_id, reason)

    async def on_kill(self) -> None:
        """3.3 and later: a user ended the deferred task."""
        await self._give_back("the deferred task was ended in Airflow")

    async def cleanup(self) -> None:
        """Runs whenever the trigger stops, also when its triggerer is restarted: then the task still waits for it.

        Before 3.3 this is all that tells of a task ended by a user, so the record is asked.
        """
        if self._fired or TRIGGER_HAS_ON_KILL or self.task_instance is None:
            return
        try:
            state, trigger = await state_in_database(self.task_instance)
        except Exception as error:  # whatever Airflow raises here, the lease is safe: it ends when nobody asks for it
            self.log.warning("cannot tell whether the task still waits (%s): the lease stays until it is not asked for", error)
            return
        if state == "deferred" and trigger in (None, self.trigger_id):
            return
        await self._give_back(f"the task is {state or 'cleared'} in Airflow")
