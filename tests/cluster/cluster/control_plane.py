"""A control plane: etcd and kube-apiserver on free ports of the loopback interface, in a folder of its own.

    with ControlPlane() as plane:
        plane.admin.create("/api/v1/nodes", objects.node("n0"))
        berth = subprocess.Popen([..., "--kubeconfig", plane.kubeconfig()])

Some four seconds to start. Everything ends with the process that made it, also by kill -9, unless it is `kept`.
etcd does not wait for the disk (--unsafe-no-fsync), so a figure measured here says so.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import certificates
from . import kubeconfig as configs
from .asking import Asking, KeeperError
from .client import Api
from .programs import HERE, program

START_SECONDS = 60
SERVICE_RANGE = "10.0.0.0/24"
# What stands for the parts that are absent: no controller-manager makes accounts or takes taints from new nodes.
WITHOUT_CONTROLLERS = ["ServiceAccount", "TaintNodesByCondition"]

# Every request of everybody but the API server itself is in the audit log; what is bound, with its annotations.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "None", "users": ["system:apiserver"]},
    {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*", "/version", "/api*", "/openapi*"]},
    {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding"]}]},
    {"level": "Metadata"}]}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StartFailed(Exception):
    """A program of the cluster ended or did not become ready; its last lines are in the text."""


def tail(path, lines=15):
    try:
        return "\n".join(Path(path).read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


class ControlPlane:
    """etcd and kube-apiserver. `admin` may do everything and is exempt from flow control; tests of Berth use others."""

    host = "127.0.0.1"  # where the API server listens

    def __init__(self, folder=None, keep=False, controllers=False, flags=(), audit=None):
        """`flags`: further flags of the API server. `audit`: another audit policy. `controllers`: kube-controller-manager
        as well; a list of names: only these controllers, and admission as without them. `keep`: it outlives this process, until `end()` of one attached to its folder."""
        self.temporary = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="berth-cluster-"))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.keep, self.controllers, self.flags, self.audit = keep, controllers, list(flags), audit or AUDIT
        self.ports = {}
        self.users = {}
        self.keeper = None  # starts what belongs to the cluster
        self.outside = None  # starts what runs beside it: the same, unless the cluster is in a box
        self.processes = []
        self.admin = None
        self.clients = []

    # --- life --------------------------------------------------------------------------------

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()

    def start(self):
        began = time.monotonic()
        paths = {name: program(name) for name in ("etcd", "kube-apiserver")}
        if self.controllers:
            paths["kube-controller-manager"] = program("kube-controller-manager", "controllers")
        self.paths = paths
        try:
            self._prepare()
            self.save()
            self._keep()
            self.start_etcd()
            self.start_api_server()
            if self.controllers:
                self.start_controllers()
        except BaseException:
            self.end()
            raise
        self.started_s = time.monotonic() - began
        return self

    def _prepare(self):
        self.ports = {name: free_port() for name in ("etcd", "etcd-peer", "api", "controllers")}
        self.authority = certificates.Authority(self.folder / "pki")
        names = ["IP:127.0.0.1", "IP:10.0.0.1", "IP:10.99.0.1", "DNS:localhost", "DNS:kubernetes",
                 "DNS:kubernetes.default", "DNS:kubernetes.default.svc"]
        self.authority.issue("server", "/CN=kube-apiserver", names, "serverAuth")
        self.admin_certificate = self.authority.issue("admin", "/O=system:masters/CN=berth-test-admin")
        self.signing = certificates.signing_key(self.folder / "pki")
        (self.folder / "audit-policy.json").write_text(json.dumps(self.audit), encoding="utf-8")
        self.users = {}
        for name, user, groups in (("scheduler", *configs.account("berth-system", "berth-scheduler")),
                                   ("webhook", *configs.account("berth-system", "berth-webhook")),
                                   ("agent", *configs.account("berth-system", "berth-agent")),
                                   ("tenant", "tenant", ["system:authenticated"]),
                                   ("kube-scheduler", "system:kube-scheduler", []),
                                   ("controllers", "system:kube-controller-manager", [])):
            self.users[name] = (os.urandom(16).hex(), user, groups)
        self.write_tokens()
        configs.write(self.folder / "admin.kubeconfig", self.server, self.ca,
                         {"client-certificate": self.admin_certificate[0], "client-key": self.admin_certificate[1]})

    def write_tokens(self):
        """The API server reads them at its start."""
        lines = [f'{token},{user},{user},"{",".join(groups)}"' for token, user, groups in self.users.values()]
        path = self.folder / "tokens.csv"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _keep(self):
        self.keeper = self.outside = self.start_keeper("keeper")

    def start_keeper(self, name, wrap=lambda command: command, last=True):
        """Starts a keeper. `wrap`: makes the command that starts it in a box. `last`: the folder is deleted after it."""
        path = self.folder / f"{name}.sock"
        path.unlink(missing_ok=True)
        command = wrap([sys.executable, "-B", str(HERE / "keeper.py"), "--socket", str(path)])
        if not self.keep:
            command += ["--tied", *(["--remove", str(self.folder)] if self.temporary and last else [])]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True,
                                       stdin=subprocess.DEVNULL if self.keep else subprocess.PIPE)
        self.processes.append(process)
        return Asking(path)

    def end(self):
        """Ends every program, and deletes the folder if it was made here."""
        for client in self.clients:
            client.close()
        for keeper in dict.fromkeys((self.keeper, self.outside)):
            try:
                if keeper is not None:
                    keeper.end()
            except KeeperError:
                pass  # it has ended by itself; its process is waited for below
        self.keeper = self.outside = None
        for process in self.processes:
            if process.stdin:
                process.stdin.close()
            process.wait(timeout=60)
        self.processes.clear()
        self.clean()
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def clean(self):
        """What is left of it outside of its folder: nothing."""

    # --- a cluster that outlives who made it -----------------------------------------------------

    def facts(self):
        return {"ports": self.ports, "users": self.users, "controllers": self.controllers}

    def save(self):
        path = self.folder / "cluster.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.facts()), encoding="utf-8")

    def attach(self):
        """Takes over what another process has started in this folder with `keep`. KeeperError if nobody keeps it any more."""
        self.load_from_folder()
        self.keeper = self.outside = Asking(self.folder / "keeper.sock", seconds=1)
        self.admin = self.client(self.server, certificate=self.admin_certificate)
        return self

    def load_from_folder(self):
        self.load(json.loads((self.folder / "cluster.json").read_text(encoding="utf-8")))

    def load(self, facts):
        self.ports, self.users, self.controllers = facts["ports"], facts["users"], facts["controllers"]
        self.authority = certificates.Authority(self.folder / "pki")
        self.admin_certificate = self.authority.folder / "admin.crt", self.authority.folder / "admin.key"

    # --- programs ----------------------------------------------------------------------------

    def log(self, name):
        return self.folder / f"{name}.log"

    def launch(self, name, argv, env=None, outside=False):
        return self.keeper_of(outside).start(name, argv, self.log(name), env)

    def keeper_of(self, outside):
        return self.outside if outside else self.keeper

    def kill(self, name, number=signal.SIGKILL, wait=True, outside=False):
        """As by kill -9; `SIGSTOP` and `SIGCONT` pause and resume, without waiting."""
        self.keeper_of(outside).signal(name, number)
        if wait and number not in (signal.SIGSTOP, signal.SIGCONT):
            return self.keeper_of(outside).wait(name)
        return None

    def ready(self, name, check, outside=False):
        """Waits until `check()` is true while the program runs."""
        deadline = time.monotonic() + START_SECONDS
        while not check():
            status = self.keeper_of(outside).programs()[name]["status"]
            if status is not None or time.monotonic() > deadline:
                why = f"ended with {status}" if status is not None else f"is not ready after {START_SECONDS} s"
                raise StartFailed(f"{name} {why}:\n{tail(self.log(name))}")
            time.sleep(0.05)

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("etcd", "etcd-peer"))
        self.launch("etcd", [self.paths["etcd"], "--name=test", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync",
                             f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                             f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                             f"--initial-cluster=test={peer}", "--log-level=warn"])

        self.ready("etcd", lambda: self.keeper.listens(self.ports["etcd"]))

    def api_server_flags(self, port, audit_log):
        key, public = self.signing
        disabled = [] if self.controllers is True else [f"--disable-admission-plugins={','.join(WITHOUT_CONTROLLERS)}"]
        pki = self.authority.folder
        return [f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}", f"--bind-address={self.host}",
                f"--secure-port={port}", f"--tls-cert-file={pki}/server.crt", f"--tls-private-key-file={pki}/server.key",
                f"--client-ca-file={self.ca}", f"--token-auth-file={self.folder}/tokens.csv",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={public}",
                f"--service-account-signing-key-file={key}", "--authorization-mode=Node,RBAC",
                f"--service-cluster-ip-range={SERVICE_RANGE}", *disabled,
                f"--audit-policy-file={self.folder}/audit-policy.json", f"--audit-log-path={audit_log}",
                "--audit-log-mode=blocking", "--profiling=false", *self.flags]

    def start_api_server(self):
        self.launch("kube-apiserver", [self.paths["kube-apiserver"], *self.api_server_flags(self.ports["api"], self.audit_log)])
        self.admin = self.client(self.server, certificate=self.admin_certificate)
        self.ready("kube-apiserver", lambda: self.answers(self.admin))

    def start_witness(self):
        """A second API server on the same etcd, for whoever watches while the first is restarted. A client of it."""
        self.ports["witness"] = free_port()
        self.expose(self.ports["witness"])
        self.launch("witness", [self.paths["kube-apiserver"],
                                *self.api_server_flags(self.ports["witness"], self.folder / "witness-audit.log")])
        witness = self.client(f"https://127.0.0.1:{self.ports['witness']}", certificate=self.admin_certificate)
        self.ready("witness", lambda: self.answers(witness))
        return witness

    def expose(self, port):
        """Makes a port of the cluster reachable on this machine. It is: there is no box."""

    @staticmethod
    def answers(api):
        try:
            return api.raw("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def start_controllers(self):
        key, _ = self.signing
        self.launch("kube-controller-manager", [
            self.paths["kube-controller-manager"], f"--kubeconfig={self.kubeconfig('controllers')}",
            "--bind-address=127.0.0.1", f"--secure-port={self.ports['controllers']}", f"--root-ca-file={self.ca}",
            f"--service-account-private-key-file={key}", "--use-service-account-credentials", "--leader-elect=false",
            *([] if self.controllers is True else [f"--controllers={','.join(self.controllers)}"])])
        if self.controllers is True:
            self.admin.until(lambda: self._has_account(), "the default service account is made")

    def _has_account(self):
        return any(a["metadata"]["name"] == "default"
                   for a in self.admin.list("/api/v1/namespaces/default/serviceaccounts"))

    # --- clients -----------------------------------------------------------------------------

    @property
    def server(self):
        return f"https://127.0.0.1:{self.ports['api']}"

    @property
    def ca(self):
        return self.authority.certificate

    @property
    def audit_log(self):
        return self.folder / "audit.log"

    def kubeconfig(self, user="scheduler", server=None):
        """The path of a kubeconfig for a user: scheduler, webhook, agent, tenant, kube-scheduler, admin. `server` leads it
        through a proxy, whose certificate the same authority must have issued."""
        if user == "admin" and server is None:
            return self.folder / "admin.kubeconfig"
        path = self.folder / (f"{user}.kubeconfig" if server is None else f"{user}-{server.rpartition(':')[2]}.kubeconfig")
        return configs.write(path, server or self.server, self.ca, {"token": self.users[user][0]})

    def api(self, user="scheduler", server=None):
        return self.client(server or self.server, token=self.users[user][0])

    def client(self, server, **credentials):
        """A client that is closed with the plane."""
        self.clients.append(Api(server, self.ca, **credentials))
        return self.clients[-1]

    def kubectl(self, *arguments, check=True, kubeconfig=None):
        """Standard output of kubectl, as the administrator unless there is another kubeconfig."""
        done = subprocess.run([program("kubectl"), "--kubeconfig", kubeconfig or self.kubeconfig("admin"),
                               "--cache-dir", self.folder / "kubectl", *arguments],
                              capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def grant(self, user, rules, name=None):
        """A cluster role with these rules, bound to a user."""
        name = name or f"test-{user}"
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        self.admin.create(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        self.admin.create(f"{rbac}/clusterrolebindings", {
            "metadata": {"name": name}, "subjects": [{"kind": "User", "name": self.users[user][1]}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}})
