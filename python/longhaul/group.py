"""Several processes at one site: DDP inside the site, longhaul between sites.

Rank 0 of the group is the site's node: its host asks, and it tells the others what to do. Their
gradients are equal (DDP has averaged them), so a local step needs no more than the word. What the
exchange brings (a mean of gradients, new parameters) travels by the group's broadcast.
"""

from __future__ import annotations

import os
import pickle
from enum import IntEnum
from typing import Any

import torch
import torch.distributed as dist

from longhaul import randomness
from longhaul.site import Site, Trained, Unfit


class Op(IntEnum):
    """What rank 0 tells the others, in the order in which it does the same itself."""

    NEXT = 0  # the next batch
    END = 1
    STEP = 2  # the inner optimiser's step with the gradients that all have
    GRADIENTS = 3  # the same with these, which follow
    PARAMETERS = 4  # they follow
    RESET = 5
    OPTIMIZER = 6  # its whole state follows
    SAVE = 7  # each sends its state
    LOAD = 8  # all their states follow
    FETCH = 9  # the values, for the strategy


class Group:
    """The processes of a site, by torch.distributed. All calls are collective."""

    def __init__(self, group: Any):
        if not dist.is_initialized():
            raise Unfit("attach(group=...): call torch.distributed.init_process_group() first")
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._source = 0 if group is None or group is dist.group.WORLD else (
            dist.distributed_c10d._get_global_rank(group, 0))
        device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
        self._word = torch.zeros(1, dtype=torch.int64, device=device)

    def tell(self, op: Op) -> None:
        self._word.fill_(int(op))
        self.share(self._word)

    def hear(self) -> Op:
        self.share(self._word)
        return Op(int(self._word.item()))

    def share(self, tensor: torch.Tensor) -> None:
        """From rank 0 to all."""
        dist.broadcast(tensor, self._source, group=self._group)

    def share_object(self, value: Any = None) -> Any:
        box = [value]
        dist.broadcast_object_list(box, self._source, group=self._group)
        return box[0]

    def gather(self, value: Any) -> list[Any] | None:
        """At rank 0 those of all."""
        everyone = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, everyone, self._source, group=self._group)
        return everyone


class Follower(Site):
    """The site as a process of it sees it that is not rank 0: it does what rank 0 tells."""

    group: Group

    def _begin(self, trained: Trained) -> None:
        self._check_thread("attach")
        self._trained = trained
        self._follow()

    def _step(self, loss: Any, given: int | None) -> None:
        if self._over:
            self._end_again()
        assert self._trained is not None
        if self._resumed is not None:
            self._put_in_place(answer=False)
        else:
            self._trained.check()
            self.steps += 1
        self._follow()

    def _follow(self) -> None:
        trained, group = self._trained, self.group
        assert trained is not None
        while True:
            op = group.hear()
            if op == Op.NEXT:
                break
            if op == Op.END:
                self._over = True
                break
            if op == Op.STEP:
                trained.step()
            elif op == Op.GRADIENTS:
                trained.share_gradients(group)
                trained.step()
            elif op == Op.PARAMETERS:
                trained.share_parameters(group)
            elif op == Op.FETCH:
                trained.fetch()
            elif op == Op.RESET:
                trained.reset_optimizer()
            elif op == Op.OPTIMIZER:
                trained.whole_optimizer_state(group.share_object())
            elif op == Op.SAVE:
                group.gather(self._saved())
            elif op == Op.LOAD and not self._load(group.share_object()[group.rank]):
                break
        self._batches.begin_step()

    def _load(self, saved: bytes) -> bool:
        state: dict[str, Any] = pickle.loads(saved)
        assert self._trained is not None
        self._resumed, self._keep = state, self._trained.keep_vectors()
        self._batches.load(state["batches"], replay=self.steps == 0)
        if state["steps"] > 0 and self.steps == 0:
            return False
        self._put_in_place(answer=False)
        return True

    def run(self, train: Any) -> None:
        """The thread's body, in the process's main thread."""
        import threading

        self._thread, self._process = threading.get_ident(), os.getpid()
        randomness.seed(self.seed)
        self.result = train(self)
