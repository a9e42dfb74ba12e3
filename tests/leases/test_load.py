"""Many who wait (B55). The figures themselves are measured by `make bench`."""

import statistics
import time

import harness
from harness import BerthTest


class Load(BerthTest):
    spec = "16x80GiB"

    def test_leases_B55_a_thousand_wait_for_sixteen_devices(self):
        blockers = [self.berth.granted(memory=79000, devices=[device["uuid"]], confirm_seconds=10**6) for device in self.berth.devices()]
        waiting = [self.berth.waiting(memory=40000 + 100 * (number % 7)) for number in range(1000)]
        page = self.berth.leases("?state=waiting&limit=1000")
        self.assertEqual([lease["id"] for lease in page], [lease["id"] for lease in waiting])
        self.assertEqual(page[-1]["queue"]["position"], 1000)
        took = []
        for number, blocker in enumerate(blockers):
            started = time.monotonic()
            self.berth.release(blocker)
            took.append(time.monotonic() - started)
            self.assertEqual(self.berth.state(waiting[number]), "granted")
        # Far above what it takes, far below what scanning everybody for everybody would.
        self.assertLess(statistics.median(took), 0.25)
        self.books_hold()
        self.assertEqual(self.berth.lease(waiting[500])["queue"]["position"], 501 - len(blockers))

    def test_leases_B55_streams_of_those_who_wait_hold_up_nobody(self):
        blocker = self.berth.granted(memory=79000, devices=[self.uuid()])
        waiting = [self.berth.waiting(memory=1000, devices=[self.uuid()]) for _ in range(100)]
        streams = [self.berth.events(lease) for lease in waiting]
        for stream in streams:
            self.assertEqual(stream.next()["event"], "waiting")
        self.berth.release(blocker)
        told = 0
        for lease, stream in zip(waiting, streams, strict=True):
            if self.berth.state(lease) == "granted":
                self.assertEqual(stream.next()["event"], "granted")
                told += 1
            stream.close()
        self.assertGreater(told, 70)


if __name__ == "__main__":
    harness.main()
