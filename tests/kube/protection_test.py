"""The policies of deploy/kubernetes on a real API server: what tenants cannot write, whatever scheduler their pods name."""

import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from cluster import ApiError, ControlPlane, objects  # noqa: E402

EVERYTHING_OF_PODS = [{"apiGroups": [""], "resources": ["pods", "pods/status", "pods/binding", "pods/ephemeralcontainers", "bindings"],
                       "verbs": ["get", "list", "create", "update", "patch", "delete"]}]
GRANT = '{"containers":[],"id":"g-1","node":"n0","v":1}'


class Protection(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = ControlPlane().start()
        cls.addClassCleanup(cls.plane.end)
        cls.plane.kubectl("apply", "-k", str(ROOT / "deploy" / "kubernetes"))
        # No server of Berth runs here: the policies alone decide.
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            cls.plane.kubectl("delete", kind, "berth-webhook")
        for user in ("tenant", "scheduler", "agent"):
            cls.plane.grant(user, EVERYTHING_OF_PODS)
        cls.plane.admin.create_nodes([objects.node("n0")])
        cls.plane.admin.namespace("protected", {"berth.dev/protection": "enabled"})
        cls.plane.admin.namespace("open")
        cls.tenant = cls.plane.api("tenant")
        cls.wait_until_in_force()

    # Policies reach the API server's own cache a moment after they are written.
    @classmethod
    def wait_until_in_force(cls):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            name = f"probe-{time.monotonic_ns()}"
            try:
                cls.tenant.create_pods([objects.pod(name, {"berth.dev/grant": GRANT}, namespace="protected")])
            except ApiError as refused:
                pod = cls.tenant.create_pods([objects.pod(name, namespace="protected", scheduler="default-scheduler")])[0]
                if "env" in pod["spec"]["containers"][0]:
                    return
            time.sleep(0.2)
        raise AssertionError("the policies are not in force after 30 s")

    def refusal(self, call):
        with self.assertRaises(ApiError) as refused:
            call()
        return str(refused.exception)

    def pod(self, name, **fields):
        return objects.pod(name, **{"namespace": "protected", "scheduler": "default-scheduler", **fields})

    def made(self, name, **fields):
        return self.tenant.create_pods([self.pod(name, **fields)])[0]

    def test_S6_a_grant_is_refused_at_creation_for_every_scheduler(self):
        for scheduler in ("default-scheduler", "berth-scheduler", "kai-scheduler", "nobodys"):
            for key in ("berth.dev/grant", "berth.dev/main.devices", "berth.dev/main.memory-limit-mib",
                        "berth.dev/a-b.memory-request-mib", "berth.dev/isolation"):
                with self.subTest(scheduler=scheduler, key=key):
                    words = self.refusal(lambda: self.made("forged", annotations={key: "x"}, scheduler=scheduler))
                    self.assertIn(f"ProtectedKey: {key}", words)

    def test_S6_a_grant_is_refused_afterwards_and_cannot_be_taken_away(self):
        self.made("later")
        path = "/api/v1/namespaces/protected/pods/later"
        words = self.refusal(lambda: self.tenant.patch(path, {"metadata": {"annotations": {"berth.dev/grant": GRANT}}}))
        self.assertIn("ProtectedKey: berth.dev/grant", words)
        # The status has a way of its own to the metadata.
        self.refusal(lambda: self.tenant.patch(path + "/status", {"metadata": {"annotations": {"berth.dev/main.devices": "GPU-1"}}}))
        self.plane.api("scheduler").bind(self.tenant.get(path), "n0", {"berth.dev/grant": GRANT, "berth.dev/main.devices": "GPU-1"})
        for change in ({"berth.dev/grant": None}, {"berth.dev/main.devices": "GPU-2"}):
            self.assertIn("ProtectedKey", self.refusal(lambda: self.tenant.patch(path, {"metadata": {"annotations": change}})))
        # Everything else may change, and the agent says what it reached.
        self.tenant.patch(path, {"metadata": {"annotations": {"note": "mine"}, "labels": {"a": "b"}}})
        self.plane.api("agent").patch(path, {"metadata": {"annotations": {"berth.dev/isolation": "library"}}})
        self.refusal(lambda: self.plane.api("agent").patch(path, {"metadata": {"annotations": {"berth.dev/grant": GRANT + " "}}}))

    def test_S6_a_binding_of_somebody_else_brings_no_grant(self):
        pod = self.made("bound")
        words = self.refusal(lambda: self.tenant.bind(pod, "n0", {"berth.dev/main.devices": "GPU-1"}))
        self.assertIn("ProtectedKey: berth.dev/main.devices", words)
        # The older way to bind, which is a resource of its own.
        body = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n0"},
                "metadata": {"name": "bound", "namespace": "protected", "annotations": {"berth.dev/main.devices": "GPU-1"}}}
        self.assertIn("ProtectedKey", self.refusal(lambda: self.tenant.create("/api/v1/namespaces/protected/bindings", body)))
        self.tenant.bind(pod, "n0")

    def test_S4_the_visible_devices_are_void_where_no_gpu_was_asked_for(self):
        pod = self.made("plain", containers=[objects.container("a"), objects.container("b", limits={"nvidia.com/gpu": "1"})],
                        initContainers=[objects.container("i")])
        containers = {c["name"]: c.get("env") for c in pod["spec"]["containers"] + pod["spec"]["initContainers"]}
        void = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
        self.assertEqual(containers, {"a": void, "b": None, "i": void})

    def test_S4_S7_the_variable_cannot_be_set_by_hand_under_any_scheduler(self):
        for scheduler in ("default-scheduler", "berth-scheduler", "volcano"):
            for value in ({"value": "all"}, {"value": "0"}, {"value": "GPU-1"}, {},
                          {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}}}):
                env = [{"name": "NVIDIA_VISIBLE_DEVICES", **value}]
                with self.subTest(scheduler=scheduler, value=value):
                    words = self.refusal(lambda: self.made("hostile", scheduler=scheduler,
                                                           containers=[objects.container("c", env=env)]))
                    self.assertIn("ProtectedEnv: NVIDIA_VISIBLE_DEVICES", words)
        self.made("modest", containers=[objects.container("c", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}])])

    def test_S4_an_ephemeral_container_helps_itself_to_nothing_either(self):
        self.made("debugged")
        path = "/api/v1/namespaces/protected/pods/debugged/ephemeralcontainers"
        hostile = objects.container("d", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
        words = self.refusal(lambda: self.tenant.patch(path, {"spec": {"ephemeralContainers": [hostile]}},
                                                       "application/strategic-merge-patch+json"))
        self.assertIn("ProtectedEnv", words)
        # One that says nothing gets void: its image may say more.
        pod = self.tenant.patch(path, {"spec": {"ephemeralContainers": [objects.container("e")]}},
                                "application/strategic-merge-patch+json")
        self.assertEqual(pod["spec"]["ephemeralContainers"][0]["env"], [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])

    def test_a_pod_from_before_the_protection_can_still_be_changed_and_removed(self):
        self.plane.admin.namespace("late")
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        old = self.pod("old", namespace="late", containers=[objects.container("c", env=env)])
        old["metadata"]["finalizers"] = ["example.com/held"]
        self.tenant.create_pods([old])
        self.plane.admin.patch("/api/v1/namespaces/late", {"metadata": {"labels": {"berth.dev/protection": "enabled"}}})
        path = "/api/v1/namespaces/late/pods/old"
        self.tenant.delete(path)
        self.tenant.patch(path, {"metadata": {"finalizers": None}})
        with self.assertRaises(ApiError) as gone:
            self.tenant.get(path)
        self.assertEqual(gone.exception.code, 404)

    def test_namespaces_that_have_not_asked_for_it_are_left_alone(self):
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        pod = self.tenant.create_pods([self.pod("free", namespace="open", containers=[objects.container("c", env=env)])])[0]
        self.assertEqual(pod["spec"]["containers"][0]["env"], env)


class Install(unittest.TestCase):
    def test_applies_twice_and_leaves_nothing_behind(self):
        folder = str(ROOT / "deploy" / "kubernetes")
        with ControlPlane() as plane:
            kinds = ("clusterroles,clusterrolebindings,flowschemas,mutatingwebhookconfigurations,"
                     "validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,"
                     "mutatingadmissionpolicies,mutatingadmissionpolicybindings")
            before = plane.kubectl("get", kinds, "-o", "name")
            plane.kubectl("apply", "-k", folder)
            again = plane.kubectl("apply", "-k", folder)
            self.assertNotIn("created", again)
            self.assertIn("berth", plane.kubectl("get", kinds, "-o", "name"))
            for example in sorted((Path(folder) / "examples").glob("*.yaml")):
                plane.kubectl("apply", "--dry-run=client", "-f", str(example))
            # There is no controller-manager here that could end the namespace.
            plane.kubectl("delete", "-k", folder, "--wait=false")
            after = plane.kubectl("get", kinds, "-o", "name")
            self.assertEqual(after, before)


if __name__ == "__main__":
    unittest.main()
