#!/usr/bin/python3 -B
"""GADMM against gradient descent and LAG over ten regions: docs/results/gadmm.md, simulated.

  bench/gadmm.py --data FILE [--build build/release]

FILE: the Body Fat data as CSV with a header, 14 features in [-1, 1] and the density last (data29 of
github.com/chentianyi1991/LAG-code). The first 250 rows lie in order at the ten sites of dtfm-10.
Each runs for as many rounds as every model needs to come within 1e-4 of the optimum.
"""
import argparse
import json
import pathlib
import tempfile

from common import result, run

LEAST, SMOOTHNESS = 1.729009988089, 594.016825
SITES = ("oregon", "virginia", "ohio", "tokyo", "seoul", "singapore", "sydney", "london",
         "frankfurt", "ireland")
JOB = """\
[job]
name = "{name}"
[stop]
max_rounds = {rounds}
[report]
every_rounds = 1000000
[model]
kind = "linear"
bias = false
[data]
kind = "csv"
path = "rows.csv"
test_path = "rows.csv"
task = "regression"
partition = "blocks"
[wan]
preset = "dtfm-10"
[sync]
{sync}
"""
SITE = '[[site]]\nname = "{}"\nstep_ms = 1\n'
# Rounds until every model is within 1e-4: sync/gadmm_test.cpp and sync/lag_test.cpp.
KINDS = {
    "gadmm": ('kind = "gadmm"\nrho = 3\nchain = "nearest"', 372),
    "gd": (f'kind = "lag"\nrule = "always"\nsmoothness = {SMOOTHNESS}', 5533),
    "lag-wk": (f'kind = "lag"\nsmoothness = {SMOOTHNESS}', 5292),
}


def figures(path):
    """Per round the sum over the sites of what each recorded, by name."""
    sums = {}
    for line in path.read_text().splitlines():
        event = json.loads(line)
        for name, value in event["values"].items():
            rounds = sums.setdefault(f'{event["kind"]}.{name}', {})
            rounds[event["round"]] = rounds.get(event["round"], 0) + value
    return sums


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    args = parser.parse_args()
    program = args.build.resolve() / "longhaul"
    rows = args.data.read_text().splitlines()[:251]
    print("| | rounds | time | uploads | objective - least |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "rows.csv").write_text("\n".join(rows) + "\n")
        for kind, (sync, rounds) in KINDS.items():
            job = JOB.format(name=kind, rounds=rounds, sync=sync)
            (folder / "job.toml").write_text(job + "".join(map(SITE.format, SITES)))
            summary = result(run(program, "simulate", "job.toml", "--json", "--quiet",
                                 folder=folder), kind)
            seen = figures(folder / "runs" / kind / "metrics.jsonl")
            objective = [v for k, v in seen.items() if "objective" in k][0]
            uploads = [sum(v.values()) for k, v in seen.items() if "uploads" in k]
            sent = uploads[0] if uploads else rounds * len(SITES)
            print(f"| {kind} | {rounds} | {summary['time_s']:.1f} s | {sent:.0f} | "
                  f"{objective[max(objective)] - LEAST:.2e} |", flush=True)


if __name__ == "__main__":
    main()
