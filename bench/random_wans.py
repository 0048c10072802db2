#!/usr/bin/python3 -B
"""How near forest and the other overlays come to the bound on random networks, simulated.

  bench/random_wans.py [--seeds 1000:1100] [--mbytes 25,250] [--overlays forest,learned]
                       [--build build/release] [--jobs 2] [--file FILE] [--page FILE]

A seed is a network of 3 to 16 sites at random places in the unit square, one-way delay 2 + 120 x
distance ms, of one of four styles:
  sites   up log-normal around 100 Mbit/s, sigma 0.8, 5 to 1000; down 1, 2 or 5 times up
  pairs   each ordered pair log-normal around 80 Mbit/s, sigma 0.9, 5 to 900
  both    both of these limit
  cluster two clusters, pairs of 150 Mbit/s inside and of 15 across, sites of 200
Connections are warm (slow_start = false). Appends a line of JSON for each network to --file, and
goes on where it ended. Prints median, 90th percentile and worst of time / bandwidth bound and of
time / the bound that knows delays; --page writes them as a page, and as
bench/results/random-wans.csv. Ends with 1 if forest misses a goal.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import statistics
import sys
import tempfile
import textwrap

from common import result, run, write_csv
from overlays import JOB, OVERLAYS

STYLES = ("sites", "pairs", "both", "cluster")
LEARNED_ROUNDS = 5  # of which the last is taken
LONG = 250  # MB, from which on the bandwidth bound is the measure
GOALS = {"median": 1.05, "p90": 1.10, "worst": 1.20}  # of LONG
SHORT_GOAL, SHORT_SHARE = 1.15, 0.9  # of the bound that knows delays, and in how many networks
BEHIND = 1.02  # of the best other overlay
LEARNED = "forest, learned"
WAYS = {**OVERLAYS, LEARNED: 'kind = "forest"\nrates = "learned"\n'}


def log_normal(draw, middle, sigma, low, high):
    return min(high, max(low, draw.lognormvariate(math.log(middle), sigma)))


def network(seed):
    """Its style, its number of sites, and what follows [wan] in a job file."""
    draw = random.Random(seed)
    count = draw.randint(3, 16)
    style = draw.choice(STYLES)
    places = [(draw.random(), draw.random()) for _ in range(count)]
    half = count // 2
    lines, pairs = "", ""
    for i in range(count):
        lines += f'[[site]]\nname = "s{i}"\n'
        if style == "cluster":
            up = down = 200
        elif style != "pairs":
            up = log_normal(draw, 100, 0.8, 5, 1000)
            down = up * draw.choice((1, 2, 5))
        if style != "pairs":
            lines += f"up_mbps = {up:.3f}\ndown_mbps = {down:.3f}\n"
    for i in range(count):
        for j in range(count):
            if i == j:
                continue
            delay = 2 + 120 * math.dist(places[i], places[j])
            rate = ""
            if style == "cluster":
                rate = f"mbps = {150 if (i < half) == (j < half) else 15}\n"
            elif style != "sites":
                rate = f"mbps = {log_normal(draw, 80, 0.9, 5, 900):.3f}\n"
            pairs += (f'[[wan.link]]\nfrom = "s{i}"\nto = "s{j}"\n{rate}'
                      f"delay_ms = {delay:.3f}\n")
    return style, count, lines + pairs


def one_network(args, seed):
    """The line of this seed: for every size the bounds and each overlay's time."""
    style, count, sites = network(seed)
    line = {"seed": seed, "style": style, "sites": count, "sizes": {}}
    longhaul = pathlib.Path(args.build).resolve() / "longhaul"
    with tempfile.TemporaryDirectory(prefix="longhaul-random-wans-") as name:
        folder = pathlib.Path(name)
        for mbytes in args.mbytes:
            size = line["sizes"][f"{mbytes:g}"] = {"times_s": {}}
            for way in args.overlays:
                text = JOB + "slow_start = false\n" + "[overlay]\n" + WAYS[way] + sites
                (folder / "job.toml").write_text(text)
                laps = LEARNED_ROUNDS if way == LEARNED else 1
                found = result(run(longhaul, "perf", "job.toml", "--mbytes", mbytes, "--repeat",
                                   laps, "--json", "--quiet", folder=folder),
                               f"seed {seed}, {way}, {mbytes:g} MB")
                size["times_s"][way] = found["times_s"][-1]
                size["bandwidth_s"] = found["bandwidth_s"]
                size["bound_s"] = found["bound_s"]
    return line


