#!/usr/bin/python3
"""What a loop of one's own pays for being a job (P8): a step under longhaul beside the bare loop.

    PYTHONPATH=build/release/python bench/python_loop.py [--steps 300] [--pairs 7]

Both loops run in this process, in turn, on one thread. `step`: a model of one parameter, so that
the figure is what step() itself adds. `lenet`: batches of 32 images; the ratio of medians, pair by
pair. One site, simulated; then a site and a
server over loopback.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from torch.nn import functional

import longhaul

torch.set_num_threads(1)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


X = torch.randn(32, 1, 28, 28, generator=torch.Generator().manual_seed(0))
Y = torch.arange(32) % 10


def step_of(kind):
    """A model, its optimiser and a function that computes gradients."""
    model = LeNet() if kind == "lenet" else nn.Linear(1, 1, bias=False)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def gradients():
        if kind == "lenet":
            opt.zero_grad()
            functional.cross_entropy(model(X), Y).backward()
        elif model.weight.grad is None:
            model.weight.grad = torch.zeros_like(model.weight)

    return model, opt, gradients


def bare(kind, steps):
    _, opt, gradients = step_of(kind)
    took = []
    for _ in range(steps):
        begun = time.perf_counter()
        gradients()
        opt.step()
        took.append(time.perf_counter() - begun)
    return took


def measured_loop(kind, took):
    """A train(site) that appends what each step takes, in s."""

    def train(site):
        model, opt, gradients = step_of(kind)
        opt = site.attach(model, opt)
        begun = time.perf_counter()
        for _ in site.batches([torch.empty(32)] * 1000):  # an epoch: what it costs once is apart
            gradients()
            opt.step(samples=32)
            now = time.perf_counter()
            took.append(now - begun)
            begun = now

    return train


def under_longhaul(kind, steps):
    took = []
    train = measured_loop(kind, took)
    job = {"stop": {"max_rounds": 2}, "report": {"every_rounds": 1000},
           "sync": {"kind": "fedavg", "steps": steps // 2},
           "site": [{"name": "aa", "step_ms": 1}]}
    longhaul.simulate(job, train)
    return took[: steps]


def over_sockets(kind, steps):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.toml"
        path.write_text(f"""
stop = {{max_rounds = 2}}
report = {{every_rounds = 1000}}
sync = {{kind = "fedavg", steps = {steps // 2}}}
site = [{{name = "aa"}}, {{name = "bb", roles = ["server"]}}]
overlay = {{kind = "hub"}}
roles = {{server = "bb"}}
""")
        out = Path(folder) / "took"
        subprocess.run([sys.executable, __file__, "--child", kind, "launch", str(path), "--quiet",
                        "--out", folder + "/run"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "TOOK": str(out)})
        return json.loads(out.read_text())


def child(kind, words):
    took = []
    measured = measured_loop(kind, took)

    def train(site):
        measured(site)
        Path(os.environ["TOOK"]).write_text(json.dumps(took))

    from longhaul import command

    sys.exit(command.run(words, train, None, [sys.executable, __file__, "--child", kind])[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=7)
    args = parser.parse_args()
    for host, run in (("simulated", under_longhaul), ("sockets", over_sockets)):
        for kind in ("step", "lenet"):
            differences, ratios = [], []
            for _ in range(args.pairs):
                plain = statistics.median(bare(kind, args.steps))
                ours = statistics.median(run(kind, args.steps))
                differences.append(1e6 * (ours - plain))
                ratios.append(ours / plain)
            print(f"{host:9}  {kind:5}  {statistics.median(differences):+8.1f} us a step "
                  f"({min(differences):+.1f} .. {max(differences):+.1f})   ratio "
                  f"{statistics.median(ratios):.3f} ({min(ratios):.3f} .. {max(ratios):.3f})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    main()
