#!/usr/bin/python3 -B
"""Factors against the matrix, simulated.

  bench/sfb.py [--build build/release] [--clocks 6] [--only TEXT] [--part NAME]

H1, phantom: one fully connected layer, 8 sites of 100 Mbit/s and 40 ms one way. Time of a clock:
  from the gradient to the sum, by the figure wait_s, without the first clock.
H2, phantom: the layers of VGG19-22K, 16 nodes, batch 32, steps of 0.6 s, no delay. Speed-up over
  one node: 16 times the step over the clock.
H3, phantom: bytes that leave a site of 4 workers in a clock, one layer of 4096 x 4096.
fashion: two layers of 4096 really trained on Fashion-MNIST (scripts/fetch-data fashion-mnist), 4
  sites of 50 Mbit/s, 20 ms; loss per clock and time of a clock. With --lab over sockets, in the
  emulated WAN (as root): the time holds what computing takes on this machine.
partial: 8 sites, a perceptron of 128 hidden units on Fashion-MNIST, IID: accuracy after equal
  clocks with full and with partial spread, the rate of each the best of one grid on a seed that is
  not reported.
"""
import argparse
import json
import pathlib
import statistics
import tempfile

from common import result, run

BATCHES = (1, 8, 32, 128, 167, 512)
JOB = """\
[job]
name = "sfb"
[stop]
max_rounds = {clocks}
[report]
every_rounds = 1000
[model]
kind = "phantom"
shapes = ["{out}x{inputs}"]
[data]
kind = "none"
batch = {batch}
[sync]
{sync}
[overlay]
kind = "{overlay}"
[wan]
model = "fair"
slow_start = false
mbps = 10000
delay_ms = 40
"""
WAYS = {
    "factors, full": ('kind = "sfb"\nrule = "always"\nspread = "full"', "direct"),
    "matrix, direct": ('kind = "bsp"', "direct"),
    "matrix, ring": ('kind = "bsp"', "ring"),
    "rule = bytes": ('kind = "sfb"', "direct"),
    "rule = time": ('kind = "sfb"\nrule = "time"\nrule_gflops = 1e9', "direct"),
}
OF_SITES = {
    "factors, full": ('kind = "sfb"\nspread = "full"', "direct"),
    "factors, site": ('kind = "sfb"\nspread = "site"', "direct"),
    "matrix, hierarchical": ('kind = "bsp"', "hierarchical"),
}


VGG = ["260000", "2065000", "8260000", "9440000", "4096x25088", "4096x4096", "21841x4096"]
BACKWARD_S, STEP_S = (0.08, 0.10, 0.10, 0.06, 0.03, 0.01, 0.02), 0.6
H2_GBITS = (0.5, 1, 2, 5, 10, 20, 40)
WAIT_FREE = "\nwait_free = true\nbackward_shares = " + str([s / STEP_S for s in BACKWARD_S])
H2_WAYS = {
    "dense, no overlap": 'kind = "sfb"\nrule = "never"',
    "dense + wait-free": 'kind = "sfb"\nrule = "never"' + WAIT_FREE,
    "hybrid, no overlap": 'kind = "sfb"\nspread = "full"',
    "hybrid + wait-free": 'kind = "sfb"\nspread = "full"' + WAIT_FREE,
}
H2_JOB = """\
[job]
name = "vgg"
checkpoint_every = 0
[stop]
max_rounds = {clocks}
[report]
every_rounds = 1000
[model]
kind = "phantom"
shapes = {shapes}
[data]
kind = "none"
batch = 32
[transfer]
chunk_run = 64
[sync]
{sync}
[overlay]
kind = "direct"
[wan]
model = "fair"
slow_start = false
delay_ms = 0
"""
FASHION_JOB = """\
[job]
name = "fashion"
seed = 1
checkpoint_every = 0
[stop]
max_rounds = {clocks}
[report]
every_rounds = 1000
[model]
kind = "mlp"
hidden = [4096, 4096]
[data]
kind = "fashion_mnist"
path = "{data}"
batch = 32
[optimizer]
kind = "sgd"
rate = 0.05
[sync]
{sync}
[overlay]
kind = "direct"
[wan]
model = "fair"
slow_start = false
delay_ms = 20
"""
FASHION_WAYS = {
    "bsp": 'kind = "bsp"',
    "sfb, all layers": 'kind = "sfb"\nrule = "always"',
    "hybrid": 'kind = "sfb"',
    "hybrid + wait-free": 'kind = "sfb"\nwait_free = true',
}


def sites(count, nodes, mbps=100, step_ms=100):
    return "".join(f'[[site]]\nname = "s{i}"\nnodes = {nodes}\nup_mbps = {mbps}\n'
                   f"down_mbps = {mbps}\nstep_ms = {step_ms}\n" for i in range(count))


def measure(program, name, text, how=("simulate", "--quiet")):
    with tempfile.TemporaryDirectory() as folder:
        path, out = pathlib.Path(folder) / "job.toml", pathlib.Path(folder) / "run"
        path.write_text(text)
        summary = result(run(program, *how, path, "--json", "--out", out, folder=folder), name,
                         patience_s=3600)
        # Over sockets each site has a folder of its own.
        files = list(out.glob("*/metrics.jsonl")) or [out / "metrics.jsonl"]
        lines = [line for file in files for line in file.read_text().splitlines()]
    events = [json.loads(line) for line in lines]
    waits = [event["values"]["value"] for event in events
             if event["kind"] == "wait_s" and event["round"] > 0]
    losses = {}
    for event in events:
        if event["kind"] == "train_loss":
            losses.setdefault(event["round"], []).append(event["values"]["value"])
    return {"wait_s": statistics.mean(waits), "wan_mb": summary["wan_bytes"] / 1e6,
            "accuracy": summary["final_accuracy"], "rounds": summary["rounds"],
            "time_s": summary["time_s"],
            "losses": [statistics.mean(losses[clock]) for clock in sorted(losses)]}


