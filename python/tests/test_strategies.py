"""P9: every strategy trains a loop of one's own in the simulator, or is refused by name."""

from __future__ import annotations

import json
import subprocess
import os

import numpy
import pytest

import longhaul
from conftest import PROGRAM
from loops import SITES, score, train

# What a loop cannot give, by strategy: the word in the refusal.
REFUSED = {"p3": "backward part", "sfb": "sufficient factors", "gadmm": "full gradient",
           "lag": "full gradient"}
# Settings with which a run of a few rounds passes through all that the strategy does.
KEYS = {"fedavg": "steps = 2", "diloco": "steps = 2", "fedprox": "steps = 2",
        "streaming_diloco": "steps = 4\nfragments = 2", "sparse_loco": "steps = 2"}


def strategies() -> list[str]:
    found = subprocess.run([PROGRAM, "list", "--json"], check=True, capture_output=True, text=True,
                           env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})
    return [one["name"] for one in json.loads(found.stdout)["sync"]]


def train_and_score(site: longhaul.Site) -> None:
    from torch.nn import functional

    from loops import samples

    x, y = samples(site.name).tensors
    model_of = {}

    @site.gradient_of
    def loss_on(count):
        return functional.cross_entropy(model_of["model"](x[:count]), y[:count])

    import torch
    from loops import loader, small_model

    model = model_of["model"] = small_model()
    opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    for x_batch, y_batch in site.batches(loader(site.name)):
        loss = functional.cross_entropy(model(x_batch), y_batch)
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss)


@pytest.mark.parametrize("sync", strategies())
def test_P9_in_the_simulator(command, capfd, sync):
    text = """
[stop]
max_rounds = 4
[report]
every_rounds = 2
[sync]
kind = "{}"
{}
[wan]
mbps = 100
delay_ms = 5
""".format(sync, KEYS.get(sync, "")) + "".join(f'[[site]]\nname = "{name}"\nstep_ms = 10\n'
                                                  for name in SITES)
    code, summary = command.simulate(command.job(text=text), train_and_score, score)
    err = capfd.readouterr().err
    if sync in REFUSED:
        assert code == 2
        assert f'[sync] kind = "{sync}" asks the learner' in err and f": {REFUSED[sync]}\n" in err
        return
    assert code == 0, err
    assert summary["rounds"] >= 1
    assert numpy.isfinite(summary["final_loss"])
