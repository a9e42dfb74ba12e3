"""Berth beside a test cluster: what deploy/kubernetes installs, with scheduler and webhook as processes of this machine.

    with ControlPlane() as plane:
        berth = Installed(plane, {"allowAdvisory": True}).start()
        berth.scheduler_face("/v1/leases"), berth.berth("why", "p", "-n", "default")

The accounts, rights, flow schemas, policies and webhook configurations are those that users apply; only the two Deployments have
nobody here who would run them, so the webhook's configurations get its address (--url) in place of its service.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("BERTH_BIN_DIR", ROOT / "build" / "bin"))
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from cluster import box, objects  # noqa: E402
from cluster.control_plane import free_port  # noqa: E402


class Installed:
    def __init__(self, plane, configuration=None, queues="queues:\n  - {name: default}\n", runtime_class=""):
        self.plane = plane
        self.configuration = configuration or {}
        self.queues = queues
        self.runtime_class = runtime_class
        self.port, self.webhook_port = free_port(), free_port()

    def start(self, webhook=True, scheduler=True):
        self.plane.kubectl("apply", "-k", str(ROOT / "deploy" / "kubernetes"))
        if webhook:
            self.start_webhook()
        else:
            for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
                self.plane.kubectl("delete", kind, "berth-webhook")
        if scheduler:
            self.start_scheduler()
        return self

    def launch_webhook(self):
        address = f"127.0.0.1:{self.webhook_port}"
        self.plane.launch("webhook", [BIN / "berth", "webhook", "--kubeconfig", self.plane.kubeconfig("webhook"), "--listen",
                                      address, "--url", f"https://{address}", "--runtime-class", self.runtime_class, "--config",
                                      self.write_configuration("webhook")])

    def start_webhook(self):
        self.launch_webhook()
        # It is ready once the API server trusts it and knows where it is.
        configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/berth-webhook"
        self.plane.ready("webhook", lambda: "url" in self.plane.admin.get(configuration)["webhooks"][0]["clientConfig"])

    def start_scheduler(self, *options, kubeconfig=None, name="scheduler", port=None):
        port = port or self.port
        listen = [f"127.0.0.1:{port}"]
        if hasattr(self.plane, "nodes"):
            listen.append(f"{box.ADDRESS}:{port}")
        configuration = self.write_configuration(name, listen=listen)
        self.plane.launch(name, [BIN / "berth", "scheduler", "--kubeconfig", kubeconfig or self.plane.kubeconfig("scheduler"),
                                 "--config", configuration, *options])
        if hasattr(self.plane, "nodes"):
            self.plane.expose(port)
        self.plane.ready(name, lambda: self.answers(port))

    def write_configuration(self, name, **fields):
        folder = self.plane.folder
        words = {**fields, **self.configuration}
        if self.queues is not None:
            (folder / "queues.yaml").write_text(self.queues, encoding="utf-8")
            words["queues_file"] = str(folder / "queues.yaml")
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(words), encoding="utf-8")  # JSON is YAML
        return path

    def lead_service_to_scheduler(self):
        """The service's endpoint, as a controller would write it. The API server proxies to pods only, so one stands there that
        has the scheduler's address and runs nowhere."""
        api, place = self.plane.admin, "/api/v1/namespaces/berth-system"
        secure = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]},
                  "seccompProfile": {"type": "RuntimeDefault"}}
        api.create_pods([objects.pod("stand-in", namespace="berth-system", scheduler="nobody",
                                     containers=[objects.container(securityContext=secure)])])
        api.patch(f"{place}/pods/stand-in/status", {"status": {"phase": "Running", "podIP": box.ADDRESS,
                                                               "podIPs": [{"ip": box.ADDRESS}]}})
        target = {"kind": "Pod", "namespace": "berth-system", "name": "stand-in"}
        subset = {"addresses": [{"ip": box.ADDRESS, "targetRef": target}], "ports": [{"name": "http", "port": self.port}]}
        api.create(f"{place}/endpoints", {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "berth-scheduler"},
                                          "subsets": [subset]})

    def answers(self, port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    @staticmethod
    def text(port, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return answer.read().decode()

    def face(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.loads(answer.read())

    def berth(self, *words, user="admin"):
        """Standard output and error of a verb of `berth` with a user's kubeconfig."""
        done = subprocess.run([BIN / "berth", *words, "--kubeconfig", self.plane.kubeconfig(user)], capture_output=True, text=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def log(self, name="scheduler"):
        return self.plane.log(name).read_text(encoding="utf-8", errors="replace")

    def until_bound(self, name, seconds=30, namespace="default"):
        self.plane.admin.until(lambda: self.plane.admin.pod(name, namespace)["spec"].get("nodeName"), f"{name} is bound", seconds)
        return self.plane.admin.pod(name, namespace)

    def condition(self, name, namespace="default"):
        """(reason, message) of PodScheduled, when it waits."""
        for condition in self.plane.admin.pod(name, namespace).get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition.get("reason"), condition.get("message", "")
        return None
