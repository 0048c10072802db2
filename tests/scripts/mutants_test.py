"""scripts/mutants: what each operator makes of a line, which lines it leaves alone, and whole runs
over a toy tree whose test program needs no GoogleTest."""
import json
import os
import subprocess
import sys
import unittest
from importlib import machinery, util
from unittest import mock

from scripts_case import ROOT, ScriptCase, nightly

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import mutation  # noqa: E402
import mutation_choice  # noqa: E402
import mutation_weave  # noqa: E402

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
function(longhaul_library name)
  add_executable(longhaul_${name}_test toy.cpp toy_test.cpp)
endfunction()
add_subdirectory(longhaul/toy)
"""
CODE = """// Is x < 0? Then return true.
int twice(int x) {
  if (x == 0) return 0;
  return x + x;
}
"""
TEST = """int twice(int);
int main() { return twice(3) == 6 && twice(-1) == -2 ? 0 : 1; }
"""


def load():
    """The script as a module, for what needs no compiler."""
    loader = machinery.SourceFileLoader("mutants", os.path.join(ROOT, "scripts/mutants"))
    module = util.module_from_spec(util.spec_from_loader("mutants", loader))
    sys.modules["mutants"] = module
    loader.exec_module(module)
    return module


def made(body, operator=None, header=""):
    """The new lines of the mutants of one line of a function."""
    text = "void f() {\n  " + body + "\n}\n"
    return [m.new for m in mutation.mutants_of("f.cpp", text, header=header)
            if operator in (None, m.operator)]


class Operators(unittest.TestCase):
    def test_conditions_are_negated(self):
        self.assertEqual(made("if (a) return;", mutation.NEGATED), ["if (!(a)) return;"])
        self.assertEqual(made("if (!a) return;", mutation.NEGATED), ["if (a) return;"])
        self.assertEqual(made("while (a && !b) g();", mutation.NEGATED),
                         ["while (!(a && !b)) g();", "while (a && b) g();"])
        self.assertEqual(made("if (auto x = g(); x != end) h();", mutation.NEGATED),
                         ["if (auto x = g(); !(x != end)) h();"])
        self.assertEqual(made("if (auto x = g()) h();", mutation.NEGATED), [])
        self.assertEqual(made("if (a ||\n      b)\n    g();", mutation.NEGATED),
                         ["if (!(a || b))"])

    def test_comparisons_are_swapped_and_template_lists_are_none(self):
        self.assertEqual(made("x = a < b;", mutation.COMPARISON), ["x = a <= b;"])
        self.assertEqual(made("x = a >= b;", mutation.COMPARISON), ["x = a > b;"])
        self.assertEqual(made("x = a == b;", mutation.COMPARISON), ["x = a != b;"])
        self.assertEqual(made("std::map<int, std::array<int, 3>> x = g<4>();"), [])

    def test_other_operators_are_swapped(self):
        self.assertEqual(made("x = a && b;", mutation.LOGIC), ["x = a || b;"])
        self.assertEqual(made("for (auto&& x : y) z += x;", mutation.SIGN),
                         ["for (auto&& x : y) z -= x;"])
        self.assertEqual(made("x = a - b;", mutation.SIGN), ["x = a + b;"])
        self.assertEqual(made('x = "a" + b;', mutation.SIGN), [])
        self.assertEqual(made("x = std::min(a, b);", mutation.MIN_MAX), ["x = std::max(a, b);"])

    def test_numbers(self):
        self.assertEqual(made("x = y + 1;", mutation.OFF_BY_ONE), ["x = y + 0;"])
        self.assertEqual(made("x = 1'000;", mutation.OFF_BY_ONE), ["x = 1001;"])
        self.assertEqual(made("x = 0xffu;", mutation.OFF_BY_ONE), ["x = (0xffu + 1);"])
        self.assertEqual(made("x = 0.5 * y;", mutation.CONSTANT), ["x = (2 * 0.5) * y;"])
        self.assertEqual(made("x = 0x1p50;", mutation.CONSTANT), ["x = (2 * 0x1p50);"])
        self.assertEqual(made("x = 0.0;", mutation.CONSTANT), ["x = 1.0;"])
        self.assertEqual(made("return true;"), ["return false;"])

    def test_statements_are_dropped_but_no_declaration(self):
        for statement in ("g(a);", "x = y;", "++x;", "x->y[3].g();", "*x = y;", "x += y;",
                          "return;", "a::b<c>(d);"):
            self.assertIn(";", made(statement, mutation.DROPPED), statement)
        for statement in ("T x(a);", "T x = y;", "std::vector<T> x;", "const T& x = y;",
                          "auto x = y;", "return x;", "T* x = y;"):
            self.assertEqual(made(statement, mutation.DROPPED), [], statement)
        self.assertEqual(made("if (a) g(x);", mutation.DROPPED), ["if (a) ;"])
        self.assertEqual(made("for (int i = 0; i < n; ++i) g(x);", mutation.DROPPED),
                         ["for (int i = 0; i < n; ++i) ;"])
        self.assertEqual(made("g(x,\n    y);", mutation.DROPPED), [";"])

    def test_arguments_of_one_type_are_swapped(self):
        self.assertEqual(made("g(a, b);", mutation.ARGUMENTS), ["g(b, a);"])
        self.assertEqual(made("g(a.x, b->y(), 3);", mutation.ARGUMENTS), [])
        self.assertEqual(made("g(a, b);", mutation.ARGUMENTS, "void h(Rank a, Rank b);"),
                         ["g(b, a);"])
        self.assertEqual(made("g(a, b);", mutation.ARGUMENTS, "void h(Rank a, Time b);"), [])
        self.assertEqual(made("ar(a, b);", mutation.ARGUMENTS), [])
        self.assertEqual(made("g(x.begin(), x.end());", mutation.ARGUMENTS), [])

    def test_what_is_left_alone(self):
        text = """#include <a>
