"""A site's side of a run: the object that train(site) works with.

The loop and the host (a simulator, or an event loop over sockets) take turns. The loop computes
until its optimiser's step(), hands the turn over there, and continues with the next batch. step()
answers the host's requests in between (apply the mean gradient, save your state).
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from longhaul import randomness
from longhaul._longhaul import Loop

# A step may gather so many batches: a checkpoint keeps them.
MOST_BATCHES_A_STEP = 1024

MOST_SAMPLES_A_STEP = 2**40

# Batches drawn without a step; a loop that draws more never calls it.
MOST_BATCHES_WITHOUT_STEP = 10_000


_inside = threading.local()  # .site: the one whose loop this thread is


def site_of_this_thread() -> Site | None:
    return getattr(_inside, "site", None)


class RunEnded(BaseException):
    """The run has ended, and the loop has called step() again.

    Loops over site.batches() end before that. Not an Exception, so that a loop that catches those
    ends, too.
    """


class _LayoutOnly(BaseException):
    """Ends train() at a node that does not train, when it has said what the model looks like."""


class Unfit(Exception):
    """The loop cannot do what the strategy asks for, or the user's code does not fit."""


class Trained(Protocol):
    """What is trained: tensors and their optimiser (torch.py), or arrays (arrays.py).

    Two vectors of float32 hold the values and the gradients of all its tensors, one after the
    other, parameters first. `mirrored`: they are copies, which put() and fetch() bring in line.
    """

    mirrored: bool
    needs_gradient: str  # why the loop has no gradient; "": it has

    def layout(self) -> dict[str, Any]:
        """The arguments of Loop.attach()."""

    def has_schedule(self) -> bool:
        """A learning-rate scheduler, which has a state of its own."""

    def check(self) -> None:
        """Raises Unfit where the user has replaced tensors."""

    def step(self) -> None:
        """The inner optimiser's step with the gradients that the loop has computed."""

    def send_gradients(self) -> None: ...
    def take_gradients(self) -> None: ...
    def add_proximal(self, mu: float, anchor: int) -> None: ...
    def reset_optimizer(self) -> None: ...
    def optimizer_state(self, set_to: bytes) -> bytes: ...
    def whole_optimizer_state(self, set_to: bytes) -> bytes: ...
    def undo(self) -> Callable[[], None]:
        """Remembers all; what it returns puts it back."""

    def fetch(self) -> None: ...
    def put(self) -> None: ...
    def state(self) -> Any:
        """All but the parameters, to be pickled."""

    def load(self, state: Any) -> None: ...
    def keep_vectors(self) -> Callable[[], None]:
        """Remembers the two vectors alone; what it returns puts them back."""

    def share_parameters(self, group: Any) -> None:
        """From rank 0 of the site's processes to the others, in place; gradients likewise."""

    def share_gradients(self, group: Any) -> None: ...
    def scored(self, address: int) -> Any:
        """A copy of the model in evaluation mode with the values at the address."""

    def gradient_of(self, function: Callable[[Any], Any], samples: int) -> tuple[float, int]: ...


