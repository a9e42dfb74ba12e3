"""Leases whose work is known by a cgroup or a pod alone, not by a pid (interfaces.md 4, B42, B48).

The cgroups are real ones below the test's own, where the machine lets it make them; a pod's is a cgroup whose name holds
the pod's uid, as the kubelet and systemd name them.
"""

import os
import time
import unittest
import uuid
from pathlib import Path

import harness
from harness import BerthTest

# Another one in every process: a pod is looked for on the whole machine, where other tests run.
POD = str(uuid.uuid4())


def root_of_cgroups():
    """Where cgroups of version 2 can be made, or nothing."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.access(f"{root}/cgroup.procs", os.W_OK):
            return Path(root)
    return None


@unittest.skipIf(root_of_cgroups() is None, "no cgroup (v2) may be made here")
class Proofs(BerthTest):
    numbers = iter(range(1, 1000))

    def setUp(self):
        super().setUp()
        self.mib = self.headroom()

    def cgroup(self, name=""):
        """The path of a new cgroup as /proc/PID/cgroup names it, and its folder."""
        path = f"/berth-test-{os.getpid()}-{next(self.numbers)}{name}"
        folder = root_of_cgroups() / path[1:]
        folder.mkdir()
        self.addCleanup(self.removed, folder)
        return path, folder

    def removed(self, folder):
        deadline = time.monotonic() + 5
        while True:
            try:
                return folder.rmdir()
            except OSError:
                self.assertLess(time.monotonic(), deadline, f"{folder} is in use")
                time.sleep(0.01)

    def inside(self, folder):
        process = self.process()
        (folder / "cgroup.procs").write_text(str(process.pid))
        return process

    def gone(self, process):
        harness.end_process(process)

    def kinds(self):
        """Both kinds of proof, each with the cgroup that its processes are in."""
        path, folder = self.cgroup()
        yield {"cgroup": path}, folder
        yield {"pod_uid": POD}, self.cgroup(f"-pod{POD}")[1]
        yield {"pod_uid": POD}, self.cgroup(f"-pod{POD.replace('-', '_')}.slice")[1]

    def confirmed(self, proof, **fields):
        return self.berth.confirm(self.berth.granted(memory=1000, **fields), **proof)

    def test_leases_B42_it_ends_with_the_last_of_its_processes(self):
        for proof, folder in self.kinds():
            with self.subTest(proof):
                first, second = self.inside(folder), self.inside(folder)
                lease = self.confirmed(proof)
                self.berth.advance(2)
                self.gone(first)
                self.berth.advance(2)
                self.assertEqual(self.berth.state(lease), "active")
                self.gone(second)
                self.berth.advance(1)
                ended = self.berth.lease(lease)
                self.assertEqual((ended["state"], ended["reason"]), ("released", "process-ended"))
                self.assertEqual(self.headroom(), self.mib)

    def test_leases_B42_a_cgroup_that_is_still_empty_may_be_about_to_be_filled(self):
        for proof, folder in self.kinds():
            with self.subTest(proof):
                lease = self.confirmed(proof)
                self.berth.advance(5)
                self.assertEqual(self.berth.state(lease), "active")
                process = self.inside(folder)
                self.berth.advance(1)
                self.gone(process)
                self.berth.advance(1)
                self.assertEqual(self.berth.state(lease), "released")

    def test_leases_B42_if_gone_waits_for_the_last_of_its_processes(self):
        for proof, folder in self.kinds():
            with self.subTest(proof):
                process = self.inside(folder)
                lease = self.confirmed(proof)
                self.berth.release(lease, if_gone=True)
                ending = self.berth.lease(lease)
                self.assertEqual((ending["state"], ending["reason"]), ("ending", "process-alive"))
                self.assertEqual(self.headroom(), self.mib - 1000, "it counts until then")
                for call in ("renew", "confirm"):
                    self.refused(self.berth.call("POST", f"/v1/leases/{lease['id']}/{call}", {}), 410, "lost")
                self.gone(process)
                self.berth.advance(1)
                self.assertEqual(self.berth.state(lease), "released")
                self.assertEqual(self.headroom(), self.mib)

    def test_leases_B42_if_gone_frees_at_once_where_nobody_is_left(self):
        for proof, folder in self.kinds():
            with self.subTest(proof):
                lease = self.confirmed(proof)
                self.berth.release(lease, if_gone=True)
                self.assertEqual(self.berth.state(lease), "released")
                self.assertEqual(self.headroom(), self.mib)

    def test_leases_B42_a_plain_release_frees_at_once_and_what_is_held_is_foreign(self):
        for proof, folder in self.kinds():
            with self.subTest(proof):
                process = self.inside(folder)
                lease = self.confirmed(proof)
                self.berth.simulate(self.uuid(), used_mib=600, processes=[{"pid": process.pid, "used_mib": 600}])
                self.assertEqual(self.berth.lease(lease)["use_bytes"], 600 * 2**20, "its memory is the lease's")
                self.berth.release(lease)
                self.assertEqual(self.berth.state(lease), "released")
                self.assertEqual(self.headroom(), self.mib - 600)
                self.gone(process)
                self.berth.simulate(self.uuid(), used_mib=0, processes=[])
                self.assertEqual(self.headroom(), self.mib)

    def test_leases_B48_silent_it_is_freed_when_no_process_of_it_remains(self):
        for proof, folder in self.kinds():
            with self.subTest(proof):
                process = self.inside(folder)
                lease = self.confirmed(proof)
                self.berth.advance(harness.T + 60)
                self.assertEqual(self.berth.state(lease), "suspect")
                self.gone(process)
                self.berth.advance(1)
                self.assertEqual(self.berth.state(lease), "expired")
                self.assertEqual(self.headroom(), self.mib)


if __name__ == "__main__":
    harness.main()
