"""P7: several processes at a site: the bits of one process with the whole batch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

from conftest import PYTHON_PATH

SCRIPT = Path(__file__).with_name("own_group.py")
JOB = """
[stop]
max_rounds = 6
[report]
every_rounds = 3
[sync]
kind = "{sync}"
{keys}
[overlay]
kind = "ring"
[[site]]
name = "aa"
address = "127.0.0.1:{a}"
[[site]]
name = "bb"
address = "127.0.0.1:{b}"
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": PYTHON_PATH, **more}


class SiteProcesses:
    """Those of one site, with the environment that torchrun gives them."""

    def __init__(self, command, site: str, processes: int, port: int, out: str):
        words = ["site", "job.toml", "--site", site, "--insecure", "--quiet",
                 "--out", f"{out}/{site}"]
        self.children = []
        for rank in range(processes):
            several = {} if processes == 1 else {
                "RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            self.children.append(subprocess.Popen(
                [sys.executable, "-P", str(SCRIPT), *words], cwd=command.folder, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(**several)))

    def end(self, limit_s: float = 90) -> tuple[list[int], str]:
        text = "".join(child.communicate(timeout=limit_s)[0] for child in self.children)
        return [child.returncode for child in self.children], text


def run_sites(command, processes: int, sync: str, keys: str, out: str):
    a, b, master_a, master_b = free_ports(4)
    (command.folder / "job.toml").write_text(JOB.format(sync=sync, keys=keys, a=a, b=b))
    sites = [SiteProcesses(command, "aa", processes, master_a, out),
             SiteProcesses(command, "bb", processes, master_b, out)]
    for site in sites:
        codes, text = site.end()
        assert codes == [0] * processes, text
    return numpy.fromfile(command.folder / out / "aa/model.f32", numpy.float32)


@pytest.mark.parametrize("sync,keys", [("fedavg", "steps = 3"), ("bsp", "")])
def test_P7_two_processes_a_site(command, sync, keys):
    if sync != "fedavg" and "LONGHAUL_ALL" not in os.environ:
        pytest.skip("nightly")
    one = run_sites(command, 1, sync, keys, "one")
    two = run_sites(command, 2, sync, keys, "two")
    assert numpy.abs(one - two).max() < 1e-5


def test_P7_a_process_that_is_killed_ends_its_site_by_name(command, monkeypatch):
    if "LONGHAUL_ALL" not in os.environ:
        pytest.skip("nightly")
    monkeypatch.setenv("PAUSE_S", "0.1")
    a, b, master_a, master_b = free_ports(4)
    (command.folder / "job.toml").write_text(
        JOB.format(sync="fedavg", keys="steps = 3", a=a, b=b).replace("= 6", "= 200"))
    aa = SiteProcesses(command, "aa", 2, master_a, "run")
    bb = SiteProcesses(command, "bb", 2, master_b, "run")
    try:
        steps = command.folder / "bb.1.steps"
        deadline = time.monotonic() + 60
        while not (steps.exists() and len(steps.read_text()) > 5):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        bb.children[1].send_signal(signal.SIGKILL)
        codes, text = bb.end(60)
        assert codes[0] == 2 and "site bb: train() raised RuntimeError" in text, text
    finally:
        for child in aa.children + bb.children:
            child.kill()
            child.wait()
