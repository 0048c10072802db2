"""Sites as network namespaces on one bridge, their rates made by this kernel's own shapers: a WAN
without delays that is not our router's. As root."""
import contextlib
import os
import subprocess

QUEUE_MS = 100  # of a plain queue


def site_address(i):
    return f"10.9.0.{i + 1}"


def tell(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


def token_bucket(namespace, device, rate, _side, _count):
    """One queue for all that goes out, of QUEUE_MS at its rate."""
    tell("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
         f"{rate}mbit", "burst", "16kb", "latency", f"{QUEUE_MS}ms")


def class_each(namespace, device, rate, side, count):
    """A queue for each site at the other end and one for packets of less than 64 bytes: most
    acknowledgements, but not those that name what is missing. The rate goes in equal parts to those
    that are not empty."""
    def tc(*words):
        tell("tc", "-n", namespace, *words)

    def share(number, order, *match):
        own = f"1:{10 + number}"
        tc("class", "add", "dev", device, "parent", "1:1", "classid", own, "htb", "rate",
           f"{rate * 1000 // (count + 1)}kbit", "ceil", f"{rate}mbit", "quantum", "3028")
        tc("qdisc", "add", "dev", device, "parent", own, "pfifo", "limit", "100")
        tc("filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "prio", str(order),
           "u32", "match", *match, "flowid", own)

    tc("qdisc", "add", "dev", device, "root", "handle", "1:", "htb")
    tc("class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate",
       f"{rate}mbit", "burst", "16kb")
    share(count, 1, "u16", "0x0000", "0xffc0", "at", "2")  # the length of an IP packet
    for i in range(count):
        share(i, 2, "ip", side, f"{site_address(i)}/32")


@contextlib.contextmanager
def kernel_wan(rates, shape):
    """A namespace for each site, all on one bridge; both ways at every site shaped as said."""
    names = [f"lhf-{os.getpid()}-{i}" for i in range(len(rates))]
    middle = f"lhf-{os.getpid()}-m"
    try:
        tell("ip", "netns", "add", middle)
        tell("ip", "-n", middle, "link", "add", "br0", "type", "bridge")
        tell("ip", "-n", middle, "link", "set", "br0", "up")
        for i, (name, rate) in enumerate(zip(names, rates)):
            tell("ip", "netns", "add", name)
            tell("ip", "-n", name, "link", "set", "lo", "up")
            tell("ip", "-n", middle, "link", "add", f"p{i}", "type", "veth", "peer", "name", "wan0",
                 "netns", name)
            tell("ip", "-n", middle, "link", "set", f"p{i}", "master", "br0", "up")
            tell("ip", "-n", name, "addr", "add", f"{site_address(i)}/24", "dev", "wan0")
            tell("ip", "-n", name, "link", "set", "wan0", "up")
            shape(name, "wan0", rate, "dst", len(rates))
            shape(middle, f"p{i}", rate, "src", len(rates))
        yield names
    finally:
        for name in [*names, middle]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
