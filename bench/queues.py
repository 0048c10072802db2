#!/usr/bin/python3 -B
"""How far the simulator is from sockets on random networks with plain queues, and with fair ones:
one all-reduce over ring, hub and forest, and rounds of training, in the simulator and over the
emulated WAN. As root.

  bench/queues.py [--seeds 7000:7030] [--queues drop_tail,per_flow] [--build build/release]
                  [--file build/queues.jsonl] [--again]

A seed is a network of 3 to 8 sites, one way 5 to 60 ms, of one of three styles: ports (10 to 100
Mbit/s up and down, log-normal), pairs (each ordered pair 5 to 60 Mbit/s under ports of 100) and
lossy (ports, and 0.1 to 1 % of packets lost); all sites together send at most 400 Mbit/s, which
one router carries. With drop_tail a link has one queue of 25 to 150 ms for all flows, with
per_flow one for each. Vectors are so long that the bandwidth bound is 0.8 s; times are means of
three all-reduces after a warm-up, or of three rounds, and of nine on lossy networks.

Appends a line of JSON for each measurement over sockets and continues where it ended; --again
measures anew. A row says little of the WAN where the router was late for more than 3 % of its
packets: such rows are counted and left out. Prints median, 90th percentile and worst error by queue
and model of the simulator, the bias, whether it orders the overlays as sockets do where they are
more than 5 % apart, and time / bound over sockets. Ends with 1 if a goal is missed.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

from common import result, run
from random_wans import log_normal

STYLES = ("ports", "pairs", "lossy")
OVERLAYS = ("ring", "hub", "forest")
MOST_MBPS = 400  # of all sites together
BOUND_S = 0.8
LAPS = {"ports": 3, "pairs": 3, "lossy": 9}  # random loss needs more for a mean
LATE = 0.03
APART = 1.05
BEHIND = 1.02
GOALS = {"median": 4, "p90": 10, "worst": 15, "bias": 2}  # %
MODELS = ("packet", "fair")

JOB = """\
[job]
name = "queues"
seed = {seed}
[stop]
max_rounds = {rounds}
[report]
every_rounds = 1000
[model]
kind = "mlp"
hidden = [{hidden}]
[data]
kind = "synthetic"
features = 100
classes = 10
samples = 800
batch = 8
[optimizer]
kind = "sgd"
rate = 0.01
[sync]
kind = "fedavg"
steps = 2
[overlay]
kind = "{overlay}"
[net]
pace = true
[wan]
model = "{model}"
queue = "{queue}"
{wan}"""


def network(seed, queue):
    """Its style, and what follows [wan] in a job file."""
    draw = random.Random(seed)
    count = draw.randint(3, 8)
    style = STYLES[seed % len(STYLES)]
    ups = [log_normal(draw, 40, 0.6, 10, 100) for _ in range(count)]
    share = min(1, MOST_MBPS / sum(ups))
    sites = ""
    for i, up in enumerate(ups):
        up = 100 if style == "pairs" else up * share
        down = up if style == "pairs" else min(200, up * draw.choice((1, 1, 2)))
        sites += f'[[site]]\nname = "s{i}"\nup_mbps = {up:.2f}\ndown_mbps = {down:.2f}\n'
        sites += "step_ms = 100\n"
    most = MOST_MBPS / count / max(1, count - 1)
    for i in range(count):
        for j in range(i):
            delay = draw.uniform(5, 60)
            for a, b in ((i, j), (j, i)):
                rate = f"mbps = {min(most, log_normal(draw, 20, 0.7, 5, 60)):.2f}\n"
                sites += (f'[[wan.link]]\nfrom = "s{a}"\nto = "s{b}"\ndelay_ms = {delay:.2f}\n'
                          + (rate if style == "pairs" else ""))
    wan = f"loss = {draw.uniform(0.001, 0.01):.4f}\n" if style == "lossy" else ""
    wait = draw.uniform(25, 150)
    if queue == "drop_tail":
        wan += f"queue_ms = {wait:.1f}\n"
    return style, count, wan + sites


def laps(seed):
    return LAPS[STYLES[seed % len(STYLES)]]


class Bench:
    def __init__(self, args, folder):
        self.longhaul = pathlib.Path(args.build).resolve() / "longhaul"
        self.folder, self.again = pathlib.Path(folder), args.again
        self.file = pathlib.Path(args.file)
        self.kept, self.runs = {}, 0
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                row = json.loads(line)
                self.kept[tuple(row["key"])] = row

    def one(self, *words):
        return result(run(self.longhaul, *words, "--json", "--quiet", folder=self.folder),
                      " ".join(words))

    def write(self, seed, queue, overlay, model, hidden=1):
        (self.folder / "job.toml").write_text(
            JOB.format(seed=seed, rounds=laps(seed), hidden=hidden, overlay=overlay, queue=queue,
                       model=model, wan=network(seed, queue)[2]))

    def mbytes(self, seed, queue):
        """As long a vector as has a bandwidth bound of BOUND_S."""
        self.write(seed, queue, "direct", "fair")
        return round(10 * BOUND_S / self.one("perf", "job.toml", "--mbytes", "10", "--repeat",
                                             "1")["bandwidth_s"], 3)

    def timed(self, what, seed, queue, overlay, model, mbytes, *lab):
        """Seconds of one exchange or round, and what else was printed."""
        self.runs += 1
        self.write(seed, queue, overlay, model, hidden=max(1, round(mbytes * 1e6 / 4 / 111)))
        if what == "all-reduce":
            found = self.one("perf", "job.toml", "--mbytes", str(mbytes), "--repeat",
                             str(laps(seed)), *lab)
            return statistics.mean(found["times_s"]), found
        found = self.one("launch" if lab else "simulate", "job.toml", "--out", str(self.runs), *lab)
        return found["time_s"] / laps(seed), found

    def row(self, what, seed, queue, overlay, mbytes):
        key = (what, seed, queue, overlay, mbytes)
        row = self.kept.get(key)
        if not row or self.again:
            seconds, found = self.timed(what, seed, queue, overlay, "fair", mbytes, "--lab")
            row = {"key": key, "real_s": seconds, "bound_s": found.get("bound_s"),
                   "late": found.get("lab", {}).get("limited_share", 0)}
            with self.file.open("a") as out:
                print(json.dumps(row), file=out)
        for model in MODELS:
            seconds, _ = self.timed(what, seed, queue, overlay, model, mbytes)
            row[model] = 100 * (seconds / row["real_s"] - 1)
        return row | {"what": what, "seed": seed, "queue": queue, "overlay": overlay}


def ninety(values):
    return sorted(values)[int(0.9 * (len(values) - 1) + 0.5)]


def turned_round(rows, model):
    """Where an overlay that is clearly quicker over sockets is not so in the simulator."""
    cases = {}
    for row in rows:
        cases.setdefault((row["seed"], row["queue"], row["what"]), []).append(row)
    turned, apart = 0, 0
    for case in cases.values():
        for i, one in enumerate(case):
            for other in case[:i]:
                real = one["real_s"] / other["real_s"]
                said = real * (1 + one[model] / 100) / (1 + other[model] / 100)
                apart += max(real, 1 / real) > APART
                turned += max(real, 1 / real) > APART and (real > 1) != (said > 1)
    return turned, apart


def print_errors(rows):
    reached = True
    print("\n| queue | what | model | rows | median | p90 | worst | bias |")
    print("|---|---|---|---|---|---|---|---|")
    for queue in ("drop_tail", "per_flow"):
        for what in ("all-reduce", "round"):
            for model in MODELS:
                errors = [row[model] for row in rows
                          if (row["queue"], row["what"]) == (queue, what)]
                if not errors:
                    continue
                sizes = [abs(error) for error in errors]
                found = {"median": statistics.median(sizes), "p90": ninety(sizes),
                         "worst": max(sizes), "bias": statistics.median(errors)}
                if model == MODELS[0]:
                    reached &= all(abs(found[name]) <= most for name, most in GOALS.items())
                print(f"| {queue} | {what} | {model} | {len(errors)} | {found['median']:.1f} % | "
                      f"{found['p90']:.1f} % | {found['worst']:.1f} % | {found['bias']:+.1f} % |")
    for model in MODELS:
        turned, apart = turned_round(rows, model)
        print(f"\norder of two overlays by {model}: turned round in {turned} of {apart}")
        reached &= turned == 0 or model != MODELS[0]
    return reached


def print_bounds(rows):
    """Time over sockets / the bound that knows delays."""
    rows = [row for row in rows if row["what"] == "all-reduce" and row["bound_s"]]
    print("\n| queue | overlay | networks | time / bound: median | p90 | worst |")
    print("|---|---|---|---|---|---|")
    for queue in ("drop_tail", "per_flow"):
        for overlay in OVERLAYS:
            ratios = [row["real_s"] / row["bound_s"] for row in rows
                      if (row["queue"], row["overlay"]) == (queue, overlay)]
            if ratios:
                print(f"| {queue} | {overlay} | {len(ratios)} | {statistics.median(ratios):.3f} | "
                      f"{ninety(ratios):.3f} | {max(ratios):.3f} |")
    behind = []
    times = {(row["seed"], row["queue"], row["overlay"]): row["real_s"] for row in rows}
    for (seed, queue, overlay), time in times.items():
        ring = times.get((seed, queue, "ring"))
        if overlay == "forest" and ring and time > BEHIND * ring:
            behind.append(f"{seed} {queue} {time / ring:.3f}")
    print(f"\nforest more than 2 % behind the ring on {len(behind)} networks" +
          "".join(f"\n- {one}" for one in behind))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="7000:7030")
    parser.add_argument("--queues", default="drop_tail,per_flow")
    parser.add_argument("--what", default="all-reduce,round")
    parser.add_argument("--overlays", default=",".join(OVERLAYS))
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--file", default="build/queues.jsonl")
    parser.add_argument("--again", action="store_true", help="measure over sockets again")
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="longhaul-queues-") as folder:
        bench = Bench(args, folder)
        for seed in range(first, end):
            for queue in args.queues.split(","):
                mbytes = bench.mbytes(seed, queue)
                for what in args.what.split(","):
                    for overlay in args.overlays.split(","):
                        try:
                            rows.append(bench.row(what, seed, queue, overlay, mbytes))
                        except RuntimeError as error:
                            failed += 1
                            print(f"{seed} {queue} {what} {overlay}: {error}", file=sys.stderr)
                            continue
                        errors = ", ".join(f"{model} {rows[-1][model]:+.1f} %" for model in MODELS)
                        print(f"{seed} {queue} {what} {overlay}: {rows[-1]['real_s']:.3f} s over "
                              f"sockets, {errors}", file=sys.stderr)
    good = [row for row in rows if row["late"] <= LATE]
    print(f"{len(rows)} rows, {len(rows) - len(good)} limited by the router, {failed} failed")
    reached = print_errors(good)
    print_bounds(good)
    sys.exit(0 if reached and not failed else 1)


if __name__ == "__main__":
    main()
