"""Everything at once on a real API server: two schedulers of which one leads, the webhook, churn, and every fault there is; then the
checker recomputes all books from the watch and the audit log (issue: no device over-promised at any moment, no pod bound twice, none
forgotten).

    BERTH_SOAK=1 [BERTH_SOAK_SECONDS=600] [BERTH_SOAK_SEED=7] python3 -B tests/kube/storm_test.py StormSoak
"""

import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import BIN, ROOT, Installed  # noqa: E402
from cluster import ControlPlane  # noqa: E402
from cluster.asking import KeeperError  # noqa: E402
from cluster.control_plane import free_port, tail  # noqa: E402
from cluster.faults import FaultProxy  # noqa: E402
from cluster.storm import Storm  # noqa: E402

WALL_CLOCK = Path(os.environ.get("BERTH_TEST_DIR", ROOT / "build" / "tests")) / "wall_clock.so"
PAUSE_S = 7  # longer than the lease: the other one leads by then
# What is held up for longest: a paused leader, which must not write after its fence, and the proxy's stall after it.
HOLD_S = PAUSE_S + 3
LEASE = {"leaseDuration": "6s", "leaseFence": "4s", "leaseRetry": "1s"}
SECONDS = 40


class Replicas:
    """Two schedulers on one lease, and the webhook, as a Deployment would keep them: who ends is started again. Their calendars are
    set as the storm likes."""

    def __init__(self, plane, berth, faults):
        self.plane, self.berth, self.faults = plane, berth, faults
        self.names = ["scheduler-a", "scheduler-b"]
        self.ports = {name: free_port() for name in self.names}
        self.paused, self.crashes = set(), []
        self.expected = dict.fromkeys([*self.names, "webhook"], False)  # whether it was we who ended it
        for name in self.names:
            self.offset(name).write_text("0", encoding="utf-8")
            self.start(name)

    def offset(self, name):
        return self.plane.folder / f"{name}.offset"

    def start(self, name):
        configuration = self.berth.write_configuration(name, listen=[f"127.0.0.1:{self.ports[name]}"], **LEASE)
        self.plane.launch(name, [BIN / "berth", "scheduler", "--kubeconfig", self.faults.kubeconfig(), "--config", configuration,
                                 "--leader-elect", "--identity", name],
                          env={"LD_PRELOAD": str(WALL_CLOCK), "WALL_CLOCK_OFFSET": str(self.offset(name))})

    def leader(self):
        """The one that decides; the first if nobody can say."""
        for name in self.names:
            try:
                if self.berth.text(self.ports[name], "/readyz").startswith("ready"):
                    return name
            except OSError:
                pass
        return self.names[0]

    def revive(self):
        """Who has ended starts again; who ended by a signal that was not ours has crashed."""
        programs = self.plane.keeper.programs()
        for name, ours in self.expected.items():
            status = programs[name]["status"]
            if status is None:
                continue
            if not ours and status > 2:
                self.crashes.append(f"{name} ended with {status}\n{tail(self.plane.log(name), 12)}")
            self.expected[name] = False
            if name == "webhook":
                self.berth.launch_webhook()
            else:
                self.start(name)

    # --- what the storm does ---------------------------------------------------------------------

    def kill_leader(self):
        name = self.leader()
        self.expected[name] = True
        self.plane.kill(name)
        self.revive()

    def pause_leader(self):
        name = self.leader()
        self.plane.kill(name, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        self.plane.kill(name, signal.SIGCONT)
        time.sleep(0.5)
        self.revive()

    def webhook_down(self):
        self.expected["webhook"] = True
        self.plane.kill("webhook")
        time.sleep(2)
        self.revive()

    def set_clocks(self):
        for name, hours in zip(self.names, (2, -3) if "0" in self.offset(self.names[0]).read_text().split() else (0, 0), strict=True):
            self.offset(name).write_text(str(hours * 3600), encoding="utf-8")

    def end(self):
        for name in self.names:
            for number in (signal.SIGCONT, signal.SIGTERM):
                try:
                    self.plane.kill(name, number, wait=False)
                except KeeperError:
                    pass  # it has ended


class WithStorms:
    def weather(self, seed, seconds, pods, nodes, gpus, rare_s, live=400):
        with ControlPlane() as plane:
            berth = Installed(plane, {"allowAdvisory": True, "wholeDevices": "berth"}).start(scheduler=False)
            plane.admin.namespace("berth-system")
            faults = FaultProxy(plane, seed=seed)
            replicas = Replicas(plane, berth, faults)
            rare = [replicas.kill_leader, replicas.pause_leader, replicas.webhook_down, replicas.set_clocks, replicas.revive]
            storm = Storm(plane, faults, nodes=nodes, gpus=gpus, seed=seed, restarts=True, rare=rare, rare_s=rare_s, hold_s=HOLD_S)
            try:
                storm.blow(seconds, pods)
                replicas.revive()
                storm.calm(90)
                verdict = storm.verdict()
                replicas.revive()
            finally:
                log = "".join(f"--- {name}\n{tail(plane.log(name), 25)}\n" for name in replicas.names)
                replicas.end()
                storm.end()
            print(f"seed {seed}: {verdict}\n{dict(storm.did)}", file=sys.stderr)
            self.assertEqual(replicas.crashes, [])
            self.assertEqual(verdict.faults, [], f"{verdict}\n{log}")
            self.assertEqual(verdict.gaps, 0)
            self.assertGreater(verdict.bound, pods // 8, str(verdict))


class KubeStorms(WithStorms, unittest.TestCase):
    """A sample with a fixed seed."""

    def test_a_storm(self):
        self.weather(seed=1, seconds=SECONDS, pods=200, nodes=8, gpus=2, rare_s=4)


@unittest.skipUnless(os.environ.get("BERTH_SOAK"), "a long run: make soak")
class StormSoak(WithStorms, unittest.TestCase):
    """Ten minutes: churn of 2,000 pods on 200 nodes."""

    def test_ten_minutes(self):
        self.weather(seed=int(os.environ.get("BERTH_SOAK_SEED", "7")), seconds=int(os.environ.get("BERTH_SOAK_SECONDS", "600")),
                     pods=2000, nodes=200, gpus=4, rare_s=12)


if __name__ == "__main__":
    unittest.main()
