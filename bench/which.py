#!/usr/bin/python3 -B
"""Which strategy when: the best one over bandwidth, delay, unequal machines and unlike data.

  bench/which.py [--build build/release] [--out build/which] [--jobs 2] [--write docs/which.md]

Four equal sites but for what varies; a small model whose messages count as 14 MB. Every cell is one
`longhaul compare`; the same command goes on where it was stopped. --write writes the page.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MBPS, DELAY_MS, SPREAD, SKEW = (5, 100), (10, 100), (1, 5), ("iid", "dirichlet")
SYNCS = ("bsp", "fedavg", "diloco", "esync", "nbsync", "ssp", "fedasync", "dpsgd")

JOB = """\
# Written by bench/which.py.
[job]
name = "{name}"
[stop]
target_accuracy = 0.9
[report]
every_samples = 1024
[model]
kind = "mlp"
[data]
kind = "synthetic"
classes = 10
features = 32
batch = 16
partition = "{skew}"
{alpha}
[optimizer]
kind = "sgd"
rate = 0.05
momentum = 0.9
[sync]
kind = "bsp"
[for.fedavg.sync]
steps = 10
[for.diloco.sync]
steps = 25
[for.diloco.optimizer]
kind = "adam"
rate = 0.002
[for.dpsgd.sync]
steps = 10
[for.fedasync.sync]
steps = 10
[for.fedasync.overlay]
kind = "hub"
[for.ssp.overlay]
kind = "hub"
[wan]
delay_ms = {delay}
wire_scale = {scale}
"""


def job(name, mbps, delay, spread, skew):
    text = JOB.format(name=name, delay=delay, skew=skew, scale=640,
                      alpha="alpha = 0.1" if skew == "dirichlet" else "")
    for i, site in enumerate(("a", "b", "c", "d")):
        step = 50 * spread ** (i / 3)
        text += (f'[[site]]\nname = "{site}"\nup_mbps = {mbps}\ndown_mbps = {mbps}\n'
                 f'step_ms = {step:.1f}\n')
    return text


def cell(args, mbps, delay, spread, skew):
    name = f"m{mbps}-d{delay}-s{spread}-{skew}"
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(job(name, mbps, delay, spread, skew))
    command = [args.build + "/longhaul", "compare", str(folder / f"{name}.toml"), "--sync",
               ",".join(SYNCS), "--epochs", "20", "--jobs", str(args.jobs), "--quiet", "--json",
               "--resume", "--out", str(folder / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"which: {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)["ranking"]


def seconds(group):
    time = group["time_to_target_s"]
    return time["median"] if time else None


def text_of(ranking):
    first = ranking[0]
    if seconds(first) is None:
        return "none"
    text = f"**{first['sync']}** {seconds(first):.3g} s"
    if seconds(ranking[1]) is None:
        return text
    return text + f", {ranking[1]['sync']} {seconds(ranking[1]) / seconds(first):.2f} x"


def page(cells):
    lines = [
        "# Which strategy when", "",
        "The strategy that reaches 90 % first, over four things that networks and sites differ in;",
        "behind it the next one and how much longer that takes. `make which` makes this page;",
        "`longhaul plan JOB` asks the same question for your own network.", "",
        "Four sites, an mlp on synthetic data whose messages count as 14 MB, batches of 16 in",
        "50 ms (*equal*), or in 50 to 250 ms (*5 x*). Bandwidth is of each site, delay one way.",
        "*Alike*: every site holds the same mixture; *unlike*: Dirichlet 0.1. Simulated, one seed,",
        "one setting of each strategy, as the script has it.", "",
        "| Mbit/s | delay | equal, alike | 5 x, alike | equal, unlike | 5 x, unlike |",
        "|---|---|---|---|---|---|"]
    for mbps, delay in itertools.product(MBPS, DELAY_MS):
        row = [text_of(cells[mbps, delay, spread, skew])
               for skew, spread in itertools.product(SKEW, SPREAD)]
        lines.append(f"| {mbps} | {delay} ms | " + " | ".join(row) + " |")
    lines += ["", f"Compared: {', '.join(SYNCS)}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--out", default=str(ROOT / "build/which"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write")
    args = parser.parse_args()
    cells = {}
    for key in itertools.product(MBPS, DELAY_MS, SPREAD, SKEW):
        cells[key] = cell(args, *key)
        print(*key, text_of(cells[key]), flush=True)
    if args.write:
        pathlib.Path(args.write).write_text(page(cells))


if __name__ == "__main__":
    main()
