"""A loop with DistributedDataParallel where torchrun has started several processes.

Environment: WRAP=FSDP and WRAP=fully_shard shard the model instead.
"""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import longhaul
from loops import samples, small_model

RANK, SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def wrapped(model, wrap):
    if not wrap:
        return DistributedDataParallel(model)
    from torch.distributed import fsdp

    if wrap == "FSDP":
        return fsdp.FullyShardedDataParallel(model, use_orig_params=True,
                                             device_id=torch.device("cpu"))
    mesh = dist.device_mesh.init_device_mesh("cpu", (SIZE,))
    fsdp.fully_shard(model[0], mesh=mesh)
    return fsdp.fully_shard(model, mesh=mesh)


def train(site):
    model = small_model()
    group = None
    if SIZE > 1:
        dist.init_process_group("gloo")
        model, group = wrapped(model, os.environ.get("WRAP")), dist.group.WORLD
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    opt = site.attach(model, opt, group=group)
    x, y = samples(site.name, 64).tensors
    for first in site.batches(range(0, 64, 16)):
        mine = slice(first + RANK * 16 // SIZE, first + (RANK + 1) * 16 // SIZE)
        loss = functional.cross_entropy(model(x[mine]), y[mine])
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss, samples=16 // SIZE)
        with open(f"{site.name}.{RANK}.steps", "a") as out:
            out.write(".")
        time.sleep(float(os.environ.get("PAUSE_S", 0)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    longhaul.main(train)
