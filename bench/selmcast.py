#!/usr/bin/python3 -B
"""Selective multicast: figures of docs/results/selmcast.md, simulated.

  bench/selmcast.py [--build build/release] [--only TEXT] [--case TEXT] [--seconds 120]
                    [--seeds 2] [--resume FILE]

lock step: build/release/bench/multicast_bench, by arithmetic; here some of its draws on the link
  model, with phantom learners. 100 sites, ports of 100 Mbit/s, spread 0.25, 27.2 MB.
ssp: 50 sites, ports of 40 Gbit/s, spread 0.5, no delays, 200 MB in 24 messages, copies by the
  network, steps of 1 s, log-normal with 0.45 ("LSTM-like") or 0.1 ("ResNet-like"). Share of the
  first --seconds that is computing (what follows is the end of the run: the last steps, the mean),
  and receivers over workers.
gaia-11: 11 sites, 1000 Mbit/s, 27.2 MB, one receiver each at least, no pair is ever overdue.
accuracy: scripts/fetch-data fashion-mnist. Time until a perceptron of 32 hidden units is accurate
  to 80 % on Fashion-MNIST, gaia-11, 27.2 MB on the wire in 13 messages, steps of 0.5 s; the
  learning rate of each strategy is the best of one grid on a seed that is not reported.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

from common import GAIA, result, run

HEAD = """\
[job]
name = "selmcast"
seed = {seed}
checkpoint_every = 0
[stop]
{stop}
[report]
every_rounds = {report}
"""
PHANTOM = """\
[model]
kind = "phantom"
mbytes = {mbytes}
[data]
kind = "none"
[transfer]
chunk_run = {chunk_run}
"""
# IP and TCP headers are 40 of 1500 bytes: so many bytes of a model are one on the wire.
NET = 1448 / 1500


def ports(count, mbps, spread, seed, step_ms, jitter=""):
    draw = random.Random(seed)
    text = ""
    for i in range(count):
        up, down = (mbps * (1 + spread * (2 * draw.random() - 1)) for _ in range(2))
        text += (f'[[site]]\nname = "s{i}"\nup_mbps = {up:.3f}\ndown_mbps = {down:.3f}\n'
                 f"step_ms = {step_ms}\n{jitter}")
    return text


def sync(**keys):
    return "[sync]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def computing_share(activity, seconds):
    bins = round(seconds / activity["bin_s"])
    sites = activity["sites"]
    busy = sum(sum(site["computing"][:bins]) for site in sites)
    return busy / (len(sites) * bins * activity["bin_s"])


class Bench:
    def __init__(self, options):
        self.program = pathlib.Path(options.build).resolve() / "longhaul"
        self.path = pathlib.Path(options.resume) if options.resume else None
        self.cells = json.loads(self.path.read_text()) if self.path and self.path.exists() else {}

    def measure(self, name, text, seconds=None):
        """Summary and metrics of one run, and what share of its first `seconds` all have computed;
        known runs are not run again."""
        if name in self.cells:
            return self.cells[name]
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "job.toml"
            job.write_text(text)
            summary = result(run(self.program, "simulate", job, "--json", "--quiet", "--out",
                                 pathlib.Path(folder) / "run", folder=folder), name, (0, 1))
            lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
            activity = json.loads((pathlib.Path(folder) / "run/activity.json").read_text())
        cell = {key: summary.get(key) for key in
                ("time_s", "rounds", "wan_bytes", "compute_utilisation", "final_accuracy",
                 "time_to_target_s")}
        for kind in ("wait_s", "scale"):
            values = [event["values"]["value"] for event in map(json.loads, lines)
                      if event["kind"] == kind and event["round"] > 0]
            cell[kind] = statistics.mean(values) if values else None
            cell[f"{kind} max"] = max(values) if values else None
        if seconds:
            cell["computing"] = computing_share(activity, seconds)
        self.cells[name] = cell
        if self.path:
            self.path.write_text(json.dumps(self.cells, indent=1))
        return cell


def lock_step(bench, options):
    print("\n| 100 sites on the link model | completion | scale |\n|---|---|---|")
    count, mbps, mbytes = 100, 100, 27.2
    for multicast in ("l3", "l7"):
        for receivers in ("orpheus", "selmcast"):
            completions, scales = [], []
            for seed in range(1, options.seeds + 1):
                sites = ports(count, mbps, 0.25, seed, 100)
                down = sum(float(line.split()[2]) for line in sites.splitlines()
                           if line.startswith("down"))
                text = (HEAD.format(seed=seed, stop="max_rounds = 3", report=1000) +
                        PHANTOM.format(mbytes=mbytes * NET, chunk_run=1000) +
                        sync(kind="selmcast", receivers=receivers, overdue_after=0,
                             multicast=multicast) +
                        '[wan]\nmodel = "fair"\nslow_start = false\n' + sites)
                cell = bench.measure(f"lock step, {multicast}, {receivers}, {seed}", text)
                ideal = count * 0.3 * count * mbytes * 8 / down / count
                completions.append(cell["wait_s max"] / ideal)
                scales.append(cell["scale"])
            print(f"| {receivers}, {multicast} | {statistics.mean(completions):.3f} | "
                  f"{statistics.mean(scales):.3f} |", flush=True)


SSP_CASES = {
    "default": {},
    "k = inf": {"overdue_after": 0},
    "p = .05 n": {"share": 0.05},
    "p = .4 n": {"share": 0.4},
    "eta = 0": {"keep_below": 0.0},
    "progress_s = 0.01": {"progress_s": 0.01},
}


def ssp(bench, options):
    print("\n| ssp | steps | receivers | share of computing | scale |\n|---|---|---|---|---|")
    for case, keys in SSP_CASES.items():
        if options.case not in case:
            continue
        for steps, amount in (("LSTM-like", 0.45), ("ResNet-like", 0.1)):
            for receivers in ("orpheus", "selmcast"):
                if receivers == "orpheus" and case in ("eta = 0", "progress_s = 0.01"):
                    continue  # withdraws nothing
                cells = []
                for seed in range(1, options.seeds + 1):
                    # Runs of 32 chunks of 256 KiB: in fewer messages, less of a model that is on
                    # its way could be withdrawn.
                    text = (HEAD.format(seed=seed, stop=f"max_hours = {options.seconds / 3600}",
                                        report=1000000) +
                            PHANTOM.format(mbytes=200 * NET, chunk_run=32) +
                            sync(kind="selmcast", mode="ssp", receivers=receivers, multicast="l3",
                                 **keys) +
                            '[wan]\nmodel = "fair"\nslow_start = false\ndelay_ms = 0\n' +
                            ports(50, 40000, 0.5, seed, 1000,
                                  f'jitter = {amount}\njitter_kind = "lognormal"\n'))
                    cells.append(bench.measure(
                        f"ssp, {case}, {steps}, {receivers}, {seed}, {options.seconds:g} s", text,
                        options.seconds))
                mean = {key: statistics.mean(cell[key] for cell in cells)
                        for key in ("computing", "scale")}
                print(f"| {case} | {steps} | {receivers} | {mean['computing']:.2f} | "
                      f"{mean['scale']:.2f} |", flush=True)


def gaia_sites(step_ms, mbps=1000):
    return "".join(f'[[site]]\nname = "{name}"\nup_mbps = {mbps}\ndown_mbps = {mbps}\n'
                   f"step_ms = {step_ms}\n" for name in GAIA)


def gaia_11(bench, options):
    print("\n| gaia-11, one receiver at least | seconds a round | slowest | scale |\n"
          "|---|---|---|---|")
    for name, keys in {"selmcast": {}, "orpheus": {"receivers": "orpheus"},
                       "measured rates, k = 4": {"rates": "measured", "overdue_after": 4},
                       "optimal": {"receivers": "optimal"}}.items():
        text = (HEAD.format(seed=1, stop="max_rounds = 30", report=1000) +
                PHANTOM.format(mbytes=27.2 * NET, chunk_run=1000) +
                sync(**{"kind": "selmcast", "share": 0.09, "overdue_after": 0, **keys}) +
                '[wan]\npreset = "gaia-11"\nmodel = "fair"\nslow_start = false\n' +
                gaia_sites(100))
        cell = bench.measure(f"gaia-11, {name}", text)
        print(f"| {name} | {cell['wait_s']:.3f} | {cell['wait_s max']:.3f} | "
              f"{cell['scale'] or 0:.3f} |", flush=True)


RATES, TUNED_ON, TARGET = (0.05, 0.1, 0.2, 0.4, 0.8), 11, 0.8
TRAINED = {
    "bsp": {"kind": "bsp"},
    "dpsgd": {"kind": "dpsgd"},
    "ds_sync": {"kind": "ds_sync"},
    "gaia": {"kind": "gaia", "staleness": 0},
    "selmcast": {"kind": "selmcast"},
    "selmcast, ssp": {"kind": "selmcast", "mode": "ssp"},
    "orpheus": {"kind": "selmcast", "receivers": "orpheus"},
    "selmcast, updates": {"kind": "selmcast", "payload": "update"},
}
MODEL_BYTES = 4 * (784 * 32 + 32 + 32 * 10 + 10)
FASHION = pathlib.Path(__file__).resolve().parent.parent / "data/fashion-mnist"


def training(keys, rate, seed):
    stop = f"target_accuracy = {TARGET}\nmax_rounds = 500"
    scale = 27.2e6 / MODEL_BYTES
    return (HEAD.format(seed=seed, stop=stop, report=10) +
            '[model]\nkind = "mlp"\nhidden = [32]\n[data]\nkind = "fashion_mnist"\n'
            f'path = "{FASHION}"\nbatch = 32\n[transfer]\nchunk_kib = {round(8 * scale)}\n'
            f'[optimizer]\nkind = "sgd"\nrate = {rate}\n' + sync(**keys) +
            f'[wan]\npreset = "gaia-11"\nwire_scale = {scale:.1f}\n' +
            gaia_sites(500))


def accuracy(bench, options):
    print(f"\n| on gaia-11 | rate | seconds to {TARGET:.0%} (median; all) | GB between sites |\n"
          "|---|---|---|---|")
    for name, keys in TRAINED.items():
        if options.case not in name:
            continue

        def cell(rate, seed, name=name, keys=keys):
            return bench.measure(f"accuracy, {name}, {rate}, {seed}", training(keys, rate, seed))

        def to_target(one):
            return one["time_to_target_s"] or float("inf")

        def merit(rate, cell=cell):
            found = cell(rate, TUNED_ON)
            return to_target(found), -found["final_accuracy"]

        rate = min(RATES, key=merit)
        cells = [cell(rate, seed) for seed in range(1, options.seeds + 1)]
        times = sorted(to_target(one) for one in cells)
        print(f"| {name} | {rate} | {statistics.median(times):.0f}; "
              + ", ".join(f"{time:.0f}" for time in times) + " | "
              f"{statistics.median(one['wan_bytes'] for one in cells) / 1e9:.1f} |", flush=True)


PARTS = {"lock step": lock_step, "ssp": ssp, "gaia-11": gaia_11, "accuracy": accuracy}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="parts whose names contain this")
    parser.add_argument("--case", default="",
                        help="cases of ssp, strategies of accuracy, whose names contain this")
    parser.add_argument("--seconds", type=float, default=120, help="of the cases of ssp")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--resume", help="file that keeps the figures of runs that are done")
    options = parser.parse_args()
    bench, failed = Bench(options), 0
    for name, part in PARTS.items():
        if options.only not in name:
            continue
        try:
            part(bench, options)
        except RuntimeError as error:
            print(error, file=sys.stderr, flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
