#!/usr/bin/python3 -B
"""Factors against the matrix: time of a clock by batch, and bytes from a site, without numbers.

  bench/sfb.py [--build build/release] [--clocks 6] [--only TEXT]

One fully connected layer, sites of 100 Mbit/s and 40 ms one way. Time of a clock: from the gradient
to the sum, by the figure wait_s, without the first clock. Bytes: what leaves a site.
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


def sites(count, nodes):
    return "".join(f'[[site]]\nname = "s{i}"\nnodes = {nodes}\nup_mbps = 100\ndown_mbps = 100\n'
                   "step_ms = 100\n" for i in range(count))


def measure(program, name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "job.toml"
        path.write_text(text)
        summary = result(run(program, "simulate", path, "--json", "--quiet", "--out",
                             pathlib.Path(folder) / "run", folder=folder), name)
        lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
    waits = [event for event in map(json.loads, lines) if event["kind"] == "wait_s"]
    waits = [event["values"]["value"] for event in waits if event["round"] > 0]
    return {"wait_s": statistics.mean(waits), "wan_mb": summary["wan_bytes"] / 1e6,
            "rounds": summary["rounds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--clocks", type=int, default=6)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    options = parser.parse_args()
    program = pathlib.Path(options.build).resolve() / "longhaul"
    print("| seconds a clock, K = | " + " | ".join(map(str, BATCHES)) + " |")
    print("|---" * (len(BATCHES) + 1) + "|")
    for name, (sync, overlay) in WAYS.items():
        if options.only not in name:
            continue
        cells = []
        for batch in BATCHES:
            text = JOB.format(clocks=options.clocks, out=1000, inputs=2000, batch=batch, sync=sync,
                              overlay=overlay) + sites(8, 1)
            cells.append(measure(program, f"{name}, {batch}", text)["wait_s"])
        print(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    print("\n| 4 sites of 4 workers | MB from a site a clock |\n|---|---|")
    for name, (sync, overlay) in OF_SITES.items():
        if options.only not in name:
            continue
        text = JOB.format(clocks=options.clocks, out=4096, inputs=4096, batch=32, sync=sync,
                          overlay=overlay) + sites(4, 4)
        found = measure(program, name, text)
        print(f"| {name} | {found['wan_mb'] / found['rounds'] / 4:.2f} |")


if __name__ == "__main__":
    main()
