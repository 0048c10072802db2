"""scikit-learn at three sites: SGDClassifier.partial_fit between averages of its arrays.

    python3 examples/python/sklearn_sites.py simulate examples/python/sklearn_sites.toml
"""

import numpy
from sklearn.linear_model import SGDClassifier

import longhaul

SITES = ["clinic", "hospital", "laboratory"]
CLASSES, FEATURES = 3, 20


def samples(site: str, count: int = 600) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Patients of three kinds; each site sees more of one of them."""
    centres = numpy.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    draw = numpy.random.default_rng(1 + SITES.index(site))
    share = numpy.full(CLASSES, 0.2)
    share[SITES.index(site)] = 0.6
    y = draw.choice(CLASSES, count, p=share)
    return centres[y] + draw.normal(size=(count, FEATURES)) * 1.5, y


def train(site: longhaul.Site) -> SGDClassifier:
    x, y = samples(site.name)
    model = SGDClassifier(loss="log_loss", random_state=site.seed)
    model.partial_fit(x[:1], y[:1], classes=range(CLASSES))  # makes the arrays
    # What is exchanged is float32 and stays in place; the model computes with views of float64.
    arrays = {"coef": numpy.zeros((CLASSES, FEATURES), numpy.float32),
              "intercept": numpy.zeros(CLASSES, numpy.float32)}
    site.attach_arrays(arrays)
    for first in site.batches(range(0, len(y), 30)):
        model.coef_[...], model.intercept_[...] = arrays["coef"], arrays["intercept"]
        model.partial_fit(x[first:first + 30], y[first:first + 30])
        arrays["coef"][...], arrays["intercept"][...] = model.coef_, model.intercept_
        site.step(samples=30)
    return model


def score(arrays: dict[str, numpy.ndarray], site: longhaul.Site) -> dict[str, float]:
    x, y = samples(site.name)
    answers = x @ arrays["coef"].T + arrays["intercept"]
    right = answers.argmax(1) == y
    return {"loss": float((~right).sum()), "accuracy": int(right.sum()), "samples": len(y)}


if __name__ == "__main__":
    longhaul.main(train, score)
