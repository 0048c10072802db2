#!/usr/bin/env python3
"""perf through the emulated WAN, in real time: nothing else may run meanwhile.

    LONGHAUL=build/release/longhaul tests/cli/perf_lab_test.py

Where this machine lets nobody make network namespaces and TUN devices it sees that perf says what
is missing, and is skipped.
"""
import unittest

import lab_test
import perf_test


class Lab(perf_test.Case):
    # Links slow enough for any machine: what is wrong here is not its speed.
    def test_an_emulated_wan_takes_as_long_as_the_simulated_one(self):
        missing = lab_test.missing_here()
        if missing:
            self.bad("perf", "job.toml", "--lab", names=("the emulated WAN needs",))
            self.skipTest(f"this machine has not {missing}")
        sets = ("--mbytes", 1, "--set", "wan.model=fair", "--set", "wan.delay_ms=20")
        for overlay in ("ring", "hub"):
            simulated, _ = self.perf("--overlay", overlay, *sets)
            real, _ = self.perf("--lab", "--overlay", overlay, *sets)
            self.assertEqual(real["place"], "lab")
            self.assertEqual(real["bound_s"], simulated["bound_s"])
            self.assertGreater(real["ratio"], 1)
            self.assertAlmostEqual(real["time_s"], simulated["time_s"],
                                   delta=0.15 * simulated["time_s"], msg=f"{simulated} {real}")
            self.assertAlmostEqual(real["wan_bytes"], simulated["wan_bytes"],
                                   delta=0.001 * real["wan_bytes"])
            self.assertGreater(real["lab"]["packets"], 4000)
            self.assertIn("router_limited", real["lab"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
