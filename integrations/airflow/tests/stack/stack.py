"""A whole Airflow in a folder of its own: scheduler, triggerer, what else the version needs, each in its own session.

Control goes the way a user's does: REST in 3.x; in 2.11 the library calls behind its pages, in this process.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

BIN = Path(sys.prefix, "bin")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def soon(question, seconds, what=None):
    """The first true answer. What should have come true is told when it does not."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"after {seconds} s it has not come true: {what() if callable(what) else what}"
        time.sleep(0.15)
    return answer


def processes_with(mark):
    """Pids of processes that were started with this in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def session_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])


def processes_in(sessions):
    """Pids of processes in these sessions. A log server writes its title over its environment, so that has no mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if session_of(folder.name) in sessions:
                found.append(int(folder.name))
    return found


class PostgreSQL:
    """A server for one test run. It refuses root, so root starts it as nobody."""

    def __init__(self, folder):
        self.folder = folder / "postgresql"
        root = Path(__file__).resolve().parents[4]
        answer = subprocess.run([root / "tests/airflow/environment", "postgresql"], check=True, capture_output=True, text=True)
        self.programs = Path(answer.stdout.strip())
        self.port = free_port()
        self.url = f"postgresql+psycopg2://airflow@127.0.0.1:{self.port}/airflow"
        self.prefix = []
        self.copy = None
        self.folder.mkdir()
        if os.geteuid() == 0:
            os.chown(self.folder, 65534, 65534)
            if not self.programs.is_relative_to("/usr"):
                self.programs = self._within_reach(self.programs)
            # Its data may lie where root alone may go.
            self.prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            self.prefix += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]

    def _within_reach(self, programs):
        """A copy of what was unpacked: its programs ask access(), which knows no capability, and root's cache is closed."""
        self.copy = Path(tempfile.mkdtemp(prefix="berth-postgresql-"))
        self.copy.chmod(0o755)
        tree = programs.parents[4]
        shutil.copytree(tree, self.copy, symlinks=True, dirs_exist_ok=True)
        return self.copy / programs.relative_to(tree)

    def _run(self, program, *words):
        command = [*self.prefix, self.programs / program, *map(str, words)]
        answer = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr

    def start(self):
        data = self.folder / "data"
        self._run("initdb", "-A", "trust", "-U", "airflow", "-D", data)
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off -c max_connections=200"
        with (self.folder / "log").open("w") as log:
            os.fchmod(log.fileno(), 0o666)
        self._run("pg_ctl", "-D", data, "-l", self.folder / "log", "-o", options, "-w", "start")
        self._run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "airflow", "airflow")

    def stop(self):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        if self.copy is not None:
            shutil.rmtree(self.copy, ignore_errors=True)


