#!/usr/bin/env python3
"""Six sites of which three are behind routers that translate addresses and let nobody in: the suite
of relay_lab_test.py over network namespaces. As root; needs nft (nftables). In real time, so
nightly.

    LONGHAUL=build/release/longhaul tests/cli/nat_lab_test.py

A site behind a router has the address 192.168.0.2, as all of them, and a way out.
"""
import os
import shutil
import subprocess
import time
import unittest

import relay_lab_test
from relay_lab_test import HIDDEN, SITES

PORT = 7400
RULES = """\
table ip longhaul {
  chain after { type nat hook postrouting priority srcnat; oifname "wan0" masquerade; }
  chain through {
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    iifname "lan0" accept
  }
  chain into { type filter hook input priority filter; policy drop; }
}
"""


def tell(*words, **with_):
    done = subprocess.run(words, capture_output=True, text=True, **with_)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")


def missing():
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    return "" if shutil.which("nft") else "needs nft: apt-get install nftables"


class Network:
    """A namespace for each site, one bridge, and a router before each of the hidden ones."""

    def __init__(self, sites, hidden):
        self.made = []
        self.outside = {name: f"10.7.0.{i + 1}" for i, name in enumerate(sites)}
        bridge = self.namespace("bridge")
        tell("ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
        tell("ip", "-n", bridge, "link", "set", "br0", "up")
        for i, name in enumerate(sites):
            site = self.namespace(name)
            outer = self.namespace(f"{name}-nat") if name in hidden else site
            tell("ip", "-n", bridge, "link", "add", f"p{i}", "type", "veth", "peer", "name",
                 "wan0", "netns", outer)
            tell("ip", "-n", bridge, "link", "set", f"p{i}", "master", "br0", "up")
            self.up(outer, "wan0", f"{self.outside[name]}/24")
            if name in hidden:
                self.translate(site, outer)

    def namespace(self, name):
        name = f"lhn-{os.getpid()}-{name}"
        tell("ip", "netns", "add", name)
        self.made.append(name)
        tell("ip", "-n", name, "link", "set", "lo", "up")
        return name

    @staticmethod
    def up(namespace, device, address):
        tell("ip", "-n", namespace, "addr", "add", address, "dev", device)
        tell("ip", "-n", namespace, "link", "set", device, "up")

    def translate(self, site, router):
        tell("ip", "-n", router, "link", "add", "lan0", "type", "veth", "peer", "name", "eth0",
             "netns", site)
        self.up(router, "lan0", "192.168.0.1/24")
        self.up(site, "eth0", "192.168.0.2/24")
        tell("ip", "-n", site, "route", "add", "default", "via", "192.168.0.1")
        tell("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        tell("ip", "netns", "exec", router, "nft", "-f", "-", input=RULES)

    def inside(self, name):
        return ["ip", "netns", "exec", f"lhn-{os.getpid()}-{name}"]

    def close(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Nat(relay_lab_test.Relays):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why := missing():
            raise unittest.SkipTest(why)
        cls.addClassCleanup(lambda: cls.network.close())
        cls.network = Network(SITES, HIDDEN)

    def start_all(self, *words):
        for name in SITES:
            if name in HIDDEN:
                words += ("--set", f"site.{name}.dial_out=true")
            else:
                words += ("--set", f"site.{name}.address={self.network.outside[name]}:{PORT}")
        words = ("site", "job.toml", "--force", *words)
        return {name: self.start(*words, "--site", name, "--out", name,
                                 inside=self.network.inside(name)) for name in SITES}

    def test_the_routers_let_nobody_in(self):
        """What this suite stands on: from a shown site nobody reaches a hidden one."""
        shown = next(name for name in SITES if name not in HIDDEN)
        ping = [*self.network.inside(HIDDEN[0]), "bash", "-c",
                f"echo > /dev/tcp/{self.network.outside[shown]}/9"]
        refused = subprocess.run(ping, capture_output=True, text=True, timeout=30)
        self.assertIn("refused", refused.stderr, "the way out is open")
        for at in (self.network.outside[HIDDEN[0]], "192.168.0.2"):
            ping = [*self.network.inside(shown), "timeout", "3", "bash", "-c",
                    f"echo > /dev/tcp/{at}/{PORT}"]
            found = subprocess.run(ping, capture_output=True, text=True)
            self.assertNotEqual(found.returncode, 0)
            self.assertNotIn("refused", found.stderr, "dropped, or no way")

    def test_datagrams_pass_the_routers(self):
        """Best-effort messages of a hidden site and a shown one go by UDP both ways: a site learns
        from authentic datagrams where a router shows their sender."""
        began = time.monotonic()
        said = self.train("--set", "transfer.kind=dgt", "--set", "sync.kind=fedavg", "--set",
                          "overlay.kind=hub", "--set", "net.pace=true", "--set",
                          "stop.max_rounds=80")[1]
        self.assertGreater(time.monotonic() - began, 6, "long enough to notice")
        for name, text in said.items():
            for line in text.splitlines():
                self.assertNotIn("UDP does not reach", line, f"{name} said so")


if __name__ == "__main__":
    unittest.main(verbosity=2)
