#!/usr/bin/python3 -B
"""Which strategy when: the best one over bandwidth, delay, unequal machines and unlike data.

  bench/which.py [--build build/release] [--out build/which] [--jobs 2] [--write docs/which.md]

Four equal sites but for what varies; a small model whose messages count as 14 MB. No site can reach
the target with its own samples alone. First the rate of every strategy, for alike and for unlike
data, is chosen from one grid with a seed of its own, on equal sites of 100 Mbit/s and 10 ms:
bench/which-rates.json; what is in there is not tuned again. Then every cell is one `longhaul
compare` of three other seeds. The same command goes on where it was stopped. --write writes the
page.
"""
import argparse
import itertools
import json
import math
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATES = ROOT / "bench/which-rates.json"
MBPS, DELAY_MS, SPREAD, SKEW = (5, 100), (10, 100), (1, 5), ("iid", "dirichlet")
SYNCS = ("bsp", "fedavg", "diloco", "esync", "nbsync", "ssp", "fedasync", "dpsgd")
GRID = (0.003, 0.01, 0.03, 0.1, 0.3)
ADAM_GRID = (0.001, 0.002, 0.004, 0.008)  # the inner optimiser of diloco
TUNED_AT = (100, 10, 1)  # Mbit/s, delay, spread
SEED, TUNING_SEED, SEEDS, EPOCHS = 1, 11, 3, 40

JOB = """\
# Written by bench/which.py.
[job]
name = "{name}"
seed = {seed}
[stop]
target_accuracy = 0.92
[report]
every_samples = 1024
[model]
kind = "mlp"
[data]
kind = "synthetic"
classes = 10
clusters = 32
features = 32
noise = 0.5
samples = 4000
test_samples = 1000
batch = 16
partition = "{skew}"
{alpha}
[optimizer]
kind = "sgd"
rate = 0.1
momentum = 0.9
[sync]
kind = "bsp"
[for.fedavg.sync]
steps = 10
[for.diloco.sync]
steps = 25
[for.diloco.optimizer]
kind = "adam"
{inner}[for.dpsgd.sync]
steps = 10
[for.fedasync.sync]
steps = 10
[for.fedasync.overlay]
kind = "hub"
[for.ssp.overlay]
kind = "hub"
{rates}[wan]
delay_ms = {delay}
wire_scale = {scale}
"""


def job(name, mbps, delay, spread, skew, rates, seed=SEED):
    own = "".join(f"[for.{sync}.optimizer]\nrate = {rate}\n" for sync, rate in rates.items()
                  if sync != "diloco")
    inner = f"rate = {rates['diloco']}\n" if rates else ""
    text = JOB.format(name=name, delay=delay, skew=skew, scale=640, rates=own, seed=seed,
                      inner=inner, alpha="alpha = 0.1" if skew == "dirichlet" else "")
    for i, site in enumerate(("a", "b", "c", "d")):
        step = 50 * spread ** (i / 3)
        text += (f'[[site]]\nname = "{site}"\nup_mbps = {mbps}\ndown_mbps = {mbps}\n'
                 f'step_ms = {step:.1f}\n')
    return text


