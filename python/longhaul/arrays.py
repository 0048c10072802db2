"""Arrays of numpy in a run: what site.attach_arrays() does."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy

from longhaul.site import Unfit


class ArraysTrained:
    """Arrays by name, in the order of the dict; see longhaul.site.Trained."""

    mirrored = True

    def __init__(self, arrays: dict[str, Any], apply: Callable[[dict[str, Any]], None] | None):
        for name, array in arrays.items():
            if not isinstance(array, numpy.ndarray) or array.dtype != numpy.float32:
                found = getattr(array, "dtype", type(array).__name__)
                raise Unfit(f"attach_arrays(): {name}: expected a numpy array of float32, found "
                            f"{found}")
            if not array.flags.writeable:
                raise Unfit(f"attach_arrays(): {name}: the array cannot be written")
        if not arrays:
            raise Unfit("attach_arrays(): no arrays")
        for (one, a), (other, b) in itertools.combinations(arrays.items(), 2):
            if numpy.may_share_memory(a, b) and numpy.shares_memory(a, b):
                raise Unfit(f"attach_arrays(): {one} and {other} share memory; give each value "
                            "once")
        self._given, self._arrays, self._apply = arrays, dict(arrays), apply
        self._gradient: dict[str, Any] | None = None
        total = sum(a.size for a in arrays.values())
        self._values = numpy.empty(total, numpy.float32)
        self._gradients = numpy.zeros(total, numpy.float32)
        self.needs_gradient = "" if apply else (
            "the strategy exchanges gradients: attach_arrays(arrays, apply) and step(gradient) "
            "give it one")
        self.fetch()

    def _pieces(self, values: Any) -> dict[str, Any]:
        pieces, offset = {}, 0
        for name, array in self._arrays.items():
            pieces[name] = values[offset:offset + array.size].reshape(array.shape)
            offset += array.size
        return pieces

    def layout(self) -> dict[str, Any]:
        return {
            "params": self._values.ctypes.data,
            "grads": self._gradients.ctypes.data,
            "tensors": [(name, list(a.shape)) for name, a in self._arrays.items()],
            "parameters": len(self._arrays),
            "fixed": [],
        }

    def gradient(self, gradient: dict[str, Any] | None) -> None:
        """That of the step that begins."""
        if self._apply is None and gradient is not None:
            raise Unfit("step(gradient): attach_arrays() was given no apply() that takes it")
        if self._apply is not None:
            if gradient is None:
                raise Unfit("step(): attach_arrays() was given apply(), so step(gradient) needs "
                            "one")
            if set(gradient) != set(self._arrays):
                raise Unfit(f"step(gradient): expected the names {sorted(self._arrays)}, found "
                            f"{sorted(gradient)}")
            gradient = {k: numpy.asarray(v, numpy.float32) for k, v in gradient.items()}
            for name, array in self._arrays.items():
                if gradient[name].shape != array.shape:
                    raise Unfit(f"step(gradient): {name} has shape {gradient[name].shape}, "
                                f"expected {array.shape}")
        self._gradient = gradient

    def has_schedule(self) -> bool:
        return False

    def check(self) -> None:
        for name in self._given.keys() | self._arrays.keys():
            if name not in self._arrays:
                raise Unfit(f"array {name} was added after site.attach_arrays(): it would not be "
                            "exchanged")
            if self._given.get(name) is not self._arrays[name]:
                raise Unfit(f"array {name} is another than when it was attached: change it in "
                            "place, as by w[...] = w - step")

    def step(self) -> None:
        if self._apply is not None and self._gradient is not None:
            self._apply(self._gradient)

    def send_gradients(self) -> None:
        assert self._gradient is not None
        for name, piece in self._pieces(self._gradients).items():
            piece[...] = self._gradient[name]

    def take_gradients(self) -> None:
        self._gradient = {k: v.copy() for k, v in self._pieces(self._gradients).items()}

    def add_proximal(self, mu: float, anchor: int) -> None:
        import ctypes

        values = numpy.ctypeslib.as_array((ctypes.c_float * self._values.size).from_address(anchor))
        assert self._gradient is not None
        for name, piece in self._pieces(values).items():
            self._gradient[name] = self._gradient[name] + mu * (self._arrays[name] - piece)

    def reset_optimizer(self) -> None:
        pass  # what apply() keeps is the loop's own

    def optimizer_state(self, set_to: bytes) -> bytes:
        return b""

    def whole_optimizer_state(self, set_to: bytes) -> bytes:
        return b""

    def keep_vectors(self) -> Callable[[], None]:
        values, gradients = self._values.copy(), self._gradients.copy()

        def put_back() -> None:
            self._values[...] = values
            self._gradients[...] = gradients
            self.put()

        return put_back

    def undo(self) -> Callable[[], None]:
        self.fetch()
        return self.keep_vectors()

    def fetch(self) -> None:
        for name, piece in self._pieces(self._values).items():
            piece[...] = self._arrays[name]

    def put(self) -> None:
        for name, piece in self._pieces(self._values).items():
            self._arrays[name][...] = piece

    def share_parameters(self, group: Any) -> None:
        raise Unfit("attach_arrays() is for one process at a site")

    share_gradients = share_parameters

    def state(self) -> Any:
        return {"gradient": self._gradient}

    def load(self, state: Any) -> None:
        self._gradient = state["gradient"]

    def scored(self, address: int) -> dict[str, Any]:
        import ctypes

        if not address:
            return copy.deepcopy(self._arrays)
        memory = (ctypes.c_float * self._values.size).from_address(address)
        values = numpy.ctypeslib.as_array(memory)
        return {name: piece.copy() for name, piece in self._pieces(values).items()}

    def gradient_of(self, function: Callable[[int], Any], samples: int) -> tuple[float, int]:
        raise Unfit("the strategy asks for the gradient on fixed samples, which arrays cannot give")
