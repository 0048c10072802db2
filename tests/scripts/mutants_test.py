"""scripts/mutants on a tree of one function: what it must kill, and what it must complain of."""
import importlib.machinery
import importlib.util
import os
import sys
import unittest

from scripts_case import ROOT, ScriptCase

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(GTest REQUIRED)
enable_testing()
function(longhaul_library name)
  add_executable(longhaul_${name}_test toy.cpp toy_test.cpp)
  target_link_libraries(longhaul_${name}_test GTest::gtest_main)
endfunction()
add_subdirectory(longhaul/toy)
"""
CODE = """int twice(int x) {
  if (x == 0) return 0;
  return 2 * x;
}
"""
TEST = """#include <gtest/gtest.h>
int twice(int);
// mutant: longhaul/toy/toy.cpp
//   - return 2 * x;
//   + return 2 *
//   x + 1;
TEST(Toy, Doubles) { EXPECT_EQ(twice(3), 6); }
// mutant: longhaul/toy/toy.cpp
//   - if (x == 0) return 0;
//   +
TEST(Toy, Zero) { EXPECT_EQ(twice(0), 0); }
// mutant: longhaul/toy/toy.cpp
//   - return 2 * x;
//   + return 2 * y;
TEST(Toy, BadMutant) { EXPECT_EQ(twice(1), 2); }
"""


def load():
    """The script as a module, for what needs no compiler."""
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    loader = importlib.machinery.SourceFileLoader("mutants", os.path.join(ROOT, "scripts/mutants"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    sys.modules["mutants"] = module
    loader.exec_module(module)
    return module


class Mutants(ScriptCase):
    def test_killed_survived_and_not_compiling(self):
        self.write("CMakeLists.txt", CMAKE)
        self.write("longhaul/toy/CMakeLists.txt", "longhaul_library(toy)\n")
        self.write("longhaul/toy/toy.cpp", CODE)
        self.write("longhaul/toy/toy_test.cpp", TEST)
        arguments = ["--root", self.root]
        output = self.expect("mutants", 1, "3 of 3 run", arguments=arguments)
        self.assertRegex(output, r"killed +Toy\.Doubles")
        self.assertRegex(output, r"survived +Toy\.Zero")
        self.assertRegex(output, r"does not compile +Toy\.BadMutant")
        self.expect("mutants", 0, "1 of 1 run, 1 killed", arguments=arguments + ["Toy.Doubles"])
        with open(os.path.join(self.root, "longhaul/toy/toy.cpp"), encoding="utf-8") as handle:
            self.assertEqual(handle.read(), CODE)

        # A test that fails anyway proves nothing about its mutant.
        self.write("longhaul/toy/toy_test.cpp", TEST.replace("twice(3), 6", "twice(3), 7"))
        self.expect("mutants", 1, "Toy.Doubles: fails without any mutant",
                    arguments=arguments + ["Toy.Doubles"])

    def test_nothing_matches(self):
        self.expect("mutants", 1, "no mutant matches", arguments=["--root", self.root])

    def test_check_finds_what_does_not_apply_and_builds_nothing(self):
        self.write("longhaul/toy/toy.cpp", CODE)
        self.write("longhaul/toy/toy_test.cpp", TEST)
        arguments = ["--root", self.root, "--check"]
        self.expect("mutants", 0, "mutants: 3, 0 findings", arguments=arguments)
        self.write("longhaul/toy/toy.cpp", CODE.replace("2 * x", "x + x"))
        output = self.expect("mutants", 1, "mutants: 3, 2 findings", arguments=arguments)
        self.assertIn("toy_test.cpp:3: does not apply", output)
        os.remove(os.path.join(self.root, "longhaul/toy/toy.cpp"))
        self.expect("mutants", 1, "no file longhaul/toy/toy.cpp", arguments=arguments)
        self.assertFalse(os.path.exists(os.path.join(self.root, "build")))

    def test_a_line_must_be_found_exactly_once(self):
        mutants = load()
        one = mutants.Mutant("t", 1, "f", old="a = 1;", new="a = 2;")
        self.assertEqual(mutants.mutate("x\n  a  = 1;\n", one)[0], "x\na = 2;\n")
        self.assertIn("is 0 lines", mutants.mutate("b = 1;\n", one)[1])
        self.assertIn("is 2 lines", mutants.mutate("a = 1;\na = 1;\n", one)[1])

    def test_comments_that_are_not_right(self):
        mutants = load()
        orphan = "// mutant: f\n//   - a\n//   + b\nint x;\nTEST(A, B) {}\n"
        self.assertIn("no test right below", mutants.parse("t", orphan)[1][0])
        same = "// mutant: f\n//   - a\n//   + a\nTEST(A, B) {}\n"
        self.assertIn("needs a line marked -", mutants.parse("t", same)[1][0])

    def test_several_mutants_above_one_test_of_any_kind(self):
        mutants = load()
        text = "// Why.\n// mutant: f\n//   - a\n//   + b\n// mutant: g\n//   - - c\n//   + + d\n"
        for macro in ("TEST", "TEST_P", "TYPED_TEST", "RC_GTEST_PROP"):
            found, errors = mutants.parse("t", text + macro + "(Suite, Name, ()) {\n")
            self.assertEqual(errors, [])
            self.assertEqual([(m.path, m.old, m.new, m.test()) for m in found],
                             [("f", "a", "b", "Suite.Name"), ("g", "- c", "+ d", "Suite.Name")])


if __name__ == "__main__":
    unittest.main()