class Stack:
    def __init__(self, folder, env, version, web=False):
        self.folder, self.version, self.is_3 = folder, version, version.startswith("3")
        self.home = folder / "home"
        self.home.mkdir()
        self.web_port = free_port()
        self.parts = {}
        self.sessions = set()  # of every part that was ever started
        self.database = None if self.is_3 else PostgreSQL(folder)
        self.names = (
            ["api-server", "scheduler", "dag-processor", "triggerer"] if self.is_3 else ["scheduler", "triggerer"]
        ) + (["webserver"] if web and not self.is_3 else [])
        self.url = f"http://127.0.0.1:{self.web_port}"
        settings = {
            "CORE__DAGS_FOLDER": folder / "dags",
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": 12,
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
            "CORE__KILLED_TASK_CLEANUP_TIME": 10,
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db" if self.is_3 else self.database.url,
            "LOGGING__WORKER_LOG_SERVER_PORT": free_port(),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": free_port(),
            "SCHEDULER__ENABLE_HEALTH_CHECK": False,
            "SCHEDULER__JOB_HEARTBEAT_SEC": 2,
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": 10,
            "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": 10,
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": 10,
            "TRIGGERER__JOB_HEARTBEAT_SEC": 2,
            # After so long without a sign of life a task counts as lost.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": 2,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 15,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 3,
            "SCHEDULER__SCHEDULER_ZOMBIE_TASK_THRESHOLD": 15,
            "SCHEDULER__ZOMBIE_DETECTION_INTERVAL": 3,
            "SCHEDULER__LOCAL_TASK_JOB_HEARTBEAT_SEC": 2,
            "API__PORT": self.web_port,
            "API__WORKERS": 1,
            "API__BASE_URL": self.url,
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
            "CORE__TEST_CONNECTION": "Enabled",
            "WEBSERVER__WEB_SERVER_PORT": self.web_port,
            "WEBSERVER__WORKERS": 1,
            "WEBSERVER__SECRET_KEY": secrets.token_hex(16),
        }
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
            "AIRFLOW_HOME": str(self.home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            **{f"AIRFLOW__{name}": str(value) for name, value in settings.items()},
            "STACK_OF_TEST": str(self.home),  # by which its processes are found
            **env,
        }
        os.environ.update({name: value for name, value in self.env.items() if name.startswith("AIRFLOW")})
        self.token = None

    # --- processes ---------------------------------------------------------------------------

    def start(self):
        if self.database:
            self.database.start()
        subprocess.run([BIN / "airflow", "db", "migrate"], env=self.env, check=True, capture_output=True, timeout=180)
        for name in self.names:
            self.start_part(name)
        soon(self.is_ready, 120, self.said)
        return self

    def start_part(self, name):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                [BIN / "airflow", name],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.sessions.add(self.parts[name].pid)

    def is_ready(self):
        for name, process in self.parts.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}: {self.said(name)}"
        try:
            if self.is_3:
                health = self.rest("GET", "/api/v2/monitor/health")
                return all((health.get(part) or {}).get("status") == "healthy" for part in ("scheduler", "triggerer")) and all(
                    self.rest("GET", f"/api/v2/dags/{dag}") for dag in ("mapped", "python_marked")
                )
            from airflow.models.dag import DagModel
            from airflow.utils.session import create_session

            with create_session() as session:
                return session.get(DagModel, "python_marked") is not None
        except (OSError, urllib.error.HTTPError):
            return False

    def said(self, name=None):
        return "\n".join(
            f"== {part}\n" + (self.folder / f"{part}.log").read_text(errors="replace")[-3000:]
            for part in ([name] if name else self.parts)
        )

    def kill(self, name):
        """SIGKILL to the process itself, as an out-of-memory killer sends it."""
        self.parts[name].kill()
        self.parts[name].wait()

    def end_rest_of(self, name):
        """Ends what a killed part has left behind except tasks: a triggerer's log server keeps its port, for one."""
        for pid in processes_in({self.parts[name].pid}):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def stop(self):
        for process in self.parts.values():
            process.terminate()
        mark = f"STACK_OF_TEST={self.home}".encode()
        deadline = time.monotonic() + 5
        while pids := {*processes_with(mark), *processes_in(self.sessions)}:
            if time.monotonic() > deadline:
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            for process in self.parts.values():
                process.poll()
            if time.monotonic() > deadline + 10:
                break
            time.sleep(0.1)
        if self.database:
            self.database.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- what users do -----------------------------------------------------------------------

    def rest(self, method, path, body=None):
        if self.token is None:
            with urllib.request.urlopen(f"{self.url}/auth/token", timeout=20) as answer:
                self.token = json.load(answer)["access_token"]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=data)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def page(self, path):
        """3.x: a page of the web server, as the user whom REST calls are made by."""
        request = urllib.request.Request(self.url + path)
        request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def trigger(self, dag, run="r"):
        if self.is_3:
            return self.rest("POST", f"/api/v2/dags/{dag}/dagRuns", {"dag_run_id": run, "logical_date": None})
        from airflow.api.common.trigger_dag import trigger_dag

        return trigger_dag(dag, run_id=run)

    def knows(self, dag):
        """3.x: has it been read?"""
        try:
            return self.rest("GET", f"/api/v2/dags/{dag}")
        except urllib.error.HTTPError:
            return None

    def deferred_of(self, dag, run):
        """3.x: all of a run that are deferred."""
        answer = self.rest("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100")["task_instances"]
        return [ti for ti in answer if ti["state"] == "deferred"]

    def instances(self, dag, run="r"):
        """[(map index, state, try number)] of the task `t`."""
        if self.is_3:
            answer = self.rest("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100")["task_instances"]
            return sorted((ti["map_index"], str(ti["state"]), ti["try_number"]) for ti in answer if ti["task_id"] == "t")
        from airflow.models import TaskInstance
        from airflow.utils.session import create_session

        with create_session() as session:
            rows = session.query(TaskInstance.map_index, TaskInstance.state, TaskInstance.try_number)
            return sorted(
                (index, str(getattr(state, "value", state)), number)
                for index, state, number in rows.filter_by(dag_id=dag, run_id=run, task_id="t")
            )

    def state(self, dag, run="r"):
        instances = self.instances(dag, run)
        return instances[0][1] if instances else "none"

    def tries(self, dag, run="r"):
        return self.instances(dag, run)[0][2]

    def _dag(self, dag):
        """2.11's, from its file, as the pages have it from the database."""
        from airflow.models.serialized_dag import SerializedDagModel

        return SerializedDagModel.get_dag(dag)

    def mark_failed(self, dag, run="r"):
        if self.is_3:
            return self.rest("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/t", {"new_state": "failed"})
        from airflow.utils.state import TaskInstanceState

        return self._dag(dag).set_task_instance_state(task_id="t", run_id=run, state=TaskInstanceState.FAILED)

    def clear(self, dag, run="r"):
        if self.is_3:
            body = {"dry_run": False, "dag_run_id": run, "task_ids": ["t"], "only_failed": False, "reset_dag_runs": True}
            self.rest("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)
            return
        from airflow.models import TaskInstance, clear_task_instances
        from airflow.utils.session import create_session

        def instances(session):
            return session.query(TaskInstance).filter_by(dag_id=dag, run_id=run, task_id="t")

        with create_session() as session:
            running = instances(session).filter(TaskInstance.state == "running").count()
            clear_task_instances(instances(session).all(), session, dag=self._dag(dag))
        if running:
            # Called from here, it tells the job of a running task, but the record's new state is not kept: written again.
            with create_session() as session:
                instances(session).filter(TaskInstance.state == "running").update({"state": "restarting"})

    def log(self, dag, run="r"):
        """Everything that the logs of its tasks say, the triggerer's part too."""
        files = sorted((self.home / "logs" / f"dag_id={dag}" / f"run_id={run}").rglob("attempt=*"))
        return "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
