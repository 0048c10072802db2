"""DistributedDataParallel inside each site, longhaul between the sites.

Start it at each site with torchrun, on any number of its machines; rank 0 is the site's node:

    torchrun --nproc_per_node 2 examples/python/ddp_inside.py \
        site examples/python/ddp_inside.toml --site west --insecure
    torchrun --nproc_per_node 2 --master_port 29501 examples/python/ddp_inside.py \
        site examples/python/ddp_inside.toml --site east --insecure

`simulate` runs the same file with one process a site.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import longhaul

SITES = ["west", "east"]


def samples(site: str, count: int = 512) -> TensorDataset:
    draw = torch.Generator().manual_seed(SITES.index(site))
    x = torch.randn(count, 16, generator=draw)
    return TensorDataset(x, (x[:, :4].sum(1) > x[:, 4:8].sum(1)).long())


def train(site: longhaul.Site) -> nn.Module:
    model: nn.Module = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    group, sampler, batch = None, None, 32
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        model, group = DistributedDataParallel(model.to(site.device)), dist.group.WORLD
        sampler = DistributedSampler(samples(site.name))
        batch //= dist.get_world_size()
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    opt = site.attach(model, opt, group=group)
    loader = DataLoader(samples(site.name), batch, shuffle=sampler is None, sampler=sampler)
    for x, y in site.batches(loader):
        loss = functional.cross_entropy(model(x.to(site.device)), y.to(site.device))
        opt.zero_grad()
        loss.backward()  # DDP averages the gradients within the site
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