class Site:
    """One site of the run, as its training loop sees it. Used by the thread that train() runs in.

    name      the site's name in the job file
    index     which of the site's nodes this is, from 0
    rank      the node's number in the job, from 0
    seed      [job] seed, the same at all sites; Python's, numpy's and torch's generators have been
              seeded by it
    device    torch.device: CUDA where there is one, else the CPU
    rate      learning rate of the job file ([optimizer] or [[site]] rate), which plan and compare
              --tune vary; for the optimiser, before attach()
    steps     optimiser steps taken so far, those before a resumption included
    """

    # Simulated sites share the process's random generators: whose state they have now.
    _playing: Site | None = None

    def __init__(self, name: str, index: int, rank: int, seed: int, rate: float | None,
                 trains: bool, loop: Loop | None):
        self.name, self.index, self.rank, self.seed = name, index, rank, seed
        self._rate, self._uses_rate = rate, False
        self.steps = 0
        self._trains = trains
        self._loop: Loop = loop  # type: ignore[assignment]  # none at a Follower, which has no host
        self._thread = self._process = 0
        self._misused = ""  # how, in another thread, whose errors nobody may see
        self._raised: BaseException | None = None  # at the loop, which may catch it and go on
        self._trained: Trained | None = None
        self._also: list[Any] = []
        self._random: randomness.State | None = None
        self._work: tuple[Any, ...] | None = None  # what the host wants of the batch under way
        self._over = False
        self._resumed: dict[str, Any] | None = None  # a state that the next step() puts in place
        self._keep: Callable[[], None] | None = None
        self._undo_tail: Callable[[], None] | None = None
        self._batches = _Position()
        self._gradient_of: Callable[[Any], Any] | None = None
        self._follows = False
        self.group: Any = None  # longhaul.group.Group, with several processes at the site
        self.result: Any = None  # what train() has returned
        self.error: BaseException | None = None  # or raised

    def __repr__(self) -> str:
        return f"Site({self.name!r}, rank={self.rank}, steps={self.steps})"

    @property
    def device(self) -> Any:
        import torch

        if not torch.cuda.is_available():
            return torch.device("cpu")
        local = int(os.environ.get("LOCAL_RANK", self.rank))  # torchrun's, of a site's processes
        return torch.device("cuda", local % torch.cuda.device_count())

    @property
    def rate(self) -> float:
        if self._rate is None:
            raise Unfit("site.rate: the job file has no [optimizer] rate; add one, or choose the "
                        "rate in train()")
        self._uses_rate = True
        return self._rate

    # What the loop calls.

    def attach(self, model: Any, optimizer: Any, also: Sequence[Any] = (),
               group: Any = None) -> Any:
        """Takes the model and its optimiser into the run; returns the optimiser.

        From here on optimizer.step() is the point of exchange. It takes loss= (a number or a tensor
        of one) and samples= (those of the step; by default counted in site.batches, and 1 without
        it), which strategies and reports use. Parameters that require a gradient and persistent
        buffers of floating point are exchanged; all others must be equal at all sites and stay as
        they are.

        model      on its device, in its dtype: both stay from here on
        optimizer  any torch.optim.Optimizer; closures are refused
        also       what a resumed run needs, too: schedulers, a GradScaler, anything with
                   state_dict() and load_state_dict()
        group      torch.distributed.group.WORLD where torchrun has started several processes at
                   this site, whose model is wrapped in DistributedDataParallel or sharded

            opt = torch.optim.SGD(model.parameters(), 0.1)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1000)
            opt = site.attach(model, opt, also=[schedule])
        """
        from longhaul.sharded import ShardedTrained, processes_of
        from longhaul.torch import TorchTrained

        for one in also:
            if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
                raise Unfit(f"also: {one!r} has no state_dict() and load_state_dict()")
        self._also = list(also)
        shards = processes_of(model)
        if group is not None:
            from longhaul.group import Group

            self.group = Group(group)
        elif self._follows or shards:
            why = "the model is sharded" if shards else "torchrun has started several processes"
            raise Unfit(f"attach(): {why}: say group=torch.distributed.group.WORLD")
        if shards and shards != {self.group.size}:
            raise Unfit(f"the model is sharded over {sorted(shards)} processes, and the group has "
                        f"{self.group.size}")
        self._begin((ShardedTrained if shards else TorchTrained)(self, model, optimizer))
        return optimizer

    def attach_arrays(self, arrays: dict[str, Any],
                      apply: Callable[[Any], None] | None = None) -> None:
        """The same for numpy arrays of float32, which are changed in place: JAX, scikit-learn.

        Call site.step() when the loop has changed them; with `apply`, which is given a dict of
        gradients and changes the arrays by them, call site.step(gradient) instead.
        """
        from longhaul.arrays import ArraysTrained

        self._begin(ArraysTrained(arrays, apply))

    def step(self, gradient: dict[str, Any] | None = None, loss: Any = None,
             samples: int | None = None) -> None:
        """The point of exchange of a loop with attach_arrays()."""
        trained = self._trained
        if trained is None or not hasattr(trained, "gradient"):
            raise Unfit("site.step() belongs to site.attach_arrays(); with attach() call the "
                        "optimiser's step()")
        trained.gradient(gradient)
        self._step(loss, samples)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The loader's batches, again and again, until the run ends.

        A resumed run continues where it was: by the loader's state_dict() if it has one, else by
        drawing and skipping. A sampler with set_epoch() is told the epoch.
        """
        if self._batches.loader is not None and not self._over:
            raise Unfit("site.batches() was called twice; a loop takes its batches from one loader")
        return self._batches.run(self, loader)

    def gradient_of(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Says how to compute a loss on this site's first samples, for strategies that ask for it.

        function(samples) returns the mean loss on so many fixed samples, with the graph to
        call backward() on. Usable as a decorator.
        """
        self._gradient_of = function
        return function

    # Between loop and host.

    def _begin(self, trained: Trained) -> None:
        if self._trained is not None:
            raise Unfit("attach() was called twice; a loop trains one model with one optimiser: "
                        "put several into an nn.ModuleDict, each with its parameter group")
        self._check_thread("attach")
        self._trained = trained
        self._loop.attach(**trained.layout(), mirrored=trained.mirrored,
                          wants_put=trained.mirrored or self.group is not None,
                          has_gradients=not trained.needs_gradient,
                          uses_rate=self._uses_rate)
        if not self._trains:
            raise _LayoutOnly
        self._tell("PARAMETERS")
        self._serve()

    def _tell(self, op: str) -> None:
        """To the other processes of this site, with what belongs to it."""
        if self.group is None or self._trained is None:
            return
        from longhaul.group import Op

        self.group.tell(Op[op])
        if op == "PARAMETERS":
            self._trained.share_parameters(self.group)
        elif op == "GRADIENTS":
            self._trained.share_gradients(self.group)

    def _check_thread(self, what: str) -> None:
        if os.getpid() != self._process:
            print(f"longhaul: site {self.name}: {what}() was called in process {os.getpid()}, "
                  "which train() has forked; it ends: a site's loop is one process",
                  file=sys.stderr, flush=True)
            os._exit(2)
        if threading.get_ident() != self._thread:
            self._misused = (f"{what}() was called from thread "
                             f"{threading.current_thread().name!r}; call it in the thread that "
                             "train() runs in")
        self._check_use()

    def _check_use(self) -> None:
        if self._misused:
            raise Unfit(self._misused)
        if self._raised is not None:
            self._abandon(self._raised)

    def _abandon(self, caught: BaseException) -> NoReturn:
        """The loop has caught what was to end it, and goes on: the host does not wait for it."""
        self.error = Unfit(f"{told(caught)}; train() has caught this, and goes on")
        self._loop.leave(str(self.error))
        while True:
            time.sleep(3600)

    def _step(self, loss: Any, given: int | None) -> None:
        """The exchange point: does what the host wants of this batch, and what it asks for then."""
        self._check_thread("step")
        try:
            self._take_step(loss, given)
        except (RunEnded, Unfit) as error:
            self._raised = error
            raise

    def _take_step(self, loss: Any, given: int | None) -> None:
        if self._over:
            self._end_again()
        trained, work = self._trained, self._work
        assert trained is not None and work is not None
        if self._undo_tail is not None:
            self._undo_tail()
            self._undo_tail = None
        if work[0] == "replay":
            self._put_in_place()
        else:
            trained.check()
            samples = self._batches.taken() if given is None else given
            samples = samples.__index__() if hasattr(samples, "__index__") else samples
            if not isinstance(samples, int) or not 1 <= samples <= MOST_SAMPLES_A_STEP:
                where = "" if given is not None else (
                    "; of batches that are not from site.batches say step(samples=n)")
                raise Unfit(f"step(): a batch of {samples!r} samples; expected a whole number from "
                            f"1 to {MOST_SAMPLES_A_STEP}{where}")
            value = 0.0 if loss is None else float(getattr(loss, "detach", lambda: loss)())
            self._do(trained, work)
            self.steps += work[0] != "scratch step"
            if self.group is not None:
                samples *= self.group.size
            self._loop.answer(loss=value, samples=samples, shard_size=self._batches.shard(samples),
                              exhausted=self._batches.take_end())
        self._serve()

    def _end_again(self) -> None:
        raise RunEnded(f"site {self.name}: the run has ended")

    def _do(self, trained: Trained, work: tuple[Any, ...]) -> None:
        kind = work[0]
        if kind == "local step":
            self._tell("STEP")
            trained.step()
        elif kind == "gradient":
            if trained.needs_gradient:
                raise Unfit(trained.needs_gradient)
            trained.send_gradients()
        elif kind == "proximal step":
            if trained.needs_gradient:
                raise Unfit(trained.needs_gradient)
            trained.add_proximal(work[1], work[2])
            self._tell("GRADIENTS")
            trained.step()
        elif kind == "scratch step":
            self._tell("FETCH")
            undo, random_state = trained.undo(), randomness.state()
            also = [(one, pickle.dumps(one.state_dict())) for one in self._also]
            trained.step()
            undo()
            randomness.restore(random_state)

            def undo_tail() -> None:  # a scheduler's step, after the scratch step
                for one, state in also:
                    one.load_state_dict(pickle.loads(state))
                undo()

            self._undo_tail = undo_tail

    BATCH_WORK = ("local step", "gradient", "proximal step", "scratch step")

    def _serve(self) -> None:
        """Does what the host asks for until it wants a batch, or the run has ended."""
        while True:
            request = self._loop.next()
            self._take_turn()
            if request[0] in self.BATCH_WORK:
                self._work = request
                self._tell("NEXT")
                break
            if request[0] == "end":
                self._over = True
                self._tell("END")
                if self._trained is not None and self._trained.mirrored:
                    self._trained.put()
                break
            try:
                if not self._answer(request):
                    self._work = ("replay",)
                    break
            except Unfit as why:
                self._loop.refuse(str(why))
        self._batches.begin_step()

    def _take_turn(self) -> None:
        """Puts this site's random state in place of that of the site which had the turn before."""
        last = Site._playing
        if last is self:
            return
        if last is not None:
            last._random = randomness.state()
        if self._random is not None:
            randomness.restore(self._random)
        Site._playing = self

    def _answer(self, request: tuple[Any, ...]) -> bool:
        """False: the state has been taken, and the loop must replay a batch first."""
        trained, loop = self._trained, self._loop
        assert trained is not None
        kind = request[0]
        if kind == "apply gradient":
            trained.take_gradients()
            self._tell("GRADIENTS")
            trained.step()
            loop.answer(shard_size=self._batches.shard(0))
        elif kind == "reset optimizer":
            self._tell("RESET")
            trained.reset_optimizer()
            loop.answer()
        elif kind == "optimizer state":
            loop.answer(outputs=trained.optimizer_state(request[1]))
        elif kind == "whole optimizer state":
            if request[1] and self.group is not None:
                self._tell("OPTIMIZER")
                self.group.share_object(request[1])
            loop.answer(outputs=trained.whole_optimizer_state(request[1]), packed=True)
        elif kind == "fetch":
            self._tell("FETCH")
            trained.fetch()
            loop.answer()
        elif kind == "put":
            if trained.mirrored:
                trained.put()
            self._tell("PARAMETERS")
            loop.answer()
        elif kind == "save":
            saved = self._saved()
            if self.group is not None:
                self._tell("SAVE")
                saved = pickle.dumps(self.group.gather(saved))
            loop.answer_bytes(saved)
        elif kind == "load":
            saved = request[1]
            if self.group is not None:
                everyone = pickle.loads(saved)
                if not isinstance(everyone, list) or len(everyone) != self.group.size:
                    raise Unfit(f"the checkpoint is not one of {self.group.size} processes at the "
                                "site: start as many as before")
                self._tell("PARAMETERS")
                self._tell("LOAD")
                self.group.share_object(everyone)
                saved = everyone[0]
            return self._load(saved)
        elif kind == "score":
            self._answer_score(request[1])
        elif kind == "fixed gradient":
            if self._gradient_of is None:
                raise Unfit("the strategy asks for the gradient on fixed samples: say how with "
                            "site.gradient_of(function)")
            loss, samples = trained.gradient_of(self._gradient_of, request[1])
            loop.answer(loss=loss, samples=samples, shard_size=self._batches.shard(samples))
        else:
            raise Unfit(f"the strategy asks for a {kind}, which a loop of one's own cannot give; "
                        "longhaul list names strategies that it can take part in")
        return True

    def _answer_score(self, address: int) -> None:
        score = _Score.function
        if score is None:
            raise Unfit("the strategy asks for scores: give longhaul.main(train, score) a score()")
        loss, accuracy, samples = _Score.of(self, address)
        if accuracy is None and samples > 0:
            raise Unfit('score() returned no "accuracy", which the strategy compares')
        self._loop.answer(loss=loss, accuracy=accuracy or 0.0, samples=samples,
                          shard_size=self._batches.shard(samples))

    # Checkpoints.

    def _saved(self) -> bytes:
        assert self._trained is not None
        return pickle.dumps({
            "steps": self.steps,
            "trained": self._trained.state(),
            "also": [one.state_dict() for one in self._also],
            "random": randomness.state(),
            "batches": self._batches.state(),
        })

    def _load(self, saved: bytes) -> bool:
        """The parameters are in place already. A loop that has not taken a step yet, of a run that
        has, computes one batch first: its step() is where the run goes on."""
        assert self._trained is not None
        state: dict[str, Any] = pickle.loads(saved)
        self._resumed = state
        self._keep = self._trained.keep_vectors()
        self._batches.load(state["batches"], replay=self.steps == 0)
        if state["steps"] > 0 and self.steps == 0:
            return False
        self._put_in_place(answer=False)
        self._loop.answer()
        return True

    def _put_in_place(self, answer: bool = True) -> None:
        assert self._resumed is not None and self._trained is not None and self._keep is not None
        saved, self._resumed = self._resumed, None
        if len(saved["also"]) != len(self._also):
            raise Unfit(f"also: {len(self._also)} objects, but the checkpoint has "
                        f"{len(saved['also'])}; start with the script of before, or anew by "
                        "--force")
        self._trained.load(saved["trained"])
        for one, state in zip(self._also, saved["also"]):
            one.load_state_dict(state)
        self._keep()
        self._keep = None
        self.steps = saved["steps"]
        if self._trained.has_schedule() and not any(hasattr(o, "last_epoch") for o in self._also):
            print(f"longhaul: site {self.name}: WARNING: the checkpoint has no state of the "
                  "learning-rate scheduler, which begins again; attach(also=[schedule]) keeps it",
                  file=sys.stderr, flush=True)
        randomness.restore(saved["random"])
        if answer:
            self._loop.answer()

    # The thread.

    def _why_unheard(self) -> str:
        """Why the loop cannot have trained, if train() has returned in spite of it."""
        if inspect.isgenerator(self.result) or inspect.iscoroutine(self.result):
            self.result.close()
            return ("train() is a generator or async: calling it runs nothing; it must be a plain "
                    "function")
        if self._misused or not isinstance(self._raised, Unfit):
            return self._misused
        return f"{told(self._raised)}; train() has caught this, and returned"

    def _run(self, train: Callable[[Site], Any]) -> None:
        self._thread, self._process = threading.get_ident(), os.getpid()
        _inside.site = self
        why = "train() ended in a way that cannot be told"
        try:
            if Site._playing is not None:
                Site._playing._random = randomness.state()
            Site._playing = self
            randomness.seed(self.seed)
            self.result = train(self)
            why = self._why_unheard()
        except (RunEnded, _LayoutOnly):
            why = ""
        except BaseException as error:  # the host says it; the others hear it
            self.error = error
            why = told(error)
            if not isinstance(error, Unfit):
                trace = traceback.format_exc().encode("utf-8", "backslashreplace").decode()
                print(f"site {self.name}:\n{trace}", file=sys.stderr, end="", flush=True)
        finally:
            if Site._playing is self:
                self._random = randomness.state()
            self._loop.leave(why)


