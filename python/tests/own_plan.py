"""A linear classifier in numpy, for plan and compare: each trial is a process, numpy loads fast.

Environment LOOP: rate (the job's rate), values (no gradients for the strategy), early and late (an
error before and after attach), exit (of the process), no score, no accuracy. BATCH: samples of a
batch.
"""

import os

import numpy

import longhaul

SITES = ("aa", "bb")
KIND = os.environ.get("LOOP", "")
BATCH = int(os.environ.get("BATCH", "8"))


def samples(site, count=max(120, BATCH)):
    draw = numpy.random.default_rng(SITES.index(site))
    x = draw.normal(size=(count, 6)).astype(numpy.float32)
    return x, (x.sum(1) > 0).astype(numpy.float32)


def train(site):
    rate = numpy.float32(site.rate if KIND == "rate" else 0.05)
    model = {"w": numpy.zeros(6, numpy.float32)}

    def apply(gradient):
        model["w"] -= rate * gradient["w"]

    if KIND == "early":
        raise ValueError("a bug of mine")
    site.attach_arrays(model, None if KIND == "values" else apply)
    x, y = samples(site.name)
    for first in site.batches(range(0, len(y), BATCH)):
        if KIND == "late" and site.steps == 2:
            raise ValueError("a bug of mine")
        if KIND == "exit" and site.steps == 2:
            os._exit(0)
        some = slice(first, first + BATCH)
        error = 1 / (1 + numpy.exp(-(x[some] @ model["w"]))) - y[some]
        gradient = {"w": (error @ x[some] / BATCH).astype(numpy.float32)}
        if KIND == "values":
            apply(gradient)
        site.step(None if KIND == "values" else gradient, samples=BATCH)


def score(model, site):
    x, y = samples(site.name)
    right = int(((x @ model["w"] > 0) == (y > 0)).sum())
    sums = {"loss": float(len(y) - right), "samples": len(y)}
    return sums if KIND == "no accuracy" else {**sums, "accuracy": right}


if __name__ == "__main__":
    longhaul.main(train, None if KIND == "no score" else score)
