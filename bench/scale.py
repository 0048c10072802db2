#!/usr/bin/python3 -B
"""How time and memory of a simulation grow with the number of sites.

  bench/scale.py [--program build/release/longhaul] [--sizes 1000,2000,...] [--write FILE]
      # also bench/results/scale.csv
  bench/scale.py --against OLD [--repeats 5]    # all-to-all, two builds by turns: their ratio

Phantom sites, one round of fedavg over a hub: `longhaul simulate` from the job file to the run's
folder. A row is a process of its own: processor time (the machine is shared, so that wall-clock
time is another's business), wall-clock time, the most memory that it held (VmHWM), and the
exponents from the row before. The last part draws 1 % of the sites for the round.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import textwrap
import time

from common import write_csv

SIZES = (1000, 2000, 4000, 8000, 16000, 32000, 64000, 100_000)
SAMPLED = ((10_000, 0.01), (100_000, 0.01), (1_000_000, 0.01))
MBYTES = 44.7
ALL_TO_ALL = 200
LIMIT_S = 1500  # of one process
GOALS = ((100_000, 30, 8.0),)  # sites, seconds of processor time, GB
SAMPLED_GOAL_S = 300
FAIR = (1000, 10_000, 100_000)
EXPONENT = 1.15


def job(sites, overlay="hub", fraction=1.0, rounds=1, model="fifo"):
    hub = overlay == "hub"
    runs = "[transfer]\nchunk_run = 256\n" if hub else ""
    text = f"""\
