#!/usr/bin/python3 -B
"""ShadowSync against its foreground twins, simulated: scenarios h1 to h3 of
docs/results/shadowsync.md; h1 and h2 with phantom learners.

  bench/shadow.py [--build build/release] [--only h1]
  bench/shadow.py --only h3 --resume build/shadow.jsonl    # a run that is in it is not run again

h1: 5 to 40 trainers of 24 lanes, steps of 0.24 s, on links of 1 Gbit/s, and two servers of a part
of the centre each on 3.2 Gbit/s, 30 ms away; 4 MB. h2: 4 sites on links of 50 Mbit/s, 50 ms apart;
40 MB; steps of 0.1 s. h3: clicks, one pass over disjoint shards of a stream, one lane a trainer;
the links and servers of h1.
"""
import argparse
import json
import math
import pathlib
import statistics
import tempfile

from common import result, run, site

JOB = """\
stop = {{max_rounds = 1000000, max_hours = {hours}}}
report = {{every_rounds = {report}}}
model = {{kind = "phantom", mbytes = {mbytes}}}
data = {{kind = "synthetic", batch = 200}}
wan = {{delay_ms = {delay_ms}}}
overlay = {{kind = "direct", phases = "{phases}"}}
sync = {{kind = "shadowsync", {sync}}}
{sites}
"""


