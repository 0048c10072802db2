#!/usr/bin/python3 -B
"""GADMM against gradient descent, LAG and decentralised methods over ten regions, simulated:
docs/results/gadmm.md.

  bench/gadmm.py --data bodyfat.csv [--derm derm.csv] [--build build/release] [--only TEXT]

bodyfat.csv: the Body Fat data as CSV with a header, 14 features in [-1, 1] and the density last
(data29 of github.com/chentianyi1991/LAG-code); derm.csv: 34 features and a label of -1 or 1. Their
first 250 and 350 rows lie in order at the ten sites of dtfm-10. Each runs until every model is
within 1e-4 of the optimum; with --derm also logistic regression by the published rule.
"""
import argparse
import json
import pathlib
import tempfile

from common import result, run

LEAST, SMOOTHNESS = 1.729009988089, 594.016825
DERM_LEAST = 0.00811934462752867
SITES = ("oregon", "virginia", "ohio", "tokyo", "seoul", "singapore", "sydney", "london",
         "frankfurt", "ireland")
JOB = """\
[job]
name = "job"
[stop]
max_rounds = {rounds}
{stop}
[report]
every_rounds = {every}
[model]
kind = "{model}"
bias = false
[data]
kind = "csv"
path = "rows.csv"
test_path = "rows.csv"
task = "{task}"
partition = "blocks"
[wan]
preset = "dtfm-10"
{wan}
[sync]
{sync}
"""
SITE = '[[site]]\nname = "{}"\nstep_ms = 1\n'
EVERY = f'stop_when = "every_model"\nleast = {LEAST}'
GADMM = 'kind = "gadmm"\nrho = 3\n' + EVERY
LAG = f'kind = "lag"\nsmoothness = {SMOOTHNESS}\nleast = {LEAST}'
# Delays of all pairs, drawn anew every 10 s: nobody's belief of the network is right for long.
CHANGING = ('model = "fair"\n[[wan.trace]]\nwhat = "delay"\nkind = "redraw"\n'
            'low = 5\nhigh = 130\nevery_s = 10\n')
KINDS = {
    "gadmm, nearest": (GADMM + '\nchain = "nearest"', 2000, ""),
    "gadmm, bottleneck": (GADMM + '\nchain = "bottleneck"', 2000, ""),
    "gadmm, in file order": (GADMM, 2000, ""),
    "admm_star": (GADMM + '\nchain = "star"', 2000, ""),
    "gd": (LAG + '\nrule = "always"', 7000, ""),
    "lag-wk": (LAG, 7000, ""),
    "changing links: gadmm, nearest": (GADMM + '\nchain = "nearest"', 2000, CHANGING),
    "changing links: gadmm, in file order": (GADMM, 2000, CHANGING),
    **{f"changing links: d-gadmm, random, every {T}":
       (GADMM + f'\nchain = "random"\nchain_every = {T}', 4000, CHANGING) for T in (1, 15, 50)},
}
DERM = ('kind = "gadmm"\nrho = {}\nmu = 1e-5\nstop_when = "published"\nleast = ' + str(DERM_LEAST))


class Run:
    def __init__(self, program, rows, name, sync, most, wan="", model="linear"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "rows.csv").write_text("\n".join(rows) + "\n")
            task = "regression" if model == "linear" else "classification"
            text = JOB.format(rounds=most, every=1000000, sync=sync, wan=wan, model=model,
                              task=task, stop="")
            (path / "job.toml").write_text(text + "".join(map(SITE.format, SITES)))
            self.summary = result(run(program, "simulate", "job.toml", "--json", "--quiet",
                                      "--checkpoint-every", "0", folder=path), name,
                                  patience_s=1800)
            self.events = [json.loads(line) for line in
                           (path / "runs/job/metrics.jsonl").read_text().splitlines()]

    def of(self, kind):
        return [event for event in self.events if event["kind"] == kind]

    def iterations(self):
        """Until the rule held, or the server's loss was low enough; None: it never was."""
        held = self.of("rule_holds")
        if held:
            return held[0]["round"] + 1
        losses = self.of("objective")
        if losses and "uploads" in {event["kind"] for event in self.events}:
            last = losses[-1]
            return last["round"] if last["values"]["value"] - LEAST < 1e-4 else None
        return None

    def time_of(self, iterations):
        """When the last worker, or the server, had so many behind it."""
        kind = "uploads" if self.of("uploads") else "objective"
        return max(event["time_s"] for event in self.of(kind) if event["round"] == iterations - 1)

    def uploads(self, iterations):
        some = [event["values"]["value"] for event in self.of("uploads")
                if event["round"] < iterations]
        return sum(some) if some else iterations * len(SITES)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--derm", type=pathlib.Path)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    args = parser.parse_args()
    program = args.build.resolve() / "longhaul"
    rows = args.data.read_text().splitlines()[:251]
    print("| | rounds | time | uploads |\n|---|---|---|---|")
    for kind, (sync, most, wan) in KINDS.items():
        if args.only not in kind:
            continue
        done = Run(program, rows, kind, sync, most, wan)
        count = done.iterations()
        if count is None:
            print(f"| {kind} | not in {most} | | |", flush=True)
            continue
        print(f"| {kind} | {count} | {done.time_of(count):.1f} s | {done.uploads(count):.0f} |",
              flush=True)
    if args.derm:
        rows = args.derm.read_text().splitlines()[:351]
        rows = [line.removesuffix("-1") + "0" if line.endswith(",-1") else line for line in rows]
        print("\n| logistic, rho | rounds |\n|---|---|")
        for rho in (0.003, 0.01, 0.02, 0.03, 0.1):
            if args.only and args.only not in "derm":
                continue
            done = Run(program, rows, f"derm {rho}", DERM.format(rho), 1600, model="logistic")
            print(f"| {rho} | {done.iterations()} |", flush=True)


if __name__ == "__main__":
    main()
