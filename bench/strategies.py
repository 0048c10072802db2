#!/usr/bin/python3 -B
"""Every strategy on one small job, in the simulator and over real sockets in the emulated WAN:
commits a second, and time to a target accuracy. As root.

  bench/strategies.py [--build build/release] [--only TEXT] [--seconds 30] [--resume FILE]

Four workers of 30, 30, 100 and 300 ms a step (10 % jitter) behind 20 Mbit/s, a server on 200, round
trips of 20 ms, a model of 0.44 MB. In the simulator seeds 1 to 5, over sockets 1 to 3: a seed deals
the first model, the samples and the jitter, so that both can be compared seed by seed. A run that
the router limited, or in which more than 1 % of the steps took longer than step_ms says, is void
and made again, twice at most. Ends with 1 if a row misses a goal and is not void: commits within
5 %, the median time to the target inside the simulator's range.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run, site, void

GOAL = 5  # %
TARGET = 0.75
SEEDS, SOCKET_SEEDS = range(1, 6), range(1, 4)
TRIES = 3  # of what is void
JOB = """\
[job]
name = "strategies"
seed = {seed}
[stop]
max_rounds = 1000000
max_hours = {hours}
[report]
every_rounds = 1
[model]
kind = "mlp"
hidden = [250, 400]
[data]
kind = "synthetic"
teacher = true
noise = 0
classes = 4
features = 20
samples = 16000
test_samples = 1000
batch = 32
[optimizer]
kind = "sgd"
rate = 0.2
[net]
pace = true
[wan]
model = "fair"
delay_ms = 10
[overlay]
kind = "hub"
[roles]
server = "server"
[sync]
{sync}
[[site]]
name = "server"
roles = ["server"]
up_mbps = 200
down_mbps = 200
""" + "".join(site(f"w{i}", 20, ms) + "jitter = 0.1\n" for i, ms in enumerate((30, 30, 100, 300)))
# What follows [sync].
KINDS = {
    "bsp": 'kind = "bsp"',
    "fedavg": 'kind = "fedavg"\nsteps = 5',
    "fedprox": 'kind = "fedprox"\nsteps = 5\ndeadline_s = 1.0',
    "fedssgd": 'kind = "fedssgd"',
    "fedssgd, semi": 'kind = "fedssgd"\nreading = "semi"\nsteps = 3',
    "esync": 'kind = "esync"',
    "nbsync": 'kind = "nbsync"',
    "easgd, synchronous": 'kind = "easgd"\nsteps = 5\nsynchronous = true',
    "easgd": 'kind = "easgd"\nsteps = 5',
    "asp": 'kind = "asp"',
    "ssp": 'kind = "ssp"',
    "fedasync": 'kind = "fedasync"\nsteps = 5',
    "fedat": 'kind = "fedat"\ntiers = 2\nsteps = 5',
    "fedgsync": 'kind = "fedgsync"\nsteps = 5\ngroups = 2',
}


class Bench:
    def __init__(self, args, folder):
        self.longhaul = pathlib.Path(args.build).resolve() / "longhaul"
        self.folder, self.hours, self.path = folder, args.seconds / 3600, args.resume
        self.known = {}
        if self.path and pathlib.Path(self.path).exists():
            self.known = json.loads(pathlib.Path(self.path).read_text())

    def cell(self, kind, seed, sockets):
        name = f"{kind}, {'sockets' if sockets else 'simulated'}, seed {seed}"
        if name not in self.known:
            for _ in range(TRIES):
                self.known[name] = self.measure(name, kind, seed, sockets)
                if not self.known[name]["void"]:
                    break
            if self.path:
                pathlib.Path(self.path).write_text(json.dumps(self.known, indent=1))
            print(name, json.dumps(self.known[name]), file=sys.stderr)
        return self.known[name]

    def measure(self, name, kind, seed, sockets):
        (self.folder / "job.toml").write_text(
            JOB.format(seed=seed, hours=self.hours, sync=KINDS[kind]))
        words = ["launch", "job.toml", "--lab"] if sockets else ["simulate", "job.toml"]
        summary = result(run(self.longhaul, *words, "--json", "--quiet", "--out", "run", "--force",
                             folder=self.folder), name, codes=(0, 1))  # 1: at max_hours
        found = {"rate": summary["rounds"] / summary["time_s"], "reached": None, "best": 0,
                 "void": void(summary)}
        for line in (self.folder / "run/metrics.jsonl").read_text().splitlines():
            event = json.loads(line)
            accuracy = event["values"].get("accuracy") if event["kind"] == "score" else None
            if accuracy is None:
                continue
            found["best"] = max(found["best"], accuracy)
            if accuracy >= TARGET and found["reached"] is None:
                found["reached"] = event["time_s"]
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="strategies whose names contain this")
    parser.add_argument("--seconds", type=float, default=30, help="of each run")
    parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
    args = parser.parse_args()
    rows, missed = [], []
    with tempfile.TemporaryDirectory(prefix="longhaul-strategies-") as folder:
        bench = Bench(args, pathlib.Path(folder))
        for kind in KINDS:
            if args.only not in kind:
                continue
            simulated = [bench.cell(kind, seed, False) for seed in SEEDS]
            real = [bench.cell(kind, seed, True) for seed in SOCKET_SEEDS]
            rows.append(row(kind, simulated, real, missed))
    print("\n| strategy | commits/s, simulator | sockets | error | to "
          f"{TARGET}, s, simulator | sockets | later, seed by seed | median |")
    print("|---" * 8 + "|", *rows, sep="\n")
    print(f"\n{len(missed)} goals missed" + "".join(f"\n- {line}" for line in missed))
    sys.exit(1 if missed else 0)


def row(kind, simulated, real, missed):
    """Commits are compared seed by seed: the same steps take the same time in both."""
    errors = [100 * (s["rate"] - r["rate"]) / r["rate"] for s, r in zip(simulated, real)]
    error = statistics.median(errors)
    times = [s["reached"] for s in simulated], [r["reached"] for r in real]
    later = [100 * (r["reached"] - s["reached"]) / s["reached"] for s, r in zip(simulated, real)
             if s["reached"] and r["reached"]]
    inside = "" if None in times[0] + times[1] else (
        "inside" if min(times[0]) <= statistics.median(times[1]) <= max(times[0]) else "outside")
    voids = sorted({r["void"] for r in real} - {""})
    if not voids:
        if abs(error) > GOAL:
            missed.append(f"{kind}: commits {error:+.1f} %")
        if inside != "inside":
            missed.append(f"{kind}: time to {TARGET} {inside or 'not reached'}")
    rates = [statistics.median(cell["rate"] for cell in cells)
             for cells in (simulated[:len(real)], real)]
    shift = ", ".join(f"{x:+.1f} %" for x in later) or "-"
    note = f" (void: {'; '.join(voids)})" if voids else ""
    return (f"| {kind} | {rates[0]:.2f} | {rates[1]:.2f} | {error:+.1f} % | {span(times[0])} | "
            f"{span(times[1])} | {shift} | {inside}{note} |")


def span(times):
    found = [time for time in times if time is not None]
    if len(found) < len(times):
        return f"{len(found)} of {len(times)}"
    return f"{statistics.median(found):.1f} ({min(found):.1f}-{max(found):.1f})"


if __name__ == "__main__":
    main()
