"""Models that are sharded over the processes of a site (FSDP or fully_shard); see torch.py.

All processes gather the whole model for rank 0, and take their shards from it after an exchange.
The optimiser's state stays with the shards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_map

from longhaul.site import Site, Unfit, _Score
from longhaul.torch import TorchTrained, _bare, _buffers


def processes_of(model: Any) -> set[int]:
    """Over how many processes the parameters are sharded; empty: they are not."""
    wrapper = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", ())
    sizes = {part.process_group.size() for part in model.modules() if isinstance(part, wrapper)}
    return sizes | {p.device_mesh.size() for p in model.parameters() if hasattr(p, "device_mesh")}


def _local(tensor: Any) -> torch.Tensor:
    """What this process has of it, in the same memory."""
    shard = tensor.detach()
    return shard.to_local() if hasattr(shard, "to_local") else shard


def _as(parameter: Any, value: Any) -> Any:
    """The process's part of a value as the parameter is: with fully_shard, as a DTensor."""
    if not hasattr(parameter, "device_mesh") or not torch.is_tensor(value) or value.dim() == 0:
        return value
    return type(parameter.data).from_local(value, parameter.device_mesh, parameter.placements,
                                           shape=parameter.shape, stride=parameter.stride())


class ShardedTrained(TorchTrained):
    """Its mirror at rank 0 holds the whole model; the other processes have none."""

    needs_gradient = ("the strategy exchanges gradients, and the model is sharded: choose one of "
                      "local steps, such as fedavg or diloco")
    mirrored = True

    def __init__(self, site: Site, model: torch.nn.Module, optimizer: torch.optim.Optimizer):
        if _Score.function is not None:
            raise Unfit("attach(): score() needs a copy of the model, which is sharded: give none, "
                        "and test longhaul.load_model(run folder, model) after the run")
        try:
            from torch.distributed.checkpoint import state_dict as whole
            self._options = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
            self._to_all = whole.StateDictOptions(full_state_dict=True, strict=False,
                                                  broadcast_from_rank0=True)
        except (ImportError, TypeError) as error:
            raise Unfit("attach(): a sharded model needs PyTorch 2.4 or later") from error
        self._whole = whole
        self.site, self.model, self.optimizer = site, model, optimizer
        self.amp: dict[str, Any] = {}
        named = {_bare(name.replace("_fsdp_wrapped_module.", "")): parameter
                 for name, parameter in model.named_parameters()}
        names = [name for name, parameter in named.items() if parameter.requires_grad]
        self._parameters = [named[name] for name in names]
        if not names or any(name.endswith("_flat_param") for name in names):
            raise Unfit("attach(): no parameter requires a gradient, or FullyShardedDataParallel "
                        "has hidden them: say use_orig_params=True")
        self._check_groups(names)
        self._float_buffers = [b for _, b in _buffers(model) if b.is_floating_point()]
        self._counted = self._count()
        self._first_state = {}
        values = self._gather()
        names += [name for name, value in values.items()
                  if name not in named and value.is_floating_point()]
        self._names = names if values else []
        self._frozen = [(n, v) for n, v in values.items() if n not in names]
        self._tensors = [values[name].to("meta") for name in self._names]
        total = sum(t.numel() for t in self._tensors)
        self._values, self._gradients = torch.empty(total), torch.zeros(total)
        self._views = self._views_of(self._values)
        self._put_into_mirror(values)
        self._lay_over()

    def _gather(self) -> dict[str, torch.Tensor]:
        """The whole model; at rank 0 alone. Collective, as share_parameters()."""
        values = self._whole.get_model_state_dict(self.model, options=self._options)
        return {_bare(name): value for name, value in values.items()}

    def _put_into_mirror(self, values: dict[str, torch.Tensor]) -> None:
        for name, view in zip(self._names, self._views):
            view.copy_(values[name])

    def layout(self) -> dict[str, Any]:
        layout = super().layout()
        layout["parameters"] = len(self._parameters)
        self._frozen = []
        return layout

    def check(self) -> None:
        if self._count() != self._counted:
            raise Unfit("the optimiser has got other parameters since site.attach()")

    def fetch(self) -> None:
        self._put_into_mirror(self._gather())

    def put(self) -> None:
        pass  # share_parameters() follows

    def share_parameters(self, group: Any) -> None:
        values = {name: view.to(tensor.dtype)
                  for name, view, tensor in zip(self._names, self._views, self._tensors)}
        self._whole.set_model_state_dict(self.model, values, options=self._to_all)

    def keep_vectors(self) -> Callable[[], None]:
        kept = [(t, _local(t).clone()) for t in [*self._parameters, *self._float_buffers]]

        def put_back() -> None:
            for tensor, value in kept:
                _local(tensor).copy_(value)

        return put_back

    def optimizer_state(self, set_to: bytes) -> bytes:
        raise Unfit("the strategy averages the optimiser's state, and the model is sharded")

    def _kept_buffers(self) -> list[torch.Tensor]:
        return [b for _, b in _buffers(self.model) if not b.is_floating_point()]

    def state(self) -> Any:
        return tree_map(lambda one: _local(one) if hasattr(one, "to_local") else one,
                        super().state())

    def load(self, state: Any) -> None:
        grads = [_as(p, grad) for p, grad in zip(self._parameters, state["grads"])]
        super().load({**state, "grads": grads})
        for parameter in self._parameters:
            kept = self.optimizer.state[parameter]
            kept.update({name: _as(parameter, value) for name, value in kept.items()})

    def gradient_of(self, function: Callable[[Any], Any], samples: int) -> NoReturn:
        raise Unfit("the strategy asks for the gradient on fixed samples, and the model is sharded")
