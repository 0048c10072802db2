#!/usr/bin/env python3
"""launch --lab and lab: real processes in an emulated WAN, as a user runs them.

    LONGHAUL=build/release/longhaul tests/cli/lab_test.py

Where this machine lets nobody make network namespaces and TUN devices the tests say what is
missing, and are skipped.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

import cli_test
import launch_test
from cli_test import LONGHAUL

WAN = """\
[wan]
mbps = 16
delay_ms = 15
"""
# One TCP connection: argv = role, address, seconds; the receiver prints bytes/s of payload in the
# second half of what it gets.
PROBE = """\
import socket, sys, time
role, address, last = sys.argv[1], sys.argv[2], float(sys.argv[3])
if role == "send":
    s = socket.create_connection((address, 5001), 10)
    try:
        s.setsockopt(socket.IPPROTO_TCP, 13, b"bbr")
    except OSError:
        pass
    end = time.monotonic() + last
    while time.monotonic() < end:
        s.sendall(bytes(65536))
elif role == "receive":
    door = socket.create_server((address, 5001))
    print("ready", flush=True)
    s, _ = door.accept()
    begin = time.monotonic()
    half = got = 0
    while data := s.recv(1 << 20):
        got += len(data)
        if not half and time.monotonic() > begin + last / 2:
            half, since = got, time.monotonic()
    print((got - half) / (time.monotonic() - since))
elif role == "echo":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, 5002))
    print("ready", flush=True)
    while True:
        s.sendto(*s.recvfrom(100))
else:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    times = []
    for _ in range(9):
        begin = time.monotonic()
        s.sendto(b"x" * 56, (address, 5002))
        s.recv(100)
        times.append((time.monotonic() - begin) * 1e3)
    print(min(times))
"""


def missing_here():
    """What this machine refuses of what an emulated WAN is made of; "" if nothing. Asked of the
    kernel, not of the program that is tested: where it can be done, it must be done."""
    probe = ("import fcntl, os, struct\n"
             "fcntl.ioctl(os.open('/dev/net/tun', os.O_RDWR), 0x400454ca,"  # TUNSETIFF
             " struct.pack('16sH22x', b'', 0x1001))\n")
    done = subprocess.run(["unshare", "--net", sys.executable, "-c", probe], capture_output=True,
                          text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def namespaces():
    """The network namespaces that some process lives in or holds a descriptor of."""
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found.add(os.readlink(process / "ns/net"))
            found.update(link for fd in (process / "fd").iterdir()
                         if (link := os.readlink(fd)).startswith("net:"))
        except OSError:
            pass  # it has ended meanwhile
    return found


class Case(launch_test.Case):
    wan, sites, args = WAN, launch_test.SITES, ()

    def setUp(self):
        super().setUp()
        self.write(launch_test.job_of(self.sites) + self.wan)
        lab = self.start("lab", "job.toml", *self.args)
        for _ in range(600):
            if "Ctrl-C ends it" in self.said(lab) or lab.poll() is not None:
                break
            time.sleep(0.05)
        said = self.said(lab)
        if lab.poll() is not None:
            missing = missing_here()
            self.assertIn("the emulated WAN needs", said)
            self.assertTrue(missing, said)
            self.skipTest(f"this machine has not {missing}: {said.strip()}")
        self.table = said
        self.lab = lab

    def inside(self, site):
        """Words before a command that is to run at that site."""
        words = re.search(rf"^{site}\s+(\S+)\s+(nsenter \S+)$", self.table, re.M)
        return words.group(1), words.group(2).split()

    def close(self):
        self.lab.send_signal(signal.SIGINT)
        self.assertEqual(self.end(self.lab)[0], 0)

    def probe(self, role, address, site, last=0.0):
        return subprocess.Popen([*self.inside(site)[1], sys.executable, "-c", PROBE, role, address,
                                 str(last)], stdout=subprocess.PIPE, text=True)

    def router_of(self, launch):
        for pid in subprocess.run(["pgrep", "-P", str(launch.pid)], capture_output=True,
                                  text=True).stdout.split():
            if b"lab-router" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        self.fail("no router")


class Network(Case):
    def rate(self, sender, receiver, last=3.0):
        to, _ = self.inside(receiver)
        gets = self.probe("receive", to, receiver, last)
        self.assertEqual(gets.stdout.readline(), "ready\n")
        sends = self.probe("send", to, sender, last)
        said, _ = gets.communicate(timeout=60)
        sends.communicate(timeout=60)
        return float(said) * 8e-6 * 1500 / 1448

    def test_a_connection_sees_the_rate_and_the_delay(self):
        address, _ = self.inside("lima")
        echo = self.probe("echo", address, "lima")
        self.addCleanup(echo.communicate)
        self.addCleanup(echo.kill)
        self.assertEqual(echo.stdout.readline(), "ready\n")
        ping = self.probe("ping", address, "tokyo")
        trip = float(ping.communicate(timeout=60)[0])
        self.assertGreaterEqual(trip, 30)
        self.assertLess(trip, 32)
        rates = [self.rate("tokyo", "lima") for _ in range(3)]
        self.assertAlmostEqual(statistics.median(rates), 16, delta=0.05 * 16, msg=str(rates))
        self.close()

    def test_iperf3_sees_the_rate(self):
        address, there = self.inside("oslo")
        server = subprocess.Popen([*there, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for _ in range(50):  # until it listens
            done = subprocess.run([*self.inside("tokyo")[1], "iperf3", "-c", address, "-t", "4",
                                   "-O", "1", "-J"], capture_output=True, text=True, timeout=60,
                                  check=False)
            if done.returncode == 0:
                break
            time.sleep(0.1)
        self.assertEqual(done.returncode, 0, done.stdout)
        goodput = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] * 1e-6
        self.assertAlmostEqual(goodput * 1500 / 1448, 16, delta=0.05 * 16)


class Traced(Case):
    wan = WAN + """\
