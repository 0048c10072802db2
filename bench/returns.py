#!/usr/bin/python3 -B
"""The longest round of the others while a slow site returns and loads its state, against their
usual one, and when that site contributes again.

  bench/returns.py [--build build/release] [--strategies sparse_loco,...] [--mbps 3,20,100]
                   [--mbytes 16,100] [--overlay direct] [--scale 20 | --lab]

Simulates three sites with 100 Mbit/s; the third has less. It is killed after six rounds and returns
15 s later, with a state of 16 or 100 MB: the model, and momentum of the local or the outer
optimiser. A round ends when the first site has its mean. With --scale 20 each byte of a model of a
twentieth counts as twenty: quicker, and the same times within 5 % (fedavg, sparse_loco, 16 MB).
With --lab, as root, the sites are processes in the emulated WAN, and the launcher starts the killed
one again. Ends with 1 if a longest round takes over 1.5 usual ones.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from common import result, run

GOAL = 1.5
ROUND_S = 2  # of local steps
KILLED_AFTER = 6  # rounds
AWAY_S = 15  # longer than the others need to miss it

JOB = """\
[stop]
{stop}
[report]
every_rounds = 100000
[model]
kind = "mlp"
hidden = [{hidden}]
[data]
kind = "synthetic"
features = {features}
classes = 10
samples = 600
batch = 4
[optimizer]
kind = "sgd"
rate = 0.01
momentum = {momentum}
[sync]
kind = "{sync}"
{settings}
[overlay]
kind = "{overlay}"
[wan]
model = "fair"
delay_ms = 20
wire_scale = {scale}
[[site]]
name = "a"
up_mbps = 100
down_mbps = 100
step_ms = {step_ms}
[[site]]
name = "b"
up_mbps = 100
down_mbps = 100
step_ms = {step_ms}
[[site]]
name = "c"
up_mbps = {mbps}
down_mbps = {mbps}
step_ms = {step_ms}
"""
FAULT = """\
[[fault]]
kind = "crash"
site = "c"
at_s = {at_s:.1f}
restart_s = {away_s}
"""
# Name, settings of [sync], local steps in a round, further lines.
STRATEGIES = {
    "sparse_loco": ("steps = 2", 2, ""),
    "diloco": ("steps = 2", 2, '[codec]\nkind = "int8"\n'),
    "streaming_diloco": ("steps = 2\ndelay = 1", 2, '[codec]\nkind = "int8"\n'),
    "fedavg": ("steps = 2", 2, '[codec]\nkind = "int8"\n'),
    "esync": ("", 2, '[codec]\nkind = "int8"\n'),
    "bsp": ("", 1, '[codec]\nkind = "top_k"\nratio = 0.01\n'),
    "power_sgd": ("", 1, ""),
    "p3": ("", 1, '[codec]\nkind = "int8"\n'),
    "noloco": ("steps = 2", 2, '[codec]\nkind = "int8"\n'),
    "ds_sync": ("steps = 2", 2, '[codec]\nkind = "int8"\n'),
    "dpsgd": ('graph = "complete"', 1, '[codec]\nkind = "int8"\n'),
}

PEERS = ("noloco", "ds_sync", "dpsgd")


def times_of(folder, rank, kind):
    """By round, seconds."""
    times = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == kind and row["rank"] == rank:
            times[row["round"]] = row["time_s"]
    return [times[k] for k in sorted(times)]


def ends_of_rounds(folder):
    """When the first site had the mean of each round."""
    return times_of(folder, 0, "wait_s")


def contributions(folder):
    """When the third site had computed."""
    return times_of(folder, 2, "train_loss")


def pid_of(site):
    """The process of this site in the emulated WAN."""
    found = subprocess.run(["pgrep", "-f", f"longhaul site .*--site {site} "], check=True,
                           text=True, stdout=subprocess.PIPE)
    return int(found.stdout.split()[0])


class Bench:
    def __init__(self, args, folder):
        self.longhaul = pathlib.Path(args.build).resolve() / "longhaul"
        self.folder, self.runs, self.lab = pathlib.Path(folder), 0, args.lab
        self.scale = args.scale

    def simulated(self, text):
        self.runs += 1
        (self.folder / "job.toml").write_text(text)
        out = self.folder / f"run{self.runs}"
        result(run(self.longhaul, "simulate", "job.toml", "--out", str(out), "--json",
                   "--quiet", folder=self.folder), text)
        return ends_of_rounds(out), contributions(out)

    def over_sockets(self, text, lasts_s):
        """The ends of the rounds, the contributions of the third site, and the time of the kill."""
        self.runs += 1
        (self.folder / "job.toml").write_text(text)
        out = self.folder / f"run{self.runs}"
        launch = run(self.longhaul, "launch", "job.toml", "--lab", "--out", str(out), "--quiet",
                     folder=self.folder)
        killed = None
        began = time.monotonic()
        while launch.poll() is None and time.monotonic() - began < lasts_s:
            time.sleep(0.2)
            status = out / "a" / "status.json"
            if killed is None and status.exists() \
                    and json.loads(status.read_text())["rounds"] >= KILLED_AFTER:
                os.kill(pid_of("c"), signal.SIGKILL)
                killed = time.monotonic()
        launch.send_signal(signal.SIGINT)
        launch.communicate(timeout=60)
        ends = ends_of_rounds(out / "a")
        return ends, contributions(out / "c"), ends[KILLED_AFTER]

    def row(self, sync, mbps, mbytes, overlay):
        settings, steps, more = STRATEGIES[sync]
        values = mbytes * 1e6 / 8 / self.scale  # the model and as much again
        features = 100
        of = dict(sync=sync, scale=self.scale, settings=settings, overlay=overlay, mbps=mbps,
                  step_ms=1000 * ROUND_S / steps, hidden=round(values / (features + 11)),
                  features=features, momentum=0.9 if steps == 1 else 0)
        lasts = AWAY_S + 12 * mbytes * 8 / mbps
        if self.lab:
            text = JOB.format(stop="max_rounds = 100000", **of) + more + "[net]\npace = true\n"
            ends, given, at_s = self.over_sockets(text, 40 + lasts)
            usual = statistics.median(b - a for a, b in zip(ends[:KILLED_AFTER], ends[1:]))
            back_s = at_s  # the launcher starts it again after a second
        else:
            ends, _ = self.simulated(JOB.format(stop="max_rounds = 8", **of) + more)
            usual = statistics.median(b - a for a, b in zip(ends, ends[1:]))
            at_s = usual * KILLED_AFTER
            # Peers do not wait for it meanwhile: their rounds are as short as their steps.
            rounds = 5 + round((at_s + lasts) / (ROUND_S if sync in PEERS else usual))
            ends, given = self.simulated(JOB.format(stop=f"max_rounds = {rounds}", **of) + more
                                         + FAULT.format(at_s=at_s, away_s=AWAY_S))
            back_s = at_s + AWAY_S
        longest = max(b - a for a, b in zip(ends, ends[1:]) if back_s - usual <= a < back_s + lasts)
        again = [at for at in given if at >= back_s]
        if not again:
            raise RuntimeError(f"{sync} at {mbps:g} Mbit/s: the third site gives nothing again")
        return {"sync": sync, "mbps": mbps, "mbytes": mbytes, "usual_s": usual,
                "longest_s": longest, "ratio": longest / usual, "again_s": again[0] - back_s}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--mbps", default="3,20,100")
    parser.add_argument("--mbytes", default="16,100")
    parser.add_argument("--overlay", default="direct")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--scale", type=float, default=1, help="bytes that one byte counts as")
    either.add_argument("--lab", action="store_true")
    args = parser.parse_args()
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        for sync in args.strategies.split(","):
            for mbytes in map(float, args.mbytes.split(",")):
                for mbps in map(float, args.mbps.split(",")):
                    row = bench.row(sync, mbps, mbytes, args.overlay)
                    worst = max(worst, row["ratio"])
                    print("{sync:18} {mbps:5.0f} Mbit/s {mbytes:4.0f} MB  usual {usual_s:7.2f} s  "
                          "longest {longest_s:7.2f} s  {ratio:5.2f}  again after {again_s:4.0f} s"
                          .format(**row), flush=True)
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