#define LESS(a, b) \\
  (a < b)
// if (x < 0) return true;
struct S {
  int x = 3;
  bool operator==(const S&) const = default;
  void g(int a, int b = 4);
};
enum class E { a = 1, b = 2 };
constexpr int kX = 3 + 4;
template <class T, int n = 3>
void f(T x) {
  /* x = 3; */ static_assert(sizeof(x) == 4);
  LH_CHECK(x < 3 &&
           x > 4);
  const char* y = "if (a < b) return true;";
  const char* z = R"(x = 3;)";
  using X = A<3>;
  char c = '<';
  struct L { int x = 3; };
}
"""
        self.assertEqual(mutation.mutants_of("f.cpp", text), [])

    def test_bodies_in_classes_and_lambdas_are_code(self):
        text = """namespace n {
class C {
  bool g() const { return true; }
  C(int x) : x_{x} { ++x_; }
};
std::vector<int> h() {
  sort([](int a, int b) { return a < b; });
  return {};
}
}  // namespace n
"""
        self.assertEqual([m.line for m in mutation.mutants_of("f.h", text)], [3, 4, 7, 7])

    def test_keys_survive_edits_elsewhere(self):
        text = "void f() {\n  x = 3;\n  x = 3;\n}\n"
        keys = [m.key() for m in mutation.mutants_of("f.cpp", text)]
        self.assertEqual(len(set(keys)), 4)
        moved = "// More.\n\nvoid f() {\n  h();\n    x = 3;\n  x = 3;\n}\n"
        self.assertEqual([m.key() for m in mutation.mutants_of("f.cpp", moved)][1:], keys)


class Weaving(unittest.TestCase):
    def woven(self, text):
        mutants = dict(enumerate(mutation.mutants_of("f.cpp", text), 1))
        return mutation_weave.weave(text, {n: m.edits for n, m in mutants.items()}), mutants

    def test_a_body_is_there_once_for_each_mutant_and_once_unmutated(self):
        (text, regions), _ = self.woven("int f(int x) {  // Why.\n  return x + 3;\n}\nint y;\n")
        self.assertEqual(text, """#include "longhaul_mutants.h"
