#!/usr/bin/env python3
"""Whoever can reach a port: strangers that send nonsense, far too much or nothing, while sites meet
and while they train.

    LONGHAUL=build/release/longhaul tests/cli/strangers_test.py
"""
import collections
import contextlib
import errno
import os
import random
import resource
import socket
import struct
import threading
import time
import unittest

from cli_test import PATIENCE_S
from effort import nightly
from launch_test import SITES, Case
from ports import free_addresses

RATE = 170          # of silent calls a second
SILENT = 1000      # half-open at once, more than a node listens to
GROWTH_KB = 20_000


def header(kind, head, body):
    """The 40 bytes before a frame, with a checksum that is wrong."""
    return struct.pack("<IIIHBBQQII", head, body, 0, 1, kind, 0, 0, 0, 0, 0)


MESSAGE, HELLO = 1, 4
PLAIN_NONSENSE = [  # what a stranger says, and what a node with --insecure says of it
    (random.Random(1).randbytes(10_000), "frame of unknown type"),
    (b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n", "frame of unknown type"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), "it speaks TLS"),
    (header(HELLO, 0xFFFFFFFF, 0xFFFFFFFF), "4294967295"),
    (header(MESSAGE, 0, 1 << 20), "1048576"),
    (header(HELLO, 100, 0) + bytes(100), "checksum"),
    (header(HELLO, 4096, 0)[:20], "closed"),
]
NONSENSE = [  # the same of a node under TLS
    (random.Random(1).randbytes(10_000), "does not speak TLS"),
    (b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n", "does not speak TLS"),
    (header(HELLO, 100, 0) + bytes(100), "does not speak TLS"),
    # A client hello that ends early, a record and a hello that are longer than any.
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), "closed the connection during"),
    (b"\x16\x03\x01\xff\xff\x01\xff\xff\xff\x03\x03" + bytes(5000), "the TLS handshake failed"),
    (b"\x16\x03\x01\x00\x06\x01\xff\xff\xff\x03\x03", "the TLS handshake failed"),
    (b"\x16\x03\x01\x00\x04\x0e\x00\x00\x00", "the TLS handshake failed"),
]


class Strangers(Case):
    def say(self, port, data):
        """What the other side says, until it closes."""
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stranger:
            answer = b""
            try:
                stranger.sendall(data)
                stranger.shutdown(socket.SHUT_WR)
                while part := stranger.recv(4096):
                    answer += part
            except OSError as error:  # turned away before it had said it all
                if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                    raise
            return answer

    @staticmethod
    def resident_kb(process):
        with open(f"/proc/{process.pid}/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

    def site(self, name, addresses, *more):
        # AddressSanitizer keeps 256 MB of what was freed, which is no growth.
        options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        return self.start("site", "job.toml", "--site", name, "--addresses", addresses, "--out",
                          name, *more, env={"ASAN_OPTIONS": options})

    def each_gets_a_line(self, nonsense, *more):
        addresses = free_addresses(3)
        port = int(addresses.split(",")[0].rsplit(":", 1)[1])
        site = self.site(SITES[0], addresses, *more)
        self.until_listens(site, addresses.split(",")[0])
        for data, said in nonsense:
            self.say(port, data)
            self.until(site, said)

    @nightly
    def test_in_plain_text_each_gets_a_line_too(self):
        self.each_gets_a_line(PLAIN_NONSENSE, "--insecure")

    def test_each_gets_a_line(self):
        self.each_gets_a_line(NONSENSE)

    @nightly
    def test_a_site_that_speaks_in_plain_text_is_told_to_use_tls(self):
        addresses = free_addresses(3)
        secure = self.site(SITES[1], addresses)
        self.until_listens(secure, addresses.split(",")[1])
        code, text = self.end(self.site(SITES[0], addresses, "--insecure"))
        self.assertEqual(code, 3, text)
        self.assertIn("rank 1 (lima)", text)
        self.assertIn("takes connections under TLS alone", text)
        self.until(secure, "does not speak TLS")

    def allow_descriptors(self):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))

    def test_a_flood_of_silent_ones_keeps_no_site_out(self):
        self.allow_descriptors()
        addresses = free_addresses(3)
        called = addresses.split(",")[1]
        port = int(called.rsplit(":", 1)[1])
        over = threading.Event()

        def flood():
            calls = collections.deque(maxlen=2000)
            while not over.wait(1 / RATE):
                with contextlib.suppress(OSError):  # it listens no more
                    calls.append(socket.create_connection(("127.0.0.1", port), PATIENCE_S))

        few = ["--set", "stop.max_rounds=5"]
        lima = self.site(SITES[1], addresses, *few)
        self.until_listens(lima, called)
        strangers = threading.Thread(target=flood)
        strangers.start()
        self.addCleanup(strangers.join)
        self.addCleanup(over.set)
        self.until(lima, "others have not said hello yet")
        sites = [lima, *(self.site(name, addresses, *few) for name in (SITES[0], SITES[2]))]
        for site in sites:
            code, text = self.end(site)
            self.assertEqual(code, 0, text)

    @nightly
    def test_they_are_turned_away_in_a_line_each_and_the_job_is_done(self):
        sets = ["--set", "stop.max_rounds=600", "--set", "sync.kind=bsp", "--set",
                "overlay.kind=direct"]
        expected = self.simulated_hash(*sets, "--out", "runs/simulated")
        addresses = free_addresses(3)
        port = int(addresses.split(",")[0].rsplit(":", 1)[1])
        started = time.monotonic()
        sites = [self.site(name, addresses, *sets) for name in SITES[:2]]
        self.allow_descriptors()
        self.until_listens(sites[0], addresses.split(",")[0])
        before = self.resident_kb(sites[0])
        for data, said in NONSENSE:
            self.say(port, data)
            self.until(sites[0], said)
        silent = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(SILENT)]
        for stranger in silent:  # none is left waiting
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(stranger.recv(1), b"")
            stranger.close()
        self.until(sites[0], "no hello came within 2 s")
        self.until(sites[0], "others have not said hello yet")
        # The last site comes, and while they train strangers go on calling.
        sites.append(self.site(SITES[2], addresses, *sets))
        calls, largest = 0, 0

        def call():
            nonlocal calls, largest
            while sites[0].poll() is None:
                with contextlib.suppress(OSError, StopIteration):  # it may end at any moment
                    self.say(port, NONSENSE[calls % len(NONSENSE)][0])
                    calls += 1
                    largest = max(largest, self.resident_kb(sites[0]))

        caller = threading.Thread(target=call)
        caller.start()
        for name, one in zip(SITES, sites):
            code, text = self.end(one)
            self.assertEqual(code, 0, text)
            self.assertEqual(self.summary(name)["params_hash"], expected)
        caller.join()
        self.assertGreater(calls, 0)
        self.assertGreater(largest, 0)
        self.assertLess(largest - before, GROWTH_KB)
        said = self.said(sites[0]).splitlines()
        lines = [line for line in said if "refused a connection" in line]
        self.assertGreater(len(lines), len(NONSENSE))
        self.assertLess(len(lines), 20 + time.monotonic() - started,
                        "notes about strangers are limited to one a second")


if __name__ == "__main__":
    unittest.main()
