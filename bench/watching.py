#!/usr/bin/python3 -B
"""What it costs to watch a run of 11 sites in the emulated WAN, with and without a live page.

As root:

  bench/watching.py [--build build/release] [--out build/watching] [--rounds 150] [--repeat 2]
                    [--write docs/results/watching.md]    and bench/results/watching.csv

Runs of the same length in turn: not watched, and watched by a plain client of the event stream,
--repeat times each. One more is watched by a headless browser (chromium), whose page's memory is
taken after a garbage collection every ten seconds. A run that is done is kept in --out: the same
command goes on.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap
import threading
import time

from common import gaia, write_csv

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/cli"))
from live_events import follow  # noqa: E402

JOB = """\
[job]
name = "watched"
[stop]
max_rounds = {rounds}
[report]
every_rounds = 5
[model]
kind = "mlp"
hidden = [64]
[data]
kind = "synthetic"
features = 32
classes = 10
batch = 16
[optimizer]
kind = "sgd"
rate = 0.01
[sync]
kind = "fedavg"
steps = 2
[net]
pace = true
[wan]
preset = "gaia-11"
"""
STEP_MS, HEAP_EVERY_S = 200, 10


def cpu_s(process):
    """User and system time of the process so far, without its children."""
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client(threading.Thread):
    """Follows the event stream; when each event came, and its bytes."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.came, self.sizes, self.last = url, [], [], None

    def run(self):
        for _, size, data in follow(self.url, timeout=120):
            if data["runs"] and data["runs"][0]["round"] > 0:
                self.came.append(time.monotonic())
                self.sizes.append(size)
                self.last = data["runs"][0]

    def figures(self):
        gaps = [b - a for a, b in zip(self.came, self.came[1:])]
        return {"events": len(self.came), "worst_gap_s": max(gaps),
                "median_gap_s": statistics.median(gaps), "bytes": statistics.median(self.sizes),
                "first_bytes": self.sizes[0],
                "sites_shown": len(self.last["activity"]["sites"])}


class Page:
    """The page in a headless browser."""

    def __init__(self, url):
        import browser
        self.browser, self.heap, self.nodes = browser.Browser(), [], []
        self.browser.open(url, 1280)
        self.began = time.monotonic()

    def poll(self):
        if time.monotonic() < self.began + HEAP_EVERY_S * (len(self.heap) + 1):
            return
        self.browser.call("HeapProfiler.collectGarbage")
        self.heap.append(self.browser.call("Runtime.getHeapUsage")["usedSize"] / 1e6)
        self.nodes.append(self.browser.call("Memory.getDOMCounters")["nodes"])

    def figures(self, folder):
        updates = self.browser.evaluate('document.getElementById("live").dataset.updates')
        self.browser.screenshot(str(folder / "page.png"))
        errors = [e for e in self.browser.errors if "ERR_" not in e]  # the stream's end
        self.browser.close()
        return {"heap_mb": self.heap, "nodes": self.nodes, "updates": int(updates),
                "errors": errors}


def one(args, name, how):
    kept = args.out / f"{name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    job = args.out / "job.toml"
    job.write_text(JOB.format(rounds=args.rounds) + gaia(STEP_MS))
    words = [args.build / "longhaul", "launch", job, "--lab", "--json", "--quiet", "--force",
             "--out", args.out / name] + ([] if how == "alone" else ["--view", "0"])
    process = subprocess.Popen([str(w) for w in words], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    watcher, cpu = None, 0
    if how != "alone":
        url = re.search(r"http://\S+/", process.stderr.readline())[0]
        watcher = Client(url) if how == "client" else Page(url)
        if how == "client":
            watcher.start()
    while process.poll() is None:
        cpu = cpu_s(process) or cpu
        if how == "browser":
            watcher.poll()
        time.sleep(0.2)
    out, err = process.communicate()
    if process.returncode != 0:
        sys.exit(f"watching: {name}: exit code {process.returncode}: {err[-600:]}")
    summary = json.loads(out)
    found = {"how": how, "time_s": summary["time_s"], "rounds": summary["rounds"],
             "launch_cpu_s": cpu, "late_steps": summary.get("overrun_share") or 0,
             "load": os.getloadavg()[0]}
    if how == "client":
        watcher.join(10)
        found |= watcher.figures()
    elif how == "browser":
        found |= watcher.figures(args.out)
    kept.write_text(json.dumps(found, indent=2) + "\n")
    return found


HEAD = ["run", "s", "late_steps_percent", "launch_cpu_s", "events", "worst_gap_s", "event_bytes",
        "first_event_bytes"]


def line(r):
    """Of HEAD."""
    return [r["how"], f"{r['time_s']:.2f}", f"{100 * r['late_steps']:.2f}",
            f"{r['launch_cpu_s']:.1f}", r.get("events", r.get("updates", "")),
            f"{r['worst_gap_s']:.2f}" if "worst_gap_s" in r else "",
            f"{r['bytes']:.0f}" if "bytes" in r else "", r.get("first_bytes", "")]


def page(args, rows):
    times = {how: [r["time_s"] for r in rows if r["how"] == how] for how in ("alone", "client")}
    cpu = {how: statistics.mean(r["launch_cpu_s"] for r in rows if r["how"] == how)
           for how in ("alone", "client")}
    slower = statistics.median(times["client"]) / statistics.median(times["alone"]) - 1
    watched = [r for r in rows if r["how"] == "client"]
    seen = next(r for r in rows if r["how"] == "browser")
    fill = lambda text: textwrap.fill(text, 119, break_on_hyphens=False)
    return "\n".join([
        "# A run that is watched", "", fill(
            f"Before you watch a run: its time differs by {100 * slower:+.2f} % (medians); "
            f"`launch` takes {cpu['client'] - cpu['alone']:.1f} s more CPU."), "",
        f"    bench/watching.py --rounds {args.rounds} --repeat {args.repeat}    # as root", "",
        fill(
            f"{args.rounds} rounds of fedavg on gaia-11, emulated. An event comes at least every "
            f"{max(r['worst_gap_s'] for r in watched):.2f} s. The page's memory is "
            f"{seen['heap_mb'][0]:.2f} MB at first and {seen['heap_mb'][-1]:.2f} at the end. Runs: "
            "[watching.csv](../../bench/results/watching.csv).")]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/watching")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--write", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(args.repeat):
        for how in ("alone", "client"):
            rows.append(one(args, f"{how}-{i}", how))
            print(json.dumps(rows[-1]), flush=True)
    rows.append(one(args, "browser", "browser"))
    print(json.dumps(rows[-1]), flush=True)
    text = page(args, rows)
    print(text)
    if args.write:
        args.write.write_text(text)
        write_csv("watching", HEAD, map(line, rows))


if __name__ == "__main__":
    main()
