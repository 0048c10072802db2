"""Least squares in numpy, for tests over sockets: no libtorch to load in each process.

Environment: TRACE, a file to which each step appends a line; FAIL=site:step and HANG=site:step.
"""

import os
import sys
import time

import numpy

import longhaul

SITES = ("aa", "bb", "cc")


def train(site):
    draw = numpy.random.default_rng(SITES.index(site.name))
    inputs = draw.normal(size=(64, 5)).astype(numpy.float32)
    targets = inputs @ numpy.arange(5, dtype=numpy.float32) + 3
    model = {"a": numpy.zeros(5, numpy.float32), "b": numpy.zeros(1, numpy.float32)}

    def apply(gradient):
        for name, values in model.items():
            values -= numpy.float32(0.05) * gradient[name]

    site.attach_arrays(model, apply)
    rows = [range(i, i + 8) for i in range(0, 64, 8)]
    for batch in site.batches(rows):
        if trace := os.environ.get("TRACE"):
            with open(f"{trace}.{site.name}", "a") as out:
                print(site.steps, file=out)
        if os.environ.get("FAIL") == f"{site.name}:{site.steps}":
            raise ValueError("a bug of mine")
        if pause := os.environ.get("PAUSE_S"):
            time.sleep(float(pause))
        x, y = inputs[batch], targets[batch]
        error = x @ model["a"] + model["b"] - y
        gradient = {"a": (error @ x / len(y)).astype(numpy.float32),
                    "b": numpy.array([error.mean()], numpy.float32)}
        site.step(gradient, loss=float((error**2).mean() / 2), samples=len(y))
    print(f"{site.name} has left its loop after {site.steps} steps", file=sys.stderr)


def score(model, site):
    error = model["a"] - numpy.arange(5)
    return {"loss": float((error**2).sum()), "samples": 1}


if __name__ == "__main__":
    longhaul.main(train, score)
