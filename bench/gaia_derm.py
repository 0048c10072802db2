#!/usr/bin/python3 -B
"""Gaia's filter on a small convex problem, held against a table: docs/results/gaia.md, simulated.

  bench/gaia_derm.py --data FILE [--build build/release]

FILE: the Dermatology data as CSV with a header, 34 standardised features and a label 1 or -1 last
(data11 of github.com/chentianyi1991/LAG-code), 358 rows. Row i is at site i mod 5. Logistic
regression without bias, batch 10, rate 0.02, momentum 0.9, 400 clocks in lock-step, updates divided
by 5. Prints bytes relative to dense and the loss on all rows of the model that a site reads after
the last clock, beside those of our specification, made without this program. Exit code 1 unless
bytes are within 20 % of them and losses within 4 %.
"""
import argparse
import json
import pathlib
import sys
import tempfile

from common import result, run

SITES, CLOCKS, FEATURES = 5, 400, 34
BYTES_WITHIN, LOSS_WITHIN = 0.20, 0.04
TABLE = {  # threshold, T0 -> bytes, loss
    ("inv_sqrt", 0): (1.00, 0.00886), ("inv_sqrt", 0.01): (0.56, 0.00886),
    ("inv_sqrt", 0.05): (0.23, 0.00884), ("inv_sqrt", 0.2): (0.090, 0.00879),
    ("inv_sqrt", 1): (0.024, 0.00848), ("const", 0.01): (0.145, 0.00901),
    ("const", 0.05): (0.053, 0.00973), ("const", 0.2): (0.020, 0.01235), ("const", 1): (0, None),
}
JOB = """\
[job]
name = "derm"
seed = {seed}
checkpoint_every = 0
[stop]
max_rounds = {clocks}
[report]
every_rounds = {clocks}
[model]
kind = "logistic"
bias = false
[data]
kind = "csv"
test_path = "all.csv"
labels = ["-1", "1"]
partition = "local"
batch = 10
[optimizer]
kind = "sgd"
rate = 0.02
momentum = 0.9
[sync]
kind = "gaia"
staleness = 0
threshold = "{threshold}"
significance = {significance}
[wan]
delay_ms = 10
mbps = 100
"""
SITE = '[[site]]\nname = "s{0}"\nstep_ms = 10\ndata = "s{0}.csv"\n'


def divide(source, folder):
    head, *rows = source.read_text().splitlines()
    (folder / "all.csv").write_text("\n".join([head, *rows]) + "\n")
    for site in range(SITES):
        (folder / f"s{site}.csv").write_text("\n".join([head, *rows[site::SITES]]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    program = pathlib.Path(args.build).resolve() / "longhaul"
    dense = 4 * FEATURES * (SITES - 1)  # of a site and clock
    outside = 0
    print("| threshold | T0 | bytes | page | loss | page | at the end |\n"
          "|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="longhaul-derm-") as name:
        folder = pathlib.Path(name)
        divide(args.data, folder)
        for (threshold, significance), (page_bytes, page_loss) in TABLE.items():
            text = JOB.format(seed=args.seed, clocks=CLOCKS, threshold=threshold,
                              significance=significance)
            (folder / "job.toml").write_text(text + "".join(map(SITE.format, range(SITES))))
            summary = result(run(program, "simulate", "job.toml", "--out", "run", "--force",
                                 "--quiet", "--json", folder=folder), f"{threshold} {significance}")
            events = [json.loads(line)
                      for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
            sent = [e["values"]["value"] for e in events if e["kind"] == "sent_bytes"]
            share = sum(sent) / (SITES * CLOCKS * dense)
            loss = [e["values"]["loss"] for e in events if e["kind"] == "score"][0]
            within = abs(share - page_bytes) <= BYTES_WITHIN * page_bytes and (
                page_loss is None or abs(loss - page_loss) <= LOSS_WITHIN * page_loss)
            outside += not within
            print(f"| {threshold} | {significance} | {share:.3f} | {page_bytes} | {loss:.5f} "
                  f"| {page_loss or '-'} | {summary['final_loss']:.5f}{'' if within else ' !'} |",
                  flush=True)
    sys.exit(1 if outside else 0)


if __name__ == "__main__":
    main()
