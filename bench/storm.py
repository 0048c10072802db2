#!/usr/bin/python3 -B
"""Runs in a storm of faults, simulated: docs/results/storm.md.

  bench/storm.py [--build build/release] [--out runs/storm] [--sites 8] [--minutes 22] [--only KIND]

In 22 minutes 28 nodes are killed, 9 sites are cut off and 8 stand still, at moments and sites drawn
by the seed, coordinators not spared; 15 s after a fault is over its site is started again, if it
is lost. Each cell (strategy, overlay, Mbit/s) writes one JSON file into --out; a cell
whose file is there is not run again, so the command may be stopped at any time. Prints the table.
Columns: workers counted in a round's mean / workers in the view; seconds from a site's start to its
next training loss, the median, beside state bytes / bandwidth; samples as the ledger of the summary
has them; the largest fall of accuracy from one score to the next.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess

SEED = 7
MINUTES, KILLS, CUTS, STOPS = 22, 28, 9, 8
AFTER_S = 15  # from the end of a fault, and so after its discovery, to the start of its site
MBPS = [1000, 100, 10, 1]
OVERLAYS = ["forest", "direct", "ring", "hub"]
# Commits between two copies: one of asp is a step, of fedgsync a group's round.
FOLLOWED = "[server]\nstandbys = 2\nstandby_every = "
KINDS = {  # kind: keys of [sync], overlays; other tables
    "bsp": ("", ["forest", "hub", "ring"]), "fedavg": ("steps = 10", ["forest", "hub", "ring"]),
    "diloco": ("steps = 20", ["forest", "hub", "ring"]), "gaia": ("", ["direct"]),
    "nbsync": ("", ["forest", "hub", "ring"]), "asp": ("", ["hub"], FOLLOWED + "20\n"),
    "fedgsync": ("steps = 10\ngroups = 2", ["hub"], FOLLOWED + "1\n")}
STEP_MS, HIDDEN, FEATURES, CLASSES = 1000, 6400, 20, 5
MODEL_BYTES = 4 * ((FEATURES + 1) * HIDDEN + (HIDDEN + 1) * CLASSES)


def faults(sites, minutes):
    """As (kind, site, at_s, for_s): rates are those of 22 minutes with any number of sites."""
    chance = random.Random(SEED)
    drawn = []
    for kind, count in (("crash", KILLS), ("cut", CUTS), ("pause", STOPS)):
        for _ in range(round(count * minutes / MINUTES)):
            lasts = 0 if kind == "crash" else chance.uniform(5, 40)
            drawn.append((kind, chance.randrange(sites), chance.uniform(10, 55 * minutes), lasts))
    return sorted(drawn, key=lambda one: one[2])


def job(kind, overlay, mbps, sites, minutes, storm):
    text = f"""\
[job]
name = "storm"
seed = {SEED}
checkpoint_every = 0
[stop]
max_hours = {minutes / 60}
max_rounds = 1000000
[report]
every_samples = 4000
[model]
kind = "mlp"
hidden = [{HIDDEN}]
[data]
kind = "synthetic"
classes = {CLASSES}
features = {FEATURES}
samples = {200 * sites}
noise = 1.5
batch = 16
[optimizer]
kind = "sgd"
rate = 0.02
[sync]
kind = "{kind}"
{KINDS[kind][0]}
[overlay]
kind = "{overlay}"
[wan]
mbps = {mbps}
delay_ms = 20
"""
    text += "".join(KINDS[kind][2:])
    for number in range(sites):
        text += f'[[site]]\nname = "s{number}"\nstep_ms = {STEP_MS}\n'
    for what, site, at, lasts in storm:
        text += f'[[fault]]\nkind = "{what}"\nsite = "s{site}"\nat_s = {at:.3f}\n'
        text += f"restart_s = {lasts + AFTER_S:.3f}\n" + (f"for_s = {lasts:.3f}\n" if lasts else "")
    return text


def falls(events):
    scores = [one["values"]["accuracy"] for one in events if one["kind"] == "score"]
    return max([0, *(before - after for before, after in zip(scores, scores[1:]))])


def rejoins(events, storm):
    """Seconds from the start of a killed site to its next training loss."""
    taken = []
    for what, site, at, lasts in storm:
        start = at + lasts + AFTER_S
        times = [one["time_s"] for one in events
                 if one["site"] == f"s{site}" and one["kind"] == "train_loss"
                 and one["time_s"] > start]
        if what == "crash" and times:
            taken.append(times[0] - start)
    return taken


def cell(options, kind, overlay, mbps):
    storm = faults(options.sites, options.minutes)
    name = f"{kind}-{overlay}-{mbps}-{options.sites}-{options.minutes:g}"
    path = options.out / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text())
    one = {"kind": kind, "overlay": overlay, "mbps": mbps}
    for which, blows in (("storm", storm), ("calm", [])):
        (options.out / f"{name}.toml").write_text(
            job(kind, overlay, mbps, options.sites, options.minutes, blows))
        folder = options.out / f"{name}-{which}"
        done = subprocess.run(
            [options.build / "longhaul", "simulate", options.out / f"{name}.toml", "--out", folder,
             "--json", "--force"], capture_output=True, text=True, timeout=7200, check=False)
        summary = json.loads((folder / "summary.json").read_text())
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        one[which] = {key: summary.get(key) for key in
                      ("stop_reason", "failure", "participation_of_live", "samples", "rounds",
                       "live", "final_accuracy", "time_s", "real_s")}
        one[which] |= {"code": done.returncode, "fall": falls(events),
                       "rejoins": rejoins(events, blows)}
    path.write_text(json.dumps(one, indent=1) + "\n")
    return one


def row(one):
    storm, calm = one["storm"], one["calm"]
    samples, taken = storm["samples"], storm["rejoins"]
    share = "-"
    if samples["used"] is not None:
        share = f"{samples['used']} / {samples['lost']} / {samples['unused']}"
    rejoin = f"{statistics.median(taken):.1f}" if taken else "-"
    ended = "yes" if storm["code"] == 0 else f"no, at {storm['time_s']:.0f} s"
    accuracy = [f"{100 * of['final_accuracy']:.1f}" if of["final_accuracy"] is not None else "-"
                for of in (storm, calm)]
    return (f"| {one['kind']} | {one['overlay']} | {one['mbps']} | {ended} "
            f"| {100 * storm['participation_of_live']:.1f} % | {rejoin} "
            f"| {8 * MODEL_BYTES / one['mbps'] / 1e6:.2f} | {share} "
            f"| {accuracy[0]} ({accuracy[1]}) % "
            f"| {100 * storm['fall']:.1f} ({100 * calm['fall']:.1f}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build/release")
    parser.add_argument("--out", type=pathlib.Path, default="runs/storm")
    parser.add_argument("--sites", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--overlay", choices=OVERLAYS, action="append")
    parser.add_argument("--mbps", choices=MBPS, type=int, action="append")
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    print("| sync | overlay | Mbit/s | ended as its job says | participation | rejoin, median s "
          "| model / rate, s | samples used / lost / unused | accuracy (calm) "
          "| largest fall, points (calm) |\n" + "|---" * 10 + "|")
    for overlay in options.overlay or OVERLAYS:
        for kind in options.only or KINDS:
            for mbps in options.mbps or MBPS if overlay in KINDS[kind][1] else ():
                print(row(cell(options, kind, overlay, mbps)), flush=True)


if __name__ == "__main__":
    main()
