"""One site of a peer that bench/peers.py measures: plain Gloo, torchft or hivemind.

bench/peers.py starts it in the network namespace of its site, with the Python of that peer's
environment, and talks to it in lines of JSON: {"prepare": K, "at": T} makes the vector of lap K
and what the peer does before an exchange, from time T on; {"go": T} exchanges at time T. Times are
CLOCK_MONOTONIC, which all sites have in common. Answers begin with "peers: ".
"""
import argparse
import contextlib
import datetime
import json
import os
import struct
import sys
import time

import numpy
import torch

GLOO_PORT, LIGHTHOUSE_PORT, DHT_PORT, STORE_PORT = 7501, 7502, 7503, 7504
PATIENCE = datetime.timedelta(seconds=280)


def say(**what):
    print("peers: " + json.dumps(what), flush=True)


def wait_until(moment):
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)


class Gloo:
    """torch.distributed's all_reduce, then the division."""

    def __init__(self, site):
        self.site = site
        torch.distributed.init_process_group(
            "gloo", init_method=f"tcp://{site.addresses[0]}:{GLOO_PORT}", rank=site.rank,
            world_size=site.sites, timeout=PATIENCE)

    def prepare(self, vector):
        self.vector = vector.clone()

    def exchange(self):
        torch.distributed.all_reduce(self.vector)
        self.vector /= self.site.sites
        return self.vector, {}


def torchft_manager(site, state=dict, load=lambda state: None):
    """A replica group of this site alone, whose quorum the first site's lighthouse decides."""
    from torchft import Manager, ProcessGroupGloo
    address = site.addresses[site.rank]
    store = torch.distributed.TCPStore(address, STORE_PORT, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=PATIENCE), load_state_dict=load, state_dict=state,
        min_replica_size=site.sites, timeout=PATIENCE, quorum_timeout=PATIENCE,
        connect_timeout=PATIENCE, rank=0, world_size=1, store_addr=address, store_port=STORE_PORT,
        lighthouse_addr=f"http://{site.addresses[0]}:{LIGHTHOUSE_PORT}", hostname=address,
        replica_id=f"site_{site.rank}", init_sync=False)
    return manager, store


class Torchft:
    """What LocalSGD.sync() does: a quorum, the managed all-reduce, the commit."""

    def __init__(self, site):
        self.manager, self.store = torchft_manager(site)

    def prepare(self, vector):
        self.vector = vector.clone()

    def exchange(self):
        began = time.monotonic()
        self.manager.start_quorum()
        self.manager.wait_quorum()
        agreed = time.monotonic()
        self.manager.allreduce(self.vector).wait()
        reduced = time.monotonic()
        if not self.manager.should_commit():
            raise RuntimeError(f"torchft does not commit: {self.manager.errored()}")
        return self.vector, {"quorum_s": agreed - began, "all_reduce_s": reduced - agreed}


class Hivemind:
    """DecentralizedAverager: the group is found first, as hivemind.Optimizer does it beside the
    steps; what is timed as the exchange is the all-reduce within the group."""

    def __init__(self, site):
        import hivemind
        import hivemind.averaging.control
        self.site, self.stages = site, hivemind.averaging.control.AveragingStage
        here = f"/ip4/{site.addresses[site.rank]}/tcp/{DHT_PORT}"
        meet = dict(host_maddrs=[here], use_relay=False, auto_nat=False, nat_port_map=False)
        if site.rank == 0:
            self.dht = hivemind.DHT(start=True, **meet)
            say(hello=[str(one) for one in self.dht.get_visible_maddrs()])
        else:
            first = json.loads(sys.stdin.readline())["hello"]
            self.dht = hivemind.DHT(initial_peers=first, start=True, **meet)
        self.averager = hivemind.DecentralizedAverager(
            [torch.zeros(site.floats)], self.dht, start=True, prefix="peers",
            target_group_size=site.sites, min_group_size=site.sites,
            bandwidth=site.mbps or None)

    def prepare(self, vector):
        with self.averager.get_tensors() as (tensor,):
            tensor.copy_(vector)
        self.step = self.averager.step(require_trigger=True, wait=False)
        while self.step.stage != self.stages.AWAITING_TRIGGER:
            if self.step.done():
                self.step.result()
                raise RuntimeError("hivemind found no group")
            time.sleep(0.01)

    def exchange(self):
        self.step.allow_allreduce()
        group = self.step.result()
        if len(group) != self.site.sites:
            raise RuntimeError(f"hivemind averaged {len(group)} sites of {self.site.sites}")
        with self.averager.get_tensors() as (tensor,):
            return tensor.clone(), {}


def note(what):
    """For the log, which is shown where a run fails."""
    print(f"{time.monotonic():.1f} {what}", file=sys.stderr, flush=True)


PEERS = {"gloo": Gloo, "torchft": Torchft, "hivemind": Hivemind}