def told(error: BaseException, by: str = "train()") -> str:
    """One line: what was raised, and the last line of the user's own code on the way to it."""
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be had"
    if not isinstance(error, Unfit):
        text = f"{by} raised {type(error).__name__}: {text.splitlines()[0] if text else text}"
    text = text.encode("utf-8", "backslashreplace").decode()  # names of files may be no UTF-8
    libraries = tuple(os.path.dirname(sys.modules[name].__file__ or "") + os.sep
                      for name in ("longhaul", "torch") if name in sys.modules)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(libraries):
            return f"{text} ({frame.filename}:{frame.lineno})"
    return text


class _Position:
    """Where a loop is in its loader, and what a resumption needs of it."""

    def __init__(self) -> None:
        self.loader: Any = None
        self.epoch = 0
        self.index = 0  # batches of the epoch that have been drawn
        self.samples = 0  # since the last step
        self._step: list[Any] = []  # the batches of the step under way
        self._drawn = 0  # since the last step
        self._ended = False  # the epoch's last batch is in the step under way
        self._random: randomness.State | None = None  # when the epoch began
        self._state: Any = None  # of a loader with state_dict, to begin with
        self._replay: list[Any] = []
        self._moved = False

    def begin_step(self) -> None:
        self._step.clear()
        self.samples = self._drawn = 0

    def taken(self) -> int:
        """Samples since the last step. Of a loop that takes its batches elsewhere: 1."""
        return 1 if self.loader is None else self.samples

    def take_end(self) -> bool:
        ended, self._ended = self._ended, False
        return ended

    def shard(self, samples: int) -> int:
        """Samples that this site holds: of the loader's data set, or by its number of batches."""
        data = getattr(self.loader, "dataset", None)
        try:
            return len(data)  # type: ignore[arg-type]
        except TypeError:
            pass
        try:
            return len(self.loader) * max(1, samples)
        except TypeError:
            return max(1, samples)

    def state(self) -> dict[str, Any]:
        if len(self._step) >= MOST_BATCHES_A_STEP:
            raise Unfit(f"a step of more than {MOST_BATCHES_A_STEP} batches cannot be saved")
        stateful = _is_stateful(self.loader)
        return {
            "epoch": self.epoch,
            "index": self.index,
            "random": self._random,
            "loader": self.loader.state_dict() if stateful else None,
            "step": list(self._step),
        }

    def load(self, state: dict[str, Any], replay: bool) -> None:
        self.epoch, self.index = state["epoch"], state["index"]
        self._random, self._state = state["random"], state["loader"]
        self._replay = state["step"] if replay else []
        self._moved = True

    def run(self, site: Site, loader: Any) -> Iterator[Any]:
        self.loader = loader
        while not site._over:
            if self._moved:
                self._moved = False
                for batch in self._replay:
                    yield self._give(batch)
                if self._random is not None and self._state is None and self.index > 0:
                    now = randomness.state()
                    randomness.restore(self._random)
                    source = self._begin()
                    for _ in range(self.index):
                        next(source, None)
                    randomness.restore(now)
                else:
                    source = self._begin()
                self._replay = []
            else:
                self._random = randomness.state()
                self.index = 0
                source = self._begin()
            length = _length(loader)
            empty = self.index == 0
            for batch in source:
                site._check_use()
                empty = False
                self.index += 1
                self._ended = self._ended or self.index == length
                yield self._give(batch)
                if site._over:
                    return
                if self._moved:
                    break
            else:
                if empty:
                    raise Unfit("site.batches(): the loader gave no batch"
                                + (" when it was begun again; give something that can be iterated "
                                   "more than once" if self.epoch > 0 else ""))
                self.epoch += 1
                self.index = 0

    def _begin(self) -> Iterator[Any]:
        if self._state is not None:
            self.loader.load_state_dict(self._state)
            self._state = None
        sampler: Any = getattr(self.loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self.epoch)
        return iter(self.loader)

    def _give(self, batch: Any) -> Any:
        if len(self._step) < MOST_BATCHES_A_STEP:
            self._step.append(batch)
        self._drawn += 1
        if self._drawn > MOST_BATCHES_WITHOUT_STEP:
            raise Unfit(f"{self._drawn} batches drawn, and step() of the optimiser that attach() "
                        "returned was not called")
        self.samples += _samples_of(batch)
        return batch


