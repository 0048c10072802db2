"""The filters of PNG in scripts/convert-data, beside the standard's formulas."""
import importlib.machinery
import importlib.util
import os
import random
import unittest

from scripts_case import ROOT


def module(name):
    loader = importlib.machinery.SourceFileLoader("script", os.path.join(ROOT, "scripts", name))
    loaded = importlib.util.module_from_spec(importlib.util.spec_from_loader("script", loader))
    loader.exec_module(loaded)
    return loaded


def predicted(kind, left, up, corner):
    if kind < 4:
        return [0, left, up, (left + up) // 2][kind]
    guess = left + up - corner
    return min((abs(guess - value), order, value) for order, value in
               enumerate((left, up, corner)))[2]


class Filters(unittest.TestCase):
    def test_each_filter_is_undone(self):
        script, draw = module("convert-data"), random.Random(5)
        for kind in range(5):
            values, above = draw.randbytes(300), draw.randbytes(300)
            steps = bytes((values[i] - predicted(kind, values[i - 1] if i else 0, above[i],
                                                 above[i - 1] if i else 0)) % 256
                          for i in range(300))
            self.assertEqual(script.unfilter(kind, steps, above), values, kind)


if __name__ == "__main__":
    unittest.main()
