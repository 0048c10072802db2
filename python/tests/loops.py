"""Loops that the tests train, in the test's process and in scripts of their own."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional

import longhaul

SITES = ("aa", "bb", "cc")


def samples(site: str, count: int = 40) -> torch.utils.data.TensorDataset:
    """Points of two classes, the same in every process; each site has its own."""
    draw = torch.Generator().manual_seed(SITES.index(site))
    x = torch.randn(count, 4, generator=draw)
    return torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())


def small_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def loader(site: str) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(samples(site), batch_size=8, shuffle=True)


def train(site: longhaul.Site) -> nn.Module:
    return train_model(site, small_model())


def train_model(site: longhaul.Site, model: nn.Module,
                batches: Iterable | None = None) -> nn.Module:
    opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    for x, y in site.batches(batches or loader(site.name)):
        loss = functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss)
    return model


def score(model: nn.Module, site: longhaul.Site) -> dict[str, float]:
    x, y = samples(site.name).tensors
    answer = model(x)
    return {"loss": functional.cross_entropy(answer, y, reduction="sum").item(),
            "accuracy": int((answer.argmax(1) == y).sum()), "samples": len(y)}


def random_loop(site: longhaul.Site) -> None:
    """Dropout, noise of numpy and random, a schedule, and batches that are gathered by twos."""
    import random

    import numpy

    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 2))
    opt = torch.optim.AdamW(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 50)
    opt = site.attach(model, opt, also=[schedule])
    for i, (x, y) in enumerate(site.batches(loader(site.name))):
        noise = float(numpy.random.randn()) * 0.1 + random.random() * 0.1
        loss = functional.cross_entropy(model(x + noise + 0.1 * torch.randn_like(x)), y) / 2
        loss.backward()
        if i % 2 == 1:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step(loss=loss)
            schedule.step()
            opt.zero_grad()
