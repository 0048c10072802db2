"""The Flower app of bench/peers.py: clients that return a vector of their own, or that train LeNet.

The run's setting `told` is JSON: `floats` and `rounds`, or `mnist` and what the training is; `out`
is the file to which the server adds a line of JSON a round, and one that says "ended".
"""
import json
import sys
import time

import numpy
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


def told_by(context):
    sys.path.insert(0, context.run_config["here"])
    return json.loads(context.run_config["told"])


def vector_of(rank, floats):
    return numpy.random.default_rng(100 + rank).random(floats, dtype=numpy.float32) - \
        numpy.float32(0.5)


def scale(server_round):
    return numpy.float32(1 + server_round / 16)  # each round has numbers of its own


def worker_of(told, rank):
    import torch
    from node import Worker
    torch.set_num_threads(1)
    return Worker(told["mnist"], rank, told["sites"], told["batch"], told["rate"],
                  told["momentum"], told["seed"])


@client.train()
def train(message, context):
    told, rank = told_by(context), int(context.node_config["rank"])
    server_round = message.content["config"]["server-round"]
    if "mnist" not in told:
        arrays = ArrayRecord([vector_of(rank, told["floats"]) * scale(server_round)])
    else:
        worker = worker_of(told, rank)
        worker.chance.manual_seed(1000 * (1000 * told["seed"] + server_round) + rank)
        worker.model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        for _ in range(told["steps"]):
            worker.step()
        arrays = ArrayRecord(worker.model.state_dict())
    weight = MetricRecord({"num-examples": 1})
    return Message(content=RecordDict({"arrays": arrays, "metrics": weight}), reply_to=message)


class Ended(Exception):
    pass


class Timed(FedAvg):
    """A round is from the call for it to the mean, at the server; `check` comes after that."""

    def __init__(self, sites, write, check):
        super().__init__(fraction_evaluate=0.0, min_train_nodes=sites, min_available_nodes=sites)
        self.sites, self.write, self.check = sites, write, check

    def configure_train(self, server_round, *words):
        messages = super().configure_train(server_round, *words)
        self.began = time.monotonic()
        return messages

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        came = time.monotonic()
        if len(replies) != self.sites or any(reply.has_error() for reply in replies):
            raise RuntimeError(f"{len(replies)} replies of {self.sites}, or one with an error")
        found = super().aggregate_train(server_round, replies)
        ended = time.monotonic()
        more = self.check(server_round, found[0])
        self.write(took_s=ended - self.began, replies_s=came - self.began, ended_at=ended, **more)
        if more.get("reached"):
            raise Ended
        return found


@server.main()
def main(grid, context):
    told = told_by(context)
    sites = told["sites"]

    def write(**what):
        with open(told["out"], "a") as file:
            file.write(json.dumps(what) + "\n")

    if "mnist" not in told:
        mean = sum(vector_of(rank, told["floats"]).astype(float) for rank in range(sites)) / sites
        first = ArrayRecord([vector_of(sites, told["floats"])])

        def check(server_round, arrays):
            off = abs(arrays.to_numpy_ndarrays()[0] - mean * scale(server_round)).max()
            if off > 1e-5:
                raise RuntimeError(f"the mean is off by {off}")
            return {}
    else:
        from node import accuracy, mnist
        worker, test = worker_of(told, 0), mnist(told["mnist"], "t10k")
        first = ArrayRecord(worker.model.state_dict())

        def check(server_round, arrays):
            if server_round % told["score_every"]:
                return {}
            began = time.monotonic()
            worker.model.load_state_dict(arrays.to_torch_state_dict())
            got = accuracy(worker.model, *test)
            return {"accuracy": got, "scoring_s": time.monotonic() - began,
                    "reached": got >= told["target"]}

    while len(list(grid.get_node_ids())) < sites:
        time.sleep(0.2)
    write(began_at=time.monotonic())
    try:
        Timed(sites, write, check).start(grid=grid, initial_arrays=first,
                                         num_rounds=told["rounds"])
    except Ended:
        pass
    write(ended=True)