def h1(program, options):
    print("| H1, seconds a clock, K = | " + " | ".join(map(str, BATCHES)) + " |")
    print("|---" * (len(BATCHES) + 1) + "|")
    for name, (sync, overlay) in WAYS.items():
        if options.only not in name:
            continue
        cells = []
        for batch in BATCHES:
            text = JOB.format(clocks=options.clocks, out=1000, inputs=2000, batch=batch, sync=sync,
                              overlay=overlay) + sites(8, 1)
            cells.append(measure(program, f"{name}, {batch}", text)["wait_s"])
        print(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


def h2(program, options):
    print("\n| H2, speed-up, Gbit/s = | " + " | ".join(map(str, H2_GBITS)) + " | MB a node |")
    print("|---" * (len(H2_GBITS) + 2) + "|")
    for name, sync in H2_WAYS.items():
        if options.only not in name:
            continue
        cells = []
        for gbits in H2_GBITS:
            text = (H2_JOB.format(clocks=3, shapes=json.dumps(VGG), sync=sync) +
                    sites(16, 1, gbits * 1000, 1000 * STEP_S))
            cells.append(measure(program, f"{name}, {gbits}", text))
        print(f"| {name} | " + " | ".join(
            f"{16 * STEP_S / (STEP_S + cell['wait_s']):.2f}" for cell in cells) +
            f" | {cells[0]['wan_mb'] / cells[0]['rounds'] / 16:.0f} |", flush=True)


def h3(program, options):
    print("\n| H3, 4 sites of 4 workers | MB from a site a clock |\n|---|---|")
    for name, (sync, overlay) in OF_SITES.items():
        if options.only not in name:
            continue
        text = JOB.format(clocks=options.clocks, out=4096, inputs=4096, batch=32, sync=sync,
                          overlay=overlay) + sites(4, 4)
        found = measure(program, name, text)
        print(f"| {name} | {found['wan_mb'] / found['rounds'] / 4:.2f} |", flush=True)


def fashion(program, options):
    data = pathlib.Path(__file__).resolve().parent.parent / "data/fashion-mnist"
    print("\n| Fashion-MNIST, 4 sites of 50 Mbit/s | seconds a clock | MB from a site a clock | "
          "loss per clock |\n|---|---|---|---|")
    for name, sync in FASHION_WAYS.items():
        if options.only not in name:
            continue
        text = (FASHION_JOB.format(clocks=options.clocks, data=data, sync=sync) +
                sites(4, 1, 50, 500))
        found = measure(program, name, text, ("launch", "--lab") if options.lab else
                        ("simulate", "--quiet"))
        losses = " ".join(f"{loss:.5f}" for loss in found["losses"])
        print(f"| {name} | {0.5 + found['wait_s']:.3f} | "
              f"{found['wan_mb'] / found['rounds'] / 4:.2f} | {losses} |", flush=True)


PARTIAL_JOB = """\
[job]
name = "partial"
seed = {seed}
checkpoint_every = 0
[stop]
max_rounds = {clocks}
[report]
every_rounds = {clocks}
[model]
kind = "mlp"
hidden = [128]
[data]
kind = "fashion_mnist"
path = "{data}"
batch = 32
[optimizer]
kind = "sgd"
rate = {rate}
[sync]
kind = "sfb"
rule = "always"
{sync}
[wan]
delay_ms = 20
"""
PARTIAL_WAYS = {
    "full": 'spread = "full"',
    "partial, Q = 3, mean every 20": 'spread = "partial"\npartial_peers = 3\nmean_every = 20',
    "partial, Q = 1, mean every 20": 'spread = "partial"\npartial_peers = 1\nmean_every = 20',
    "partial, Q = 1, no mean but the last": 'spread = "partial"\npartial_peers = 1\n'
                                            'mean_every = 1000000',
}
PARTIAL_RATES, PARTIAL_CLOCKS, TUNED_ON = (0.05, 0.1, 0.2, 0.4), 200, 11


def partial(program, options):
    data = pathlib.Path(__file__).resolve().parent.parent / "data/fashion-mnist"

    def cell(name, rate, seed):
        text = PARTIAL_JOB.format(seed=seed, clocks=PARTIAL_CLOCKS, rate=rate, data=data,
                                  sync=PARTIAL_WAYS[name]) + sites(8, 1)
        return measure(program, f"{name}, {rate}, {seed}", text)

    print("\n| Fashion-MNIST, 8 sites, 200 clocks | rate | accuracy, seeds 1, 2, 3 | "
          "MB from a site a clock |\n|---|---|---|---|")
    for name in PARTIAL_WAYS:
        if options.only not in name:
            continue
        rate = max(PARTIAL_RATES, key=lambda one, name=name:
                   cell(name, one, TUNED_ON)["accuracy"])
        found = [cell(name, rate, seed) for seed in (1, 2, 3)]
        accuracies = ", ".join(f"{one['accuracy']:.2%}" for one in found)
        print(f"| {name} | {rate} | {accuracies} | "
              f"{found[0]['wan_mb'] / PARTIAL_CLOCKS / 8:.3f} |", flush=True)


PARTS = {"H1": h1, "H2": h2, "H3": h3, "fashion": fashion, "partial": partial}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--clocks", type=int, default=6)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--part", default="", help=", ".join(PARTS))
    parser.add_argument("--lab", action="store_true", help="fashion: over sockets")
    options = parser.parse_args()
    program = pathlib.Path(options.build).resolve() / "longhaul"
    for name, part in PARTS.items():
        if options.part in name:
            part(program, options)


if __name__ == "__main__":
    main()
