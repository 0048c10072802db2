"""LeNet on MNIST, trained at three sites by a loop of one's own.

    scripts/fetch-data mnist
    python3 examples/python/mnist.py simulate examples/python/mnist.toml
    python3 examples/python/mnist.py launch examples/python/mnist.toml
    python3 examples/python/mnist.py plan examples/python/mnist.toml --budget-minutes 20 --jobs 2
"""

from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import longhaul

SITES = ["hamilton", "rotterdam", "osaka"]


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


def read(part: str) -> TensorDataset:
    """One of the two sets in data/mnist; the files have a head of 16 and of 8 bytes."""
    folder = Path("data/mnist")
    images = numpy.fromfile(folder / f"{part}-images-idx3-ubyte", numpy.uint8, offset=16)
    labels = numpy.fromfile(folder / f"{part}-labels-idx1-ubyte", numpy.uint8, offset=8)
    x = torch.from_numpy(images.astype(numpy.float32) / 255).view(-1, 1, 28, 28)
    return TensorDataset((x - 0.1307) / 0.3081, torch.from_numpy(labels.astype(numpy.int64)))


def train(site: longhaul.Site) -> nn.Module:
    model = LeNet().to(site.device)
    opt = site.attach(model, torch.optim.SGD(model.parameters(), lr=site.rate))
    mine = range(SITES.index(site.name), 60_000, len(SITES))  # every third digit is this site's
    loader = DataLoader(torch.utils.data.Subset(read("train"), mine), batch_size=32, shuffle=True)
    for x, y in site.batches(loader):
        loss = functional.cross_entropy(model(x.to(site.device)), y.to(site.device))
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss)
    return model


def score(model: nn.Module, site: longhaul.Site) -> dict[str, float]:
    mine = range(SITES.index(site.name), 10_000, len(SITES))
    loss, right = 0.0, 0
    with torch.no_grad():
        for x, y in DataLoader(torch.utils.data.Subset(read("t10k"), mine), batch_size=500):
            answer = model(x.to(site.device)).cpu()
            loss += functional.cross_entropy(answer, y, reduction="sum").item()
            right += int((answer.argmax(1) == y).sum())
    return {"loss": loss, "accuracy": right, "samples": len(mine)}


if __name__ == "__main__":
    longhaul.main(train, score)