def compare(args, name, text, syncs, *options):
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)
    command = [args.build + "/longhaul", "compare", str(folder / f"{name}.toml"), "--sync",
               ",".join(syncs), "--epochs", str(EPOCHS), "--jobs", str(args.jobs), "--quiet",
               "--json", "--resume", "--out", str(folder / name), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"which: {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def tune(args):
    """The rate with which the target is reached first; else the one that ends best."""
    rates = json.loads(RATES.read_text()) if RATES.exists() else {}
    for skew in SKEW:
        if skew in rates:
            continue
        found = {}
        for name, syncs, grid in (("sgd", [s for s in SYNCS if s != "diloco"], GRID),
                                  ("adam", ["diloco"], ADAM_GRID)):
            text = job(f"tuning-{skew}", *TUNED_AT, skew, {}, TUNING_SEED)
            done = compare(args, f"tuning-{skew}-{name}", text, syncs, "--sweep",
                           "optimizer.rate=" + ",".join(map(str, grid)))
            for one in done["runs"]:
                rate = float(one["label"].rsplit("=", 1)[1])
                reached = one["time_to_target_s"]
                order = (math.inf if reached is None else reached, -(one["final_accuracy"] or 0))
                found[one["sync"]] = min(found.get(one["sync"], (order, rate)), (order, rate))
        rates[skew] = {sync: rate for sync, (_, rate) in sorted(found.items())}
        RATES.write_text(json.dumps(rates, indent=2, sort_keys=True) + "\n")
        print(skew, rates[skew], flush=True)
    return rates


def cell(args, mbps, delay, spread, skew, rates):
    name = f"m{mbps}-d{delay}-s{spread}-{skew}"
    text = job(name, mbps, delay, spread, skew, rates[skew])
    return compare(args, name, text, SYNCS, "--seeds", str(SEEDS))["ranking"]


def seconds(group):
    time = group["time_to_target_s"]
    return time["median"] if time else None


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def text_of(ranking):
    """The first, the second, and how many seeds reached it where not all did."""
    reached = [group for group in ranking if seconds(group) is not None]
    if not reached:
        return "none"
    first = reached[0]
    text = f"**{first['sync']}** {number(seconds(first))} s"
    if len(reached) > 1:
        text += f", {reached[1]['sync']} {seconds(reached[1]) / seconds(first):.2f} x"
    for group in reached[:2]:
        if group["reached"] < SEEDS:
            text += f" ({group['sync']}: {group['reached']} of {SEEDS} seeds)"
    return text


def rates_table(rates):
    lines = ["| strategy | alike | unlike |", "|---|---|---|"]
    for sync in SYNCS:
        lines.append(f"| {sync} | {rates['iid'][sync]:g} | {rates['dirichlet'][sync]:g} |")
    return lines


def page(cells, rates):
    lines = [
        "# Which strategy when", "",
        "For a first guess without a search: the strategy that reaches 92 % first on four sites,",
        "then the next one and its time relative to the first. `longhaul plan JOB` searches on",
        "your own network.", "",
        "An mlp on synthetic data whose messages count as 14 MB, batches of 16 in 50 ms",
        "(*equal*), or in 50 to 250 ms (*5 x*). For another model, multiply your Mbit/s by",
        "14 / its MB, and by your step in ms / 50: 100 MB at 36 Mbit/s and 50 ms is the row of",
        "5 Mbit/s. Multiply your delay by 50 / your step in ms. With unequal links, count the",
        "slowest site's; between two rows, compare the strategies of both.",
        "",
        "Bandwidth is of each site, delay one way. *Alike*: every site holds the same mixture;",
        "*unlike*: Dirichlet 0.1. One site alone reaches at most 89 %. Simulated; medians of three",
        "seeds, without ranges: close times can be ties. A seed that misses the target within 40",
        "epochs counts as never. Time decides, and nbsync never pauses; after equal samples",
        "([page](results/page.md)) it is often last.",
        "",
        "| Mbit/s | delay | equal, alike | 5 x, alike | equal, unlike | 5 x, unlike |",
        "|---|---|---|---|---|---|"]
    for mbps, delay in itertools.product(MBPS, DELAY_MS):
        row = [text_of(cells[mbps, delay, spread, skew])
               for skew, spread in itertools.product(SKEW, SPREAD)]
        lines.append(f"| {mbps} | {delay} ms | " + " | ".join(row) + " |")
    lines += ["", textwrap.fill(
        "Tried: the strategies below, with 10 local steps (fedavg, fedasync, dpsgd) or 25 (diloco)."
        f" Rates are from the grid {', '.join(map(str, GRID))} (momentum 0.9; diloco, with adam "
        f"instead of its preset: {', '.join(map(str, ADAM_GRID))}), chosen with another seed at "
        "100 Mbit/s, 10 ms and equal sites:", 90), "", *rates_table(rates)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--out", default=str(ROOT / "build/which"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write")
    args = parser.parse_args()
    rates = tune(args)
    cells = {}
    for key in itertools.product(MBPS, DELAY_MS, SPREAD, SKEW):
        cells[key] = cell(args, *key, rates)
        print(*key, text_of(cells[key]), flush=True)
    if args.write:
        pathlib.Path(args.write).write_text(page(cells, rates))


if __name__ == "__main__":
    main()