model = "fair"
[[wan.trace]]
what = "delay"
from = "lima"
at_s = [0, 3]
values = [15, 80]
"""

    def test_a_trace_begins_when_the_sites_do(self):
        self.assertNotIn("note", self.table)
        time.sleep(3.5)  # nothing begins by itself
        address, _ = self.inside("lima")
        echo = self.probe("echo", address, "lima")
        self.addCleanup(echo.communicate)
        self.addCleanup(echo.kill)
        self.assertEqual(echo.stdout.readline(), "ready\n")
        begin = time.monotonic()
        trips = []
        for until in (0, 3.5):
            time.sleep(max(0, begin + until - time.monotonic()))
            trips.append(float(self.probe("ping", address, "tokyo").communicate(timeout=60)[0]))
        self.assertGreaterEqual(trips[0], 30)
        self.assertLess(trips[0], 40)
        self.assertGreaterEqual(trips[1], 95)
        self.assertLess(trips[1], 105)
        self.close()


class Preset(Case):
    sites, args = ["virginia", "tokyo", "seoul"], ("--wan", "uniform-vc")

    def test_a_network_of_the_command_line(self):
        address, _ = self.inside("seoul")
        echo = self.probe("echo", address, "seoul")
        self.addCleanup(echo.communicate)
        self.addCleanup(echo.kill)
        self.assertEqual(echo.stdout.readline(), "ready\n")
        trip = float(self.probe("ping", address, "tokyo").communicate(timeout=60)[0])
        self.assertGreaterEqual(trip, 60)
        self.assertLess(trip, 63)
        self.close()
        sets = [*self.args, "--set", "stop.max_rounds=5"]
        self.says("launch", "job.toml", "--quiet", "--lab", *sets)
        self.assertGreater(self.summary()["time_s"], 5 * 0.06)
        self.assertEqual(self.summary()["params_hash"],
                         self.simulated_hash(*sets, "--out", "runs/simulated"))

    def test_what_queues_cannot_do_is_refused_as_in_the_simulator(self):
        for command in (["lab", "job.toml"], ["launch", "job.toml", "--lab"]):
            code, said = self.end(self.start(*command, "--wan", "dynamic"))
            self.assertEqual(code, 2, said)
            self.assertIn('say [wan] model = "fair"', said)
        self.assertFalse((self.folder / "runs/small").exists())


class Launch(Case):
    def setUp(self):
        super().setUp()
        self.close()

    def test_the_same_parameters_as_simulate_and_launch(self):
        for sync, overlay, sites in (("bsp", "ring", 3), ("fedavg", "hub", 4),
                                     ("diloco", "direct", 2)):
            names = ["tokyo", "lima", "oslo", "bonn"][:sites]
            self.write(launch_test.job_of(names) + WAN)
            sets = ["--set", f"sync.kind={sync}", "--set", f"overlay.kind={overlay}",
                    "--set", "stop.max_rounds=10"]
            hashes = {self.simulated_hash(*sets)}
            for more in ([], ["--lab"]):
                self.says("launch", "job.toml", "--quiet", "--force", *sets, *more)
                hashes.add(self.summary()["params_hash"])
            self.assertEqual(len(hashes), 1, (sync, overlay, hashes))
            lab = self.summary()["lab"]
            self.assertGreater(lab["packets"], 100)
            # 10 rounds of two delays at least, which no loopback takes.
            self.assertGreater(self.summary()["time_s"], 0.3)

    def test_nodes_of_one_site_share_its_network(self):
        self.write(launch_test.job_of(["tokyo", "lima"]) + "nodes = 2\n" + WAN)
        self.says("launch", "job.toml", "--lab", "--set", "stop.max_rounds=5")
        expected = self.simulated_hash("--set", "stop.max_rounds=5", "--out", "runs/simulated")
        self.assertEqual(self.summary()["params_hash"], expected)

    def begin(self):
        launch = self.start("launch", "job.toml", "--lab", *launch_test.LONG)
        end = time.monotonic() + 60
        while len(self.sites_of(launch)) < 3 or not list(self.folder.glob("runs/small/*/job.toml")):
            self.assertIsNone(launch.poll(), self.said(launch))
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        pids = [*self.sites_of(launch).values(), self.router_of(launch)]
        self.spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids[:-1]}
        self.assertEqual(len(self.spaces), 3)
        self.assertLessEqual(self.spaces, namespaces())
        self.assertNotIn(os.readlink("/proc/self/ns/net"), self.spaces)
        return launch, pids

    def nothing_is_left(self, pids):
        end = time.monotonic() + 20
        while any(map(launch_test.alive, pids)) or namespaces() & self.spaces:
            self.assertLess(time.monotonic(), end, (pids, namespaces() & self.spaces))
            time.sleep(0.05)

    def test_a_killed_router_ends_the_run_and_leaves_nothing(self):
        launch, pids = self.begin()
        os.kill(pids[-1], signal.SIGKILL)
        code, said = self.end(launch)
        self.assertEqual(code, 3, said)
        self.assertIn("the router of the emulated WAN has ended (killed by signal 9)", said)
        self.nothing_is_left(pids)

    def test_a_killed_launcher_leaves_nothing_and_the_next_one_says_so(self):
        launch, pids = self.begin()
        os.kill(launch.pid, signal.SIGKILL)
        launch.wait()
        self.nothing_is_left(pids)
        said = self.says("launch", "job.toml", "--lab", "--force", "--set", "stop.max_rounds=5")
        self.assertIn(f"was killed (its launcher, process {launch.pid}", said)
        self.assertNotIn("was killed", self.says("launch", "job.toml", "--lab", "--force", "--set",
                                                 "stop.max_rounds=5"))

    def test_ctrl_c_ends_it_and_leaves_nothing(self):
        launch, pids = self.begin()
        launch.send_signal(signal.SIGINT)
        code, said = self.end(launch)
        self.assertEqual(code, 130, said)
        self.nothing_is_left(pids)

    def test_more_than_the_router_carries_is_said(self):
        said = self.says("launch", "job.toml", "--lab", "--set", "stop.max_rounds=5", "--set",
                         "wan.rate_scale=1000")
        self.assertIn("the router carries about 1000 Mbit/s", said)

    def test_without_rights_it_says_what_is_missing(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv, to give rights up")
        done = subprocess.run(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", LONGHAUL,
                               "launch", "job.toml", "--lab"], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "the emulated WAN needs .*root")
        self.assertFalse((self.folder / "runs/small").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
