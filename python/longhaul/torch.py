"""Models and optimisers of PyTorch in a run: what site.attach() does. With torch 1.13 to 2.x."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
import torch.fx

from longhaul import _longhaul
from longhaul.packed import pack, unpack
from longhaul.site import Site, Unfit, _Score


def _values_at(address: int, count: int) -> torch.Tensor:
    """The float32 values at the address, as a tensor that shares their memory."""
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def _buffers(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Those that the state_dict has, by name; one that stands in two places once."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is None or name in module._non_persistent_buffers_set or id(buffer) in seen:
                continue
            seen.add(id(buffer))
            yield f"{prefix}.{name}" if prefix else name, buffer


def _bare(name: str) -> str:
    """Without what DistributedDataParallel and torch.compile put before it: sites may differ."""
    parts = [part for part in name.split(".") if part != "_orig_mod"]
    return ".".join(parts[1:] if parts[0] == "module" and len(parts) > 1 else parts)


def _home(model: torch.nn.Module, path: str) -> tuple[torch.nn.Module, str]:
    """The module that has the tensor, and the tensor's name there."""
    module, _, name = path.rpartition(".")
    return model.get_submodule(module), name


def _replaced(name: str) -> Unfit:
    return Unfit(f"tensor {name} of the model is another than when it was attached: change values "
                 "in place (copy_(), add_())")


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The user's own module inside DistributedDataParallel and torch.compile."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, torch.nn.Module):
            return model
        model = inner


def _fixed_to_training(model: torch.nn.Module) -> str:
    """An operation that torch.export has fixed to training: eval() changes nothing. "": none."""
    for module in model.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            schema = getattr(node.target, "_schema", None)
            names = [argument.name for argument in schema.arguments] if schema else []
            values = {**dict(zip(names, node.args)), **node.kwargs}
            if any(values.get(one) for one in ("train", "training", "use_input_stats",
                                               "dropout_p")):
                return str(node.target)
    return ""


def load_model(file: Any, model: torch.nn.Module) -> torch.nn.Module:
    """Puts a run's model into a module of the same kind, in place, and returns it.

    file   the run's folder, or a model.f32
    model  as train() made it, with the same parameters frozen

        model = longhaul.load_model("runs/job", Net())
    """
    path = Path(file)
    path = path / "model.f32" if path.is_dir() else path
    values = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32)
    tensors = [p for p in model.parameters() if p.requires_grad]
    tensors += [b for _, b in _buffers(model) if b.is_floating_point()]
    count = sum(t.numel() for t in tensors)
    if values.numel() != count:
        raise ValueError(f"{path}: holds {values.numel()} values, and the model's trained tensors "
                         f"have {count}")
    offset = 0
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(values[offset:offset + tensor.numel()].view(tensor.shape))
            offset += tensor.numel()
    return model


class _AttachedStep:
    """Laid over the optimiser's class by attach(): its step() is the point of exchange."""

    def step(self, closure: Any = None, *, loss: Any = None, samples: int | None = None,
             **amp: Any) -> None:
        if closure is not None:
            raise Unfit("step(closure): an optimiser that calls a closure cannot be attached; "
                        "compute the loss before step()")
        trained = cast(TorchTrained, self.__dict__["_longhaul"])
        trained.amp = amp  # what a GradScaler hands to optimisers that unscale by themselves
        trained.site._step(loss, samples)


