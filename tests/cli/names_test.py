#!/usr/bin/env python3
"""Names of sites that lead to the loopback of their own machine, to several addresses, to one that
does not answer, or for a while to none. As root: each site has an /etc/hosts of its own.

    LONGHAUL=build/release/longhaul tests/cli/names_test.py
"""
import contextlib
import os
import shutil
import socket
import subprocess
import time
import unittest

from cli_test import PATIENCE_S
from effort import nightly
from launch_test import SITES, Case
from ports import free_ports

DEAD, LIVE = "192.0.2.1", "127.0.0.9"  # of no machine, of this one


def missing():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return "needs root and unshare, for files of its own in /etc"
    tried = subprocess.run(["unshare", "-m", "mount", "--bind", "/etc/hosts", "/etc/hosts"],
                           capture_output=True, check=False)
    return "" if tried.returncode == 0 else "cannot mount: " + tried.stderr.decode()


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@unittest.skipIf(missing(), missing())
class Names(Case):
    def hosts(self, name, *lines):
        """The file that the site will have for /etc/hosts."""
        path = self.folder / f"hosts-{name}"
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def begin(self, command, name, hosts, *more):
        inside = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        return self.start(command, "job.toml", "--site", name, *more, inside=inside)

    def site(self, name, hosts, *more):
        return self.begin("site", name, hosts, "--out", f"runs/{name}", *more)

    def hosts_of(self, own):
        """As Debian writes it; the others have addresses that do not answer, and one that does."""
        lines = [f"127.0.1.1 {own}-box"]
        for other in SITES:
            if other != own:
                lines += [f"{DEAD} {other}-box", f"127.0.0.1 {other}-box", f"{LIVE} {other}-box"]
        return self.hosts(own, *lines)

    @staticmethod
    def addresses(ports):
        return ",".join(f"{name}-box:{port}" for name, port in zip(SITES, ports))

    @staticmethod
    def listens(host, port):
        try:
            socket.create_connection((host, port), PATIENCE_S).close()
            return True
        except OSError:
            return False

    def test_a_site_is_reached_whatever_its_own_machine_calls_it(self):
        ports = free_ports(3)
        # At oslo's first address calls are not answered.
        bound = {"oslo": ["--set", f"site.oslo.bind={LIVE}:{ports[2]}"]}
        with contextlib.ExitStack() as calls:
            silent = calls.enter_context(socket.socket())
            silent.bind(("127.0.0.1", ports[2]))
            silent.listen(0)
            for _ in range(4):
                call = calls.enter_context(socket.socket())
                call.setblocking(False)
                call.connect_ex(("127.0.0.1", ports[2]))
            sites = [self.site(own, self.hosts_of(own), "--addresses", self.addresses(ports),
                               "--set", "stop.max_rounds=5", *bound.get(own, []))
                     for own in SITES]
            self.all_end_well(sites)

    def all_end_well(self, sites):
        for one in sites:
            code, said = self.end(one)
            self.assertEqual(code, 0, said)

    def test_a_name_that_comes_later_is_listened_at_in_all_its_addresses(self):
        port, *others = free_ports(3)
        hosts = self.hosts("tokyo", "127.0.0.1 localhost")
        addresses = ",".join(f"127.0.0.1:{one}" for one in (port, *others))
        tokyo = self.site("tokyo", hosts, "--addresses", addresses, "--set",
                          f"site.tokyo.bind=late-box:{port}")
        self.until(tokyo, f"late-box:{port}: this name does not resolve")
        v6 = ["::1 late-box\n"] if has_ipv6() else []
        with open(hosts, "a") as file:
            file.writelines([f"{DEAD} late-box\n", "127.0.0.1 late-box\n", *v6])
        end = time.monotonic() + PATIENCE_S
        while not self.listens("127.0.0.1", port):
            self.assertIsNone(tokyo.poll(), self.said(tokyo))
            self.assertLess(time.monotonic(), end, self.said(tokyo))
            time.sleep(0.05)
        self.assertEqual(self.listens("::1", port), bool(v6))
        self.assertFalse(self.listens("127.0.0.2", port), "there alone")
        self.assertEqual(self.said(tokyo).count("does not resolve"), 1, self.said(tokyo))

    @nightly
    def test_a_name_that_never_comes_ends_the_site(self):
        port, *others = free_ports(3)
        addresses = ",".join(f"127.0.0.1:{one}" for one in (port, *others))
        code, said = self.end(self.site(
            "tokyo", self.hosts("tokyo", "127.0.0.1 localhost"), "--addresses", addresses, "--set",
            f"site.tokyo.bind=late-box:{port}", "--set", "net.meet_s=1"))
        self.assertEqual(code, 3, said)
        self.assertIn("tries again for 1 s", said)
        self.assertIn(f"late-box:{port}: this name does not resolve", said.splitlines()[-1])

    @nightly
    def test_the_doctor_names_what_leads_to_the_machine_itself(self):
        ports = free_ports(3)
        words = ["--addresses", self.addresses(ports), "--seconds", 0.2, "--datagrams", 10]
        bound = {"oslo": ["--set", f"site.oslo.bind=127.0.0.1:{ports[2]}"]}
        doctors = [self.begin("doctor", own, self.hosts_of(own), *words, *bound.get(own, []))
                   for own in SITES]
        code, said = self.end(doctors[0])
        self.assertEqual(code, 1, said)
        self.assertIn("! oslo: it listens at its loopback", said)
        for own in SITES[:2]:
            self.assertIn(f"? {own}: on its own machine {own}-box is 127.0.1.1", said)
        self.assertNotIn("? oslo: on its own machine", said)
        for one in doctors[1:]:
            code, said = self.end(one)
            self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
