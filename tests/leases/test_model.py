"""Random calls, events and kills of the daemon, held against rules that a page of Python can state.

The rules know states, times and sums, and nothing of how the daemon decides. A failure prints the seed and the steps
that led to it; `make soak` runs other seeds for longer.
"""

import os
import random
import time

import harness
from harness import A, D, F, G, HOLDS, LIVE, T, W, BerthTest, end_process

ENDED = ("released", "cancelled", "timed-out", "expired", "lost", "never")
NEXT = {
    "waiting": {"granted", "cancelled", "timed-out", "expired", "never"},
    "granted": {"active", "expired", "released", "lost", "ending"},
    "active": {"released", "suspect", "lost", "expired", "ending"},
    "suspect": {"active", "expired", "released", "lost", "ending"},
    "ending": {"released", "lost"},
}


def reachable(old, new):
    """Several changes may lie between two looks."""
    seen, todo = {old}, [old]
    while todo:
        for state in NEXT.get(todo.pop(), ()):
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return new in seen


class Known:
    """What the world outside knows of one lease."""

    def __init__(self, lease, now):
        self.id = lease["id"]
        self.key = lease["key"]
        self.mib = lease["memory_mib"]
        self.queued_at = lease["queued_at"]
        self.last = lease
        self.heard = now  # a sign of life while it waits
        self.alive = None  # of what is active: last renewal, earliest and latest possible
        self.granted = (now, now) if lease["state"] == "granted" else None
        self.process = None
        self.ended = None  # when the end was seen
        self.loss = False  # something happened that may end it at any moment


