"""`berth webhook` beside a real API server: what becomes of pods, what is refused, and what happens when it is down or renews itself."""

import json
import ssl
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from cluster import ApiError, ControlPlane, objects, program  # noqa: E402
from cluster.control_plane import free_port  # noqa: E402

BERTH = ROOT / "build" / "bin" / "berth"
PODS = [{"apiGroups": [""], "resources": ["pods", "pods/status", "pods/binding", "pods/ephemeralcontainers"],
         "verbs": ["get", "list", "create", "update", "patch", "delete"]}]
STRATEGIC = "application/strategic-merge-patch+json"
POD = "/api/v1/namespaces/default/pods/"


class Process:
    """A webhook of one's own, on a free port of this machine."""

    def __init__(self, plane, *words):
        self.url = f"https://127.0.0.1:{free_port()}"
        self.said = []
        self.process = subprocess.Popen(
            [BERTH, "webhook", "--kubeconfig", str(plane.kubeconfig("webhook")), "--listen", self.url[8:], "--url", self.url, *words],
            stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def get(self, path):
        """Status and text, without a look at its certificate."""
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(self.url + path, timeout=5, context=context) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def certificate(self):
        host, port = self.url[8:].split(":")
        return ssl.get_server_certificate((host, int(port)))

    def until_ready(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            status, text = self.get("/readyz")
            if status == 200:
                return self
            time.sleep(0.1)
        raise AssertionError(f"not ready after 30 s: {text}; it said {self.said}")

    def end(self):
        self.process.terminate()
        return self.ended()

    def kill(self):
        self.process.kill()
        self.ended()

    def ended(self):
        status = self.process.wait(20)
        self.reader.join()
        self.process.stderr.close()
        return status


def environment(pod, name="main"):
    containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
    return {e["name"]: e.get("value") or e["valueFrom"]["fieldRef"]["fieldPath"]
            for c in containers if c["name"] == name for e in c.get("env", [])}


class WithWebhook:
    @classmethod
    def begin(cls, *words):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.plane.kubectl("apply", "-k", str(ROOT / "deploy" / "kubernetes"))
        cls.plane.admin.create("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        for user in ("tenant", "scheduler"):
            cls.plane.grant(user, PODS)
        cls.plane.admin.create_nodes([objects.node("n0")])
        cls.tenant = cls.plane.api("tenant")
        cls.scheduler = cls.plane.api("scheduler")
        cls.webhook = Process(cls.plane, *words).until_ready()
        cls.addClassCleanup(lambda: cls.webhook.kill())
        cls.until_asked("probe")

    @classmethod
    def until_asked(cls, name):
        """The API server hears of changed configurations a moment later."""
        def reached():
            try:
                made = cls.tenant.create_pods([objects.pod(f"{name}-{time.monotonic_ns()}", {"gpu-memory": "1"})])[0]
            except ApiError:
                return False
            return "NVIDIA_VISIBLE_DEVICES" in environment(made)
        cls.plane.admin.until(reached, "the API server asks the webhook", 30, every=0.1)

    def made(self, name, annotations=None, **fields):
        return self.tenant.create_pods([objects.pod(name, annotations, **fields)])[0]

    def refusal(self, call):
        with self.assertRaises(ApiError) as refused:
            call()
        return refused.exception.message


class WebhookReviews(WithWebhook, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.begin()

    def test_a_share_gets_its_sizes_its_environment_and_its_runtime(self):
        pod = self.made("share", {"gpu-memory": "4096", "gpu-memory.limit": "8Gi"},
                        containers=[objects.container("main"), objects.container("side")])
        self.assertEqual(pod["metadata"]["annotations"]["nvidia.com/container.main.gpu-memory.request"], "4096Mi")
        self.assertEqual(pod["metadata"]["annotations"]["nvidia.com/container.main.gpu-memory.limit"], "8Gi")
        self.assertEqual(pod["spec"]["runtimeClassName"], "nvidia")
        self.assertEqual(environment(pod)["NVIDIA_VISIBLE_DEVICES"], "metadata.annotations['berth.dev/main.devices']")
        self.assertEqual(environment(pod)["BERTH_MEMORY_LIMIT_MIB"], "metadata.annotations['berth.dev/main.memory-limit-mib']")
        self.assertEqual(environment(pod, "side"), {"NVIDIA_VISIBLE_DEVICES": "void"})

    def test_a_pod_that_has_been_through_it_goes_through_unchanged(self):
        first = self.made("once", {"gpu-fraction": "0.25", "gpu-fraction.limit": "0.5"})
        again = {"apiVersion": "v1", "kind": "Pod", "spec": first["spec"],
                 "metadata": {"name": "twice", "namespace": "default", "annotations": first["metadata"]["annotations"]}}
        second = self.tenant.create_pods([again])[0]
        self.assertEqual(second["spec"], first["spec"])
        self.assertEqual(second["metadata"]["annotations"], first["metadata"]["annotations"])

    def test_every_fault_is_told_at_once(self):
        words = self.refusal(lambda: self.made("wrong", {"gpu-fraction": "2", "gpu-memory": "abc"}))
        for code in ("BadFraction: gpu-fraction=2", "BadMemory: gpu-memory=abc", "FractionAndMemory"):
            self.assertIn(code, words)

    def test_warnings_reach_people(self):
        manifest = json.dumps(objects.pod("warned", {"gpu-memory": "1Gi"}))
        shown = subprocess.run([program("kubectl"), "--kubeconfig", str(self.plane.kubeconfig("tenant")), "create", "-f",
                                "-", "--validate=false"], input=manifest, capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("Warning: NotPortableToKai: gpu-memory=1Gi", shown.stderr)

    def test_what_is_forged_or_preset_is_refused(self):
        self.assertIn("NodeNamePreset", self.refusal(lambda: self.made("preset", {"gpu-fraction": "0.5"}, nodeName="n0")))
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {
            "fieldPath": "metadata.annotations['berth.dev/other.devices']"}}}]
        self.assertIn("ProtectedEnv", self.refusal(lambda: self.made(
            "forged", {"gpu-fraction": "0.5"}, containers=[objects.container(env=env)])))

    def test_sizes_stay_once_the_pod_exists(self):
        self.made("fixed", {"gpu-memory": "100"})
        change = {"metadata": {"annotations": {"gpu-memory": "90000"}}}
        self.assertIn("ImmutableKey: gpu-memory=90000", self.refusal(lambda: self.tenant.patch(POD + "fixed", change)))
        self.assertIn("ImmutableKey", self.refusal(lambda: self.tenant.patch(POD + "fixed/status", change)))
        self.tenant.patch(POD + "fixed", {"metadata": {"annotations": {"note": "mine"}}})
        self.tenant.patch(POD + "fixed/status", {"status": {"message": "kubelets write here all the time"}}, STRATEGIC)

    def test_keys_of_the_binding_are_the_schedulers(self):
        pod = self.made("bound", {"gpu-memory": "100"})
        notes = {"nvidia.com/container.main.gpus.devices": "GPU-1", "berth.dev/main.devices": "GPU-1"}
        words = self.refusal(lambda: self.tenant.bind(pod, "n0", notes))
        self.assertIn("ProtectedKey", words)
        self.assertIn("ImmutableKey: gpu-memory=9", self.refusal(lambda: self.tenant.bind(pod, "n0", {"gpu-memory": "9"})))
        self.scheduler.bind(pod, "n0", notes)
        self.assertEqual(self.tenant.get(POD + "bound")["metadata"]["annotations"]["berth.dev/main.devices"], "GPU-1")
        self.assertIn("ProtectedKey", self.refusal(lambda: self.tenant.patch(
            POD + "bound", {"metadata": {"annotations": {"nvidia.com/container.main.gpus.devices": "GPU-2"}}})))

    def test_ephemeral_containers_see_no_device(self):
        self.made("debugged", {"gpu-memory": "100"})
        path = POD + "debugged/ephemeralcontainers"
        add = lambda container: self.tenant.patch(path, {"spec": {"ephemeralContainers": [container]}}, STRATEGIC)  # noqa: E731
        hostile = objects.container("h", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
        self.assertIn("ProtectedEnv", self.refusal(lambda: add(hostile)))
        after = add(objects.container("d"))["spec"]["ephemeralContainers"]
        self.assertEqual(after[0]["env"], [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])

    def test_pods_of_other_schedulers_never_come_here(self):
        before = self.webhook.get("/metrics")[1]
        pod = self.made("other", {"gpu-fraction": "7"}, scheduler="default-scheduler")
        self.tenant.patch(POD + "other/status", {"status": {"message": "m"}}, STRATEGIC)
        self.assertEqual(environment(pod), {})
        self.assertEqual(self.webhook.get("/metrics")[1], before)

    def test_it_says_how_it_is(self):
        self.assertEqual(self.webhook.get("/livez"), (200, "ok\n"))
        text = self.webhook.get("/metrics")[1]
        self.assertIn("berth_webhook_registered 1\n", text)
        self.assertRegex(text, r'berth_webhook_reviews_total\{kind="mutate",result="changed"\} [1-9]')
        self.assertEqual(self.webhook.get("/else")[0], 404)


class WebhookLife(WithWebhook, unittest.TestCase):
    """In the order of the alphabet: each test leaves a webhook behind that serves."""

    @classmethod
    def setUpClass(cls):
        cls.begin("--certificate-life", "24s")

    def test_a_certificates_are_renewed_without_a_refusal(self):
        first = self.webhook.certificate()
        deadline = time.monotonic() + 60
        count = 0
        while time.monotonic() < deadline and self.webhook.certificate() == first:
            self.made(f"meanwhile-{count}", {"gpu-memory": "1"})  # fails if it is not trusted or not reached
            count += 1
            time.sleep(0.05)
        self.assertNotEqual(self.webhook.certificate(), first, self.webhook.said)
        for number in range(20):
            self.made(f"afterwards-{number}", {"gpu-memory": "1"})
            time.sleep(0.05)
        self.assertGreater(count, 50)

    def test_b_while_it_is_down_only_our_pods_wait_for_it(self):
        self.made("here-already", {"gpu-memory": "1"})
        self.webhook.kill()
        # What a Job's controller does to each of its pods, before and after.
        for finalizers in (["batch.kubernetes.io/job-tracking"], None):
            self.tenant.patch(POD + "here-already", {"metadata": {"finalizers": finalizers, "labels": {"a": "b"}}})
        self.made("elsewhere", scheduler="default-scheduler")
        words = self.refusal(lambda: self.made("ours", {"gpu-memory": "1"}))
        self.assertIn('failed calling webhook "pods.berth.dev"', words)
        # One that starts anew has another authority and another port.
        type(self).webhook = Process(self.plane).until_ready()
        self.until_asked("again")

    def test_c_another_hand_in_the_configurations_is_mended(self):
        self.webhook.end()
        type(self).webhook = Process(self.plane, "--certificate-life", "60s").until_ready()
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/berth-webhook"
        standing = self.plane.admin.get(path)
        standing["webhooks"][0]["clientConfig"] = {"url": "https://127.0.0.1:1/mutate"}
        self.plane.admin.replace(path, standing)
        self.until_asked("mended")

    def test_d_it_says_what_it_lacks(self):
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            self.plane.kubectl("delete", kind, "berth-webhook")
        lonely = Process(self.plane)
        self.addCleanup(lonely.kill)
        self.plane.admin.until(lambda: "apply deploy/kubernetes" in lonely.get("/readyz")[1], "it says what is missing", 20)
        self.assertEqual(lonely.get("/readyz")[0], 503)
        self.plane.kubectl("apply", "-k", str(ROOT / "deploy" / "kubernetes"))
        self.assertEqual(lonely.end(), 0)


if __name__ == "__main__":
    unittest.main()
