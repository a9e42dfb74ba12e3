"""How much of a GPU a task asks for: the one reader of what people write, for operators and for policies.

Pure: no Airflow, no network. The grammar is that of the daemon (docs/api.md): a whole number of MiB, or a number with a
unit (``"4Gi"``, ``"4G"`` and ``4096`` are the same; ``"4GB"`` is 10**9-based and rounded up). Nothing, ``None`` and 0 are
work without a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

LARGEST_MIB = 2**40

_MIB = 2**20
_UNITS = {
    "": _MIB,
    **dict.fromkeys(("K", "Ki", "KiB"), 2**10),
    **dict.fromkeys(("M", "Mi", "MiB"), 2**20),
    **dict.fromkeys(("G", "Gi", "GiB"), 2**30),
    **dict.fromkeys(("T", "Ti", "TiB"), 2**40),
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_SIZE = re.compile(r"\s*([0-9]{1,30})([A-Za-z]*)\s*")

# Kaapana's dictionary; the last is Berth's answer, which a copied dictionary may still hold.
KAAPANA_FIELDS = ("cpu_millicores", "ram_mem_mb", "gpu_mem_mb", "enable_job_scheduler", "gpu_device")
# What other executors read from the same dictionary.
_FOREIGN_FIELDS = ("pod_override", "pod_template_file", "KubernetesExecutor", "overrides", "queue")


class ClaimError(ValueError):
    """A claim that says nothing: field, value, rule and what to write instead, in one sentence."""


def _wrong(field: str, value: object, rule: str) -> ClaimError:
    return ClaimError(
        f'{field}={value!r} {rule}; write a whole number of MiB such as {field}=4096 or a size such as {field}="4Gi", '
        f"and None or 0 for a task without a GPU"
    )


def claim_mib(value: Any, field: str = "gpu_mem_mb", text_allowed: bool = True) -> int:
    """The claim in MiB; 0 for a task without a GPU.

    Raises ClaimError for booleans, floats, negative numbers, units that there are not, and more than 2**40 MiB.
    """
    if value is None:
        return 0
    if isinstance(value, bool):
        raise _wrong(field, value, "is true or false, not an amount of memory")
    if isinstance(value, float):
        raise _wrong(field, value, "has a decimal point")
    if isinstance(value, str) and text_allowed:
        if value.strip().lower() in ("", "none", "null"):  # what a template makes of nothing
            return 0
        if value.strip().startswith("-"):
            raise _wrong(field, value, "is negative")
        matched = _SIZE.fullmatch(value)
        if matched is None:
            raise _wrong(field, value, "is no amount of memory")
        if matched[2] not in _UNITS:
            raise _wrong(field, value, f"has the unit {matched[2]!r}, which there is not")
        mib = -(-int(matched[1]) * _UNITS[matched[2]] // _MIB)
    elif isinstance(value, int):
        mib = value
    else:
        raise _wrong(field, value, "is no amount of memory")
    if mib < 0:
        raise _wrong(field, value, "is negative")
    if mib > LARGEST_MIB:
        raise _wrong(field, value, "is more than 2**40 MiB, which no device has")
    return mib


def seconds_of(value: Any, field: str) -> int | None:
    """A length of time in whole seconds, at least 1; nothing for None. Raises ClaimError."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 366 * 24 * 3600:
        raise ClaimError(
            f"{field}={value!r} is no length of time up to a year; write timedelta(minutes=30), or a number of seconds"
        )
    return max(1, round(seconds))


def kaapana_config(config: Any) -> dict[str, Any]:
    """Kaapana's part of an ``executor_config``, checked; what other executors read from it is left to them.

    Raises ClaimError for a name that neither of them knows: a misspelt claim is not "no GPU".
    """
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise ClaimError(
            f'executor_config={config!r} is no dictionary; write executor_config={{"gpu_mem_mb": 4096, "ram_mem_mb": 500}}'
        )
    for name in config:
        if name not in KAAPANA_FIELDS and name not in _FOREIGN_FIELDS:
            raise ClaimError(
                f"executor_config has the name {name!r}, which nobody reads; Berth knows {', '.join(KAAPANA_FIELDS[:-1])}"
            )
    claim_mib(config.get("gpu_mem_mb"), "executor_config['gpu_mem_mb']", text_allowed=False)
    return {name: config[name] for name in KAAPANA_FIELDS if name in config}