int f(int x) {
if (longhaul_mutants::is(1)) {  // Why.
  return x - 3;

} else if (longhaul_mutants::is(2)) {  // Why.
  return x + 4;

} else {  // Why.
  return x + 3;
}
}
int y;
""")
        self.assertEqual(regions, [(3, 5, 1), (6, 8, 2)])

    def test_of_a_lambda_or_a_local_type_the_whole_function_is_repeated(self):
        for body in ("sort([](int a, int b) { return a < b; });",
                     "struct L { int g() { return 3; } }; h(4);"):
            (text, regions), mutants = self.woven("class C {\n void f() { " + body + " }\n};\n")
            self.assertEqual(text.count("class C {"), 1)
            self.assertEqual(len(regions), len(mutants))
            for part in ("f()", "is(1)", "is(2)"):
                self.assertEqual(text.count(part), 1, text)
            self.assertEqual(text.count(body), 1, text)

    def test_each_mutant_chosen_is_what_it_says(self):
        text = "void f() {\n  if (a < b) g(a, b);\n}\nbool h(int x) { return x == 3; }\n"
        (woven, regions), mutants = self.woven(text)
        lines = woven.split("\n")
        for first, last, number in regions:
            there = " ".join(lines[first - 1:last])
            self.assertIn(mutants[number].new.removeprefix("bool h(int x) { ").removesuffix(" }"),
                          " ".join(there.split()))

    def test_the_compiler_blames_lines(self):
        regions = {"longhaul/a.cpp": [(3, 5, 1), (6, 8, 2)], "longhaul/b.h": [(2, 9, 3)]}
        blamed = lambda text: mutation_weave.blamed(text, regions)
        self.assertEqual(blamed("/x/src/longhaul/a.cpp:7:3: error: no\n"
                                "/x/src/longhaul/b.h:2:3:   required from here\n"), {2})
        self.assertEqual(blamed("longhaul/b.h:2:3:   required from here\n"
                                "/usr/include/map:9:1: error: no\n"), {3})
        self.assertEqual(blamed("/x/src/longhaul/a.cpp:1:3: error: no\n"), set())


class Choice(unittest.TestCase):
    def test_a_sample_is_that_of_its_seed_and_spread_over_files(self):
        mutants = []
        for name, lines in (("a.cpp", 30), ("b.cpp", 10)):
            text = "void f() {\n" + "  x = y + 1;\n" * lines + "}\n"
            mutants += mutation.mutants_of(name, text)
        drawn = mutation_choice.sample(mutants, 8, 1)
        self.assertEqual(drawn, mutation_choice.sample(mutants, 8, 1))
        self.assertNotEqual(drawn, mutation_choice.sample(mutants, 8, 2))
        self.assertEqual(sorted(m.path for m in drawn), ["a.cpp"] * 6 + ["b.cpp"] * 2)
        self.assertEqual(len(set(mutation_choice.sample(mutants, 70, 1))), 70)
        self.assertEqual(len(mutation_choice.sample(mutants, 1000, 1)), len(mutants))

    def test_a_sample_of_each_folder_and_its_table(self):
        mutants = []
        for folder, lines in (("core", 30), ("sync", 10), ("sync/lag", 10)):
            text = "void f() {\n" + "  x = y + 1;\n" * lines + "}\n"
            mutants += mutation.mutants_of(f"longhaul/{folder}/a.cpp", text)
        drawn = mutation_choice.sample_each(mutants, 4, 1)
        self.assertEqual(sorted(mutation_choice.folder_of(m) for m in drawn),
                         ["longhaul/core"] * 4 + ["longhaul/sync"] * 4)
        drawn.sort(key=lambda m: m.path)
        known = {m.key(): (verdict, "") for m, verdict in zip(drawn, [
            "killed", "killed", "survived", "did not compile"])}
        self.assertEqual(mutation_choice.table(drawn, known).split("\n")[2:], [
            "| longhaul/core | 2 | 1 | 67 % |", "| longhaul/sync | 0 | 0 | - |"])

    def test_changed_lines_leave_out_renames(self):
        def lines(before, after):
            head = "diff --git a/f.cpp b/f.cpp\n--- a/f.cpp\n+++ b/f.cpp\n@@ -1,9 +5,9 @@ x\n"
            return mutation_choice.changed_lines(
                head + "".join(f"-{x}\n" for x in before) + "".join(f"+{x}\n" for x in after))

        self.assertEqual(lines(["x = 1;"], ["x = 2;"]), {"f.cpp": {5}})
        self.assertEqual(lines(["g(old_name);"], ["g(new_name);"]), {})
        self.assertEqual(lines(["g(old_name);"], ["g(", "    new_name);  // Why."]), {})
        self.assertEqual(lines(["return true;"], ["return false;"]), {"f.cpp": {5}})
        self.assertEqual(lines(["std::min(a, b);"], ["std::max(a, b);"]), {"f.cpp": {5}})
        self.assertEqual(lines(["a(b);", "c(1);"], ["d(b);", "h(i, j);", "c(2);"]),
                         {"f.cpp": {6, 7}})


class Reach(ScriptCase):
    def test_the_quickest_tests_come_first(self):
        for name, deps in (("core", ""), ("codec", " DEPS core"), ("overlay", " DEPS core"),
                           ("sync", " DEPS codec core")):
            self.write(f"longhaul/{name}/CMakeLists.txt", f"longhaul_library({name}{deps})\n")
        self.write("longhaul/overlay/registry.cpp", '    {"hub", 1},\n    {"ring", 2},\n')
        self.write("longhaul/overlay/ring_test.cpp", "TEST(Ring, Turns) {\n")
        self.write("longhaul/overlay/more_test.cpp",
                   '#include "longhaul/overlay/lap.h"\nTEST_P(Laps, Go) {\n')
        self.write("tests/costs_test.cpp", "TEST(RingJob, Costs) {\n")
        stages = load().Reach(self.root).stages
        ring = stages("longhaul/overlay/ring.cpp")
        self.assertEqual([target for target, _ in ring],
                         ["longhaul_overlay_test"] * 2 + ["longhaul_conformance_test"] * 2)
        suite = "Ring.*:*/Ring.*:Ring/*.*:*/Ring/*.*"
        self.assertEqual([tests for _, tests in ring[:2]],
                         [f"{suite}-*Nightly.*", f"*-{suite}:*Nightly.*"])
        self.assertIn("Overlay/Conformance.*/ring:", ring[2][1])
        self.assertIn("RingJob.*", ring[2][1])
        self.assertRegex(ring[3][1], r"^\*-Overlay/Conformance\.\*/ring:.*:\*Nightly\.\*$")
        self.assertIn("Laps.*", stages("longhaul/overlay/lap.cpp")[0][1])
        self.assertIn("Overlay/Conformance.*/ring:", stages("longhaul/overlay/ring_lap.h")[-1][1])
        self.assertEqual([target for target, _ in stages("longhaul/core/x.cpp")],
                         [f"longhaul_{n}_test" for n in ("core", "codec", "overlay", "sync",
                                                         "conformance", "conformance")])


class Limits(ScriptCase):
    def test_one_test_that_hangs_does_not_take_the_time_of_all(self):
        mutants = load()
        mutants.slowest = lambda seconds: 0.2 + seconds  # instead of 10 s
        self.write("hangs", "#!/bin/sh\necho '[ RUN      ] A.B'\necho '[       OK ] A.B (1 ms)'\n"
                            "echo '[ RUN      ] A.C'\nexec sleep 1000\n")
        os.chmod(os.path.join(self.root, "hangs"), 0o755)
        scratch = mock.Mock(source=self.root, build=os.path.join(self.root, "build"))
        os.mkdir(scratch.build)
        os.rename(os.path.join(self.root, "hangs"), os.path.join(scratch.build, "hangs"))
        binary = mutants.Binary(scratch, "hangs")
        binary.of_test = {"A.B": 500, "A.C": 0.001}
        status, output = binary.run("*", 1, 900, 0)
        self.assertIsNone(status)
        self.assertIn("A.C", output)


class Runs(ScriptCase):
    def setUp(self):
        super().setUp()
        self.write("CMakeLists.txt", CMAKE)
        self.write("longhaul/toy/CMakeLists.txt", "longhaul_library(toy)\n")
        self.write("longhaul/toy/toy.cpp", CODE)
        self.write("longhaul/toy/toy_test.cpp", TEST)

    def run_mutants(self, status, *arguments):
        return self.expect("mutants", status, arguments=["--root", self.root, "--jobs", "1",
                                                         *arguments])

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=n", "-c", "user.email=e",
                        *arguments], check=True, capture_output=True)

    def test_killed_survived_not_compiling_and_resumed(self):
        verdicts = os.path.join(self.root, "verdicts.jsonl")
        output = self.run_mutants(1, "--resume", verdicts)
        # That 0 is its own double no test tells from the general case.
        self.assertIn("longhaul/toy/toy.cpp:3: survived: off by one\n"
                      "  - if (x == 0) return 0;\n  + if (x == 0) return 1;\n", output)
        self.assertRegex(output, r"killed +longhaul/toy/toy.cpp:4: swapped \+ -")
        self.assertRegex(output, r"\n5 mutants: 3 killed, 2 survived, 0 did not compile, \d+ s\n$")
        with open(verdicts, encoding="utf-8") as handle:
            self.assertEqual(len([json.loads(line) for line in handle]), 5)
        with open(os.path.join(self.root, "longhaul/toy/toy.cpp"), encoding="utf-8") as handle:
            self.assertEqual(handle.read(), CODE)

        # What has a verdict is not run again, even after an edit elsewhere.
        self.write("longhaul/toy/toy.cpp", "void nothing();\n" + CODE)
        output = self.run_mutants(1, "--resume", verdicts)
        self.assertIn("longhaul/toy/toy.cpp:4: survived: off by one\n", output)
        self.assertIn("5 mutants: 3 killed, 2 survived, 0 did not compile, 0 s", output)
        self.assertNotIn("killed  ", output)

    @nightly
    def test_what_does_not_compile_is_not_counted(self):
        self.write("longhaul/toy/toy.cpp", CODE + "int* at(int* p, int x) { return x + p; }\n")
        path = "longhaul/toy/toy.cpp"
        first = self.run_mutants(1, path)
        self.assertRegex(first, rf"did not compile  {path}:6: swapped \+ -")
        self.assertRegex(first, r"\n5 mutants: 3 killed, 2 survived, 1 did not compile, \d+ s\n$")

    @nightly
    def test_with_googletest_only_tests_that_call_a_function_run(self):
        self.write("CMakeLists.txt", CMAKE.replace("function(longhaul", "find_package(GTest)\n"
                   "function(longhaul").replace("endfunction", "  target_link_libraries("
                   "longhaul_${name}_test GTest::gtest_main)\nendfunction"))
        self.write("longhaul/toy/toy.cpp", CODE + "constexpr int other(int x) { return x + 3; }\n"
                   "static_assert(other(1) == 4);\nint never(int x) { return other(x); }\n"
                   "int main_part(int x) { return x - 7; }\n")
        self.write("longhaul/toy/toy_test.cpp", """#include <gtest/gtest.h>
