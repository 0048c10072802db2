"""scripts/check-layers on trees that must pass and trees that must fail."""
import unittest

from scripts_case import ScriptCase


class CheckLayers(ScriptCase):
    def refuse(self, path, text, *said):
        self.write(path, text)
        self.expect("check-layers", 1, path, *said)

    def test_arrows_of_the_design_are_allowed(self):
        self.write("longhaul/base/a.h", "#include <chrono>\n#include <map>\n")
        self.write("longhaul/core/a.h", '#include "longhaul/base/a.h"\n')
        self.write("longhaul/overlay/a.h", '#include "longhaul/flow/b.h"\n'
                                           '#include "longhaul/core/a.h"\n')
        self.write("longhaul/learn/a.cpp", '#include <torch/torch.h>\n'
                                           '#include "longhaul/learn/data/images.h"\n')
        self.write("longhaul/sync/a_test.cpp", '#include "longhaul/core/testing/net.h"\n'
                                               "#include <fstream>\n")
        self.write("longhaul/sim/a.cpp", "#include <thread>\n")
        self.write("longhaul/record/a.h", '#include "longhaul/core/a.h"\n')
        self.write("longhaul/run/a.cpp", '#include "longhaul/record/a.h"\n')
        self.expect("check-layers", 0, "0 findings")

    def test_an_upward_include(self):
        self.refuse("longhaul/base/a.h", '#include "longhaul/core/a.h"\n',
                    "includes longhaul/core/a.h; base may include only: itself")

    def test_parts_do_not_know_each_other(self):
        self.refuse("longhaul/codec/a.h", '#include "longhaul/outer/a.h"\n',
                    "codec may include only: base, core")

    def test_sim_net_learn_and_sync_do_not_know_each_other(self):
        for own, other in (("sim", "learn"), ("learn", "sim"), ("sync", "sim"), ("net", "sync"),
                           ("record", "sim"), ("sim", "record")):
            self.refuse(f"longhaul/{own}/{other}.h", f'#include "longhaul/{other}/a.h"\n',
                        f"includes longhaul/{other}/a.h; {own} may include only")

    def test_torch_outside_learn(self):
        for folder in ("run", "learn/data", "learn/models", "core"):
            self.refuse(f"longhaul/{folder}/a.cpp", "#include <torch/torch.h>\n",
                        "includes torch (torch/torch.h); only longhaul/learn may")

    def test_what_the_deterministic_half_must_not_know(self):
        for header, what in (("thread", "a thread"), ("mutex", "a thread"), ("atomic", "a thread"),
                             ("future", "a thread"), ("random", "a random device"),
                             ("fstream", "a file"), ("iostream", "a file"),
                             ("unordered_map", "an unordered container"),
                             ("unordered_set", "an unordered container"),
                             ("sys/socket.h", "a socket"), ("ctime", "a clock")):
            self.refuse("longhaul/core/a.cpp", f"#include <{header}>\n", f"<{header}>: {what}",
                        "in the deterministic half (core)")

    def test_recordings_know_no_files(self):
        self.refuse("longhaul/record/a.cpp", "#include <fstream>\n", "a file", "(record)")

    def test_a_clock_by_its_name(self):
        self.refuse("longhaul/overlay/a.cpp", "\nauto t = std::chrono::steady_clock::now();\n",
                    "longhaul/overlay/a.cpp:2: uses steady_clock: a clock")

    def test_words_in_comments_and_strings_do_not_count(self):
        self.write("longhaul/base/a.h", '// no steady_clock\nauto s = "system_clock";\n')
        self.expect("check-layers", 0, "0 findings")

    def test_doubles_outside_tests(self):
        self.refuse("longhaul/run/a.cpp", '#include "longhaul/core/testing/net.h"\n',
                    "test double longhaul/core/testing/net.h outside a test")

    def test_doubles_are_deterministic_too(self):
        self.refuse("longhaul/core/testing/net.h", "#include <thread>\n", "a thread")

    def test_a_relative_include(self):
        self.refuse("longhaul/core/a.cpp", '#include "b.h"\n', "write the whole path")

    def test_an_unknown_folder(self):
        self.refuse("longhaul/misc/a.h", "\n", "folder misc has no line in ALLOWED")


if __name__ == "__main__":
    unittest.main()
