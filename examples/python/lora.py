"""Low-rank adapters on a frozen backbone, at three sites: only what trains crosses the WAN.

    python3 examples/python/lora.py simulate examples/python/lora.toml

Adapters of peft work the same: site.attach(get_peft_model(model, config), optimizer).
"""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import longhaul

SITES = ["north", "east", "south"]
WIDTH, CLASSES, RANK = 512, 3, 4


class Lora(nn.Module):
    """y = W x + B A x, of which A and B train (Hu et al., "LoRA", ICLR 2022)."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + functional.linear(functional.linear(x, self.a), self.b)


def backbone() -> nn.Sequential:
    """1.3 million parameters that all sites have alike: a checkpoint, in earnest."""
    layers = [nn.Linear(32, WIDTH)] + [nn.Linear(WIDTH, WIDTH) for _ in range(5)]
    return nn.Sequential(*(Lora(layer) for layer in layers), nn.Linear(WIDTH, CLASSES))


def samples(site: str, count: int = 300) -> TensorDataset:
    centres = torch.randn(CLASSES, 32, generator=torch.Generator().manual_seed(0))
    draw = torch.Generator().manual_seed(1 + SITES.index(site))
    y = torch.randint(CLASSES, (count,), generator=draw)
    return TensorDataset(centres[y] + 2 * torch.randn(count, 32, generator=draw), y)


def train(site: longhaul.Site) -> nn.Module:
    model = backbone().to(site.device)
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = site.attach(model, torch.optim.AdamW(trained, lr=3e-3))
    for x, y in site.batches(DataLoader(samples(site.name), batch_size=32, shuffle=True)):
        loss = functional.cross_entropy(model(x.to(site.device)), y.to(site.device))
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss)
    return model


def score(model: nn.Module, site: longhaul.Site) -> dict[str, float]:
    x, y = samples(site.name).tensors
    with torch.no_grad():
        answer = model(x.to(site.device)).cpu()
    return {"loss": functional.cross_entropy(answer, y, reduction="sum").item(),
            "accuracy": int((answer.argmax(1) == y).sum()), "samples": len(y)}


if __name__ == "__main__":
    longhaul.main(train, score)