class World:
    """One daemon and everybody who uses it."""

    def __init__(self, test, seed):
        self.test = test
        self.berth = test.berth
        self.random = random.Random(seed)
        self.now = 0.0
        self.before = 0.0
        self.known = {}
        self.processes = []
        self.key_number = 0
        self.steps = []
        self.up = True
        self.uuids = [device["uuid"] for device in self.berth.devices()]
        self.present = set(self.uuids)

    # --- steps -----------------------------------------------------------------------------------

    def pick(self, *states):
        found = [one for one in self.known.values() if one.last["state"] in states]
        return self.random.choice(found) if found else None

    def note(self, lease):
        if lease["id"] not in self.known:
            self.known[lease["id"]] = Known(lease, self.now)
        return self.known[lease["id"]]

    def reserve(self):
        size = self.random.choice((100, 1000, 3000, 5000, 8000, 12000, 15000))
        self.key_number += 1
        answer = self.berth.ask(f"m-{self.key_number}", memory=size, priority=self.random.choice((0, 0, 0, 5)), confirm_seconds=G)
        self.test.assertIn(answer.status, (201, 202, 422), answer.text)
        if answer.status != 422:
            self.test.assertEqual(answer.json["state"], {201: "granted", 202: "waiting"}[answer.status])
            self.note(answer.json)
        return f"{size} -> {answer.status}"

    def again(self):
        one = self.pick(*LIVE, *ENDED)
        if one is None:
            return "none"
        newest = [other for other in self.known.values() if other.key == one.key][-1]
        state = newest.last["state"]
        answer = self.berth.ask(one.key, memory=one.mib)
        if state == "waiting":
            newest.heard = self.now
        if state in ("expired", "lost", "never"):
            self.test.assertIn(answer.status, (201, 202, 422), answer.text)
            if answer.status != 422:
                self.test.assertNotIn(answer.json["id"], self.known)
                if state != "never" and self.now - newest.ended < A - W:
                    self.test.assertEqual(answer.json["queued_at"], newest.queued_at)
                self.note(answer.json)
        else:
            self.test.assertEqual((answer.status, answer.json["id"]), (200, newest.id))
        return f"{one.key} ({state}) -> {answer.status}"

    def confirm(self):
        one = self.pick("granted", "active", "waiting", "suspect", "expired", "ending")
        if one is None:
            return "none"
        body = {}
        if one.process is None and self.random.random() < 0.6:
            process = self.test.process()
            self.processes.append(process)
            body = {"pid": process.pid}
        answer = self.berth.call("POST", f"/v1/leases/{one.id}/confirm", body)
        state = one.last["state"]
        right = {"waiting": 409, "expired": 410, "ending": 410}.get(state, 200)
        if one.process is not None and one.process.poll() is not None:
            self.test.assertIn(answer.status, (right, 410), answer.text)
        else:
            self.test.assertEqual(answer.status, right, (one.id, state, answer.text))
        if answer.status == 200:
            self.test.assertEqual(answer.json["state"], "active")
            one.alive = (self.now, self.now)
            if body:
                one.process = self.processes[-1]
        return f"{one.id} ({state}) {body} -> {answer.status}"

    def renew(self):
        one = self.pick("active", "suspect", "waiting", "granted")
        if one is None:
            return "none"
        answer = self.berth.call("POST", f"/v1/leases/{one.id}/renew")
        if one.process is None or one.process.poll() is None:
            self.test.assertEqual(answer.status, 200, answer.text)
        if answer.status == 200:
            if one.last["state"] == "waiting":
                one.heard = self.now
            elif one.alive is not None:
                one.alive = (self.now, self.now)
        return one.id

    def renew_all(self):
        for one in list(self.known.values()):
            if one.last["state"] in ("active", "waiting"):
                if self.berth.call("POST", f"/v1/leases/{one.id}/renew").status == 200:
                    one.heard = self.now
                    one.alive = one.alive and (self.now, self.now)
        return ""

    def release(self):
        one = self.pick(*LIVE, *LIVE, "expired", "lost")
        if one is None:
            return "none"
        gone = self.random.random() < 0.3
        answer = self.berth.release(one.id, if_gone=gone)
        one.loss = True
        if not gone and one.last["state"] in LIVE and not (one.process and one.process.poll() is not None):
            self.test.assertTrue(answer["released"])
            self.test.assertIn(answer["lease"]["state"], ("released", "cancelled"))
        return f"{one.id} ({one.last['state']}) if_gone={gone} -> {answer['released']}"

    def end_process(self):
        running = [one for one in self.known.values() if one.process is not None and one.process.poll() is None]
        if not running:
            return "none"
        one = self.random.choice(running)
        end_process(one.process)
        self.test.soon(lambda: self.berth.state(one.id) in ENDED, 5)
        one.loss = True
        return one.id

    def advance(self):
        seconds = self.random.choice((0.5, 1, 5, 20, 60, T, G))
        self.before = self.now
        self.now = self.berth.advance(seconds) / 1000
        return f"{seconds} s"

    def use(self):
        uuid = self.random.choice(sorted(self.present))
        rows = []
        for one in self.known.values():
            if one.process is not None and one.process.poll() is None and one.last["state"] in HOLDS:
                if one.last["device"]["uuid"] == uuid:
                    rows.append({"pid": one.process.pid, "used_mib": self.random.choice((0, one.mib // 3, one.mib, one.mib + 500))})
        foreign = self.random.choice((0, 0, 500, 4000))
        self.berth.simulate(uuid, used_mib=sum(row["used_mib"] for row in rows) + foreign, processes=rows)
        return f"{uuid} foreign {foreign}"

    def source(self):
        self.up = not self.up
        self.berth.source(up=self.up)
        return f"up={self.up}"

    def device(self):
        uuid = self.random.choice(self.uuids)
        if uuid in self.present and len(self.present) > 1:
            self.berth.remove_device(uuid)
            self.present.discard(uuid)
            if not self.up:
                return f"removed {uuid}, unseen"
            for one in self.known.values():
                held = one.last["device"]
                one.loss = one.loss or (held is not None and held["uuid"] == uuid) or one.last["state"] == "waiting"
            return f"removed {uuid}"
        self.berth.put_device(uuid, node="n0", total_mib=16384)
        self.present.add(uuid)
        return f"put {uuid}"

    def drain(self):
        there = [device["uuid"] for device in self.berth.devices()]
        uuid, drained = self.random.choice(there), self.random.random() < 0.4
        self.berth.drain(uuid, drained)
        return f"{uuid} {drained}"

    def restart(self):
        order = [lease["id"] for lease in self.berth.leases("?state=waiting&limit=10000")]
        self.test.daemon.restart()
        # The simulated devices are as at the first start; what was told of them is gone.
        self.up = True
        self.present = set(self.uuids)
        for one in self.known.values():
            one.heard = self.now
        now = [lease["id"] for lease in self.berth.leases("?limit=10000") if lease["id"] in order]
        still = [lease["id"] for lease in self.berth.leases("?state=waiting&limit=10000")]
        self.test.assertEqual(set(now), set(order), "no lease is lost")
        self.test.assertEqual(still, [each for each in order if each in still], "the order is kept")
        return ""

    # --- rules -----------------------------------------------------------------------------------

    def look(self):
        leases = {lease["id"]: lease for lease in self.berth.leases("?limit=10000")}
        devices = {device["uuid"]: device for device in self.berth.devices()}
        check = self.test
        check.assertEqual(set(leases), set(self.known), "leases come from reservations alone and stay readable")
        claims = dict.fromkeys(devices, 0)
        live_keys = set()
        for lease in leases.values():
            self.look_at(self.known[lease["id"]], lease)
            if lease["state"] in HOLDS:
                check.assertIn(lease["device"]["uuid"], devices)
                claims[lease["device"]["uuid"]] += lease["memory_mib"]
            if lease["state"] in LIVE:
                check.assertNotIn(lease["key"], live_keys, "one live lease per key")
                live_keys.add(lease["key"])
        for uuid, device in devices.items():
            check.assertEqual(device["promised_mib"], claims[uuid])
            check.assertLessEqual(claims[uuid], device["total_mib"] - device["reserve_mib"])
            check.assertGreaterEqual(device["headroom_mib"], 0)
        self.look_at_queue([lease for lease in leases.values() if lease["state"] == "waiting"], devices)

    def look_at_queue(self, waiting, devices):
        check = self.test
        if waiting and self.up:
            room = max((device["headroom_mib"] for device in devices.values() if device["eligible"]), default=-1)
            check.assertGreater(waiting[0]["memory_mib"], room, f"{waiting[0]['id']} is first and there is room")
        for one, other in zip(waiting, waiting[1:], strict=False):
            if one["priority"] == other["priority"]:
                check.assertLessEqual(one["queued_at"], other["queued_at"])
        check.assertEqual([lease["queue"]["position"] for lease in waiting], list(range(1, len(waiting) + 1)))

    def look_at(self, one, lease):
        check, old, state = self.test, one.last["state"], lease["state"]
        shown = (one.id, old, state, lease["reason"])
        check.assertGreaterEqual(lease["version"], one.last["version"], shown)
        if state != old:
            check.assertGreater(lease["version"], one.last["version"], shown)
            check.assertTrue(reachable(old, state), shown)
        check.assertEqual((lease["memory_mib"], lease["key"], lease["queued_at"]), (one.mib, one.key, one.queued_at), shown)
        if old in HOLDS and state in HOLDS:
            check.assertEqual(lease["device"]["uuid"], one.last["device"]["uuid"], shown)
        check.assertEqual(lease["env"] is not None, state in HOLDS, shown)
        if state == "granted" and one.granted is None:
            one.granted = (self.before, self.now)
        # Nothing ends before its time, and nothing outlives it.
        if state == "granted":
            check.assertLess(self.now, one.granted[1] + G, shown)
        if state == "active" and one.alive is not None:
            check.assertLess(self.now, one.alive[1] + T, shown)
        if state == "waiting":
            check.assertLess(self.now, one.heard + W, shown)
        if state == "expired" and old != "expired":
            why = lease["reason"]
            if why == "not-confirmed":
                since = one.granted[0] if one.granted else self.before
                check.assertGreaterEqual(self.now, since + G, shown)
            elif why in ("not-renewed", "forced"):
                check.assertGreaterEqual(self.now, one.alive[0] + T, shown)
            else:
                check.assertEqual(why, "client-silent", shown)
                check.assertGreaterEqual(self.now, one.heard + W, shown)
        if state in ("released", "cancelled", "lost", "never") and old != state:
            check.assertTrue(one.loss or (one.process is not None and one.process.poll() is not None) or not self.up or state in ("lost", "never"), shown)
        if state in ENDED and one.ended is None:
            one.ended = self.now
        one.last = lease

    def step(self):
        name = self.random.choices(
            ("reserve", "again", "confirm", "renew", "renew_all", "release", "end_process", "advance", "use", "source", "device", "drain", "restart"),
            (22, 6, 16, 6, 6, 12, 4, 14, 6, 2, 2, 2, 2),
        )[0]
        self.steps.append(f"t={self.now} {name}")
        self.before = self.now
        self.steps[-1] += f" {getattr(self, name)()}"
        self.look()


class Model(BerthTest):
    spec = "n0=2x16GiB"

    def play(self, seed, steps=10**9, seconds=10**9):
        world = World(self, seed)
        until = time.monotonic() + seconds
        try:
            while steps > 0 and time.monotonic() < until:
                steps -= 1
                world.step()
                if world.now > D / 2:
                    break
        except Exception as error:
            error.add_note(f"seed {seed}:\n  " + "\n  ".join(world.steps[-60:]))
            raise
        finally:
            for process in world.processes:
                end_process(process)

    def test_leases_model_seed_1(self):
        self.play(1, 250)

    def test_leases_model_seed_2(self):
        self.play(2, 250)

    def test_leases_model_seed_3(self):
        self.play(3, 250)

    def test_leases_model_seed_4(self):
        self.play(4, 250)


class ModelSoak(BerthTest):
    """Other seeds every time, for BERTH_LEASES_SECONDS (600) under `make soak`; one short one else."""

    spec = "n0=2x16GiB"
    play = Model.play

    def test_leases_model_other_seeds(self):
        seconds = float(os.environ.get("BERTH_LEASES_SECONDS", "600")) if os.environ.get("BERTH_SOAK") else 1
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.play(random.SystemRandom().randrange(10**9) if seconds > 1 else 5, seconds=min(20, until - time.monotonic()))
            self.doCleanups()
            self.setUp()


assert F > T

if __name__ == "__main__":
    harness.main()
