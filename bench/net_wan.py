#!/usr/bin/python3 -B
"""What TLS, datagrams and a WAN cost longhaul/net: processes in network namespaces of this machine.

  bench/net_wan.py [--build build/release] [--part NAME ...] [--repeats N] [--write PAGE]

  veth      goodput of a pair over veth devices: plain and TLS beside iperf3, in turns
  lab       of the emulated WAN: 66 Mbit/s, 1 % loss; connections and datagrams, both under TLS
  share     two flows of longhaul and one TCP connection with bbr (iperf3) through one drop-tail
            queue of one bandwidth-delay product, without random loss
  join      11 sites meet: TLS beside plain, over the loopback and in the emulated WAN

As root. Ratios are those of pairs that were measured one after the other; medians. --write puts the
tables between the two marks in that page; the turns of `share` go to bench/results/net-share.csv.
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
import tempfile
import textwrap
import time

from common import write_csv

FROM_S, UNTIL_S = 2.0, 8.0          # of a flow, in what is counted
RATE = 66                           # Mbit/s
HEADERS = {"datagrams": 40 + 28 + 28}  # of frame, seal, UDP and IP
BODY = 1160
NAMES = ["veth", "lab", "share", "join"]
MARKS = "<!-- net_wan.py -->", "<!-- end of net_wan.py -->"


def median_of(values, digits=2):
    return (f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-"
            f"{max(values):.{digits}f})")


def filled(lines):
    """Text to 120 columns; tables as they are."""
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 120) for line in lines)


class Bench:
    def __init__(self, build, folder):
        self.node, self.program = build / "bench/net_wan_node", build / "longhaul"
        self.folder = pathlib.Path(folder)
        self.keys = self.folder / "keys"
        sites = [f"n{i}" for i in range(11)]
        self.tell(self.program, "keys", "init", self.keys)
        self.tell(self.program, "keys", "issue", *sites, "--keys", self.keys)
        self.port = 7000

    def tell(self, *words):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, text=True,
                              capture_output=True)
        if done.returncode != 0:
            raise SystemExit(f"net_wan: {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, prefix, *words):
        return subprocess.Popen([*prefix, *map(str, words)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    # --- the networks ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def veth(self):
        """Two namespaces and a veth pair: the prefixes of commands there, and the addresses."""
        names = [f"lhb-{os.getpid()}-{i}" for i in range(2)]
        try:
            for name in names:
                self.tell("ip", "netns", "add", name)
            self.tell("ip", "link", "add", "wan0", "netns", names[0], "type", "veth", "peer",
                      "name", "wan0", "netns", names[1])
            for i, name in enumerate(names):
                self.tell("ip", "-n", name, "addr", "add", f"10.8.0.{i + 1}/24", "dev", "wan0")
                self.tell("ip", "-n", name, "link", "set", "wan0", "up")
                self.tell("ip", "-n", name, "link", "set", "lo", "up")
            yield [["ip", "netns", "exec", name] for name in names], ["10.8.0.1", "10.8.0.2"]
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], capture_output=True)

    @contextlib.contextmanager
    def lab(self, wan, sites=({"name": "a"}, {"name": "b"})):
        """The emulated WAN of such a job (longhaul lab)."""
        text = f'[wan]\nmodel = "fair"\n{wan}\n[sync]\nkind = "bsp"\n[model]\nkind = "phantom"\n'
        for site in sites:
            text += "[[site]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in site.items())
        path = self.folder / "lab.toml"
        path.write_text(text)
        lab = self.start([], self.program, "lab", path, "--out", self.folder / "router.json")
        prefixes, addresses, said = [], [], ""
        try:
            for line in lab.stdout:
                said += line
                if found := re.search(r"(10\.\d+\.\d+\.\d+)\s+nsenter (--net=\S+)", line):
                    addresses.append(found[1])
                    prefixes.append(["nsenter", found[2]])
                if "Ctrl-C" in line:
                    break
            else:
                raise SystemExit(f"net_wan: longhaul lab: {said}")
            yield prefixes, addresses
        finally:
            lab.send_signal(signal.SIGINT)
            lab.wait(30)

    # --- flows ----------------------------------------------------------------------------------

    def flow(self, prefixes, addresses, window, *words, tls=True):
        """Starts it; what is returned, called, waits for its figures."""
        self.port += 2
        at = ",".join(f"{address}:{self.port + i}" for i, address in enumerate(addresses[:2]))
        words = ["--at", at, *words, *(["--keys", self.keys] if tls else [])]
        receiver = self.start(prefixes[1], self.node, "--rank", 1, *words, "--from", window[0],
                              "--until", window[1])
        sender = self.start(prefixes[0], self.node, "--rank", 0, *words, "--send",
                            window[1] + 60)

        def end():
            said, _ = receiver.communicate(timeout=window[1] + 90)
            sender.kill()
            told, _ = sender.communicate()
            found = re.search(r'\{"bytes".*\}', said)
            if receiver.returncode != 0 or not found:
                raise SystemExit(f"net_wan: {said}{told}")
            return json.loads(found[0])
        return end

    def iperf3(self, prefixes, addresses, window, congestion=None):
        self.port += 2
        server = self.start(prefixes[1], "iperf3", "-s", "-1", "-p", self.port)
        time.sleep(0.3)
        client = self.start(prefixes[0], "iperf3", "-c", addresses[1], "-p", self.port, "-t",
                            int(window[1]) + 1, "-O", 0, "-i", 1, "--json", "--get-server-output",
                            *(["-C", congestion] if congestion else []))

        def end():
            said, _ = client.communicate(timeout=window[1] + 90)
            server.communicate(timeout=30)
            answer = json.loads(said)
            if "intervals" not in answer or "error" in answer:
                raise SystemExit(f"net_wan: iperf3: {answer.get('error', said)}")
            got = answer.get("server_output_json", answer)["intervals"]
            rates = [one["sum"]["bits_per_second"] for one in got
                     if window[0] <= one["sum"]["start"] < window[1] - 0.5]
            return {"mbps": statistics.mean(rates) * 1e-6}
        return end

    # --- the parts ------------------------------------------------------------------------------

    def measure_veth(self, repeats):
        window = (FROM_S, UNTIL_S)
        rows = {name: [] for name in ("iperf3", "iperf3, bbr", "plain", "TLS", "datagrams")}
        with self.veth() as where:
            for _ in range(repeats):
                rows["iperf3"].append(self.iperf3(*where, window)()["mbps"])
                rows["plain"].append(self.flow(*where, window, tls=False)()["mbps"])
                rows["TLS"].append(self.flow(*where, window)()["mbps"])
                rows["iperf3, bbr"].append(self.iperf3(*where, window, "bbr")()["mbps"])
                rows["datagrams"].append(self.flow(*where, window, "--datagrams")()["mbps"])
                print({name: round(values[-1]) for name, values in rows.items()}, flush=True)
        ratio = {name: [a / b for a, b in zip(rows[one], rows[other])]
                 for name, one, other in (("plain / iperf3", "plain", "iperf3"),
                                          ("TLS / plain", "TLS", "plain"))}
        lines = [f"### A pair over veth, Gbit/s ({repeats} turns)", "",
                 f"| {' | '.join((*rows, *ratio))} |", "|---" * (len(rows) + len(ratio)) + "|"]
        cells = [median_of([v * 1e-3 for v in values]) for values in rows.values()]
        cells += [median_of(values) for values in ratio.values()]
        lines.append(f"| {' | '.join(cells)} |")
        return [*lines, "", "Targets: plain 10 Gbit/s or 0.8 of iperf3, TLS 0.4 of plain."]

    def measure_lab(self, repeats):
        lines = [f"### {RATE} Mbit/s with 1 % loss ({repeats} turns)", "",
                 "| round trip | | share of the link, % |", "|---|---|---|"]
        window = (10.0, 30.0)
        for delay in (50, 100):
            wan = f"mbps = {RATE}\ndelay_ms = {delay}\nloss = 0.01"
            rates = {"connection": [], "datagrams": []}
            with self.lab(wan) as where:
                for _ in range(repeats):
                    rates["connection"].append(
                        self.flow(*where, window, "--congestion", "bbr")()["mbps"])
                    rates["datagrams"].append(
                        self.flow(*where, window, "--datagrams", "--dscp")()["mbps"])
                    print(delay, {name: round(v[-1], 1) for name, v in rates.items()}, flush=True)
            wire = (BODY + HEADERS["datagrams"]) / BODY
            for name, values in rates.items():
                factor = wire if name == "datagrams" else 1
                shares = [100 * v * factor / RATE for v in values]
                lines.append(f"| {2 * delay} ms | {name} | {median_of(shares, 1)} |")
        return [*lines, "", "Targets at 100 ms: 85 and 90 %."]

    def measure_share(self, repeats):
        lines = [f"### Sharing a plain queue ({repeats} turns, {RATE} Mbit/s, 100 ms)", "",
                 "| two flows of longhaul | most / least | bbr (iperf3), Mbit/s |", "|---|---|---|"]
        window = (10.0, 50.0)
        wan = 'delay_ms = 50\nqueue = "drop_tail"\nqueue_ms = 100'
        sites = ({"name": "a", "up_mbps": RATE}, {"name": "b"})
        kinds = {"connections": ["--congestion", "bbr"], "datagrams": ["--datagrams"]}
        turns = []
        for first, second in (("connections", "connections"), ("connections", "datagrams"),
                              ("datagrams", "datagrams")):
            ratios, others = [], []
            with self.lab(wan, sites) as where:
                for _ in range(repeats):
                    ends = [self.flow(*where, window, *kinds[name]) for name in (first, second)]
                    time.sleep(2)  # when they begin to send
                    ends.append(self.iperf3(*where, window, "bbr"))
                    rates = [end()["mbps"] for end in ends]
                    others.append(rates[2])
                    turns.append([first, second, *(f"{rate:.1f}" for rate in rates)])
                    ratios.append(max(rates) / min(rates))
                    print(first, second, [round(r, 1) for r in rates], flush=True)
            lines.append(f"| {first}, {second} | {median_of(ratios)} | {median_of(others, 1)} |")
        write_csv("net-share", ["first", "second", "first_mbps", "second_mbps", "bbr_mbps"], turns)
        return [*lines, "", "[net-share.csv](../../bench/results/net-share.csv) has each turn. "
                "Target: within a factor of 2."]

    def joined(self, prefixes, addresses, tls):
        """Seconds from the start of the first of 11 processes until all have met."""
        self.port += 20
        at = ",".join(f"{address}:{self.port + i}" for i, address in enumerate(addresses))
        since = time.monotonic_ns()
        nodes = [self.start(prefix, self.node, "--rank", rank, "--at", at, "--since", since,
                            "--congestion", "bbr", *(["--keys", self.keys] if tls else []))
                 for rank, prefix in enumerate(prefixes)]
        joined = []
        for node in nodes:
            said = node.stdout.readline()
            if "joined_s" not in said:
                raise SystemExit(f"net_wan: {said}{node.stdout.read()}")
            joined.append(json.loads(said)["joined_s"])
        for node in nodes:
            node.kill()
        for node in nodes:
            node.communicate()
        return max(joined)

    def measure_join(self, repeats):
        lines = [f"### Joining: 11 sites ({repeats} turns)", "",
                 "| | plain, s | TLS, s | TLS / plain |", "|---|---|---|---|"]
        local = contextlib.nullcontext(([[]] * 11, ["127.0.0.1"] * 11))
        names = [f"n{i}" for i in range(11)]
        wan = self.lab("delay_ms = 50\nmbps = 66", [{"name": name} for name in names])
        for name, network in (("loopback", local), ("emulated WAN, 66 Mbit/s, 100 ms", wan)):
            times = {False: [], True: []}
            with network as where:
                for repeat in range(repeats + 1):
                    for tls in times:
                        took = self.joined(*where, tls)
                        if repeat > 0:
                            times[tls].append(took)
            ratios = [b / a for a, b in zip(times[False], times[True])]
            lines.append(f"| {name} | {median_of(times[False])} | {median_of(times[True])} | "
                         f"{median_of(ratios)} |")
            print(lines[-1], flush=True)
        return [*lines, "", "From the start of the first process until all 110 connections stand. "
                "Target: at most 1.5."]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--part", nargs="*", default=NAMES)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    usual = {"veth": 5, "lab": 3, "share": 3, "join": 9}
    parts = {}
    with tempfile.TemporaryDirectory(prefix="longhaul-net-wan-") as folder:
        bench = Bench(options.build.resolve(), folder)
        for part in options.part:
            measure = getattr(bench, f"measure_{part}")
            parts[part] = filled(measure(options.repeats or usual[part])) + "\n"
            print(parts[part])
            if options.write:
                write(options.write, parts)


def write(page, parts):
    """Replaces those parts of the page, and leaves the others."""
    text = page.read_text()
    begin, end = (text.index(mark) for mark in MARKS)
    before = re.findall(r"<!-- (\w+) -->\n(.*?)(?=\n<!--|\Z)", text[begin + len(MARKS[0]):end],
                        re.S)
    parts = {**{name: said.strip() + "\n" for name, said in before}, **parts}
    said = "".join(f"\n<!-- {name} -->\n{parts[name]}" for name in NAMES if name in parts)
    page.write_text(text[:begin] + MARKS[0] + "\n" + said + "\n" + text[end:])


if __name__ == "__main__":
    main()
