"""The connection type ``berth``: where the daemon is, and the clients that talk to it."""

from __future__ import annotations

from typing import Any

from airflow_provider_berth.client import BerthClient, BerthError, BerthSettingsError, BerthUnavailable, Endpoint, endpoint_of
from airflow_provider_berth.keys import default_installation
from airflow_provider_berth.version_compat import (
    AirflowFailException,
    AirflowNotFoundException,
    BaseHook,
    aget_connection,
    option,
)


class BerthHook(BaseHook):
    """Talks to the daemon of a connection of type ``berth``.

    Unix socket: schema ``unix``, host the socket's path (``/run/berth/berth.sock``). TCP: schema ``https``, host, port, the
    token as password. Extra: ``ca`` (file), ``verify``, ``timeout`` (seconds), ``node``, ``installation``.
    """

    conn_name_attr = "gpu_conn_id"
    default_conn_name = "berth_default"
    conn_type = "berth"
    hook_name = "Berth"

    def __init__(self, gpu_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.gpu_conn_id = gpu_conn_id

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Own fields of the form in 2.11; 3.x reads them from the provider's information."""
        from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
        from flask_babel import lazy_gettext
        from wtforms import BooleanField, StringField

        return {
            "ca": StringField(lazy_gettext("CA file"), widget=BS3TextFieldWidget()),
            "verify": BooleanField(lazy_gettext("Verify the certificate"), default=True),
            "timeout": StringField(lazy_gettext("Time limit of a call, seconds"), widget=BS3TextFieldWidget()),
            "node": StringField(lazy_gettext("Node whose GPUs tasks use (TCP)"), widget=BS3TextFieldWidget()),
            "installation": StringField(lazy_gettext("Name of this Airflow"), widget=BS3TextFieldWidget()),
        }

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        return {
            "hidden_fields": ["login", "extra"],
            "relabeling": {"host": "Socket or host", "schema": "unix or https", "password": "Token"},
            "placeholders": {
                "host": "/run/berth/berth.sock",
                "schema": "unix",
                "port": "7443, for https",
                "password": "for https: of `berth token new airflow`",
            },
        }

    def endpoint(self) -> Endpoint:
        """Raises AirflowFailException, whose text says what to change: trying again would not help."""
        try:
            connection = self.get_connection(self.gpu_conn_id)
        except AirflowNotFoundException as error:
            raise AirflowFailException(missing_connection(self.gpu_conn_id)) from error
        try:
            return endpoint_of(connection)
        except BerthSettingsError as error:
            raise AirflowFailException(str(error)) from error

    def get_conn(self) -> BerthClient:
        endpoint = self.endpoint()
        try:
            return BerthClient(endpoint)
        except BerthSettingsError as error:
            raise AirflowFailException(str(error)) from error

    def test_connection(self) -> tuple[bool, str]:
        """What Admin > Connections > Test shows."""
        try:
            with self.get_conn() as client:
                version = client.health().get("version")
                devices = client.devices()
                client.leases("airflow:", state="waiting")  # a call that needs a caller whom the daemon knows
        except (AirflowFailException, BerthError, BerthUnavailable) as error:
            return False, str(error)
        total = sum(device["total_mib"] for device in devices)
        return True, f"berth {version} at {client.endpoint}: {len(devices)} device(s), {total} MiB in all"


def missing_connection(conn_id: str) -> str:
    return (
        f"there is no connection {conn_id!r}; add one of type 'berth' (Admin > Connections, or `airflow connections add "
        f"{conn_id} --conn-type berth --conn-schema unix --conn-host /run/berth/berth.sock`)"
    )


async def endpoint_in_trigger(conn_id: str) -> Endpoint:
    """The same from inside a trigger, at the moment when it is needed. Raises BerthSettingsError."""
    try:
        return endpoint_of(await aget_connection(conn_id))
    except AirflowNotFoundException:
        raise BerthSettingsError(missing_connection(conn_id)) from None


def installation_of(endpoint: Endpoint) -> str:
    """The name of this Airflow in keys: the connection's, else airflow.cfg's, else one of machine and AIRFLOW_HOME."""
    return endpoint.installation or option("installation", "") or default_installation()