int twice(int);
int main_part(int);
TEST(Twice, IsTheSum) { EXPECT_EQ(twice(3), 6); }
TEST(Other, Works) { EXPECT_EQ(main_part(9), 2); }
TEST(Other, Fails) { EXPECT_EQ(main_part(9), 3); }
""")
        output = self.run_mutants(1, "longhaul/toy/toy.cpp")
        self.assertRegex(output, r"survived +longhaul/toy/toy.cpp:6: off by one  0.0 s  no test")
        self.assertRegex(output, r"killed +longhaul/toy/toy.cpp:9: off by one")
        self.assertRegex(output, r"killed +longhaul/toy/toy.cpp:4: swapped \+ -")
        self.assertIn("fails without any mutant: longhaul_toy_test --gtest_filter='Other.Fails'",
                      output)

    @nightly
    def test_tests_that_fail_unmutated_judge_nothing(self):
        self.write("longhaul/toy/toy_test.cpp", TEST.replace("== 6", "== 7"))
        output = self.run_mutants(1, "--sample", "1", "longhaul/toy/toy.cpp")
        self.assertIn("fails without any mutant: longhaul_toy_test", output)

    def test_only_lines_changed_since_a_commit(self):
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.assertIn("mutants: 0", self.run_mutants(0, "--since", "HEAD", "--list"))
        self.write("longhaul/toy/toy.cpp", CODE.replace("twice", "doubled").replace("x + x",
                                                                                    "x - x"))
        output = self.run_mutants(0, "--since", "HEAD", "--list")
        self.assertIn("toy.cpp:4: swapped + -: return x - x;  =>  return x + x;\n", output)
        self.assertIn("mutants: 1\n", output)
        self.write("longhaul/toy/new.h", "inline bool yes() { return true; }\n")
        self.assertIn("mutants: 2\n", self.run_mutants(0, "--since", "HEAD", "--list"))

    def test_nothing_of_that_name(self):
        self.run_mutants(1, "longhaul/no.cpp")


if __name__ == "__main__":
    unittest.main()
