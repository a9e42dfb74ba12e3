"""What people write as a claim, without Airflow and without a daemon."""

from datetime import timedelta

import pytest

from airflow_provider_berth.claims import LARGEST_MIB, ClaimError, claim_mib, kaapana_config, seconds_of


@pytest.mark.parametrize(
    ("value", "mib"),
    [
        (None, 0),
        (0, 0),
        ("", 0),
        ("None", 0),
        (4096, 4096),
        ("4096", 4096),
        ("4096Mi", 4096),
        ("4G", 4096),
        ("4GiB", 4096),
        ("4GB", 3815),
        ("1K", 1),
        ("1T", 2**20),
        (LARGEST_MIB, LARGEST_MIB),
    ],
)
def test_a_claim_is_read_as_the_daemon_reads_it(value, mib):
    assert claim_mib(value) == mib


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (-1, "is negative"),
        ("-1", "is negative"),
        (1.5, "has a decimal point"),
        (float("nan"), "has a decimal point"),
        ("1.5G", "is no amount of memory"),
        (True, "is true or false"),
        (False, "is true or false"),
        ("4Q", "has the unit 'Q'"),
        ("4gb", "has the unit 'gb'"),
        (2**41, "is more than 2**40 MiB"),
        ("9" * 30 + "T", "is more than 2**40 MiB"),
        ([4096], "is no amount of memory"),
        ("lots", "is no amount of memory"),
    ],
)
def test_what_is_no_claim_is_refused_in_one_sentence_that_says_what_to_write(value, rule):
    with pytest.raises(ClaimError) as refusal:
        claim_mib(value)
    sentence = str(refusal.value)
    assert rule in sentence and repr(value) in sentence and 'gpu_mem_mb="4Gi"' in sentence
    assert "\n" not in sentence


def test_kaapanas_dictionary_is_taken_as_a_whole_and_a_misspelt_name_is_not_no_gpu():
    config = {"cpu_millicores": None, "ram_mem_mb": 500, "gpu_mem_mb": 5500, "enable_job_scheduler": True, "pod_override": 1}
    assert kaapana_config(config) == {name: config[name] for name in config if name != "pod_override"}
    assert kaapana_config(None) == {}
    with pytest.raises(ClaimError, match="'gpu_mem'"):
        kaapana_config({"gpu_mem": 5500})
    with pytest.raises(ClaimError, match="no dictionary"):
        kaapana_config([5500])
    for wrong in (-1, 1.5, True, "5500"):
        with pytest.raises(ClaimError, match="gpu_mem_mb"):
            kaapana_config({"gpu_mem_mb": wrong})


def test_lengths_of_time_are_whole_seconds():
    assert seconds_of(timedelta(minutes=2), "gpu_wait_timeout") == 120
    assert seconds_of(0.2, "gpu_wait_timeout") == 1
    assert seconds_of(None, "gpu_wait_timeout") is None
    for wrong in (0, -1, True, "5", timedelta(0), float("inf")):
        with pytest.raises(ClaimError, match="gpu_wait_timeout"):
            seconds_of(wrong, "gpu_wait_timeout")
