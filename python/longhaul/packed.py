"""Values as bytes that a peer may have written: numbers, text, lists, dicts, tensors, no code."""

from __future__ import annotations

import json
from typing import Any

import numpy

_MOST_DEPTH = 32


def _plain(value: Any, parts: list[bytes]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_plain(one, parts) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(k, parts), _plain(v, parts)] for k, v in value.items()]}
    kind = "array"
    if hasattr(value, "detach"):
        kind, value = "tensor", value.detach().cpu().numpy()
    if not isinstance(value, numpy.ndarray) or value.dtype.hasobject:
        raise TypeError(f"{type(value).__name__}: expected numbers, text, lists, dicts or tensors")
    parts.append(numpy.ascontiguousarray(value).tobytes())
    return {kind: [value.dtype.str, list(value.shape)]}


def pack(value: Any) -> bytes:
    """The value as bytes; a TypeError says what it holds that is no plain value."""
    parts: list[bytes] = []
    text = json.dumps(_plain(value, parts)).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def unpack(data: bytes) -> Any:
    """What pack() was given. A ValueError if the bytes are not what they claim to be."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("packed values end early")
    try:
        tree = json.loads(data[8:8 + length])
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"packed values: {error}") from error
    offset = 8 + length

    def value_of(node: Any, depth: int) -> Any:
        nonlocal offset
        if depth > _MOST_DEPTH:
            raise ValueError("packed values are nested too deep")
        if not isinstance(node, dict):
            return node
        [(kind, of)] = node.items()
        if kind in ("list", "tuple"):
            items = [value_of(one, depth + 1) for one in of]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {value_of(k, depth + 1): value_of(v, depth + 1) for k, v in of}
        dtype = numpy.dtype(of[0])
        if dtype.hasobject or kind not in ("array", "tensor"):
            raise ValueError(f"packed values: of kind {kind!r}")
        count = int(numpy.prod([int(n) for n in of[1]], dtype=numpy.int64))
        if count < 0 or count * dtype.itemsize > len(data) - offset:
            raise ValueError("packed values end early")
        array = numpy.frombuffer(data, dtype, count, offset).reshape(of[1]).copy()
        offset += count * dtype.itemsize
        if kind == "array":
            return array
        import torch

        return torch.from_numpy(array)

    try:
        return value_of(tree, 0)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"packed values: {error}") from error
