"""Names of leases: of one try, of one installation, within the API's bounds."""

from types import SimpleNamespace

from airflow_provider_berth.keys import default_installation, key_of


def ti(**fields):
    return SimpleNamespace(**{"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1, **fields})


def test_a_try_of_airflow_3_has_one_key_and_the_next_try_another():
    first, again = key_of(ti(id="u-1"), "here"), key_of(ti(id="u-1"), "here")
    second = key_of(ti(id="u-2", try_number=2), "here")
    assert first == again and first.text == "airflow:here/d/r/t/-1/1/u-1"
    assert second.text != first.text and second.prefix == first.prefix == "airflow:here/d/r/t/-1/"
    assert first.again(0) == first.text and first.again(2) == first.text + "#2"


def test_two_equal_tries_of_airflow_2_have_different_keys():
    assert key_of(ti(), "here").text != key_of(ti(), "here").text
    assert key_of(ti(), "here").prefix == key_of(ti(), "here").prefix


def test_installations_do_not_meet(monkeypatch):
    assert not key_of(ti(id="u"), "a").text.startswith(key_of(ti(id="u"), "b").prefix)
    monkeypatch.setenv("AIRFLOW_HOME", "/one")
    one = default_installation()
    monkeypatch.setenv("AIRFLOW_HOME", "/two")
    assert default_installation() != one


def test_a_prefix_is_of_one_task_instance_alone():
    assert not key_of(ti(map_index=10, id="u"), "a").text.startswith(key_of(ti(map_index=1, id="u"), "a").prefix)
    assert not key_of(ti(task_id="t/-1", id="u"), "a").text.startswith(key_of(ti(task_id="t", id="u"), "a").prefix)


def test_long_names_stay_within_512_bytes_and_apart():
    one = key_of(ti(dag_id="ä" * 250, run_id="r" * 250, task_id="t" * 249 + "1", id="u" * 36), "i" * 200)
    two = key_of(ti(dag_id="ä" * 250, run_id="r" * 250, task_id="t" * 249 + "2", id="u" * 36), "i" * 200)
    assert len(one.text.encode()) <= 512 and one.prefix != two.prefix
