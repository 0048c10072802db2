"""Ports for processes that a test starts: no other test on this machine is given the same ones.

A port that is looked for, found free and bound by a process later may be taken meanwhile. So each
test process has a block of ports to itself, for as long as it lives, below those that the kernel
gives to whoever asks for any.
"""
import errno
import os
import pathlib
import socket
import threading

FIRST, SIZE = 10_000, 100  # of the first block, of each
EPHEMERAL = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
DEFAULT_END = 32_768  # of Linux


def blocks():
    """The first port of each block."""
    try:
        end = int(EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        end = DEFAULT_END
    if end < FIRST + SIZE:  # the kernel gives all of them to anyone: it seldom gives one of these
        end = DEFAULT_END
    return range(FIRST, end - SIZE + 1, SIZE)


def is_free(port):
    """Whether nobody has it, at any address; a site may listen at all of them."""
    for family, everywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as one:
                    if family == socket.AF_INET6:
                        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    one.bind((everywhere, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                if family == socket.AF_INET:
                    raise
                # This machine has no IPv6.
    return True


class Block:
    """The lock is a socket in Linux's abstract namespace: of one name there is one, whoever's it
    is, in each network namespace, as of a port. The kernel removes it with the process, however
    that ends; a child that is started inherits none. No file is left, and no right is needed."""

    def __init__(self):
        firsts = blocks()
        self.process = os.getpid()
        for i in range(len(firsts)):  # each process begins elsewhere: what one left is seldom met
            self.first = firsts[(self.process + i) % len(firsts)]
            self.lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self.lock.bind(f"\0longhaul-test-ports-{self.first}")
            except OSError as error:
                self.lock.close()
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            self.given = 0
            return
        raise RuntimeError(
            f"all {len(firsts)} blocks of {SIZE} ports from {FIRST} on are taken by other tests: "
            "run fewer at once, or end those that hang; ss -xa | grep longhaul-test-ports shows "
            "the blocks")

    def take(self, count):
        """Ports one after the other; all were given before any is given again."""
        for _ in range(SIZE):
            if self.given + count > SIZE:
                self.given = 0
            ports = list(range(self.first + self.given, self.first + self.given + count))
            self.given += count
            if all(map(is_free, ports)):
                return ports
        raise RuntimeError(
            f"no {count} ports in a row are free from {self.first} to {self.first + SIZE - 1}, "
            "which this test has to itself: end the processes that an ended test has left; "
            "ss -tulnp shows them")


own, guard = None, threading.Lock()


def free_ports(count):
    """So many in a row."""
    global own
    with guard:
        if own and own.process != os.getpid():  # this process is a copy of the one that took it
            own.lock.close()
            own = None
        own = own or Block()
        return own.take(count)


def free_addresses(count):
    """As --addresses takes them."""
    return ",".join(f"127.0.0.1:{port}" for port in free_ports(count))