def measure(program, text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "job.toml"
        path.write_text(text)
        summary = result(run(program, "simulate", path, "--json", "--quiet", "--out",
                             pathlib.Path(folder) / "run", folder=folder), text, codes=(0, 1))
        events = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
    # The first rounds are not those of a run under way.
    later = [event for event in map(json.loads, events) if event["time_s"] > summary["time_s"] / 4]
    gaps = [event["values"]["value"] for event in later if event["kind"] == "gap"]
    return {"utilisation": summary["compute_utilisation"],
            "gap": statistics.mean(gaps) if gaps else None}


def h1(program):
    """A lane's step of 0.24 s ends every 10 ms in one of 24 lanes."""
    step_ms, server = 10, "".join(f'[[site]]\nname = "{name}"\nroles = ["server"]\n'
                                  'up_mbps = 3200\ndown_mbps = 3200\n' for name in ("c0", "c1"))
    print("\nh1: EASGD in the background, and every k steps of each lane\n")
    print("| trainers | shadow, steps/s | its gap | FR-5 | FR-30 | FR-100 |",
          "|---|---|---|---|---|---|", sep="\n")
    for trainers in (5, 10, 15, 20, 40):
        sites = server + "".join(site(f"t{i}", 1000, f"{step_ms}\njitter = 0.1")
                                 for i in range(trainers))

        def cell(keys, sites=sites, trainers=trainers):
            found = measure(program, JOB.format(
                hours=200 / 3600, report=100, mbytes=4, delay_ms=30, phases="streamed",
                sync=f'algorithm = "easgd", lanes = 24, servers = 2, {keys}', sites=sites))
            return found["utilisation"] * trainers * 1000 / step_ms, found["gap"]

        steps, gap = cell('mode = "background"')
        twins = [cell(f'mode = "foreground", steps = {k}')[0] for k in (5, 30, 100)]
        print(f"| {trainers} | {steps:.0f} | {gap:.1f} |", *(f"{x:.0f} |" for x in twins),
              flush=True)


def h2(program):
    sites = "".join(site(f"s{i}", 50, 100) for i in range(4))
    print("\nh2: MA over direct\n\n| | phases | utilisation | gap |\n|---|---|---|---|")
    for name, keys in (("FR-MA-16", 'mode = "foreground", steps = 16'),
                       ("FR-MA-97", 'mode = "foreground", steps = 97'),
                       ("shadow MA", "alpha = 0.5")):
        for phases in ("sequential", "streamed"):
            found = measure(program, JOB.format(hours=1000 / 3600, report=1, mbytes=40, delay_ms=50,
                                                phases=phases, sync=keys, sites=sites))
            gap = f"{found['gap']:.1f}" if found["gap"] else "-"
            print(f"| {name} | {phases} | {found['utilisation']:.3f} | {gap} |", flush=True)


CLICKS = """\
job = {{name = "clicks", seed = {seed}}}
stop = {{max_rounds = 100000000, max_epochs = {passes}}}
report = {{every_rounds = 100000000}}
model = {{kind = "clicks", factors = 8, hidden = [64, 32]}}
data = {{kind = "clicks", samples = {samples}, test_samples = {tests}, batch = 200}}
optimizer = {{kind = "adagrad", rate = {rate}, weight_decay = 0}}
wan = {{delay_ms = 30}}
overlay = {{kind = "direct"}}
sync = {{{keys}}}
{sites}
"""
OWN_PASS = 'kind = "shadowsync", epochs = 1, algorithm = '
SHADOW = {  # column -> [sync]
    "EASGD": OWN_PASS + '"easgd", servers = 2',
    "MA": OWN_PASS + '"ma"',
    "MA, interpolate": OWN_PASS + '"ma", write_back = "interpolate"',
    "BMUF": OWN_PASS + '"bmuf"',
    **{f"FR-EASGD-{k}": f'{OWN_PASS}"easgd", servers = 2, mode = "foreground", steps = {k}'
       for k in (5, 30, 100)},
    # Each fragment every 20 steps. Its stop rule is of all sites' samples together.
    "Streaming DiLoCo": 'kind = "streaming_diloco", steps = 5, fragments = 4, delay = 4',
}


RATES, TUNING_SEED = (0.005, 0.01, 0.02, 0.04, 0.08), 11  # of adagrad; no seed that is reported


def h3(program, options):
    """Held-out log-loss of the model at the end of one pass, each at its best rate."""
    known = {}
    resume = pathlib.Path(options.resume) if options.resume else None
    if resume and resume.exists():
        entries = map(json.loads, resume.read_text().splitlines())
        known = {tuple(key): value for key, value in entries}

    def loss(trainers, name, seed, rate):
        key = (options.samples, trainers, name, seed, rate)
        if key not in known:
            servers = "".join(f'[[site]]\nname = "{server}"\nroles = ["server"]\n'
                              'up_mbps = 3200\ndown_mbps = 3200\n' for server in ("c0", "c1"))
            text = CLICKS.format(
                seed=seed, samples=options.samples, tests=min(options.samples, 500_000),
                keys=SHADOW[name], passes=0 if "epochs" in SHADOW[name] else 1, rate=rate,
                sites=(servers if "easgd" in SHADOW[name] else "") + "".join(
                    site(f"t{i}", 1000, "10\njitter = 0.1") for i in range(trainers)))
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "job.toml"
                path.write_text(text)
                known[key] = result(run(program, "simulate", path, "--json", "--quiet", "--out",
                                        pathlib.Path(folder) / "run", folder=folder),
                                    text)["final_loss"]
            if resume:
                with resume.open("a") as out:
                    out.write(json.dumps([key, known[key]]) + "\n")
        return known[key]

    def best(trainers, name):  # a run that diverged has no loss
        return min(RATES, key=lambda rate: loss(trainers, name, TUNING_SEED, rate) or math.inf)

    print(f"\nh3: {options.samples:,} clicks, once; loss over that of EASGD with 5 trainers, "
          f"median of the seeds (least, most), and the rate of {RATES}\n")
    print("| trainers |", " | ".join(SHADOW), "|\n|---|" + "---|" * len(SHADOW))
    rate = best(5, "EASGD")
    base = {seed: loss(5, "EASGD", seed, rate) for seed in options.seeds}
    for trainers in options.trainers:
        row = []
        for name in SHADOW:
            rate = best(trainers, name)
            over = sorted(loss(trainers, name, seed, rate) / base[seed] for seed in options.seeds)
            row.append(f"{statistics.median(over):.4f} ({over[0]:.4f}, {over[-1]:.4f}) at {rate}")
        print(f"| {trainers} |", " | ".join(row), "|", flush=True)
    print(f"\nloss of EASGD with 5 trainers: {statistics.median(base.values()):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", choices=["", "h1", "h2", "h3"])
    parser.add_argument("--resume", help="h3: results so far; new ones are appended")
    parser.add_argument("--samples", type=int, default=300_000, help="h3")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="h3")
    parser.add_argument("--trainers", type=int, nargs="+", default=[5, 20], help="h3")
    options = parser.parse_args()
    longhaul = pathlib.Path(options.build).resolve() / "longhaul"
    for scenario in (h1, h2):
        if options.only in ("", scenario.__name__):
            scenario(longhaul)
    if options.only in ("", "h3"):
        h3(longhaul, options)