class TorchTrained:
    """A model and its optimiser; see longhaul.site.Trained."""

    needs_gradient = ""

    def __init__(self, site: Site, model: torch.nn.Module, optimizer: torch.optim.Optimizer):
        if not isinstance(model, torch.nn.Module):
            raise Unfit(f"attach(): expected a torch.nn.Module, found {type(model).__name__}")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise Unfit(f"attach(): expected a torch.optim.Optimizer, found "
                        f"{type(optimizer).__name__}")
        if isinstance(optimizer, torch.optim.LBFGS):
            raise Unfit("attach(): LBFGS calls a closure; choose an optimiser of single gradients")
        if _Score.function is not None and (operation := _fixed_to_training(model)):
            raise Unfit(f"attach(): score() needs the model as in evaluation, and torch.export has "
                        f"fixed {operation} to training: attach the model itself, or give no "
                        "score()")
        self.site, self.model, self.optimizer = site, model, optimizer
        self.amp: dict[str, Any] = {}
        paths, self._parameters = [], []
        frozen: list[tuple[str, torch.Tensor]] = []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                paths.append(name)
                self._parameters.append(parameter)
            else:
                frozen.append((_bare(name), parameter))
        if not self._parameters:
            raise Unfit("attach(): no parameter of the model requires a gradient")
        self._tensors: list[torch.Tensor] = list(self._parameters)
        for name, buffer in _buffers(model):
            if buffer.is_floating_point():
                paths.append(name)
                self._tensors.append(buffer)
            else:
                frozen.append((_bare(name), buffer))
        names = [_bare(path) for path in paths]
        self._check_groups(names)
        places: dict[int, str] = {}
        for name, tensor in zip(names, self._tensors):
            if tensor.numel() > 0:
                other = places.setdefault(tensor.data_ptr(), name)
                if other != name:
                    raise Unfit(f"attach(): tensors {other} and {name} are two that share memory; "
                                "tie them as one parameter: b.weight = a.weight")
            if not tensor.is_floating_point():
                raise Unfit(f"attach(): tensor {name} is of {tensor.dtype}; only numbers of "
                            "floating point are trained")
            if tensor.is_sparse or tensor.device.type == "meta":
                raise Unfit(f"attach(): tensor {name} has no values of its own here "
                            f"({tensor.layout}, device {tensor.device})")
        if not any(p.numel() for p in self._parameters):
            raise Unfit("attach(): no trained parameter of the model has an element")
        self._names, self._frozen = names, frozen
        # What a class makes at once (Adagrad), which a reset begins with again.
        self._first_state = copy.deepcopy(optimizer.state_dict()["state"])
        self._counted = self._count()
        self.mirrored = any(t.device.type != "cpu" or t.dtype != torch.float32
                            for t in self._tensors)
        pinned = self.mirrored and any(t.device.type == "cuda" for t in self._tensors)
        total = sum(t.numel() for t in self._tensors)
        self._values = torch.empty(total, dtype=torch.float32, pin_memory=pinned)
        self._gradients = torch.zeros(total, dtype=torch.float32, pin_memory=pinned)
        self._views = self._views_of(self._values)
        self._gradient_views = self._views_of(self._gradients)
        with torch.no_grad():
            self.fetch()
            if not self.mirrored:
                for tensor, view in zip(self._tensors, self._views):
                    tensor.data = view
        self._places = [t.data_ptr() for t in self._tensors]
        self._homes = [_home(model, name) for name in paths]
        self._next_check = 0
        self._remember_members()
        self._lay_over()

    def _check_groups(self, names: list[str]) -> None:
        ours = {id(p) for p in self.model.parameters()}
        theirs = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        for name, parameter in zip(names, self._parameters):
            if id(parameter) not in theirs:
                raise Unfit(f"attach(): parameter {name} requires a gradient, and the optimiser "
                            "does not have it: add it, or freeze it by requires_grad_(False)")
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in ours:
                    raise Unfit("attach(): the optimiser has a parameter of shape "
                                f"{tuple(parameter.shape)} that is not one of the model's: make it "
                                "from model.parameters(), after the model is on its device")

    def _count(self) -> int:
        return sum(len(group["params"]) for group in self.optimizer.param_groups)

    def _views_of(self, values: torch.Tensor) -> list[torch.Tensor]:
        views, offset = [], 0
        for tensor in self._tensors:
            views.append(values[offset:offset + tensor.numel()].view(tensor.shape))
            offset += tensor.numel()
        return views

    def _lay_over(self) -> None:
        """The optimiser stays the same object of its own class, whose step() is ours now."""
        optimizer = self.optimizer
        if "_longhaul" in optimizer.__dict__:
            raise Unfit("attach(): this optimiser is attached already; make one for each train()")
        kind = type(optimizer)
        hidden = optimizer.__dict__.pop("step", None)  # a scheduler's counter of steps
        self._inner = kind.step
        optimizer.__dict__["_longhaul"] = self
        optimizer.__class__ = type(kind.__name__, (_AttachedStep, kind),
                                   {"__module__": kind.__module__})
        if hidden is not None:
            step = optimizer.step

            def counted(*args: Any, **kwargs: Any) -> None:
                optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1  # type: ignore
                optimizer._opt_called = True  # type: ignore[attr-defined]
                step(*args, **kwargs)

            # What schedulers of torch 1.13 and of 2.x look for.
            counted._with_counter = True  # type: ignore[attr-defined]
            counted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
            optimizer.step = counted  # type: ignore[method-assign, assignment]

    def layout(self) -> dict[str, Any]:
        fixed = []
        for name, tensor in self._frozen:  # one at a time: there may be many, on a GPU
            here = tensor.detach().contiguous().cpu()
            fixed.append((name, _longhaul.digest(here.data_ptr(),
                                                 here.numel() * here.element_size())))
        return {
            "params": self._values.data_ptr(),
            "grads": self._gradients.data_ptr(),
            "tensors": [(name, list(t.shape)) for name, t in zip(self._names, self._tensors)],
            "parameters": len(self._parameters),
            "fixed": fixed,
        }

    def _remember_members(self) -> None:
        modules = list(self.model.modules())
        self._members = [d for m in modules for d in (m._parameters, m._modules)]
        self._buffer_dicts = [m._buffers for m in modules]
        self._seen = self._look_at_members()

    def _look_at_members(self) -> list[int]:
        """Equal as long as no module, parameter or buffer comes, goes or is replaced; buffers may
        be replaced."""
        ids = [id(member) for members in self._members for member in members.values()]
        ids.append(sum(map(len, self._buffer_dicts)))
        return ids

    def _check_members(self) -> None:
        attached = dict(zip(self._names, self._tensors))
        attached.update(self._frozen)
        known = {id(tensor) for tensor in attached.values()}
        floats = [(n, b) for n, b in _buffers(self.model) if b.is_floating_point()]
        for path, tensor in [*self.model.named_parameters(), *floats]:
            if id(tensor) in known:
                continue
            if (name := _bare(path)) in attached:
                raise _replaced(name)
            raise Unfit(f"tensor {name} was added to the model after site.attach(), and would not "
                        "be exchanged: build the whole model before attach()")
        self._remember_members()

    def has_schedule(self) -> bool:
        return "step" in self.optimizer.__dict__  # schedulers count steps by a wrapper

    def check(self) -> None:
        if self._count() != self._counted:
            raise Unfit("the optimiser has got other parameters since site.attach(); attach what "
                        "is to be trained")
        if self._look_at_members() != self._seen:
            self._check_members()
        if self._frozen:
            name, tensor = self._frozen[self._next_check % len(self._frozen)]
            if tensor.requires_grad:
                raise Unfit(f"tensor {name} was frozen when it was attached and requires a "
                            "gradient now: what is trained is exchanged from the first step on")
        # One tensor a step, in turn: a model that was moved has moved all of them.
        i = self._next_check % len(self._tensors)
        self._next_check += 1
        module, name = self._homes[i]
        if getattr(module, name, None) is not self._tensors[i]:
            raise _replaced(self._names[i])
        if self._tensors[i].data_ptr() != self._places[i]:
            raise Unfit(f"tensor {self._names[i]} is in other memory than when it was attached: "
                        "move or convert the model (.to(), .half(), .cuda()) before "
                        "site.attach()")

    def step(self) -> None:
        self._inner(self.optimizer, **self.amp)

    @torch.no_grad()
    def send_gradients(self) -> None:
        for name, parameter, view in zip(self._names, self._parameters, self._gradient_views):
            if parameter.grad is None:
                view.zero_()
            elif parameter.grad.is_sparse:
                raise Unfit(f"tensor {name} has a sparse gradient; use sparse=False")
            elif parameter.grad is not view:
                view.copy_(parameter.grad)

    @torch.no_grad()
    def take_gradients(self) -> None:
        for parameter, view in zip(self._parameters, self._gradient_views):
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(view)

    @torch.no_grad()
    def add_proximal(self, mu: float, anchor: int) -> None:
        anchors = self._views_of(_values_at(anchor, self._values.numel()))
        for parameter, view in zip(self._parameters, anchors):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad.is_sparse:
                raise Unfit("a sparse gradient, to which no proximal term can be added; use "
                            "sparse=False")
            parameter.grad.add_(parameter - view.to(parameter), alpha=mu)

    def reset_optimizer(self) -> None:
        self.optimizer.state.clear()
        if self._first_state:
            self.optimizer.load_state_dict({
                "state": copy.deepcopy(self._first_state),
                "param_groups": self.optimizer.state_dict()["param_groups"]})

    def _moment_names(self) -> list[str]:
        """Of the optimiser's state what has the shape of its parameter: momentum, moments."""
        names: set[str] = set()
        for parameter in self._parameters:
            for name, value in self.optimizer.state.get(parameter, {}).items():
                if torch.is_tensor(value) and value.shape == parameter.shape and value.dim() > 0:
                    names.add(name)
        return sorted(names)

    @torch.no_grad()
    def optimizer_state(self, set_to: bytes) -> bytes:
        names = self._moment_names()
        size = sum(p.numel() for p in self._parameters)
        if set_to:
            values = torch.frombuffer(bytearray(set_to), dtype=torch.float32)
            if values.numel() != size * len(names):
                raise Unfit(f"the optimiser keeps {len(names)} values a parameter here, and "
                            f"{values.numel() / size:g} at the others: it must have taken a step")
        parts, offset = [], 0
        for name in names:
            for parameter in self._parameters:
                moment = self.optimizer.state[parameter].get(name)
                if moment is None:
                    moment = self.optimizer.state[parameter][name] = torch.zeros_like(parameter)
                if set_to:
                    piece = values[offset:offset + parameter.numel()].view(parameter.shape)
                    moment.copy_(piece)
                    offset += parameter.numel()
                parts.append(moment.detach().float().cpu().reshape(-1))
        return bytes(torch.cat(parts).numpy().tobytes()) if parts else b""

    def whole_optimizer_state(self, set_to: bytes) -> bytes:
        if set_to:
            try:
                self.optimizer.load_state_dict(unpack(set_to))
            except (ValueError, KeyError, TypeError) as error:
                raise Unfit("the state of the optimiser that another site has sent does not fit: "
                            f"{error}") from error
        return pack(self.optimizer.state_dict())

    def keep_vectors(self) -> Callable[[], None]:
        values, gradients = self._values.clone(), self._gradients.clone()

        def put_back() -> None:
            self._values.copy_(values)
            self._gradients.copy_(gradients)
            if self.mirrored:
                self.put()

        return put_back

    def undo(self) -> Callable[[], None]:
        if self.mirrored:
            self.fetch()
        put_vectors_back = self.keep_vectors()
        state = copy.deepcopy(self.optimizer.state_dict())

        def put_back() -> None:
            put_vectors_back()
            self._load_optimizer(copy.deepcopy(state))

        return put_back

    @torch.no_grad()
    def fetch(self) -> None:
        for tensor, view in zip(self._tensors, self._views):
            view.copy_(tensor)

    @torch.no_grad()
    def put(self) -> None:
        for tensor, view in zip(self._tensors, self._views):
            tensor.copy_(view)

    def share_parameters(self, group: Any) -> None:
        for tensor in self._tensors if self.mirrored else [self._values]:
            group.share(tensor.data)

    def share_gradients(self, group: Any) -> None:
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            group.share(parameter.grad)

    def _load_optimizer(self, state: dict[str, Any]) -> None:
        if not state["state"]:
            self.optimizer.state.clear()
        self.optimizer.load_state_dict(state)

    def _kept_buffers(self) -> list[torch.Tensor]:
        """Those that are not exchanged: BatchNorm's count of batches."""
        return [t for _, t in self._frozen if not isinstance(t, torch.nn.Parameter)]

    def state(self) -> Any:
        return {"buffers": [t.clone() for t in self._kept_buffers()],
                "optimizer": self.optimizer.state_dict(),
                "grads": [None if p.grad is None else p.grad for p in self._parameters]}

    def load(self, state: Any) -> None:
        self._load_optimizer(state["optimizer"])
        for buffer, value in zip(self._kept_buffers(), state["buffers"]):
            buffer.copy_(value)
        for parameter, grad in zip(self._parameters, state["grads"]):
            parameter.grad = None if grad is None else grad.to(parameter.device)

    def scored(self, address: int) -> torch.nn.Module:
        # Anew each time: a model may hold more than the tensors that are exchanged.
        try:
            model = copy.deepcopy(_unwrapped(self.model))
        except Exception as error:
            raise Unfit(f"score() needs a copy of the model, and copy.deepcopy() failed: "
                        f"{error}") from error
        tensors = dict(model.named_parameters())
        tensors.update(_buffers(model))
        by_name = {_bare(name): tensor for name, tensor in tensors.items()}
        if address:
            views = self._views_of(_values_at(address, self._values.numel()))
            with torch.no_grad():
                for name, view in zip(self._names, views):
                    by_name[name].copy_(view)
        return model.requires_grad_(False).eval()

    def gradient_of(self, function: Callable[[int], Any], samples: int) -> tuple[float, int]:
        kept = [p.grad for p in self._parameters]
        training = self.model.training
        for parameter in self._parameters:
            parameter.grad = None
        try:
            self.model.eval()
            loss = function(samples)
            loss.backward()
            self.send_gradients()
            return float(loss), samples
        finally:
            self.model.train(training)
            for parameter, grad in zip(self._parameters, kept):
                parameter.grad = grad
