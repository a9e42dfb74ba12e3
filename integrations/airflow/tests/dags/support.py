"""Runs DAGs, watches the books meanwhile, reads what was said."""

import contextlib
import hashlib
import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from airflow_provider_berth.version_compat import AIRFLOW_3, AirflowTaskTimeout

HEAD = """
import datetime, os, time, subprocess
from airflow_provider_berth.version_compat import AIRFLOW_3, BaseOperator, BashOperator
if AIRFLOW_3:
    from airflow.sdk import DAG, task
else:
    from airflow import DAG
    from airflow.decorators import task
from airflow_provider_berth.operators.base import GpuOperatorMixin
from airflow_provider_berth.operators.bash import GpuBashOperator
from airflow_provider_berth.operators.kaapana import KaapanaStyleMixin, KaapanaStyleOperator
from airflow_provider_berth.operators.python import GpuPythonOperator
from airflow_provider_berth.sensors.room import GpuRoomSensor

with DAG({name!r}, start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
"""


class Outcome:
    """States by task id (a mapped task: by `id[index]`), XComs, and everything that was said."""

    def __init__(self, states, said, xcoms):
        self.states, self.said, self.xcoms = states, said, xcoms

    @property
    def state(self):
        assert len(self.states) == 1, self.states
        return next(iter(self.states.values()))

    def lease(self):
        return re.search(r"running under lease (l-[0-9a-f]+)", self.said)[1]


class Runner:
    numbers = itertools.count(1)

    def __init__(self, folder, capfd, test):
        self.folder, self.capfd = folder, capfd
        self.name = re.sub(r"\W", "_", test)[:60]

    def dag(self, body, name=None):
        """A DAG from the text of its `with` block, in a file of its own: 3.x reads it again from there."""
        name = name or f"{self.name}_{next(self.numbers)}"
        file = self.folder / f"{name}.py"
        file.write_text(HEAD.format(name=name) + "\n".join("    " + line for line in body.strip().splitlines()) + "\n")
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.dag

    def __call__(self, body, date=None, name=None):
        return self.test(self.dag(body, name), date)

    def test(self, dag, date=None):
        self.capfd.readouterr()
        try:
            dag.test(**({} if date is None else {"logical_date" if AIRFLOW_3 else "execution_date": date}))
        except AirflowTaskTimeout:
            assert not AIRFLOW_3  # 2.11 lets it out of the test, after it has booked the failure
        with self.capfd.disabled():
            said = "\n".join(self.capfd.readouterr())
            states, xcoms = self._read(dag.dag_id)
        return Outcome(states, said, xcoms)

    @contextlib.contextmanager
    def installation(self, name, dag_id):
        """`airflow dags test` in a process, home, database and DAG folder of their own."""
        home = self.folder.parent / name
        (home / "dags").mkdir(parents=True)
        shutil.copy(self.folder / f"{dag_id}.py", home / "dags")
        env = {
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        }
        airflow = f"{sys.prefix}/bin/airflow"
        subprocess.run([airflow, "db", "migrate"], env=env, check=True, capture_output=True, timeout=120)
        log = home / "said"
        with log.open("w") as out:
            command = [airflow, "dags", "test", dag_id, "2026-01-02"]
            process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        process.said = log.read_text
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @staticmethod
    def _read(dag_id):
        """Of its newest run."""
        if AIRFLOW_3:
            from airflow.models.xcom import XComModel as XCom
        else:
            from airflow.models.xcom import XCom
        from airflow.models import DagRun, TaskInstance
        from airflow.utils.session import create_session

        with create_session() as session:
            run_id = session.query(DagRun.run_id).filter_by(dag_id=dag_id).order_by(DagRun.id.desc()).first()[0]
            instances = session.query(TaskInstance).filter_by(dag_id=dag_id, run_id=run_id).all()
            states = {
                ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(getattr(ti.state, "value", ti.state))
                for ti in instances
            }
            xcoms = {}
            for row in session.query(XCom).filter_by(dag_id=dag_id, run_id=run_id):
                xcoms[row.task_id, row.key] = XCom.deserialize_value(row) if AIRFLOW_3 else row.value
        return states, xcoms


class Meanwhile:
    """Does something on a thread once a question has a true answer; fails the test when it never does.

    with Meanwhile(lambda: berth.leases("?state=waiting"), lambda leases: berth.release(blocker)):
        run(…)
    """

    def __init__(self, question, action, seconds=60):
        self.question, self.action, self.seconds = question, action, seconds
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.error = None
        self.got = None
        self.over = threading.Event()

    def _watch(self):
        deadline = time.monotonic() + self.seconds
        try:
            while not (answer := self.question()):
                assert time.monotonic() < deadline, "it has not come true"
                if self.over.wait(0.05):
                    raise AssertionError("the task ended before it came true")
            self.got = self.action(answer)
        except BaseException as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join(30)
        if kind is None and self.error is not None:
            raise self.error


def process_runs(file):
    """Does the process run whose pid stands in `file`?"""
    try:
        state = Path("/proc", file.read_text().strip(), "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


class authority:  # noqa: N801  read as a word: authority(folder).arguments
    """TLS for localhost and one token, as a daemon is started with them."""

    def __init__(self, folder):
        self.certificate, key, self.tokens = folder / "cert.pem", folder / "key.pem", folder / "tokens"
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
            f"-addext subjectAltName=DNS:localhost -keyout {key} -out {self.certificate}".split(),
            check=True,
            capture_output=True,
        )
        key.chmod(0o600)
        self.secret = "berth_" + hashlib.sha256(b"of the tests").hexdigest()
        self.give()
        config = folder / "tls.yaml"
        config.write_text(f"tls:\n  certificate: {self.certificate}\n  key: {key}\n")
        self.arguments = ("--listen", "127.0.0.1:0", "--tokens", str(self.tokens), "--config", str(config))

    def _write(self, name, secret):
        self.tokens.write_text(f"{name} user sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n")
        self.tokens.chmod(0o600)

    def give(self):
        self._write("airflow", self.secret)

    def revoke(self):
        self._write("another", "berth_" + "0" * 64)
