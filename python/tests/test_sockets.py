"""Loops of one's own over sockets: the same bits as simulated, deaths, errors, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

import own_arrays
from test_strategies import KEYS, REFUSED, strategies

SCRIPT = Path(__file__).with_name("own_arrays.py")
# Over sockets the others run in nightly: LONGHAUL_ALL=1.
QUICK = "[net]\nsilence_s = 1"  # a lost site is noticed after
IN_GATE = ("bsp", "fedavg", "asp", "streaming_diloco")


def text(sync: str, rounds: int = 4, more: str = "") -> str:
    return f"""
[stop]
max_rounds = {rounds}
[report]
every_rounds = 2
[sync]
kind = "{sync}"
{KEYS.get(sync, "")}
[wan]
mbps = 100
delay_ms = 1
{more}
""" + "".join(f'[[site]]\nname = "{name}"\nstep_ms = 10\n' for name in own_arrays.SITES)


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("sync", [s for s in strategies() if s not in REFUSED])
def test_P9_over_sockets(command, sync):
    if sync not in IN_GATE and "LONGHAUL_ALL" not in os.environ:
        pytest.skip("nightly")
    if sync == "staleness_lab":
        pytest.skip("arrays have no gradient on fixed samples; simulated with torch")
    job = command.job(text=text(sync))
    code, out, err = command.process(SCRIPT, ["launch", job, "--out", "run", "--quiet"])
    assert code == 0, out + err
    launched = summary(command.folder / "run")
    assert launched["rounds"] >= 1
    if sync in ("bsp", "fedavg"):
        code, _ = command.simulate(job, own_arrays.train, own_arrays.score, out="simulated")
        assert summary(command.folder / "simulated")["params_hash"] == launched["params_hash"]


def test_equal_bits_whatever_the_cores(command, monkeypatch):
    """Simulated in a process that has loaded torch and its BLAS already, and in new ones."""
    if "LONGHAUL_ALL" not in os.environ:
        pytest.skip("nightly")
    hashes = set()
    for host in ("simulate", "launch"):
        child = command.start("""
import torch
from loops import longhaul

def train(site):
    model = torch.nn.Linear(400, 120)
    opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
    for rows in site.batches([torch.arange(32 * 400).reshape(32, 400).sin()] * 2):
        opt.zero_grad()
        model(rows).square().mean().backward()
        opt.step()

longhaul.main(train)
""", [host, command.job(text=text("fedavg")), "--out", host, "--quiet"], threads=None)
        out, err = child.communicate(timeout=90)
        assert child.returncode == 0, out + err
        hashes.add(summary(command.folder / host)["params_hash"])
    assert len(hashes) == 1


def test_P4_an_exception_ends_all_sites_by_name(command, monkeypatch):
    monkeypatch.setenv("FAIL", "bb:5")
    begun = time.monotonic()
    code, out, err = command.process(SCRIPT, ["launch", command.job(text=text("fedavg", 40)),
                                              "--out", "run", "--max-restarts", "0"])
    assert code == 2, out + err
    assert 'raise ValueError("a bug of mine")' in err
    assert "bb: longhaul: site bb: train() raised ValueError: a bug of mine" in err
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("end,reason", [
    ("os._exit(0)", "exit code 0"), ("os._exit(3)", "exit code 3"),
    ("signal.raise_signal(signal.SIGUSR2)", "killed by signal 12 (User defined signal 2)")])
def test_P4_a_process_that_ends_in_its_loop_is_no_success(command, end, reason):
    child = command.start("""
import os, numpy, signal, longhaul

def train(site):
    site.attach_arrays({"w": numpy.zeros(4, numpy.float32)})
    for step in range(1000):
        if site.name == "bb" and step == 5:
            END
        site.step()

longhaul.main(train)
""".replace("END", end), ["launch", command.job(text=text("fedavg", 40, QUICK)), "--out",
                          "run", "--quiet", "--max-restarts", "0"])
    out, err = child.communicate(timeout=90)
    assert child.returncode == 1, out + err
    assert f"bb: {reason} in the middle of the run, by its own code" in (
        summary(command.folder / "run")["failure"])
    assert summary(command.folder / "run")["rounds"] == 40


def test_P3_a_site_that_is_killed_comes_back(command, monkeypatch):
    monkeypatch.setenv("PAUSE_S", "0.05")
    trace = command.folder / "trace"
    monkeypatch.setenv("TRACE", str(trace))
    job = command.job(text=text("fedavg", 40))
    child = command.start(SCRIPT, ["launch", job, "--out", "run"])
    site = trace.with_suffix(".bb")
    deadline = time.monotonic() + 40
    while not (site.exists() and len(site.read_text().split()) > 4):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.05)
    status = json.loads((command.folder / "run/bb/status.json").read_text())
    os.kill(status["process"], signal.SIGKILL)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, out + err
    assert summary(command.folder / "run")["rounds"] == 40
    assert "starts it again" in err and "rank 1 (bb) is back" in err, out + err
    assert err.count("bb has left its loop") == 1  # train() ran once in the process that came back


def test_P3_ctrl_c_and_resume(command, monkeypatch):
    job = command.job(text=text("fedavg", 30))
    command.process(SCRIPT, ["launch", job, "--out", "whole", "--quiet"])
    monkeypatch.setenv("PAUSE_S", "0.03")
    trace = command.folder / "trace"
    monkeypatch.setenv("TRACE", str(trace))
    child = command.start(SCRIPT, ["launch", job, "--out", "cut", "--quiet"])
    site = trace.with_suffix(".cc")
    deadline = time.monotonic() + 40
    while not (site.exists() and len(site.read_text().split()) > 10):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=40)
    assert child.returncode == 130
    code, out, err = command.process(SCRIPT, ["launch", job, "--out", "cut", "--quiet", "--resume"])
    assert code == 0, out + err
    cut, whole = (summary(command.folder / run)["params_hash"] for run in ("cut", "whole"))
    assert cut == whole


def test_perf_over_sockets_ends(command):
    code, out, err = command.process(SCRIPT, ["perf", command.job(text=text("fedavg")), "--local",
                                              "--mbytes", "0.1", "--repeat", "1", "--json"])
    assert code == 0, out + err
    assert json.loads(out)["time_s"] > 0
