#!/usr/bin/env python3
"""Runs every example that has an expected result and compares it.

    LONGHAUL=build/release/longhaul tests/cli/examples_test.py [--rewrite] [NAME...]

NAME: the examples to run, bsp for one; none: all. In the gate those of IN_GATE; of every second one
of the others the dry run is compared, which has no numbers.
Bytes, messages, rounds and virtual time are the same on every machine. The bits of the model are
the same wherever the numeric libraries take the same code path, so that is pinned here to AVX2; on
a machine without it the accuracy is compared instead.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from effort import GATE

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGHAUL = pathlib.Path(os.environ.get("LONGHAUL", ROOT / "build/release/longhaul")).resolve()
EXPECTED = ROOT / "examples/expected"
LEFT_OUT = ("mnist-4-sites", "sotu-4-sites", "focus", "ts-1")  # need data, or learn nothing
IN_GATE = ("ssp",)
NO_DRY_RUN = ("clicks", "hierarchical", "ratings")  # the first rounds do not tell, or take long
EXACT = ("name", "sync", "overlay", "transfer", "codec", "outer", "seed", "sites", "nodes",
         "rounds", "wan_bytes", "wan_messages", "stop_reason")
CLOSE = {"time_s": 1e-6, "compute_utilisation": 1e-6, "final_accuracy": 0.01}  # exp() may differ
PINNED = {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2",
          "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2"}


def has_avx2():
    try:
        return " avx2 " in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def result_of(job, *more):
    with tempfile.TemporaryDirectory(prefix="longhaul-example-") as folder:
        words = more or ("--out", folder)
        done = subprocess.run([LONGHAUL, "simulate", job, "--json", "--quiet", *words], cwd=ROOT,
                              env={**os.environ, **PINNED}, capture_output=True,
                              text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{job}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def is_close(expected, found, bound):
    return expected == found or None not in (expected, found) and abs(expected - found) <= bound


def differences(expected, found):
    keys = EXACT + (("params_hash",) if has_avx2() else ())
    wrong = [f"{key}: expected {expected[key]}, found {found[key]}"
             for key in keys if expected[key] != found[key]]
    return wrong + [f"{key}: expected {expected[key]}, found {found[key]}"
                    for key, bound in CLOSE.items()
                    if not is_close(expected[key], found[key], bound)]


def differences_of_dry_run(job, expected):
    found = result_of(job, "--dry-run")
    wrong = [f"{key}: expected {expected[key]}, found {found[key]}"
             for key in ("name", "rounds") if expected[key] != found[key]]
    share = found["time_s"] / expected["time_s"]  # it goes on as the first rounds do
    return wrong if 0.5 < share < 2 else wrong + [f"time_s: {share:.3f} of what it takes"]


def main():
    rewrite = "--rewrite" in sys.argv
    names = [word for word in sys.argv[1:] if word != "--rewrite"]
    part = GATE and not names and not rewrite
    jobs = sorted(job for job in ROOT.glob("examples/*.toml") if not names or job.stem in names)
    failed = False
    for job in jobs:
        file = EXPECTED / f"{job.stem}.json"
        if not file.exists() and not rewrite:
            continue  # long, or needs data that is not in the repository
        if rewrite and not file.exists() and job.stem in LEFT_OUT:
            continue
        if rewrite:
            found = result_of(job)
            found.pop("real_s"), found.pop("job_hash")
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(found, indent=2) + "\n")
            continue
        expected = json.loads(file.read_text())
        if not part or job.stem in IN_GATE:
            wrong = differences(expected, result_of(job))
        elif job.stem not in NO_DRY_RUN and jobs.index(job) % 2:
            wrong = differences_of_dry_run(job, expected)
        else:
            continue
        print(f"{job.name}: {'; '.join(wrong) or 'as expected'}")
        failed |= bool(wrong)
    if not list(EXPECTED.glob("*.json")):
        sys.exit("no expected results: run with --rewrite")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