def figures(ratios):
    ratios = sorted(ratios)
    return {"median": statistics.median(ratios),
            "p90": ratios[min(len(ratios) - 1, math.ceil(0.9 * len(ratios)) - 1)],
            "worst": ratios[-1]}


def select(lines, mbytes):
    for line in lines:
        if size := line["sizes"].get(mbytes):
            yield line, size


HEAD = ["mbytes", "overlay", "networks", "bandwidth_median", "bandwidth_p90", "bandwidth_worst",
        "delays_median", "delays_p90", "delays_worst"]


def rows_of(lines, mbytes, overlays):
    """Of HEAD: of every overlay the figures against both bounds."""
    for way in overlays:
        chosen = [(s["times_s"][way], s) for _, s in select(lines, mbytes) if way in s["times_s"]]
        if not chosen:
            continue
        row = [mbytes, way, len(chosen)]
        for bound in ("bandwidth_s", "bound_s"):
            f = figures([time / s[bound] for time, s in chosen])
            row += [f"{f[key]:.3f}" for key in ("median", "p90", "worst")]
        yield row


def missed(lines, mbytes, way):
    """What this forest was to reach and did not."""
    chosen = [(line, s) for line, s in select(lines, mbytes) if way in s["times_s"]]
    if not chosen:
        return
    if float(mbytes) >= LONG:
        f = figures([s["times_s"][way] / s["bandwidth_s"] for _, s in chosen])
        for key, goal in GOALS.items():
            if f[key] > goal:
                yield f"{way}, {mbytes} MB: {key} {f[key]:.3f}, goal {goal}"
    else:
        within = sum(s["times_s"][way] <= SHORT_GOAL * s["bound_s"] for _, s in chosen)
        if within < SHORT_SHARE * len(chosen):
            yield (f"{way}, {mbytes} MB: {within} of {len(chosen)} within {SHORT_GOAL}, goal "
                   f"{SHORT_SHARE * len(chosen):.0f}")
    behind = {}
    for line, s in chosen:
        others = {o: t for o, t in s["times_s"].items() if o != way and o != LEARNED}
        best = min(others, key=others.get, default=None)
        if best and s["times_s"][way] > BEHIND * others[best]:
            behind.setdefault(best, {})[line["seed"]] = s["times_s"][way] / others[best]
    for best, ratios in behind.items():
        worst = max(ratios, key=ratios.get)
        yield (f"{way}, {mbytes} MB: over {BEHIND} of {best} on {len(ratios)} of {len(chosen)}, "
               f"worst {ratios[worst]:.3f} (seed {worst})")


