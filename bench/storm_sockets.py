#!/usr/bin/python3 -B
"""Real runs in a storm of faults, over the emulated WAN; as root.

  bench/storm_sockets.py [--build build/release] [--out runs/storm-sockets] [--minutes 22]
                         [--only KIND] [--mbps N ...] [--calm]

The job, the storm and its rate of faults are those of bench/storm.py (docs/results/storm.md), over
forest, at 100 and 10 Mbit/s: eight processes in namespaces of their own (longhaul launch --lab).
Killed: kill -9; launch starts the site again, after 1 s at first. Cut off: its network device is
down. Standing still: SIGSTOP. Each cell writes one JSON file into --out; a cell whose file is there
is not run again. --calm: without faults, to compare.
Columns: as bench/storm.py has them; rejoin: from the start of a killed site's new process to its
first training loss.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

import storm

OVERLAY, MBPS, KINDS = "forest", [100, 10], ["bsp", "diloco"]
MOST_START_S = 120


class Sites:
    """The processes of one launch, by site."""

    def __init__(self, launch, folder):
        self.launch, self.folder, self.networks = launch, folder, {}

    def pids(self):
        found = {}
        children = subprocess.run(["pgrep", "-P", str(self.launch.pid)], capture_output=True,
                                  text=True, check=False).stdout.split()
        for pid in children:
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--site" in words:
                found[words[words.index(b"--site") + 1].decode()] = int(pid)
        return found

    def losses(self, site):
        """How many training losses the site has written."""
        try:
            return (self.folder / site / "metrics.jsonl").read_text().count('"train_loss"')
        except OSError:
            return 0

    def remember_networks(self):
        for site, pid in self.pids().items():
            self.networks[site] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)

    def inside(self, site, *words):
        number = self.networks[site]
        return subprocess.run(["nsenter", f"--net=/proc/self/fd/{number}", *words],
                              pass_fds=[number], capture_output=True, text=True, check=True).stdout

    def cut(self, site, seconds):
        devices = [one["ifname"] for one in json.loads(self.inside(site, "ip", "-j", "link"))
                   if one["ifname"] != "lo"]
        routes = self.inside(site, "ip", "route").splitlines()
        for device in devices:
            self.inside(site, "ip", "link", "set", device, "down")
        time.sleep(seconds)
        for device in devices:
            self.inside(site, "ip", "link", "set", device, "up")
        have = self.inside(site, "ip", "route").splitlines()
        for route in routes:
            if route not in have:
                self.inside(site, "ip", "route", "add", *route.split())


def rejoin(sites, site, killed, into):
    """Waits for the site's new process and for its first training loss."""
    end = time.monotonic() + 300
    while time.monotonic() < end and sites.launch.poll() is None:
        pid = sites.pids().get(site)
        if pid and pid != killed:
            break
        time.sleep(0.02)
    begun, before = time.monotonic(), sites.losses(site)
    while time.monotonic() < end and sites.launch.poll() is None:
        now = sites.losses(site)
        before = min(before, now)  # the file may begin anew
        if now > before:
            into.append(time.monotonic() - begun)
            return
        time.sleep(0.02)


def blow(sites, what, site, lasts, record):
    pid = sites.pids().get(site)
    if what == "cut":
        sites.cut(site, lasts)
    elif pid is None:
        record["spared"] += 1  # it is being started again
    elif what == "crash":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        rejoin(sites, site, pid, record["rejoins"])
    else:
        with contextlib.suppress(ProcessLookupError):  # it may be killed as it stands
            os.kill(pid, signal.SIGSTOP)
            time.sleep(lasts)
            os.kill(pid, signal.SIGCONT)


def run(options, name, kind, mbps, blows):
    job = options.out / f"{name}.toml"
    text = storm.job(kind, OVERLAY, mbps, options.sites, options.minutes, [])
    job.write_text(text + "[net]\npace = true\nsilence_s = 10\n")
    folder = options.out / name
    log = open(options.out / f"{name}.log", "w")
    launch = subprocess.Popen(
        [options.build / "longhaul", "launch", job, "--lab", "--max-restarts", "1000", "--force",
         "--json", "--quiet", "--out", folder], stdout=subprocess.PIPE, stderr=log, text=True)
    sites, record = Sites(launch, folder), {"rejoins": [], "spared": 0}
    end = time.monotonic() + MOST_START_S
    while min(sites.losses(f"s{i}") for i in range(options.sites)) == 0:
        if launch.poll() is not None or time.monotonic() > end:
            launch.kill()
            sys.exit(f"{name} did not begin: see {log.name}")
        time.sleep(0.1)
    sites.remember_networks()
    began, threads = time.monotonic(), []
    for what, number, at, lasts in blows:
        time.sleep(max(0, began + at - time.monotonic()))
        if launch.poll() is not None:
            break
        threads.append(threading.Thread(target=blow,
                                        args=(sites, what, f"s{number}", lasts, record)))
        threads[-1].start()
    try:
        out = launch.communicate(timeout=options.minutes * 60 + 300)[0]
    except subprocess.TimeoutExpired:
        launch.kill()
        return {**record, "code": None, "summary": {}, "events": []}
    for thread in threads:
        thread.join()
    summary = json.loads(out) if out.strip() else {}
    events = [json.loads(line) for path in sorted(folder.glob("*/metrics.jsonl"))
              for line in path.read_text().splitlines() if line.startswith("{")]
    return {**record, "code": launch.returncode, "summary": summary,
            "fall": storm.falls(sorted((one for one in events if one["kind"] == "score"),
                                       key=lambda one: one["round"]))}


def cell(options, kind, mbps):
    name = f"{kind}-{mbps}-{options.sites}-{options.minutes:g}" + ("-calm" if options.calm else "")
    path = options.out / f"{name}.json"
    if not path.exists():
        blows = [] if options.calm else storm.faults(options.sites, options.minutes)
        record = run(options, name, kind, mbps, blows)
        path.write_text(json.dumps({"kind": kind, "mbps": mbps, "faults": len(blows), **record},
                                   indent=1) + "\n")
    return json.loads(path.read_text())


def row(one):
    summary, taken = one["summary"], one["rejoins"]
    share = summary.get("participation_of_live")
    accuracy = summary.get("final_accuracy")
    samples = summary.get("samples") or {}
    counts = [samples.get(key) for key in ("used", "lost", "unused")]
    return (f"| {one['kind']} | {one['mbps']} | {one['faults']} | {one['code']} "
            f"| {summary.get('rounds')} "
            f"| {'-' if share is None else f'{100 * share:.1f} %'} "
            f"| {len(taken)}: {f'{statistics.median(taken):.1f}' if taken else '-'} "
            f"| {8 * storm.MODEL_BYTES / one['mbps'] / 1e6:.2f} "
            f"| {'-' if None in counts else ' / '.join(map(str, counts))} "
            f"| {'-' if accuracy is None else f'{100 * accuracy:.1f}'} "
            f"| {100 * one.get('fall', 0):.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build/release")
    parser.add_argument("--out", type=pathlib.Path, default="runs/storm-sockets")
    parser.add_argument("--sites", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=storm.MINUTES)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--mbps", type=int, action="append")
    parser.add_argument("--calm", action="store_true")
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    print("| sync | Mbit/s | faults | exit code | rounds | participation | rejoins: median s "
          "| model / rate, s | samples used / lost / unused | accuracy "
          "| largest fall, points |\n" + "|---" * 11 + "|")
    for kind in options.only or KINDS:
        for mbps in options.mbps or MBPS:
            print(row(cell(options, kind, mbps)), flush=True)


if __name__ == "__main__":
    main()
