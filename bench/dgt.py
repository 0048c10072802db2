#!/usr/bin/python3 -B
"""DGT against its baselines: scenarios dgt-1 and dgt-2 of docs/results/dgt.md, simulated.

  bench/dgt.py [--build build/release] [--only TEXT] [--seeds 1] [--resume FILE]
  bench/dgt.py --lab [--only TEXT]    # as root: dgt-1 at a twentieth and ten rounds of dgt-2,
                                      # simulated and over sockets

dgt-1: six workers and a server, ports of 1 Gbit/s, 0.25 ms, no loss; 28, 244 and 531 MB on the
wire; steps of 2.15, 1.2 and 0.5 s. dgt-2: four sites, 100 Mbit/s, 30 ms one way, 0.5 % of the
packets lost; 10 MB; steps of 0.5 s. A small mlp that is really trained stands for each model.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run, site

HIDDEN = (128, 64)
MODEL_BYTES = 4 * (20 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10)
TARGETS = (0.90, 0.95, 0.965)
JOB = """\
[job]
name = "dgt"
seed = {seed}
[stop]
max_rounds = {rounds}
[report]
every_rounds = 5
[model]
kind = "mlp"
hidden = {hidden}
[data]
kind = "synthetic"
classes = 10
features = 20
samples = 12000
test_samples = 4000
noise = 1.0
batch = 32
[optimizer]
kind = "sgd"
rate = 0.05
[sync]
kind = "bsp"
[overlay]
kind = "hub"
phases = "sequential"
{roles}
[transfer]
{transfer}
[wan]
model = "fair"
delay_ms = {delay_ms}
loss = {loss}
wire_scale = {scale}
"""
# Blocks count as on the wire: one value of the mlp stands for several.
DGT = 'kind = "dgt"\ntau = 10\n'
# A twentieth of a model's bytes and of the ports' rate; k is that of the late training at once.
LAB = """\
job = {{name = "dgt-lab"}}
stop = {{max_rounds = {rounds}}}
report = {{every_rounds = 1000}}
model = {{kind = "mlp", hidden = {hidden}}}
optimizer = {{kind = "sgd", rate = 0.01}}
sync = {{kind = "bsp"}}
overlay = {{kind = "hub", phases = "sequential"}}
transfer = {{{transfer}}}
net = {{pace = true}}
{network}
[data]
kind = "synthetic"
classes = 10
features = 100
samples = 6000
test_samples = 500
batch = 16
"""
LAB_CLUSTER = 'roles = {server = "server"}\nwan = {model = "fair", delay_ms = 0.25}'
LAB_WAN = 'wan = {model = "fair", delay_ms = 30, loss = 0.005}'
LAB_KINDS = {"default (reliable)": 'kind = "reliable"',
             "dgt, carry": 'kind = "dgt", tau = 10, w_loss = 1, k0 = 0.3'}
KINDS = {
    "default (reliable)": 'kind = "reliable"',
    "dgt, carry": DGT,
    "dgt, return": DGT + 'late = "return"',
    "heuristic dropping (discard)": DGT + 'late = "discard"',
    "sender dropping": DGT + 'mode = "sender_drop"',
    "random": DGT + 'mode = "random"',
    "bounded loss": DGT + 'mode = "bounded_loss"',
}
# Units of the two hidden layers, so that the mlp is a twentieth of the model, and rounds.
LAB_MODELS = {"GoogLeNet": ([500, 500], 15), "AlexNet": ([1670, 1670], 6),
              "VGG-11": ([2515, 2515], 4)}
# Name, MB on the wire, seconds a step, less time than the default by the paper's abstract.
MODELS = (("GoogLeNet", 28, 2.15, 19.4), ("AlexNet", 244, 1.2, 34.4), ("VGG-11", 531, 0.5, 36.5))


def job(transfer, seed, rounds, mbytes, delay_ms, loss, sites, roles=""):
    return JOB.format(seed=seed, rounds=rounds, hidden=list(HIDDEN), roles=roles,
                      transfer=transfer, delay_ms=delay_ms, loss=loss,
                      scale=mbytes * 1e6 / MODEL_BYTES) + sites


def dgt1(transfer, seed, mbytes, step_s):
    sites = ('[[site]]\nname = "server"\nroles = ["server"]\nup_mbps = 1000\ndown_mbps = 1000\n' +
             "".join(site(f"w{i}", 1000, step_s * 1000) for i in range(6)))
    return job(transfer, seed, 400, mbytes, 0.25, 0, sites, '[roles]\nserver = "server"')


def dgt2(transfer, seed):
    sites = "".join(site(f"s{i}", 100, 500) for i in range(4))
    return job(transfer, seed, 200, 10, 30, 0.005, sites)


class Bench:
    def __init__(self, doc):
        parser = argparse.ArgumentParser(description=doc,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build/release")
        parser.add_argument("--only", default="", help="cells whose names contain this")
        parser.add_argument("--seeds", type=int, default=1)
        parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
        parser.add_argument("--lab", action="store_true", help="the row over sockets alone")
        options = parser.parse_args()
        self.lab = options.lab
        self.program = pathlib.Path(options.build).resolve() / "longhaul"
        self.only, self.seeds, self.path = options.only, options.seeds, options.resume
        self.known = {}
        if self.path and pathlib.Path(self.path).exists():
            self.known = json.loads(pathlib.Path(self.path).read_text())

    def cells(self, name, make):
        """One a seed; None: not asked for."""
        if self.only not in name:
            return None
        found = []
        for seed in range(1, self.seeds + 1):
            cell = f"{name}, seed {seed}"
            if cell not in self.known:
                self.known[cell] = self.measure(cell, make(seed))
                if self.path:
                    pathlib.Path(self.path).write_text(json.dumps(self.known, indent=1))
                print(cell, json.dumps(self.known[cell]), file=sys.stderr)
            found.append(self.known[cell])
        return found

    def measure(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.toml"
            path.write_text(text)
            summary = result(run(self.program, "simulate", path, "--json", "--quiet", "--out",
                                 pathlib.Path(folder) / "run", folder=folder), name)
            lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        values = {kind: [event["values"]["value"] for event in events if event["kind"] == kind]
                  for kind in ("wait_s", "dgt_k")}
        found = {"time_s": summary["time_s"], "final": summary["final_accuracy"], "reached": {},
                 "k": statistics.mean(values["dgt_k"]) if values["dgt_k"] else 1,
                 "wait_p50": statistics.median(values["wait_s"]),
                 "wait_p99": statistics.quantiles(values["wait_s"], n=100)[98]}
        for event in events:
            for target in TARGETS:
                if event["kind"] == "score" and event["values"].get("accuracy", 0) >= target:
                    found["reached"].setdefault(str(target), event["time_s"])
        return found


def median(cells, value):
    values = [value(cell) for cell in cells]
    return None if None in values else statistics.median(values)


def less(cells, default, value):
    here, there = median(cells, value), median(default, value)
    return "-" if here is None or there is None else f"{100 * (1 - here / there):+.1f} %"


def table1(bench, name, mbytes, step_s, published):
    rows = {kind: bench.cells(f"dgt-1, {name}, {kind}",
                              lambda seed, transfer=transfer: dgt1(transfer, seed, mbytes, step_s))
            for kind, transfer in KINDS.items()}
    default = rows["default (reliable)"]
    if not default:
        return
    heads = "".join(f"time to {target:g} | less | " for target in TARGETS)
    print(f"\ndgt-1, {name}: {mbytes} MB, {step_s} s a step; published: {published} % less\n")
    print(f"| | {heads}400 rounds | less | mean k | final accuracy |")
    print("|---|" + "---|" * (4 + 2 * len(TARGETS)))
    for kind, cells in rows.items():
        if not cells:
            continue
        row = [kind]
        for target in TARGETS:
            def time_of(cell, key=str(target)):
                return cell["reached"].get(key)
            time = median(cells, time_of)
            row += ["-" if time is None else f"{time:.0f} s", less(cells, default, time_of)]
        row += [f"{median(cells, lambda cell: cell['time_s']):.0f} s",
                less(cells, default, lambda cell: cell["time_s"]),
                f"{median(cells, lambda cell: cell['k']):.2f}",
                f"{median(cells, lambda cell: cell['final']):.4f}"]
        print("|", " | ".join(row), "|")


def table2(bench):
    print("\ndgt-2\n\n| | exchange, median | 99th percentile | 200 rounds | final accuracy |")
    print("|---|---|---|---|---|")
    for kind, transfer in KINDS.items():
        cells = bench.cells(f"dgt-2, {kind}", lambda seed, t=transfer: dgt2(t, seed))
        if cells:
            print(f"| {kind} | {median(cells, lambda cell: cell['wait_p50']):.2f} s |",
                  f"{median(cells, lambda cell: cell['wait_p99']):.2f} s |",
                  f"{median(cells, lambda cell: cell['time_s']):.0f} s |",
                  f"{median(cells, lambda cell: cell['final']):.4f} |")


def lab_cell(program, job_text, label):
    """Seconds of the job in the simulator and over sockets."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "job.toml").write_text(job_text)
        return [result(run(program, *words, "job.toml", "--json", "--quiet", "--out",
                           f"run-{number}", folder=folder), label, patience_s=1800)["time_s"]
                for number, words in enumerate((["simulate"], ["launch", "--lab"]))]


