"""How much of the tests in Python runs: all of it, or what is cheap in the gate (LONGHAUL_GATE=1,
which ctest sets where kGate of base/testing/effort.h is true).

Under AddressSanitizer a process spends a second and more on loading libtorch. A job of phantoms
does without: it has times and bytes, and no numbers.
"""
import os
import unittest

GATE = os.environ.get("LONGHAUL_GATE") == "1"
nightly = unittest.skipIf(GATE, "too dear for the gate")  # of a test or a class


def chosen(cases, *indices):
    """In the gate these of the cases."""
    return [cases[index] for index in indices] if GATE else cases


# What makes a job one of phantoms.
LIGHT = [('kind = "logistic"', 'kind = "phantom"\nmbytes = 0.04'),
         ('kind = "synthetic"', 'kind = "none"')]


def light(text):
    """The job, in the gate with a phantom, for tests that look at no numbers."""
    if not GATE:
        return text
    for old, new in LIGHT:
        assert old in text, text
        text = text.replace(old, new)
    return text
