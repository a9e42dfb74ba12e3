"""The page behind the extra link, as the web server of each version has it: only for those who may read the DAG."""

from airflow_provider_berth.links import page_of
from airflow_provider_berth.version_compat import AIRFLOW_3


def test_who_is_not_logged_in_sees_no_page(berth):
    path = page_of("d", "r", "t", -1)
    assert path == "/berth/task?dag_id=d&run_id=r&task_id=t&map_index=-1"
    if AIRFLOW_3:
        from fastapi.testclient import TestClient

        from airflow_provider_berth.plugins.page import apps

        (mounted,) = apps()
        assert TestClient(mounted["app"]).get(path.removeprefix(mounted["url_prefix"])).status_code == 401
    else:
        from airflow.www.app import create_app

        answer = create_app(testing=True).test_client().get(path)
        assert answer.status_code == 302 and "/login" in answer.headers["Location"], answer.status


def test_the_page_says_what_the_daemon_knows(berth, run):
    from airflow_provider_berth.plugins.page import page

    outcome = run("GpuBashOperator(task_id='t', bash_command='true', gpu_mem_mb=4096)", name="shown")
    from airflow.models import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        run_id = session.query(DagRun.run_id).filter_by(dag_id="shown").scalar()
    shown = page("shown", run_id, "t", -1)
    assert outcome.state == "success" and outcome.lease() in shown and "released" in shown and "4096 MiB" in shown
    assert "knows no lease of this task" in page("shown", run_id, "another", -1)


def test_a_daemon_that_is_away_is_said_on_the_page(daemon):
    from airflow_provider_berth.plugins.page import page

    daemon.stop()
    assert "no answer from the daemon at unix:" in page("d", "r", "t", -1)
    daemon.start()
