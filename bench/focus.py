#!/usr/bin/python3 -B
"""Focus against its baselines: the figures of docs/results/focus.md, all but those of real models.

  bench/focus.py [--part NAME]... [--build build/release] [--resume FILE] [--only TEXT] [--list]

Parts: scenario and border are simulated, as below; table is the stream against its page, store ten
million objects. Without --part all of them. With --resume a case that is in FILE, measured with the
same program, is not measured again; --list says what is there.

Preset dtfm-10, five sites; each a stream `tracks` of its own at 10 objects a second for 1200 s; the
accurate model takes 20 ms an object, the cheap one 0.4 ms; queries from Virginia for the 20 most
frequent classes, one at a time, after the streams have ended and (growing) while they go on. Prints
seconds of the models at ingest a site, and of the queries: median latency, clusters checked at all
sites, and kB between sites for each query and remote site.
"""
import argparse
import hashlib
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run

SITES = ("oregon", "virginia", "ireland", "tokyo", "singapore")
SECONDS, RATE, GT_MS, CLASSES = 1200, 10, 20, 20
JOB = """\
job = {{name = "focus"}}
wan = {{preset = "dtfm-10"}}
site = [{sites}]
[focus]
rate = {rate}
objects = {objects}
gt_ms = {gt_ms}
{settings}{queries}"""
# Cheap models that cost more and err less; one and its K and T are chosen on a sample.
CHEAP = 'vote = "first"\nrecall = 0.9\nprecision = 0.85\nmargin = 0\n'
MODELS = "".join(f"[[focus.cheap]]\nms = {ms}\nnoise = {noise}\n"
                 for ms, noise in ((0.1, 16), (0.4, 8), (1.6, 4), (6.4, 2)))
PLAIN = "K = 4\nT = 0.5\nvote = \"first\"\n"
# name: settings, classes asked, seconds between queries
CASES = {
    "focus": (PLAIN, CLASSES, 20),
    "focus, vote = mean": ("K = 4\nT = 0.5\n", CLASSES, 20),
    "focus, gt_place = querier": (PLAIN + 'gt_place = "querier"\n', CLASSES, 20),
    "focus, gt_place = hub": (PLAIN + 'gt_place = "hub"\n', CLASSES, 20),
    "focus, growing": (PLAIN, CLASSES, 20),
    "no_cluster": (PLAIN + 'baseline = "no_cluster"\n', CLASSES, 400),
    "ingest_all": ('baseline = "ingest_all"\n', CLASSES, 20),
    "query_all": ('baseline = "query_all"\n', 2, 2000),
    "ship_all": ('baseline = "ship_all"\n', 1, 6000),
    "policy = opt_ingest": ('policy = "opt_ingest"\n' + CHEAP + MODELS, CLASSES, 20),
    "policy = balance": ('policy = "balance"\n' + CHEAP + MODELS, CLASSES, 20),
    "policy = opt_query": ('policy = "opt_query"\n' + CHEAP + MODELS, CLASSES, 20),
}


HEADER = (f"{'':28}{'ingest s':>9}{'latency s':>11}{'slowest':>9}{'checked':>9}{'clusters':>9}"
          f"{'objects':>9}{'kB':>11}{'asof':>16}")
PARTS = {"scenario": [name for name in CASES if not name.startswith("policy")],
         "border": [name for name in CASES if name.startswith("policy")],
         "table": ["table"], "store": ["store"]}
PROGRAMS = {"table": "bench/focus_table", "store": "bench/focus_store"}  # beside longhaul
PATIENCE_S = 1500


def job(name):
    settings, classes, apart = CASES[name]
    first = SECONDS / 2 if "growing" in name else SECONDS + 10
    queries = "".join(f'[[focus.query]]\nsite = "virginia"\nclass = {cls}\nat_s = '
                      f'{first + cls * apart:.1f}\n' for cls in range(classes))
    return JOB.format(sites=", ".join(f'{{name = "{site}"}}' for site in SITES), rate=RATE,
                      objects=SECONDS * RATE, gt_ms=GT_MS, settings=settings,
                      queries=queries)


def measure(program, name, folder):
    path = pathlib.Path(folder) / "job.toml"
    path.write_text(job(name))
    found = result(run(program, "simulate", path, "--json", folder=folder), name)
    queries, sites = found["queries"], found["sites"]
    latencies = [query["latency_s"] for query in queries]
    # At ingest; accurate_objects of the others were checked for queries.
    ingest = [site["computing_s"] - (0 if name == "ingest_all" else
                                     site["accurate_objects"] * GT_MS / 1000) for site in sites]
    return {"ingest_s": statistics.mean(ingest),
            "latency_s": statistics.median(latencies), "slowest_s": max(latencies),
            "checked": statistics.mean(query["checked"] for query in queries),
            "clusters": statistics.mean(site["clusters"] for site in sites),
            "kB": found["wan_bytes"] / len(queries) / (len(SITES) - 1) / 1000,
            "objects_found": statistics.mean(query["objects"] for query in queries),
            "first_asof": queries[0]["asof"], "last_asof": queries[-1]["asof"]}


def row(f):
    asof = f"{f['first_asof']}-{f['last_asof']}"
    return (f"{f['ingest_s']:9.2f}{f['latency_s']:11.3f}{f['slowest_s']:9.3f}{f['checked']:9.1f}"
            f"{f['clusters']:9.0f}{f['objects_found']:9.0f}{f['kB']:11.2f}{asof:>16}")


class Figures:
    """What was measured, by case; kept in a file where one is named."""

    def __init__(self, path):
        self.path = pathlib.Path(path) if path else None
        self.found = {}
        if self.path and self.path.exists():
            self.found = json.loads(self.path.read_text())

    def get(self, name, program):
        one = self.found.get(name, {})
        return one.get("figures") if one.get("program") == program else None

    def put(self, name, program, figures):
        self.found[name] = {"program": program, "figures": figures}
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.found, indent=1))


def measure_case(name, build):
    if name in PROGRAMS:
        return result(run(build / PROGRAMS[name], folder="."), name, patience_s=PATIENCE_S)
    with tempfile.TemporaryDirectory(prefix="longhaul-focus-") as folder:
        return measure(build / "longhaul", name, folder)


def show(name, figures):
    if name not in PROGRAMS:
        return print(f"{name:28}{row(figures)}", flush=True)
    for line in figures.get("rows", [figures]):
        print(", ".join(f"{key} {value}" for key, value in line.items()), flush=True)
    return None


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--part", action="append", choices=list(PARTS))
    options.add_argument("--build", default="build/release")
    options.add_argument("--resume")
    options.add_argument("--only", default="")
    options.add_argument("--list", action="store_true")
    args = options.parse_args()
    build = pathlib.Path(args.build).resolve()
    figures = Figures(args.resume)
    for part in args.part or PARTS:
        print(f"== {part}" + (f"\n{HEADER}" if part in ("scenario", "border") else ""), flush=True)
        for name in PARTS[part]:
            if args.only not in name:
                continue
            program = hashlib.sha256(
                (build / PROGRAMS.get(name, "longhaul")).read_bytes()).hexdigest()
            found = figures.get(name, program)
            if found is None and args.list:
                print(f"{name:28} not measured with this program")
                continue
            if found is None:
                found = measure_case(name, build)
                figures.put(name, program, found)
            show(name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
