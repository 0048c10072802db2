#!/usr/bin/env python3
"""Writes TorchScript files of many kinds of models, to FOLDER/good, files whose code does what no
model needs, to FOLDER/bad, and files that come to no end, to FOLDER/endless. None is run here.

    /usr/bin/python3 tests/python/make_script_kinds.py FOLDER endless     these alone

    /usr/bin/python3 tests/python/make_script_kinds.py FOLDER
"""
import os
import pathlib
import sys
import warnings
from typing import Dict, List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

warnings.simplefilter("ignore")


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.norm(self.conv(x)), inplace=True)


class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell(4, 8, 2, batch_first=True, dropout=0.1, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.cell(x)[0].mean(1))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.table = nn.EmbeddingBag(20, 4), nn.Embedding(20, 4, padding_idx=0)

    def forward(self, x):
        return self.bag(x) + self.table(x).sum(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = torch.einsum("bid,bjd->bij", q, k) / 8 ** 0.5
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


class Fused(nn.Module):
    def forward(self, x):
        call = getattr(F, "scaled_dot_product_attention", None)  # torch 1.13 hides it
        answer = (call or torch._C._nn._scaled_dot_product_attention)(x, x, x)
        return answer[0] if isinstance(answer, tuple) else answer


class Containers(nn.Module):
    """Lists, dictionaries, strings, loops, exceptions, tuples, a function, no_grad."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.by_name = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.sizes: List[int] = [1, 2, 3]
        self.scale: Dict[str, float] = {"a": 0.5}

    def forward(self, x) -> Tuple[Tensor, Dict[str, Tensor]]:
        found: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = layer(x)
            found["layer {}".format(i)] = x
        for name, layer in self.by_name.items():
            if name in self.scale:
                x = x + self.scale[name] * layer(x)
        while x.abs().max().item() > 1e6:
            x = x / 2
        if x.dim() != 2:
            raise ValueError("expected rows")
        with torch.no_grad():
            norm = x.norm()
        assert len(self.sizes) == 3, "three"
        return x / (1 + norm), found


class State(nn.Module):
    """Writes and reads its own state, as torch's packed layers do."""

    def __init__(self):
        super().__init__()
        self.weight, self.note = nn.Parameter(torch.ones(4)), torch.zeros(4)

    @torch.jit.export
    def __getstate__(self):
        return (self.weight, self.training)

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, bool]):
        self.weight, self.training = state
        self.note = self.weight + 1

    def forward(self, x):
        return x * self.weight + self.note


def read_file(x: Tensor) -> Tensor:
    return torch.from_file("written", True, 4, dtype=torch.uint8).float().sum() + x


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


class Calls(Plain):
    def forward(self, x):
        return read_file(x)


class Nested(Plain):
    def forward(self, x):
        if x.sum() > 1e9:
            for _ in range(3):
                x = read_file(x)
        return x


class Exported(Plain):
    @torch.jit.export
    def other(self, x):
        return read_file(x)


class Forks(Plain):
    def forward(self, x):
        return torch.jit.wait(torch.jit.fork(read_file, x))


class Submodule(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Calls()

    def forward(self, x):
        return self.inner(x)


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Interface(nn.Module):
    layer: Layer

    def __init__(self):
        super().__init__()
        self.layer = Calls()

    def forward(self, x):
        return self.layer.forward(x)


class Property(Plain):
    @property
    def all(self) -> Tensor:
        return torch.from_file("written", True, 4)

    def forward(self, x):
        return x + self.all.sum()


class SetState(State):
    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, bool]):
        self.weight, self.training = state
        self.note = torch.from_file("written", True, 4).fill_(65)


class Saves(Plain):
    def forward(self, x):
        torch.save(x, "written")
        return x


class Prints(Plain):
    def forward(self, x):
        print(x)
        return x


class Seeds(Plain):
    def forward(self, x):
        torch.manual_seed(1)
        return x + torch.rand_like(x)


def hooked():
    module = Plain()

    def before(self, inputs: Tuple[Tensor]) -> Tuple[Tensor]:
        return (read_file(inputs[0]),)

    module.register_forward_pre_hook(before)
    return module


@torch.jit.script
class Helper:
    def __init__(self, x: Tensor):
        self.x = x

    def take(self) -> Tensor:
        return torch.from_file("written", True, 4) + self.x


class UsesClass(Plain):
    def forward(self, x):
        return Helper(x).take()


class Forever(Plain):
    def forward(self, x):
        while x.numel() > 0:
            x = torch.tanh(x)
        return self.layer(x)


class Grows(Plain):
    def forward(self, x):
        kept: List[Tensor] = []
        while len(kept) >= 0:
            kept.append(torch.ones(1000000))
        return self.layer(torch.stack(kept))


def write(folder, models, make=torch.jit.script):
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        make(model).save(str(folder / f"{name}.pt"))


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]).resolve()
    os.chdir(root)  # scripting reads properties
    torch.manual_seed(1)
    write(root / "endless", {"forever": Forever(), "grows": Grows()})
    if "endless" in sys.argv:
        sys.exit()
    images, sequence = torch.zeros(2, 3, 8, 8), torch.zeros(2, 5, 4)
    residual = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), Residual(8),
        nn.Dropout(), nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 3), nn.LogSoftmax(1))
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
    good = {"residual": residual, "lstm": Recurrent(nn.LSTM), "gru": Recurrent(nn.GRU),
            "bag": Bag(), "attention": Attention(), "encoder": encoder, "containers": Containers(),
            "state": State()}
    write(root / "good", good)
    traced = (("residual", residual, images), ("lstm", good["lstm"], sequence),
              ("encoder", encoder, sequence), ("bag", Bag(), torch.zeros(2, 3, dtype=torch.long)),
              ("attention", nn.Sequential(nn.Linear(4, 8), Attention()), sequence),
              ("fused", Fused(), sequence))
    for name, model, example in traced:
        write(root / "good", {f"traced_{name}": model},
              lambda m, example=example: torch.jit.trace(m, example, check_trace=False))
    write(root / "bad", {
        "calls": Calls(), "nested": Nested(), "exported": Exported(), "forks": Forks(),
        "submodule": Submodule(), "interface": Interface(), "property": Property(),
        "setstate": SetState(), "saves": Saves(), "prints": Prints(), "seeds": Seeds(),
        "hooked": hooked(), "class": UsesClass(),
        "quantised": torch.quantization.quantize_dynamic(Plain(), {nn.Linear})})