[job]
name = "scale"
[stop]
max_rounds = {rounds}
[report]
every_rounds = 100
[model]
kind = "phantom"
mbytes = {MBYTES}
[data]
batch = 32
[sync]
kind = "fedavg"
steps = 20
fraction = {fraction}
[overlay]
kind = "{overlay}"
phases = "sequential"
{runs}{'[roles]' if hub else ''}
{'server = "s0"' if hub else ''}
[wan]
model = "{model}"
delay_ms = 20
mbps = 100
"""
    rates = [10_000 if hub and i == 0 else 100 for i in range(sites)]
    return text + "".join(
        f'[[site]]\nname = "s{i}"\nup_mbps = {rate}\ndown_mbps = {rate}\nstep_ms = 50\n'
        for i, rate in enumerate(rates))


def measure(program, text, folder):
    """Processor seconds, wall seconds, GB at most, and the run's summary."""
    path = pathlib.Path(folder) / "scale.toml"
    path.write_text(text)
    out = pathlib.Path(folder) / "run"
    begin = time.monotonic()
    process = subprocess.Popen([program, "simulate", path, "--out", out, "--force", "--quiet",
                                "--json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    if process.returncode != 0:
        raise RuntimeError(f"exit code {process.returncode}: {said[-400:].decode()}")
    summary = json.loads((out / "summary.json").read_text())
    return {"cpu": used.ru_utime + used.ru_stime, "wall": wall, "gb": used.ru_maxrss * 1024e-9,
            "virtual": summary["time_s"]}


def exponent(rows, key):
    (n, a), (m, b) = [(sites, row[key]) for sites, row in rows[-2:]]
    return math.log(b / a) / math.log(m / n)


HEAD = ["case", "sites", "cpu_s", "cpu_exponent", "wall_s", "memory_gb", "memory_exponent"]


def measured(program, name, cases, folder, model="fifo"):
    """Of (sites, fraction): rows of HEAD, and what was measured."""
    rows = []
    for sites, fraction in cases:
        row = measure(program, job(sites, fraction=fraction, model=model), folder)
        rows.append((sites, row))
        powers = [f"{exponent(rows, key):.2f}" if len(rows) > 1 else "" for key in ("cpu", "gb")]
        line = [name, sites, f"{row['cpu']:.1f}", powers[0], f"{row['wall']:.1f}",
                f"{row['gb']:.2f}", powers[1]]
        print(", ".join(map(str, line)), flush=True)
        yield line, row


def columns(found):
    """Of what measured() gives: the lines, and (sites, row) of each."""
    return [line for line, _ in found], [(line[1], row) for line, row in found]


def overall(rows):
    """Exponents over all rows of a table, from the first to the last."""
    ends = [rows[0], rows[-1]]
    return exponent(ends, "cpu"), exponent(ends, "gb")


def against(program, old, repeats, folder):
    text = job(ALL_TO_ALL, overlay="direct", rounds=2)
    ratios = []
    for _ in range(repeats):
        first, second = [measure(one, text, folder)["cpu"] for one in (old, program)]
        ratios.append(second / first)
        print(f"  old {first:.2f} s, new {second:.2f} s: {ratios[-1]:.3f}", flush=True)
    return statistics.median(ratios), min(ratios), max(ratios)


ALL, DRAWN, SHARED = "all, fifo", "1 % drawn, fifo", "all, fair"


def goals_missed(rows, drawn):
    missed = []
    for sites, seconds, gigabytes in GOALS:
        row = dict(rows).get(sites)
        if row and row["cpu"] > seconds:
            missed.append(f"{sites:,} sites: {row['cpu']:.1f} s, goal {seconds} s")
        if row and row["gb"] > gigabytes:
            missed.append(f"{sites:,} sites: {row['gb']:.2f} GB, goal {gigabytes} GB")
    for of, name in ((rows, ALL), (drawn, DRAWN)):
        for what, power in zip(("time", "memory"), overall(of) if of else ()):
            if power > EXPONENT:
                missed.append(f"{name}: exponent of {what} {power:.2f}, goal {EXPONENT}")
    if drawn and drawn[-1][1]["cpu"] > SAMPLED_GOAL_S:
        missed.append(f"{drawn[-1][0]:,} sites, 1 % drawn: {drawn[-1][1]['cpu']:.0f} s, goal "
                      f"{SAMPLED_GOAL_S} s")
    return missed


def page(lines, powers, missed):
    """`lines`: of HEAD; `powers`: exponents of time and memory over all sizes of ALL."""
    cells = {(line[0], int(line[1])): f"{line[2]} s, {line[5]} GB" for line in lines}
    most = [max((line for line in lines if line[0] == name), key=lambda line: int(line[1]))
            for name in dict.fromkeys(line[0] for line in lines)]
    sizes = sorted({n for _, n in cells} & {1000, 10_000, 100_000, 1_000_000})
    lead = "; ".join(f"{int(line[1]):,} sites ({line[0]}) take {line[2]} s and {line[5]} GB"
                     for line in most)
    fill = lambda text: textwrap.fill(text, 119, break_on_hyphens=False)
    text = ["# How the simulator scales", "", fill(
        f"To plan a simulation: {lead}. Time grows with the power {powers[0]:.2f} of the sites, "
        f"memory with {powers[1]:.2f}."), "",
        "    bench/scale.py --write docs/results/scale.md", "",
        f"| processor time, memory | {' | '.join(f'{n:,} sites' for n in sizes)} |",
        "|---" * (len(sizes) + 1) + "|",
        *(f"| {name} | {' | '.join(cells.get((name, n), '') for n in sizes)} |"
          for name in dict.fromkeys(line[0] for line in lines)), "", fill(
        f"One round of fedavg over a hub with phantom sites, {MBYTES} MB, runs of 256 chunks, one "
        "process a row: from the job file to the run's folder. fifo and fair are `[wan] model`. "
        "Drawn: `[sync] fraction = 0.01`; all sites receive the mean. "
        "[scale.csv](../../bench/results/scale.csv) has all sizes and wall-clock times. "
        f"Goals missed: {len(missed)}."), *[f"- {one}" for one in missed]]
    return "\n".join(text) + "\n"


def run_all(program, sizes, sampled, folder):
    # A child's memory counts from this process's on, which the largest job makes large.
    fair, _ = columns(list(measured(program, SHARED, [(n, 1.0) for n in FAIR], folder, "fair")))
    lines, rows = columns(list(measured(program, ALL, [(n, 1.0) for n in sizes], folder)))
    drawn, drawn_rows = columns(list(measured(program, DRAWN, sampled, folder)))
    return lines + drawn + fair, overall(rows), goals_missed(rows, drawn_rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default="build/release/longhaul")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--sampled", default=",".join(str(n) for n, _ in SAMPLED))
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    numbers = lambda text: [int(n) for n in text.split(",") if n]
    with tempfile.TemporaryDirectory(prefix="longhaul-scale-") as folder:
        if options.against:
            ratios = against(options.program, options.against, options.repeats, folder)
            print(f"{ALL_TO_ALL} sites all-to-all, new / old: median {ratios[0]:.3f} "
                  f"({ratios[1]:.3f} .. {ratios[2]:.3f})")
            return
        lines, powers, missed = run_all(options.program, numbers(options.sizes),
                                        [(n, 0.01) for n in numbers(options.sampled)], folder)
    if options.write:
        options.write.write_text(page(lines, powers, missed))
        write_csv("scale", HEAD, lines)


if __name__ == "__main__":
    main()
