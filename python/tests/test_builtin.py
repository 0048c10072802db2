"""P1: a loop that does what the built-in learner does comes to the same bits."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

from longhaul import _longhaul

from conftest import PROGRAM

MODEL = """
[model]
kind = "lenet"
[data]
kind = "idx"
path = "{data}"
batch = 8
[optimizer]
kind = "sgd"
rate = 0.05
momentum = 0.9
"""
SCRIPT = Path(__file__).with_name("own_lenet.py")


def write_idx(folder: Path) -> None:
    draw = numpy.random.default_rng(1)
    for part, count in (("train", 150), ("t10k", 20)):
        images = draw.integers(0, 256, (count, 28, 28), dtype=numpy.uint8)
        labels = draw.integers(0, 10, count, dtype=numpy.uint8)
        head = numpy.array([0x803, count, 28, 28], ">u4").tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = numpy.array([0x801, count], ">u4").tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


def params_hash(run: Path) -> str:
    return json.loads((run / "summary.json").read_text())["params_hash"]


@pytest.mark.parametrize("sync,keys", [("bsp", ""), ("fedavg", "steps = 3"),
                                       ("diloco", "steps = 3")])
def test_P1_the_bits_of_the_built_in_learner(command, sync, keys):
    write_idx(command.folder)
    built_in = command.job(sync=sync, keys=keys, rounds=3, name="built-in.toml",
                           more=MODEL.format(data=command.folder))
    own = command.job(sync=sync, keys=keys, rounds=3, name="own.toml")
    subprocess.run([PROGRAM, "simulate", built_in, "--out", command.folder / "built-in", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL,
                   env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})
    want = params_hash(command.folder / "built-in")
    everywhere = sync == "fedavg" or "LONGHAUL_ALL" in os.environ  # a process starts slowly here
    for host in ("simulate", "launch") if everywhere else ("simulate",):
        code, _, err = command.process(SCRIPT, [host, own, "--out", host, "--quiet"])
        assert code == 0, err
        assert params_hash(command.folder / host) == want