def laps(site):
    vectors = [torch.from_numpy(numpy.random.default_rng(100 + rank).random(
        site.floats, dtype=numpy.float32) - numpy.float32(0.5)) for rank in range(site.sites)]
    mean = sum(vector.double() for vector in vectors).div_(site.sites).float()
    mine = vectors[site.rank].clone()
    del vectors
    peer = PEERS[site.peer](site)
    say(ready=True)
    for line in sys.stdin:
        note(line.strip())
        told = json.loads(line)
        if "prepare" in told:
            scale = 1 + told["prepare"] / 16  # each lap has numbers of its own
            wait_until(told["at"])
            peer.prepare(mine * scale)
            note("prepared")
            say(prepared=time.monotonic() - told["at"])
        elif "go" in told:
            wait_until(told["go"])
            got, parts = peer.exchange()
            took = time.monotonic() - told["go"]
            note(f"exchanged in {took:.1f} s")
            say(took_s=took, off=(got - mean * scale).abs().max().item(), **parts)
        else:
            break


# --- LeNet on MNIST by torchft's LocalSGD -------------------------------------------------------

def lenet():
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def mnist(folder, part):
    def images(name):
        with open(f"{folder}/{name}-images-idx3-ubyte", "rb") as file:
            _, count, height, width = struct.unpack(">4i", file.read(16))
            pixels = numpy.frombuffer(file.read(), numpy.uint8).astype(numpy.float32)
        return (torch.from_numpy(pixels.reshape(count, 1, height, width) / 255) - 0.1307) / 0.3081

    def labels(name):
        with open(f"{folder}/{name}-labels-idx1-ubyte", "rb") as file:
            file.read(8)
            return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8).astype(numpy.int64))
    return images(part), labels(part)


class Worker:
    """One site's LeNet, its quarter of MNIST, and SGD."""

    def __init__(self, folder, rank, sites, batch, rate, momentum, seed):
        torch.manual_seed(seed)  # the same model everywhere
        self.model = lenet()
        images, labels = mnist(folder, "train")
        everything = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        mine = everything[rank::sites]
        self.images, self.labels, self.batch = images[mine], labels[mine], batch
        self.chance = torch.Generator().manual_seed(1000 * seed + rank)
        self.rate, self.momentum = rate, momentum
        self.order = torch.empty(0, dtype=torch.int64)
        self.optimizer = torch.optim.SGD(self.model.parameters(), rate, momentum)

    def fresh(self):
        """Momentum as at the start, which a round of longhaul's fedavg begins with."""
        self.optimizer.state.clear()

    def step(self):
        if len(self.order) < self.batch:
            self.order = torch.randperm(len(self.labels), generator=self.chance)
        now, self.order = self.order[:self.batch], self.order[self.batch:]
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.images[now]), self.labels[now]).backward()
        self.optimizer.step()


def accuracy(model, images, labels):
    with torch.no_grad():
        right = sum((model(images[at:at + 500]).argmax(1) == labels[at:at + 500]).sum().item()
                    for at in range(0, len(labels), 500))
    return right / len(labels)


def mean_of_all(manager, model):
    """What LocalSGD does at the end of a round, with one all-reduce instead of one a tensor."""
    vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    manager.start_quorum()
    manager.allreduce(vector).wait()
    if manager.should_commit():
        torch.nn.utils.vector_to_parameters(vector, model.parameters())


def train(site):
    from torchft.local_sgd import LocalSGD
    worker = Worker(site.mnist, site.rank, site.sites, site.batch, site.rate, site.momentum,
                    site.seed)
    test = mnist(site.mnist, "t10k")
    manager, store = torchft_manager(site, worker.model.state_dict, worker.model.load_state_dict)
    say(ready=True)
    began = json.loads(sys.stdin.readline())["go"]
    wait_until(began)
    scoring, done = 0.0, 0
    local = contextlib.nullcontext() if site.flat else LocalSGD(
        manager, worker.model, worker.optimizer, sync_every=site.steps)
    with local:
        while done < site.rounds:
            worker.fresh()
            for _ in range(site.steps):
                worker.step()
            if site.flat:
                mean_of_all(manager, worker.model)
            done += 1
            if site.rank == 0 and done % site.score_every == 0:  # when it is done, so are all
                scored = time.monotonic()
                got = accuracy(worker.model, *test)
                scoring += time.monotonic() - scored
                note(f"round {done}: {got}")
                if got >= site.target:
                    break
    say(took_s=time.monotonic() - began, rounds=done, accuracy=got, scoring_s=scoring)
    manager.shutdown(wait=False)
    del store  # until now: the quorum's processes meet there


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--floats", type=int, default=0)
    parser.add_argument("--mbps", type=float, default=0)
    parser.add_argument("--mnist")
    for name in ("steps", "batch", "rounds", "score-every", "seed", "flat"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("rate", "momentum", "target"):
        parser.add_argument(f"--{name}", type=float)
    site = parser.parse_args()
    site.addresses = site.addresses.split(",")
    site.sites = len(site.addresses)
    os.environ["GLOO_SOCKET_IFNAME"] = "wan0"
    torch.set_num_threads(1)
    (train if site.mnist else laps)(site)
    os._exit(0)  # threads of peers may wait for one another


if __name__ == "__main__":
    main()
