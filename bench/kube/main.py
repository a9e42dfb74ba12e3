"""Measures a scheduler against the null binder and kube-scheduler on a real API server; see tools/bench-kube."""

import argparse
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(Path(__file__).resolve().parent)]

import measure  # noqa: E402
import more  # noqa: E402
from schedulers import KubeScheduler, Null, UnderTest  # noqa: E402

LEASE_S, RETRY_S = 15, 2  # kubernetes-api.md 7


def say(text):
    print(text, file=sys.stderr, flush=True)


def row(name, value, unit, goal, met, baseline=None, ratio=None, spread=None):
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio, "goal": goal, "met": met,
            "spread": spread, "instructions": None}


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def interleaved(schedulers, runs, **options):
    """Results per scheduler: one run of each, then the next, so that a machine that gets slower is fair to all."""
    results = {scheduler.name: [] for scheduler in schedulers}
    for number in range(runs):
        for scheduler in schedulers:
            result = measure.burst(scheduler, **options)
            results[scheduler.name].append(result)
            say(f"  run {number + 1} {scheduler.name:14} {result.pods_per_s:7.1f} pods/s {result.cpu_ms_per_pod:6.3f} ms/pod "
                f"{result.rss_mib:6.1f} MiB, writes per pod {rounded(result.writes)}")
    return results


def median(results, field):
    return statistics.median(getattr(result, field) for result in results)


def spread(results, field):
    values = [getattr(result, field) for result in results]
    return (max(values) - min(values)) / statistics.median(values)