def page(args, rows, styles, misses):
    """`rows`: of HEAD; `styles`: how many networks of each; `misses`: sentences."""
    def lead(mbytes, what, columns):
        medians = {row[1]: row[columns] for row in rows if row[0] == mbytes}
        others = [float(m) for way, m in medians.items() if way not in ("forest", LEARNED)]
        return (f"{mbytes} MB over `forest` take {medians['forest']} of the {what} (median); the "
                f"best other overlay takes {min(others):.3f}."
                ) if others and "forest" in medians else ""

    sizes = list(dict.fromkeys(row[0] for row in rows))
    measures = [("bandwidth bound", 3) if float(size) >= LONG else ("bound with delays", 6)
                for size in sizes]
    fill = lambda text: textwrap.fill(text, 119, break_long_words=False, break_on_hyphens=False)
    about = (f"{sum(styles.values())} networks of 3 to 16 sites, one simulated all-reduce over "
             f"warm connections. Styles: {', '.join(f'{s} {n}' for s, n in styles.items())} "
             "(`bench/random_wans.py` explains them). [Bounds](../bounds.md) defines the bounds.")
    if LEARNED in args.overlays:
        about += f" `{LEARNED}` is timed in round {LEARNED_ROUNDS} after the first."
    about += " [random-wans.csv](../../bench/results/random-wans.csv) has more."
    chosen = ",".join(way.replace(", ", " ") for way in args.overlays)
    chosen = "" if args.overlays == list(WAYS) else f' --overlays "{chosen}"'
    text = ["# Random networks", "", fill("To choose an overlay: " + " ".join(
        lead(size, *measure) for size, measure in zip(sizes, measures))), "",
        f"    bench/random_wans.py --seeds {args.seeds}{chosen}", "",
        "| time / bound | " + " | ".join(
            f"{size} MB, {what}: median | worst" for size, (what, _) in zip(sizes, measures))
        + " |", "|---" * (2 * len(sizes) + 1) + "|"]
    cells = {(row[0], row[1]): row for row in rows}
    for way in dict.fromkeys(row[1] for row in rows):
        found = [cells.get((size, way)) for size in sizes]
        text.append(f"| {way} | " + " | ".join(
            f"{row[first]} | {row[first + 2]}" if row else "- | -"
            for row, (_, first) in zip(found, measures)) + " |")
    text += ["", fill(about), "", "Goals missed:" if misses else "No goal is missed.",
             *([""] if misses else []), *[f"- {miss}" for miss in misses]]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seeds", default="1000:1100", help="FIRST:END, the end left out")
    parser.add_argument("--mbytes", default="25,250")
    parser.add_argument("--overlays", default=",".join(w.replace(", ", " ") for w in WAYS),
                        help="with commas; a space in place of a comma in a name")
    parser.add_argument("--jobs", type=int, default=2, help="networks at a time")
    parser.add_argument("--file", help="JSON lines, of networks that are done; goes on from there")
    parser.add_argument("--page", help="file for the tables, as Markdown")
    args = parser.parse_args()
    args.mbytes = [float(m) for m in args.mbytes.split(",")]
    names = {w.replace(", ", " "): w for w in WAYS}
    if unknown := [w for w in args.overlays.split(",") if w not in names]:
        parser.error(f"--overlays {unknown[0]}: no such overlay; one of {', '.join(names)}")
    args.overlays = [names[w] for w in args.overlays.split(",")]
    first, end = map(int, args.seeds.split(":"))
    file = pathlib.Path(args.file) if args.file else None
    done = {}
    if file and file.exists():
        done = {line["seed"]: line for line in map(json.loads, file.read_text().splitlines())}
    todo = [seed for seed in range(first, end) if seed not in done]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for line in pool.map(lambda seed: one_network(args, seed), todo):
            done[line["seed"]] = line
            if file:
                with file.open("a") as lines:
                    lines.write(json.dumps(line) + "\n")
            shown = ", ".join(f"{way} {size['times_s'][way] / size['bandwidth_s']:.3f}"
                              for size in line["sizes"].values() for way in args.overlays[:3])
            print(f"seed {line['seed']}, {line['style']}, {line['sites']} sites: {shown}",
                  file=sys.stderr, flush=True)
    lines = [done[seed] for seed in range(first, end)]
    misses = [miss for mbytes in args.mbytes for way in ("forest", LEARNED)
              for miss in missed(lines, f"{mbytes:g}", way)]
    rows = [row for m in args.mbytes for row in rows_of(lines, f"{m:g}", args.overlays)]
    styles = {s: sum(line["style"] == s for line in lines) for s in STYLES}
    text = page(args, rows, styles, misses)
    print(text)
    if args.page:
        pathlib.Path(args.page).write_text(text)
        write_csv("random-wans", HEAD, rows)
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
