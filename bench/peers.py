#!/usr/bin/python3 -B
"""longhaul beside torch's Gloo, torchft, hivemind and Flower, in the emulated WAN. As root.

  bench/peers.py [--build build/release] [--envs build/peers-env] [--resume build/peers.jsonl]
                 [--only TEXT ...] [--laps N] [--mnist data/mnist] [--stop-after SECONDS] [--list]
                 [--write docs/results/peers.md]

scripts/setup-peers makes the environments. All programs run in the network namespaces that
`longhaul lab` makes (longhaul's own in those of `perf --lab` and `launch --lab`, which are the
same), one after the other, with bbr. An exchange is a mean of vectors of random numbers, from and
to all sites; each peer's result is checked. A run of some laps is a line of JSON in --resume; the
same command goes on where that file ends. --stop-after: begins nothing that would likely not be
done by then, and ends with 3 if something is left. --laps is for trials. --write puts the tables
between the two marks in that page, and the ranges into bench/results/peers.csv. Ends with 1 if a
measurement failed; it is tried again by the next command.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from common import EQUAL, sites, write_csv

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "bench/peers"
LIGHTHOUSE_PORT, SUPERLINK_PORT = 7502, 8000
# torch asks for the names of addresses, for 40 s where no server of names answers.
NAMES = ["unshare", "--mount", "sh", "-c", "mount --bind hosts /etc/hosts && "
         "mount --bind resolv.conf /etc/resolv.conf && exec \"$@\"", "peers"]
MARKS = "<!-- peers.py -->", "<!-- end of peers.py -->"
LAPS = 5
PATIENCE_S = 280


class Network:
    def __init__(self, title, wan, rates, laps=LAPS):
        self.title, self.wan, self.rates, self.laps = title, wan, rates, laps

    def job(self, more='[sync]\nkind = "bsp"\n[model]\nkind = "phantom"\n'):
        return (f'{more}[wan]\nmodel = "fair"\nqueue = "drop_tail"\n{self.wan}' +
                sites(self.rates))


# delay_ms is one-way; queues of 400 kB a link at 66 Mbit/s.
FOUR = "delay_ms = 20\nqueue_ms = 48.5\n"
NETWORKS = {
    "A": Network("4 sites, 66 Mbit/s, 20 ms one way", FOUR, EQUAL),
    "B": Network("A with 1 % loss", FOUR + "loss = 0.01\n", EQUAL),
    "D2": Network("8 sites, 77.5 to 10 Mbit/s, 30 ms one way", "delay_ms = 30\nqueue_ms = 100\n",
                  [77.5, 60, 50, 40, 30, 20, 15, 10], laps=2),
}
OVERLAYS = ["forest", "ring", "hub", "direct"]
NODES = {"gloo": "torch", "torchft": "torch", "hivemind": "hivemind", "hivemind-told": "hivemind"}
WHO = OVERLAYS + list(NODES) + ["flower"]
TITLES = {
    **{one: f"longhaul, {one}" for one in OVERLAYS},
    "gloo": "torch.distributed, Gloo", "torchft": "torchft, managed all-reduce",
    "hivemind": "hivemind, averager", "hivemind-told": "hivemind, told the bandwidths",
    "flower": "Flower, a round of FedAvg"}
EXCHANGES = [("A", 25), ("B", 25), ("D2", 25), ("A", 0.2)]

LENET = dict(steps=10, batch=32, rate=0.05, momentum=0.9, rounds=200, score_every=5, target=0.97)
LENET_TITLES = {
    "forest": "longhaul, fedavg, forest", "torchft": "torchft, LocalSGD",
    "torchft-flat": "torchft, one vector a round", "flower": "Flower, FedAvg"}
LENET_JOB = """\
[job]
name = "peers-lenet"
seed = {seed}
[stop]
max_rounds = {rounds}
target_accuracy = {target}
[report]
every_rounds = {score_every}
[model]
kind = "lenet"
[data]
kind = "mnist"
path = "{mnist}"
partition = "iid"
batch = {batch}
[optimizer]
kind = "sgd"
rate = {rate}
momentum = {momentum}
[sync]
kind = "fedavg"
steps = {steps}
[overlay]
kind = "forest"
"""


def find(folder, name):
    return pathlib.Path(folder).resolve() / name


def router(said):
    return {key: said.get(key) for key in ("router_limited", "limited_share", "worst_late_ms")}


class Left(Exception):
    """There is not the time for it before --stop-after."""


class Lab:
    """The emulated WAN of a network, for programs of one's own; ends all that runs in it."""

    def __init__(self, longhaul, network, folder):
        self.network, self.folder, self.started = network, folder, []
        job = folder / "lab.toml"
        job.write_text(network.job())
        self.router = folder / "router.json"
        self.lab = subprocess.Popen([longhaul, "lab", job, "--out", self.router], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.prefixes, self.addresses, said = [], [], ""
        for line in self.lab.stdout:
            said += line
            if found := re.search(r"(10\.\d+\.\d+\.\d+)\s+nsenter (--net=\S+)", line):
                self.addresses.append(found[1])
                self.prefixes.append(["nsenter", found[2]])
            if "Ctrl-C" in line:
                break
        if len(self.prefixes) != len(network.rates):
            self.close()
            raise RuntimeError(f"longhaul lab: {said}")
        self.spaces = {os.readlink(prefix[1].removeprefix("--net=")) for prefix in self.prefixes}
        for prefix in self.prefixes:
            subprocess.run([*prefix, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=bbr"],
                           check=True)
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} s{site}\n::ffff:{address} s{site}\n"
            for site, address in enumerate(self.addresses)))
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # refuses at once

    def start(self, site, *words, name, **more):
        """A program at that site; its complaints go to a file of that name."""
        log = open(self.folder / f"{name}-{site}.log", "a")
        process = subprocess.Popen([*self.prefixes[site], *NAMES, *map(str, words)], text=True,
                                   cwd=self.folder, stderr=log, start_new_session=True,
                                   **{"stdout": log, "stdin": subprocess.DEVNULL, **more})
        log.close()
        self.started.append(process)
        return process

    def inhabitants(self):
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/net") in self.spaces:
                    yield int(entry.name)

    def close(self):
        for _ in range(3):
            for process in self.inhabitants() if self.started else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.1)
        for process in self.started:
            process.wait(10)
        self.lab.send_signal(signal.SIGINT)
        try:
            self.lab.wait(20)
        except subprocess.TimeoutExpired:
            self.lab.kill()

    def figures(self):
        """Whether the router, not the WAN, was what limited it, and more; after close()."""
        with contextlib.suppress(OSError, ValueError):
            return router(json.loads(self.router.read_text()))
        return {}

    def logs(self):
        """The last lines of what the programs complained about."""
        return "\n".join(f"{one.name}: " + one.read_text(errors="replace")[-900:]
                         for one in sorted(self.folder.glob("*.log")))[-6000:]