class Suite:
    def __init__(self, arguments):
        self.arguments = arguments
        self.size = {"nodes": arguments.nodes, "pods": arguments.pods}
        self.berth = UnderTest(arguments.scheduler) if arguments.scheduler else None

    def with_berth(self, *others):
        return [*others, self.berth] if self.berth else list(others)

    def shares(self):
        """kube.bind_ratio, kube.cpu_ms_per_pod, kube.writes_per_pod: shares of devices against the null binder."""
        results = interleaved(self.with_berth(Null()), self.arguments.runs, **self.size)
        if not self.berth:
            return []
        null, berth = results[Null.name], results[self.berth.name]
        rate, floor = median(berth, "pods_per_s"), median(null, "pods_per_s")
        cpu, cpu_floor = median(berth, "cpu_ms_per_pod"), median(null, "cpu_ms_per_pod")
        writes = berth[-1].writes
        return [row("kube.bind_ratio", rate / floor, "of the null binder's pods/s", 0.95, rate / floor >= 0.95, floor, rate / floor,
                    spread(berth, "pods_per_s")),
                row("kube.cpu_ms_per_pod", cpu, "ms", cpu_floor, cpu <= cpu_floor, cpu_floor, cpu / cpu_floor,
                    spread(berth, "cpu_ms_per_pod")),
                row("kube.writes_per_pod", writes, "writes", {"bindings": 1, "events": 1, "others": 0},
                    writes["bindings"] == 1 and writes["events"] <= 1 and writes["others"] == 0)]

    def whole(self):
        """kube.vs_kube_scheduler: whole devices against kube-scheduler."""
        results = interleaved(self.with_berth(Null(whole=True), KubeScheduler()), self.arguments.runs, whole=True, **self.size)
        if not self.berth:
            return []
        null, kube, berth = (results[name] for name in (Null.name, KubeScheduler.name, self.berth.name))
        value = {"pods_per_s": median(berth, "pods_per_s") / median(kube, "pods_per_s"),
                 "cpu": median(berth, "cpu_ms_per_pod") / median(kube, "cpu_ms_per_pod")}
        goal = {"pods_per_s": 0.9 * median(null, "pods_per_s") / median(kube, "pods_per_s"), "cpu": 1 / 8}
        return [row("kube.vs_kube_scheduler", value, "of kube-scheduler's", goal,
                    value["pods_per_s"] >= goal["pods_per_s"] and value["cpu"] <= goal["cpu"],
                    {"pods_per_s": median(kube, "pods_per_s"), "cpu": median(kube, "cpu_ms_per_pod")}, None,
                    spread(berth, "pods_per_s"))]

    def latency(self):
        """kube.created_bound_p99_ms: 50 pods a second."""
        found = {}
        for scheduler in self.with_berth(Null()):
            times = measure.steady(scheduler, self.arguments.nodes).latencies_ms
            found[scheduler.name] = measure.percentile(times, 99)
            say(f"  {scheduler.name:14} created to bound: p50 {measure.percentile(times, 50):.1f} ms, "
                f"p99 {measure.percentile(times, 99):.1f} ms")
        if not self.berth:
            return []
        value, floor = found[self.berth.name], found[Null.name]
        return [row("kube.created_bound_p99_ms", value, "ms", 2 * floor, value <= 2 * floor, floor, value / floor)]

    def memory(self):
        """kube.rss_mib: the most the process ever had, at two sizes."""
        sizes = {"n1000_p5000": (1000, 5000, 60), "n5000_p50000": (5000, 50000, 300)}
        if not self.berth:
            return []
        # Shares of a quarter: 50,000 need 12,500 of 40,000 devices.
        value = {name: measure.burst(self.berth, nodes, pods).rss_mib for name, (nodes, pods, _) in sizes.items()}
        goal = {name: most for name, (_, _, most) in sizes.items()}
        return [row("kube.rss_mib", value, "MiB", goal, all(value[name] <= goal[name] for name in goal))]

    def start(self):
        """kube.start_ms: 1,000 nodes and 10,000 pods until the first decision."""
        if not self.berth:
            return []
        value, listed = more.start_ms(self.berth)
        say(f"  the server lists in {listed:.0f} ms")
        return [row("kube.start_ms", value, "ms", 1000 + listed, value <= 1000 + listed, listed)]

    def idle(self):
        """kube.idle: calls per minute with 10,000 pods that can never run."""
        if not self.berth:
            return []
        value = more.idle_calls(self.berth)
        return [row("kube.idle", value, "calls/min", 40, value <= 40)]

    def failover(self):
        """kube.leader_failover_s: from kill -9 of the leader to the next binding."""
        if not self.berth:
            return []
        rebuild = more.start_ms(self.berth, nodes=100, pods=100)[0] / 1000
        value = more.failover_s(UnderTest(self.arguments.scheduler + " " + self.arguments.leader_elect))
        goal = LEASE_S + RETRY_S + rebuild
        return [row("kube.leader_failover_s", value, "s", goal, value <= goal, rebuild)]

    def webhook(self):
        """webhook.p99_ms: 200 reviews a second, to `berth webhook` or one that runs already (--webhook URL)."""
        if self.arguments.webhook:
            value = more.webhook_p99_ms(self.arguments.webhook)
        elif self.berth:
            with more.own_webhook(str(ROOT / "build" / "bin" / "berth")) as url:
                value = more.webhook_p99_ms(url)
        else:
            return []
        return [row("webhook.p99_ms", value, "ms", 5, value <= 5)]


    def decisions(self):
        """kube.decisions_per_s: a watch stream of the server, recorded, on 5,000 nodes of 8, with nobody to write to."""
        if not self.berth:
            return []
        measured = more.decisions(str(ROOT / "build" / "bin" / "berth-bench-decisions"))
        value = measured["decisions_per_s"]
        return [row("kube.decisions_per_s", value, "1/s", 20_000, value >= 20_000, spread=1 - measured["worst"] / value)]


PARTS = ["shares", "whole", "latency", "memory", "start", "idle", "failover", "webhook", "decisions"]


def write(path, rows):
    """Replaces the rows measured now; the others stay."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    new = {one["name"]: rounded(one) for one in rows}
    merged = [new.pop(one["name"], one) for one in old] + list(new.values())
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scheduler", default=f"{ROOT}/build/bin/berth scheduler --kubeconfig {{kubeconfig}} --config {{config}}",
                        help="command line under test; {kubeconfig}, {config} and {folder} are replaced; empty: baselines only")
    parser.add_argument("--leader-elect", default="--leader-elect", help="what is added to it for the failover")
    parser.add_argument("--webhook", help="https://HOST:PORT/PATH of a webhook that runs")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; several are possible")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench-kube.json")
    arguments = parser.parse_args()
    suite = Suite(arguments)
    rows = []
    for part in arguments.only or PARTS:
        doing = getattr(suite, part)
        say(doing.__doc__.strip())
        rows += doing()
        if rows:
            write(arguments.out, rows)
    for one in rows:
        say(f"{'met ' if one['met'] else 'MISS'} {one['name']:28} {rounded(one['value'])}  goal {rounded(one['goal'])}")
    return 0 if all(one["met"] for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