def _is_stateful(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def _length(loader: Any) -> int:
    try:
        return len(loader)
    except TypeError:
        return -1


def _samples_of(batch: Any) -> int:
    """The length of the first thing in the batch that has one: a tensor, a list, a dict's value."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) > 0 else 1
    if isinstance(batch, Mapping):
        return _samples_of(next(iter(batch.values()))) if batch else 0
    if dataclasses.is_dataclass(batch):
        return _samples_of(getattr(batch, dataclasses.fields(batch)[0].name))
    if isinstance(batch, (list, tuple)):
        if not batch:
            return 0
        first = batch[0]
        nested = hasattr(first, "shape") or isinstance(first, (Mapping, list, tuple))
        return _samples_of(first) if nested else len(batch)
    return 1


class _Score:
    """The user's score(model, site), for hosts that ask for a whole model's score."""

    function: Callable[[Any, Site], dict[str, float]] | None = None

    @classmethod
    def of(cls, site: Site, address: int) -> tuple[float, float | None, int]:
        """The means of loss and accuracy (None: left out), and the number of samples."""
        assert cls.function is not None and site._trained is not None
        now = randomness.state()
        try:
            sums = cls.function(site._trained.scored(address), site)
        finally:
            randomness.restore(now)
        if not isinstance(sums, dict) or "samples" not in sums or "loss" not in sums:
            raise Unfit('score() returned no {"loss": sum, "accuracy": sum, "samples": n}; '
                        "accuracy may be left out")
        if sums["samples"] != int(sums["samples"]) or sums["samples"] < 0:
            raise Unfit(f"score(): samples is {sums['samples']}; expected how many there are")
        samples = int(sums["samples"])
        if samples == 0:
            return 0.0, None, 0
        if sums.get("accuracy") is None:
            return float(sums["loss"]) / samples, None, samples
        accuracy = float(sums["accuracy"]) / samples
        is_share = samples > 1 and 0 < float(sums["accuracy"]) < 1
        if is_share or not 0 <= accuracy <= 1:
            raise Unfit(f"score(): accuracy is {sums['accuracy']} of {samples} samples; expected "
                        "how many of them are right")
        return float(sums["loss"]) / samples, accuracy, samples