class Node:
    """bench/peers/node.py at one site."""

    def __init__(self, lab, site, python, *words, peer):
        self.process = lab.start(site, python, "-W", "ignore", HERE / "node.py", peer, "--rank",
                                 site, "--addresses", ",".join(lab.addresses), *words, name=peer,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.site = site

    def tell(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def hear(self):
        for line in self.process.stdout:
            if line.startswith("peers: "):
                return json.loads(line.removeprefix("peers: "))
        raise RuntimeError(f"site {self.site} ended")


class Bench:
    def __init__(self, args):
        self.args, self.longhaul = args, find(args.build, "longhaul")
        self.until = time.monotonic() + (args.stop_after or 1e9)
        self.mnist = find(args.mnist, ".")
        self.known = {}

    def python(self, environment):
        return find(self.args.envs, environment) / "bin/python"

    def versions(self, *packages, environment):
        if environment not in self.known:
            said = subprocess.run([self.python(environment), "-m", "pip", "list", "--format=json"],
                                  capture_output=True, text=True, check=True).stdout
            self.known[environment] = {one["name"]: one["version"] for one in json.loads(said)}
        return {one: self.known[environment].get(one) for one in packages}

    def need(self, seconds):
        if time.monotonic() + seconds > self.until:
            raise Left

    def told(self, *words, folder):
        done = subprocess.run([self.longhaul, *map(str, words), "--json"], cwd=folder, text=True,
                              capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]}: exit code {done.returncode}: "
                               f"{(done.stdout + done.stderr)[-600:]}")
        return json.loads(done.stdout)

    def exchange(self, who, network, mbytes, laps, folder):
        """Some laps, at most that many."""
        if who in OVERLAYS:
            return self.perf(who, network, mbytes, laps, folder)
        guess = self.told("bound", self.write_job(network, folder), "--mbytes", mbytes,
                          folder=folder)["bound_s"]
        with contextlib.closing(Lab(self.longhaul, network, folder)) as lab:
            try:
                if who == "flower":
                    found = self.flower(lab, mbytes, laps, guess)
                else:
                    found = self.nodes(lab, who, mbytes, laps, guess)
            except (RuntimeError, OSError) as error:
                raise RuntimeError(f"{error}\n{lab.logs()}") from None
        return {**found, **lab.figures()}

    def write_job(self, network, folder):
        (folder / "job.toml").write_text(network.job())
        return "job.toml"

    def perf(self, overlay, network, mbytes, laps, folder):
        words = ["perf", self.write_job(network, folder), "--overlay", overlay, "--mbytes", mbytes]
        guess = 1.2 * self.told(*words, "--repeat", 1, folder=folder)["time_s"]
        left = min(self.until - time.monotonic() - 10, PATIENCE_S)
        laps = min(laps, int(left / guess) - 1)
        if laps < 1:
            raise Left
        real = self.told(*words, "--repeat", laps, "--lab", folder=folder)
        return {"laps": real["times_s"], "warm_up_s": real["warm_up_s"],
                "bound_s": real["bound_s"], **router(real["lab"])}

    def nodes(self, lab, who, mbytes, laps, guess):
        self.need(40 + 4 * guess)
        environment, peer = NODES[who], who.removesuffix("-told")
        packages = {"gloo": ["torch"], "torchft": ["torch", "torchft"]}.get(
            peer, ["torch", "hivemind"])
        if peer == "torchft":
            self.lighthouse(lab)
        nodes = []
        for site, mbps in enumerate(lab.network.rates):
            more = ["--mbps", mbps] if who == "hivemind-told" else []
            nodes.append(Node(lab, site, self.python(environment), "--floats",
                              int(mbytes * 250_000), *more, peer=peer))
        if peer == "hivemind":
            hello = nodes[0].hear()
            for node in nodes[1:]:
                node.tell(**hello)
        for node in nodes:
            node.hear()
        found = {"laps": [], "parts": [], "wrong": 0, "versions": self.versions(
            *packages, environment=environment)}
        took, began = 2 * guess, time.monotonic()
        for lap in range(laps + 1):
            if lap > 0 and time.monotonic() + 1.3 * took > min(
                    self.until, began + PATIENCE_S):
                break
            lap_began = time.monotonic()
            at = time.monotonic() + 0.3
            for node in nodes:
                node.tell(prepare=lap, at=at)
            prepared = max(node.hear()["prepared"] for node in nodes)
            at = time.monotonic() + 0.3
            for node in nodes:
                node.tell(go=at)
            heard = [node.hear() for node in nodes]
            slowest = max(heard, key=lambda one: one["took_s"])
            took = time.monotonic() - lap_began
            if max(one["off"] for one in heard) > 1e-5:  # a peer lost parts and went on
                found["wrong"] += 1
            elif lap == 0:
                found["warm_up_s"] = slowest["took_s"]
            else:
                found["laps"].append(slowest["took_s"])
                found["parts"].append({**slowest, "prepared_s": prepared})
        if not found["laps"]:
            raise RuntimeError(f"no lap after the warm-up had the mean; {found['wrong']} had not")
        return found

    def lighthouse(self, lab):
        lab.start(0, find(self.args.envs, "torch") / "bin/torchft_lighthouse", "--bind",
                  f"[::]:{LIGHTHOUSE_PORT}", "--min_replicas", len(lab.network.rates),
                  name="lighthouse")
        time.sleep(1)

    def flower(self, lab, mbytes, laps, guess):
        self.need(45 + 10 * guess)
        told = {"floats": int(mbytes * 250_000), "rounds": laps + 1}
        rows = self.flower_run(lab, told, until=lambda: self.until - 12)
        rounds = [row for row in rows if "took_s" in row]
        if len(rounds) < 2:
            raise RuntimeError("no round after the warm-up was done in time")
        return {"laps": [row["took_s"] for row in rounds[1:]], "warm_up_s": rounds[0]["took_s"],
                "parts": rounds[1:], "versions": self.versions("flwr", environment="flower")}

    def flower_run(self, lab, told, until, patience_s=PATIENCE_S):
        """The lines that the app's server wrote."""
        bin, out = find(self.args.envs, "flower") / "bin", lab.folder / "flower.jsonl"
        told = {**told, "sites": len(lab.addresses), "out": str(out)}

        def start(site, program, *words, name):
            home = lab.folder / f"{name}-{site}-home"
            home.mkdir()
            (home / "config.toml").write_text(
                '[superlink]\ndefault = "peers"\n[superlink.peers]\n'
                f'address = "127.0.0.1:{SUPERLINK_PORT}"\ninsecure = true\n')
            return lab.start(site, bin / program, *words, name=name, env={
                **os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "FLWR_HOME": str(home),
                "FLWR_TELEMETRY_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "1"})

        start(0, "flower-superlink", "--insecure", "--host", "0.0.0.0", "--port", SUPERLINK_PORT,
              "--disable-runtime-dependency-installation", name="superlink")
        time.sleep(4)
        for site in range(len(lab.addresses)):
            start(site, "flower-supernode", "--insecure", "--superlink",
                  f"{lab.addresses[0]}:{SUPERLINK_PORT}", "--node-config", f"rank={site}",
                  "--port", 9094, name="supernode")
        time.sleep(3)
        run = start(0, "flwr", "run", HERE / "flower", "peers", "--run-config",
                    f"here='{HERE}' told='{json.dumps(told)}'", name="run")
        submitted, rows = time.monotonic(), []
        while time.monotonic() < min(until(), submitted + patience_s):
            if out.exists():
                rows = [json.loads(line) for line in out.read_text().splitlines()]
                if rows and rows[-1].get("ended"):
                    break
            if not rows and (run.poll() or time.monotonic() > submitted + 90):
                raise RuntimeError("Flower's run did not begin")
            time.sleep(0.5)
        return rows

    # --- LeNet ----------------------------------------------------------------------------------

    def lenet(self, who, folder, seed):
        self.need(90)
        network = NETWORKS["A"]
        if who == "forest":
            (folder / "job.toml").write_text(network.job(LENET_JOB.format(
                mnist=self.mnist, seed=seed, **LENET)))
            began = time.monotonic()
            real = self.told("launch", "job.toml", "--lab", "--out", folder / "run", "--quiet",
                             folder=folder)
            return {"took_s": real["time_s"], "rounds": real["rounds"],
                    "accuracy": real["final_accuracy"], "all_s": time.monotonic() - began}
        with contextlib.closing(Lab(self.longhaul, network, folder)) as lab:
            began = time.monotonic()
            try:
                found = self.lenet_flower(lab, seed) if who == "flower" else \
                    self.lenet_torchft(lab, seed, who)
            except (RuntimeError, OSError) as error:
                raise RuntimeError(f"{error}\n{lab.logs()}") from None
            return {**found, "all_s": time.monotonic() - began}

    def lenet_torchft(self, lab, seed, who):
        self.lighthouse(lab)
        words = ["--mnist", self.mnist, "--seed", seed, "--flat", int(who == "torchft-flat")]
        for name, value in LENET.items():
            words += [f"--{name.replace('_', '-')}", value]
        nodes = [Node(lab, site, self.python("torch"), *words, peer="torchft")
                 for site in range(len(lab.addresses))]
        for node in nodes:
            node.hear()
        at = time.monotonic() + 0.3
        for node in nodes:
            node.tell(go=at)
        return {**nodes[0].hear(),
                "versions": self.versions("torch", "torchft", environment="torch")}

    def lenet_flower(self, lab, seed):
        rows = self.flower_run(lab, {"mnist": str(self.mnist), "seed": seed, **LENET},
                               until=lambda: self.until - 12, patience_s=3 * PATIENCE_S)
        rounds = [row for row in rows if "took_s" in row]
        scored = [row for row in rounds if "accuracy" in row]
        if not rounds:
            raise RuntimeError("no round was done in time")
        return {"took_s": rounds[-1]["ended_at"] - rows[0]["began_at"], "rounds": len(rounds),
                "accuracy": scored[-1]["accuracy"] if scored else None,
                "scoring_s": sum(row["scoring_s"] for row in scored),
                "versions": self.versions("flwr", "torch", environment="flower")}


# --- what is measured, and the page ---------------------------------------------------------------

class Kept:
    """The lines of the file, by what they measure."""

    def __init__(self, path):
        self.path, self.rows = pathlib.Path(path), []
        if self.path.exists():
            self.rows = [json.loads(line) for line in self.path.read_text().splitlines()]

    def add(self, row):
        self.rows.append(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")

    def of(self, name):
        return [row for row in self.rows if row["name"] == name and "failed" not in row]

    def laps(self, name):
        return [lap for row in self.of(name) for lap in row.get("laps", ())]

    def failed(self, name):
        return next((row["failed"] for row in self.rows[::-1]
                     if row["name"] == name and "failed" in row), None)


def plan():
    """(name, what to measure) of everything."""
    for key, mbytes in EXCHANGES:
        for who in WHO:
            if who == "hivemind-told" and key != "D2":
                continue
            yield f"{key}/{mbytes}/{who}", (key, mbytes, who)
    for who in LENET_TITLES:
        for seed in range(1, 2 if who == "flower" else 4):
            yield f"lenet/{who}/{seed}", (who, seed)


def wanted(what, most=None):
    return min(NETWORKS[what[0]].laps, most or 99) if len(what) == 3 else 1


def ended(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough, and what it started is ended
    sys.exit(143)


def too_late(*_):
    raise RuntimeError("not done in time: it stands still, or it is too slow")


def measure(bench, name, what, left):
    with tempfile.TemporaryDirectory(prefix="longhaul-peers-", ignore_cleanup_errors=True) as at:
        folder, load = pathlib.Path(at), os.getloadavg()[0]
        limit = (2 if len(what) == 3 else 4) * PATIENCE_S
        signal.alarm(max(1, int(min(limit, bench.until - time.monotonic() + 3))))
        try:
            if len(what) == 3:
                key, mbytes, who = what
                found = bench.exchange(who, NETWORKS[key], mbytes, left, folder)
            else:
                found = bench.lenet(what[0], folder, what[1])
        finally:
            signal.alarm(0)
        return {"name": name, **found, "load": load, "when": time.strftime("%Y-%m-%d %H:%M")}


def chosen(only):
    """What is planned, or what of it matches one of these, in their order."""
    everything = list(plan())
    return list(dict.fromkeys(one for text in only for one in everything if re.search(
        text, one[0]))) if only else everything


def run_all(bench, kept, only, most):
    failed = left = 0
    for name, what in chosen(only):
        while (more := wanted(what, most) - len(
                kept.laps(name) if len(what) == 3 else kept.of(name))) > 0:
            try:
                row = measure(bench, name, what, more)
            except Left:
                left += 1
                break
            except (RuntimeError, OSError, KeyError, subprocess.SubprocessError) as error:
                failed += 1
                kept.add({"name": name, "failed": f"{type(error).__name__}: {error}"[-5000:]})
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                break
            kept.add(row)
            said = " ".join(f"{one:.3f}" for one in row.get("laps", [row.get("took_s")]))
            print(f"{name}: {said} s", file=sys.stderr, flush=True)
    return failed, left


def seconds(value):
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def median(kept, name):
    laps = kept.laps(name)
    if not laps:
        return "failed" if kept.failed(name) else ""
    limited = any(row.get("router_limited") for row in kept.of(name))
    wrong = sum(row.get("wrong", 0) for row in kept.of(name))
    return seconds(statistics.median(laps)) + (" †" if limited else "") + (
        f"; {wrong} wrong" if wrong else "")


HEAD = ["network", "mbytes", "program", "median_s", "least_s", "most_s", "laps", "wrong",
        "router_late"]


def rows_of(kept):
    """Of HEAD; then the parts of a lap."""
    for key, mbytes in EXCHANGES:
        for who in WHO:
            name = f"{key}/{mbytes}/{who}"
            if laps := kept.laps(name):
                late = any(row.get("router_limited") for row in kept.of(name))
                yield [key, f"{mbytes:g}", TITLES[who], *map(seconds, (
                    statistics.median(laps), min(laps), max(laps))), len(laps),
                    sum(row.get("wrong", 0) for row in kept.of(name)), "yes" if late else ""]
        for who, part, title in (
                ("torchft", "quorum_s", "torchft: the quorum, part of a lap"),
                ("hivemind", "prepared_s", "hivemind: finding the group, not part of a lap")):
            found = [one[part] for row in kept.of(f"{key}/{mbytes}/{who}")
                     for one in row.get("parts", ()) if part in one]
            if found:
                yield [key, f"{mbytes:g}", title, seconds(statistics.median(found)), *[""] * 5]


def table(first, rows):
    """Lines of a table with a column for each exchange; rows: title and what to say of each."""
    yield f"| {first} | " + " | ".join(f"{key}, {mbytes:g} MB" for key, mbytes in EXCHANGES) + " |"
    yield "|---" * (len(EXCHANGES) + 1) + "|"
    for title, say in rows:
        yield f"| {title} | " + " | ".join(
            say(f"{key}/{mbytes}") for key, mbytes in EXCHANGES) + " |"


def tables(kept):
    def bound(at):
        return next((seconds(row["bound_s"]) for row in kept.rows
                     if row["name"].startswith(f"{at}/") and "bound_s" in row), "")

    lines = list(table("median, seconds", [("the bound", bound), *(
        (TITLES[who], lambda at, who=who: median(kept, f"{at}/{who}")) for who in WHO
        if any(kept.laps(f"{key}/{mbytes}/{who}") for key, mbytes in EXCHANGES))]))
    lines += ["", "| LeNet on MNIST to 97 %, over A | seconds | rounds | seconds a round | "
              "scoring, s | with starts, s |", "|---|---|---|---|---|---|"]
    for who, title in LENET_TITLES.items():
        for name, what in plan():
            if what[0] != who or len(what) != 2:
                continue
            for row in kept.of(name):
                got = row["accuracy"]
                scoring = f"{row['scoring_s']:.1f}" if "scoring_s" in row else ""
                short = " (stopped before it was scored)" if got is None else \
                    "" if got >= LENET["target"] else f" (stopped at {100 * got:.0f} %)"
                lines.append(
                    f"| {title} | {row['took_s']:.1f}{short} | {row['rounds']} | "
                    f"{row['took_s'] / row['rounds']:.2f} | {scoring} | "
                    f"{row['all_s']:.1f} |")
    found = {}
    for row in kept.rows:
        found.update(row.get("versions", {}))
    lines += ["", "Versions: " + ", ".join(f"{name} {one}" for name, one in sorted(found.items())
                                           if one) + "."]
    return "\n".join(lines) + "\n"


def write(page, kept):
    text = page.read_text()
    begin, end = (text.index(mark) for mark in MARKS)
    page.write_text(text[:begin] + MARKS[0] + "\n\n" + tables(kept) + text[end:])
    write_csv("peers", HEAD, rows_of(kept))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release")
    parser.add_argument("--envs", default=ROOT / "build/peers-env")
    parser.add_argument("--resume", default=ROOT / "build/peers.jsonl")
    parser.add_argument("--mnist", default=ROOT / "data/mnist")
    parser.add_argument("--only", nargs="*", default=[],
                        help="measurements whose name one of these matches")
    parser.add_argument("--laps", type=int, help="at most that many, for a trial")
    parser.add_argument("--stop-after", type=float)
    parser.add_argument("--list", action="store_true", help="says what there is, and its laps")
    parser.add_argument("--write", type=pathlib.Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGALRM, too_late)
    kept = Kept(args.resume)
    if args.list:
        for name, what in plan():
            print(name, len(kept.laps(name) if len(what) == 3 else kept.of(name)), "of",
                  wanted(what))
        return
    failed, left = run_all(Bench(args), kept, args.only, args.laps)
    print(tables(kept))
    if args.write:
        write(args.write, kept)
    sys.exit(1 if failed else 3 if left else 0)


if __name__ == "__main__":
    main()
