#!/usr/bin/env python3
"""Writes a TorchScript model of a user's own: what [model] kind = "script" takes.

    /usr/bin/python3 tests/python/make_script.py my_model.pt
"""
import sys

import torch


class Net(torch.nn.Module):
    """Rows of 20 numbers to 4 classes, with all that a user's model may have in it: dropout,
    running statistics, a counter, a layer that is not trained."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 16, bias=False)
        self.norm = torch.nn.BatchNorm1d(16)
        self.drop = torch.nn.Dropout(0.2)
        self.fixed = torch.nn.Linear(16, 16)
        self.last = torch.nn.Linear(16, 4)
        for parameter in self.fixed.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.first(x))))
        return self.last(torch.relu(self.fixed(x)))


if __name__ == "__main__":
    torch.manual_seed(7)
    torch.jit.script(Net()).save(sys.argv[1])
