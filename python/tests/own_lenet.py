"""The built-in learner's lenet as a loop of one's own: the job beside it is built-in.toml."""

import numpy
import torch
from torch import nn
from torch.nn import functional

import longhaul
from longhaul import _longhaul


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


def train(site):
    start, batches = _longhaul.builtin("built-in.toml", 40)
    images = numpy.fromfile("train-images-idx3-ubyte", numpy.uint8, offset=16)
    labels = numpy.fromfile("train-labels-idx1-ubyte", numpy.uint8, offset=8)
    x = torch.from_numpy((images / 255).astype(numpy.float32)).reshape(-1, 1, 28, 28)
    y = torch.from_numpy(labels.astype(numpy.int64))
    model = LeNet()
    values = torch.from_numpy(numpy.frombuffer(start, numpy.float32).copy())
    nn.utils.vector_to_parameters(values, model.parameters())
    opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9))
    for rows in site.batches(batches[site.rank]):
        loss = functional.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss, samples=len(rows))


if __name__ == "__main__":
    torch.set_num_threads(1)
    longhaul.main(train)
