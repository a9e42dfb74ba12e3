"""What an installation stands on: controllers, service accounts, pods that reach the API server by its service, and webhooks that the
API server reaches in pods. There is no kube-proxy and no name server."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import ApiError, objects  # noqa: E402
from cluster.with_nodes import Cluster  # noqa: E402

APPS = "/apis/apps/v1/namespaces/default"
LABELS = {"app": "hook"}


class Installation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(kubelets=1, controllers=True).start()
        cls.addClassCleanup(cls.cluster.end)
        cls.admin = cls.cluster.admin
        cls.cluster.nodes["n0"].until_ready()

    def running(self, selector, count):
        """The pods of a workload, bound by hand and running."""
        path = f"/api/v1/namespaces/default/pods?labelSelector={selector}"
        self.admin.until(lambda: len(self.admin.list(path)) == count, f"{count} pods of {selector} are made")
        for pod in self.admin.list(path):
            if not pod["spec"].get("nodeName"):
                self.admin.bind(pod, "n0")
        self.admin.until(lambda: all(p["status"]["phase"] == "Running" for p in self.admin.list(path)), f"{selector} runs", 60)
        return self.admin.list(path)

    def deploy(self, name, labels, command, replicas=1):
        template = {"metadata": {"labels": labels}, "spec": objects.pod("x")["spec"] | {
            "containers": [objects.container(args=[command])]}}
        self.admin.create(f"{APPS}/deployments", {"metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels}, "template": template}})

    def test_a_node_that_reported_ready_has_no_taint(self):
        node = self.admin.get("/api/v1/nodes/n0")
        self.admin.until(lambda: not self.admin.get("/api/v1/nodes/n0")["spec"].get("taints"), f"taints go: {node['spec']}")

    def test_pods_of_a_deployment_reach_the_api_server_as_their_account(self):
        token = "$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"
        ask = ("printf 'GET /api HTTP/1.0\\r\\n\\r\\n' | nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT; "
               f"echo token of ${{#T}} characters")
        self.deploy("asks", {"app": "asks"}, f"T={token}; {ask}; sleep 1000", replicas=2)
        for pod in self.running("app%3Dasks", 2):
            name = pod["metadata"]["name"]
            said = self.admin.until(lambda name=name: self.cluster.kubectl("logs", name), "it asks")
            self.assertIn("Client sent an HTTP request to an HTTPS server", said)
            self.assertRegex(said, r"token of \d{3,4} characters")

    def test_webhooks_are_reached_in_pods_by_the_name_of_their_service(self):
        # It speaks no TLS, which the API server can only find out by talking to it.
        self.deploy("hook", LABELS, "while true; do echo plain | nc -l -p 8443; done")
        self.running("app%3Dhook", 1)
        self.admin.create("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": {
            "selector": LABELS, "ports": [{"port": 443, "targetPort": 8443}]}})
        self.admin.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
            "metadata": {"name": "hook"}, "webhooks": [{
                "name": "hook.berth.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 5,
                "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]})
        said = []

        def reached():
            try:
                self.admin.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"c{len(said)}"}})
            except ApiError as refused:
                said.append(refused.message)
                return "does not look like a TLS handshake" in refused.message or "malformed" in refused.message
            return False

        try:
            self.admin.until(reached, "the API server talks to the pod", every=0.5)
        except AssertionError as error:
            self.fail(f"{error}; it said {said[-1:]}")
        finally:
            self.admin.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook")


if __name__ == "__main__":
    unittest.main()