def lab_jobs():
    """(model, what makes the text of a job of a transfer)"""
    server = '[[site]]\nname = "server"\nroles = ["server"]\nup_mbps = 50\ndown_mbps = 50\n'
    for model, _, step_s, _ in MODELS:
        hidden, rounds = LAB_MODELS[model]
        sites = server + "".join(site(f"w{i}", 50, step_s * 1000) for i in range(6))
        yield model, lambda transfer, hidden=hidden, rounds=rounds, sites=sites: LAB.format(
            transfer=transfer, hidden=hidden, rounds=rounds, network=LAB_CLUSTER) + sites
    sites = "".join(site(f"s{i}", 100, 500) for i in range(4))
    yield "dgt-2", lambda transfer: LAB.format(
        transfer=transfer, hidden=[1515, 1515], rounds=10, network=LAB_WAN) + sites


def lab_rows(bench):
    print("| | | simulator | sockets | error |\n|---|---|---|---|---|")
    for model, job_with in lab_jobs():
        for kind, transfer in LAB_KINDS.items():
            if bench.only not in f"{model} {kind}":
                continue
            times = lab_cell(bench.program, job_with(transfer), f"{model} {kind}")
            print(f"| {model} | {kind} | {times[0]:.2f} s | {times[1]:.2f} s | "
                  f"{100 * (times[0] / times[1] - 1):+.1f} % |", flush=True)


def main():
    bench = Bench(__doc__)
    if bench.lab:
        return lab_rows(bench)
    for model in MODELS:
        table1(bench, *model)
    table2(bench)


if __name__ == "__main__":
    main()
