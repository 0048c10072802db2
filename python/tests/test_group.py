"""P7: several processes at a site, by torchrun: the bits of one process with the whole batch."""

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

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "own_group.py"
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


def start_site(command, site: str, processes: int, port: int, out: str, more=()):
    words = ["site", "job.toml", "--site", site, "--insecure", "--out", f"{out}/{site}", "--quiet", *more]
    start = [sys.executable, str(SCRIPT), *words]
    if processes > 1:
        start = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes),
                 "--master_port", str(port), str(SCRIPT), *words]
    return subprocess.Popen(start, cwd=command.folder, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT,
                            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                                 "PYTHONPATH": f"{HERE}:{os.environ['PYTHONPATH']}"})


def run_sites(command, processes: int, sync: str, keys: str, out: str):
    a, b, master_a, master_b = free_ports(4)
    (command.folder / "job.toml").write_text(JOB.format(sync=sync, keys=keys, a=a, b=b))
    children = [start_site(command, "aa", processes, master_a, out),
                start_site(command, "bb", processes, master_b, out)]
    for child in children:
        text, _ = child.communicate(timeout=90)
        assert child.returncode == 0, text
    return numpy.fromfile(command.folder / out / "aa/model.f32", numpy.float32)


@pytest.mark.parametrize("sync,keys", [("fedavg", "steps = 3"), ("bsp", "")])
def test_P7_two_processes_a_site(command, sync, keys):
    if sync != "fedavg" and "LONGHAUL_ALL" not in os.environ:
        pytest.skip("nightly")
    one = run_sites(command, 1, sync, keys, "one")
    two = run_sites(command, 2, sync, keys, "two")
    assert numpy.abs(one - two).max() < 1e-5


def test_P7_a_process_that_is_killed_ends_its_site_by_name(command):
    if "LONGHAUL_ALL" not in os.environ:
        pytest.skip("nightly")
    os.environ["PAUSE_S"] = "0.2"
    try:
        a, b, master_a, master_b = free_ports(4)
        (command.folder / "job.toml").write_text(
            JOB.format(sync="fedavg", keys="steps = 3", a=a, b=b).replace("= 6", "= 200"))
        children = [start_site(command, "aa", 2, master_a, "run"),
                    start_site(command, "bb", 2, master_b, "run")]
        pid = command.folder / "bb.1.pid"
        deadline = time.monotonic() + 60
        while not pid.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(3)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        text, _ = children[1].communicate(timeout=60)
        assert children[1].returncode != 0
        assert "site bb" in text, text
        children[0].send_signal(signal.SIGINT)
        children[0].communicate(timeout=60)
    finally:
        del os.environ["PAUSE_S"]
        for child in children:
            child.kill()
