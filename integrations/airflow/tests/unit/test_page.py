"""The page behind the extra link, from what the daemon says."""

from airflow_provider_berth.plugins.page import document

WAITING = {
    "id": "l-2",
    "state": "waiting",
    "message": "needs <4096> MiB",
    "memory_mib": 4096,
    "queued_at": "2026-01-01T00:00:00Z",
    "labels": {"airflow/try": "2"},
    "queue": {"name": "research", "position": 3, "of": 7, "shortfall_mib": 812, "nearest_device": "GPU-1", "eta_seconds": 40},
}
EXPLAINED = {
    "asked": "4096 MiB",
    "would_help": "the end of l-1",
    "devices": [
        {
            "uuid": "GPU-1",
            "node": "n1",
            "total_mib": 16384,
            "committed_mib": 13000,
            "headroom_mib": 3284,
            "reason": "no-room",
            "shortfall_mib": 812,
        }
    ],
}


def test_who_waits_reads_why_where_for_what_and_since_when():
    text = document("d.t", [WAITING, {**WAITING, "id": "l-1", "state": "lost", "labels": {"airflow/try": "1"}}], EXPLAINED)
    for said in (
        "3 of 7 in queue research",
        "812 MiB on GPU-1",
        "2026-01-01T00:00:00Z",
        "40 s",
        "the end of l-1",
        "needs &lt;4096&gt; MiB",
        "Try 2",
        "Try 1",
        "http-equiv=refresh",
        "berth why l-2",
        "13000",
    ):
        assert said in text, said
    assert "<4096>" not in text


def test_what_is_over_is_not_asked_for_again():
    lease = {**WAITING, "state": "released", "device": {"uuid": "GPU-1", "model": "H100", "node": "n1"}, "waited_seconds": 12}
    text = document("d.t", [lease], {})
    assert "http-equiv=refresh" not in text and "GPU-1 (H100), node n1" in text and "12 s" in text


def test_trouble_and_nothing_are_said():
    assert "no answer from &lt;x&gt;" in document("d.t", [], {}, "no answer from <x>")
    assert "knows no lease of this task" in document("d.t", [], {})
