#!/usr/bin/python3 -B
"""What staleness alone costs: the staleness lab on 40 groups of samples, F1 to F6 of
docs/results/staleness.md, simulated.

  bench/staleness.py [--build build/release] [--only TEXT] [--seeds 3] [--resume FILE] [--svg FILE]

Eight workers, one batch of 32 each an iteration; 8,000 samples in 32 dimensions around 40 centres,
four a class; an mlp of `depth` layers of 64 ReLU. Counts batches of all workers up to the first
score at the target. Prints medians over the seeds with the range; a run that does not reach the
target counts as more than all others, and is named, as one that diverges is. "traces": runs of asp,
ssp and shadowsync, whose recorded staleness is replayed in the lab (invariant 11).
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

WORKERS, MOST = 8, 40000  # batches
DELAYS = (0, 4, 8, 16, 32)
JOB = """\
[job]
name = "staleness"
seed = {seed}
[stop]
max_rounds = {rounds}
target_accuracy = {target}
[report]
every_rounds = {every}
[model]
kind = "mlp"
hidden = [{hidden}]
start = "he"
[data]
kind = "synthetic"
clusters = 4
samples = 8000
test_samples = 2000
noise = 1.2
scale = 0.6666667
[optimizer]
kind = "sgd"
rate = {rate}
[sync]
{sync}
"""
LAB = 'kind = "staleness_lab"\noptimizer = "{optimizer}"\nmax_delay = {s}\n{more}'
# Of the strategies that are replayed: steps differ by eight times, links by nothing. asp does not
# divide a push by the number of workers, so the lab's rate is WORKERS times its.
STEPS_MS = (10, 10, 10, 10, 20, 20, 40, 80)
REAL_WAN = "[wan]\nmbps = 100\ndelay_ms = 10\n"
REAL = {
    "asp": ('kind = "asp"', 1 / WORKERS),
    "ssp": ('kind = "ssp"\nstaleness = 3', 1),
    "shadowsync": ('kind = "shadowsync"\nalpha = 1', 1),
}


class Bench:
    def __init__(self):
        parser = argparse.ArgumentParser(description=__doc__,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build/release")
        parser.add_argument("--only", default="")
        parser.add_argument("--seeds", type=int, default=3)
        parser.add_argument("--resume")
        parser.add_argument("--svg")
        self.args = parser.parse_args()
        self.program = pathlib.Path(self.args.build).resolve() / "longhaul"
        self.known = {}
        if self.args.resume and pathlib.Path(self.args.resume).exists():
            for line in pathlib.Path(self.args.resume).read_text().splitlines():
                name, batches = json.loads(line)
                self.known[name] = batches

    def batches(self, depth, s, seed, optimizer="sgd", rate=0.05, workers=WORKERS, more=""):
        """Up to the target; "diverged"; or "not reached"."""
        name = f"depth {depth}, s {s}, seed {seed}, {optimizer} {rate}, P {workers}, {more}"
        sites = "".join(f'[[site]]\nname = "w{i}"\nstep_ms = 1\n' for i in range(workers))
        return self.measured(name, depth, seed, rate, workers,
                             LAB.format(optimizer=optimizer, s=s, more=more), sites)[0]

    def real(self, kind, depth, seed, rate):
        """Batches of a strategy on a network, and its histogram of staleness in iterations."""
        sync, share = REAL[kind]
        sites = REAL_WAN + "".join(f'[[site]]\nname = "w{i}"\nstep_ms = {ms}\n'
                                   for i, ms in enumerate(STEPS_MS))
        count, events, summary = self.measured(f"{kind}, depth {depth}, seed {seed}, {rate}", depth,
                                               seed, rate * share, WORKERS, sync, sites)
        late = {}
        if summary:
            for versions, updates in summary.items():
                r = round(int(versions) / WORKERS)
                late[r] = late.get(r, 0) + updates
        else:  # what is learned in a round of `gap` steps is with others one to two rounds later
            for gap in events:
                for r in range(round(gap), 2 * round(gap) + 1):
                    late[r] = late.get(r, 0) + 1 / (round(gap) + 1)
        return count, [late.get(r, 0) for r in range(max(late) + 1)]

    def measured(self, name, depth, seed, rate, workers, sync, sites):
        """Batches, gaps, histogram of the summary; or what is known of them."""
        if name in self.known:
            known = self.known[name]
            return known if isinstance(known, list) else (known, [], {})
        job = JOB.format(seed=seed, rounds=MOST // workers, target=0.8 if depth else 0.6,
                         every=max(1, 40 // workers), hidden=", ".join(["64"] * depth), rate=rate,
                         sync=sync) + sites
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.toml"
            path.write_text(job)
            done = subprocess.run([self.program, "simulate", path, "--out", f"{folder}/run",
                                   "--quiet", "--json", "--checkpoint-every", "0"],
                                  capture_output=True, text=True, check=False, cwd=folder)
            if done.returncode not in (0, 1):
                raise RuntimeError(f"{name}: {done.stderr[-300:]}")
            summary = json.loads(done.stdout)
            reason = summary["stop_reason"]
            lines = list(map(json.loads, open(f"{folder}/run/metrics.jsonl")))
            scores = [line for line in lines if line.get("kind") == "score"]
            gaps = [line["values"]["value"] for line in lines if line.get("kind") == "gap"]
            coherence = [line["values"]["value"] for line in lines
                         if line.get("kind") == "coherence"]
            shutil.rmtree(f"{folder}/run")
        if reason == "diverged":
            count = "diverged"
        elif reason != "target":
            count = "not reached"
        else:
            goal = 0.8 if depth else 0.6
            first = next(line for line in scores
                         if (line["values"].get("accuracy") or 0) >= goal)
            count = (first["round"] + 1) * workers
            if "shadowsync" in sync:  # a round is a mean; its trainers never wait
                count = round(sum(first["time_s"] * 1000 / ms for ms in STEPS_MS))
        staleness = {} if "staleness_lab" in sync else summary.get("staleness", {})
        known = (count, coherence or gaps, staleness)
        self.known[name] = list(known) if known[1] or known[2] else count
        if self.args.resume:
            with open(self.args.resume, "a") as out:
                out.write(json.dumps([name, self.known[name]]) + "\n")
        print(f"  {name}: {count}", flush=True)
        return known

    def coherence(self, depth, s, seed):
        """mu by iteration, at rate 0.05."""
        name = f"coherence, depth {depth}, s {s}, seed {seed}"
        sites = "".join(f'[[site]]\nname = "w{i}"\nstep_ms = 1\n' for i in range(WORKERS))
        return self.measured(name, depth, seed, 0.05, WORKERS,
                             LAB.format(optimizer="sgd", s=s, more="coherence_every = 10"),
                             sites)[1]

    def median(self, **setting):
        """Of the seeds: (median or None, its text)."""
        runs = [self.batches(seed=seed, **setting) for seed in range(1, self.args.seeds + 1)]
        good = sorted(run for run in runs if not isinstance(run, str))
        bad = sorted(run for run in runs if isinstance(run, str))
        if len(good) * 2 <= len(runs):
            return None, f"{bad[0]} ({len(bad)} of {len(runs)})"
        middle = statistics.median_low(good + [MOST + 1] * len(bad))
        return middle, f"{middle} ({good[0]}..{bad[0] if bad else good[-1]})"


def ratio(value, base):
    return f"{value / base:.2f}" if value and base else "-"


def table(bench, title, rows, delays):
    if bench.args.only not in title:
        return {}
    lines, points = [], {}
    for name, setting in rows:
        base, text = bench.median(s=0, **setting)
        cells = []
        for s in delays:
            value, what = bench.median(s=s, **setting)
            cells.append(ratio(value, base) if value else what)
            points.setdefault(name, []).append((s, value / base if value and base else what))
        lines.append(f"| {name} | {text} | " + " | ".join(cells) + " |")
    print(f"\n{title}\n")
    print("| | batches, s = 0 | " + " | ".join(f"rho({s})" for s in delays) + " |")
    print("|---" * (2 + len(delays)) + "|", *lines, sep="\n", flush=True)
    return points


def traces(bench):
    if bench.args.only not in "traces":
        return
    print("\ntraces: rho of strategies, and of the lab with their staleness; depth 4, sgd 0.1\n")
    lines = []
    for kind in REAL:
        own, replayed = [], []
        more = "\nself_ahead = true" if kind == "shadowsync" else ""
        late = 0.0
        for seed in range(1, bench.args.seeds + 1):
            base = bench.batches(depth=4, s=0, seed=seed, rate=0.1)
            count, histogram = bench.real(kind, 4, seed, 0.1)
            again = bench.batches(depth=4, s=0, seed=seed, rate=0.1,
                                  more=f'delays = "trace"\nhistogram = {histogram}' + more)
            late = sum(r * n for r, n in enumerate(histogram)) / sum(histogram)
            if not any(isinstance(one, str) for one in (base, count, again)):
                own.append(count / base)
                replayed.append(again / base)
        if not own:
            lines.append(f"| {kind} | {late:.2f} | not reached | | |")
            continue
        a, b = statistics.median(own), statistics.median(replayed)
        lines.append(f"| {kind} | {late:.2f} | {a:.2f} | {b:.2f} | {b / a - 1:+.0%} |")
    print("| strategy | mean delay, iterations | its own ratio | rho of its trace | apart |")
    print("|---|---|---|---|---|", *lines, sep="\n", flush=True)


def coherences(bench):
    if bench.args.only not in "F6: coherence":
        return
    print("\nF6: coherence, s = 8, sgd 0.05: median of mu over tenths of the run\n")
    print("| | first | second | fifth | last |\n|---|---|---|---|---|")
    for depth in (1, 2, 4, 6):
        parts = {part: [] for part in (0, 1, 4, 9)}
        for seed in range(1, bench.args.seeds + 1):
            mu = bench.coherence(depth, 8, seed)
            for part, values in parts.items():
                values += mu[part * len(mu) // 10:(part + 1) * len(mu) // 10]
        print(f"| depth {depth} |", *(f"{statistics.median(values):.2f} |"
                                      for values in parts.values()), flush=True)


def draw(points, path):
    """rho by s, a line each; what has no rho stands at the top edge with a mark of its own."""
    width, height, left, top, most = 640, 360, 50, 20, 2.6
    colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"]
    x = lambda s: left + s / DELAYS[-1] * (width - left - 110)
    y = lambda rho: top + (most - min(rho, most)) / (most - 0.6) * (height - top - 40)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for rho in (1.0, 1.5, 2.0, 2.5):
        out.append(f'<path d="M{left} {y(rho):.1f}H{width - 110}" stroke="#ddd"/>'
                   f'<text x="{left - 30}" y="{y(rho) + 4:.1f}">{rho}</text>')
    for s in DELAYS:
        out.append(f'<text x="{x(s) - 6:.1f}" y="{height - 22}">{s}</text>')
    out.append(f'<text x="{left}" y="{height - 5}">most delay s, iterations; '
               'upwards: batches to the target over those at s = 0</text>')
    for (name, line), colour in zip(points.items(), colours):
        line = [(0, 1.0), *line]
        good = [(s, rho) for s, rho in line if not isinstance(rho, str)]
        way = " ".join(f"{x(s):.1f},{y(rho):.1f}" for s, rho in good)
        out.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for s, rho in line:
            if isinstance(rho, str):
                mark = "x" if rho.startswith("diverged") else "^"
                out.append(f'<text x="{x(s):.1f}" y="{top}" fill="{colour}">{mark}</text>')
        s, rho = good[-1]
        out.append(f'<text x="{x(s) + 8:.1f}" y="{y(rho) + 4:.1f}" fill="{colour}">{name}</text>')
    pathlib.Path(path).write_text("\n".join([*out, "</svg>"]) + "\n")


def main():
    bench = Bench()
    depths = table(bench, "F1 and F2: depths, sgd 0.05",
                   [(f"depth {d}", {"depth": d}) for d in (0, 1, 2, 4, 6)], DELAYS[1:])
    if bench.args.svg and depths:
        draw(depths, bench.args.svg)
    kinds = [("sgd", 0.1), ("momentum", 0.01), ("adam", 0.002), ("rmsprop", 0.002),
             ("adagrad", 0.02)]
    table(bench, "F3: optimizers, depth 4",
          [(f"{kind} {rate}", {"depth": 4, "optimizer": kind, "rate": rate})
           for kind, rate in kinds], (8, 16))
    rates = [("sgd", 0.05), ("sgd", 0.1), ("sgd", 0.2), ("momentum", 0.01), ("momentum", 0.02)]
    table(bench, "F4: rates, depth 4",
          [(f"{kind} {rate}", {"depth": 4, "optimizer": kind, "rate": rate})
           for kind, rate in rates], (16,))
    table(bench, "F5: workers, mean scaling, depth 4, sgd 0.1",
          [(f"P = {p}", {"depth": 4, "rate": 0.1, "workers": p}) for p in (1, 2, 4, 8, 16)], (16,))
    more = 'scale = "sum"'
    table(bench, "F5: workers, sum scaling, depth 4, sgd 0.1",
          [(f"P = {p}", {"depth": 4, "rate": 0.1, "workers": p, "more": more})
           for p in (1, 2, 4, 8, 16)], (16,))
    coherences(bench)
    traces(bench)


if __name__ == "__main__":
    main()
