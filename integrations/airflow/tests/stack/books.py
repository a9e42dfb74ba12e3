"""What the daemon's books say while an Airflow works, sampled, and what tasks left in the tests' folder."""

import statistics
import threading
import time

from stack import soon

HELD = ("granted", "active", "suspect", "ending")


class Books:
    def __init__(self, berth, folder, stack):
        self.berth, self.folder, self.stack = berth, folder, stack
        self.wrong = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(berth.another(),), daemon=True)
        self._thread.start()

    def _watch(self, client):
        """Claims on a device never come to more than it has, at any look."""
        while not self._over.wait(0.5):
            try:
                for device in client.devices():
                    promised = sum(
                        lease["memory_mib"]
                        for lease in client.leases()
                        if lease["state"] in HELD and (lease["device"] or {}).get("uuid") == device["uuid"]
                    )
                    if promised > device["total_mib"]:
                        self.wrong.append(f"{promised} MiB promised on {device['uuid']} of {device['total_mib']} MiB")
            except OSError:
                client.close()  # the daemon is away
        client.close()

    def stop(self):
        self._over.set()
        self._thread.join(5)

    # --- of one DAG --------------------------------------------------------------------------

    def of(self, dag, *states):
        """Its leases, oldest first."""
        found = [lease for lease in self.berth.leases() if (lease["labels"] or {}).get("airflow/dag") == dag]
        if states:
            found = [lease for lease in found if lease["state"] in states]
        return sorted(found, key=lambda lease: int(lease["id"][2:], 16))

    def ran(self, name):
        """{lease: (time when its command began, pid of the command, pid of the task's process)}"""
        found = {}
        for file in self.folder.glob(f"ran-{name}-*"):
            if not file.name.endswith(".tmp"):
                began, pids = file.read_text().splitlines()
                found[file.name.removeprefix(f"ran-{name}-")] = (float(began), *map(int, pids.split()))
        return found

    def go(self, name):
        (self.folder / f"go-{name}").touch()

    def runs(self, dag, seconds=60, count=1):
        """Waits until so many of its commands have begun: pids of the last one's command and of its task's process."""
        soon(lambda: len(self.ran(dag)) >= count, seconds, lambda: f"{dag} does not run: {self.of(dag)} {self.stack.log(dag)}")
        return max(self.ran(dag).values())[1:]

    def deferred(self, dag, seconds=60):
        def waits():
            return self.stack.state(dag) == "deferred" and self.of(dag, "waiting")

        return soon(waits, seconds, lambda: f"{dag} is {self.stack.instances(dag)}: {self.stack.log(dag)}")[0]

    def ends(self, dag, state, seconds=60):
        soon(
            lambda: self.stack.state(dag) == state, seconds, lambda: f"{dag}: {self.stack.instances(dag)} {self.stack.log(dag)}"
        )

    def free(self, dag, seconds=15):
        """No lease of it holds or wants anything any more; says how long that took."""
        begin = time.monotonic()
        soon(lambda: not self.of(dag, "waiting", *HELD), seconds, lambda: self.of(dag))
        return time.monotonic() - begin

    def check(self):
        assert not self.wrong, self.wrong[:3]

    def all_free(self, seconds=15):
        def held():
            return [lease["id"] for lease in self.berth.leases() if lease["state"] in HELD]

        soon(lambda: not held(), seconds, held)
        assert {device["committed_mib"] for device in self.berth.devices()} == {0}


def spread(values):
    """(p50, p99), in seconds to the millisecond."""
    ordered = sorted(values)
    return round(statistics.median(ordered), 3), round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 3)
