#!/usr/bin/python3 -B
"""From `longhaul launch` to the first finished round of 16 sites, against 16 processes at once that
link libtorch and make one tensor.

  bench/launch_time.py [--build build/release] [--repeats 3] [--json]

Both are started by this program and take turns; the first of each is a warm-up and is not counted.
A round of bsp is finished when every site's gradient of it has come: the clock stops when the first
line that tells of it reaches this program, be it of progress or of a site's end.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

SITES = 16
JOB = """\
[job]
name = "launch"
[stop]
max_rounds = 5
[report]
every_rounds = 1
[model]
kind = "logistic"
[data]
kind = "synthetic"
batch = 8
[optimizer]
kind = "sgd"
rate = 0.1
[sync]
kind = "bsp"
[overlay]
kind = "hub"
""" + "".join(f'[[site]]\nname = "s{i}"\nstep_ms = 1\n' for i in range(SITES))


def launch(program, folder):
    """Seconds to the first finished round, and to the end of the run."""
    begin = time.monotonic()
    process = subprocess.Popen([program, "launch", "job.toml", "--force"], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    first, said = None, ""
    for line in process.stdout:
        said += line
        if first is None and (" round " in line or " rounds in " in line):
            first = time.monotonic() - begin
    if process.wait() != 0 or first is None:
        raise SystemExit(f"launch_time: launch ended with {process.returncode}:\n{said}")
    return first, time.monotonic() - begin


def bare(program):
    begin = time.monotonic()
    processes = [subprocess.Popen([program], stdout=subprocess.DEVNULL) for _ in range(SITES)]
    if any([process.wait() for process in processes]):
        raise SystemExit("launch_time: bare_torch failed")
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()
    figures = {"bare_s": [], "first_round_s": [], "whole_run_s": [], "ratio": []}
    with tempfile.TemporaryDirectory(prefix="longhaul-bench-") as folder:
        (pathlib.Path(folder) / "job.toml").write_text(JOB)
        for repeat in range(options.repeats + 1):
            processes = bare(build / "bench/bare_torch")
            first, whole = launch(build / "longhaul", folder)
            if repeat == 0:
                continue
            for name, value in zip(figures, (processes, first, whole, first / processes)):
                figures[name].append(round(value, 3))
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{SITES} sites, median of {options.repeats} (least .. most)")
    for name, values in figures.items():
        print(f"  {name:14s} {statistics.median(values):.2f} ({min(values):.2f} .. "
              f"{max(values):.2f})")


if __name__ == "__main__":
    main()
