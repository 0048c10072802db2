"""scripts/tidy on trees that must pass and trees that must fail."""
import os
import unittest

from scripts_case import ScriptCase

REGISTRY = 'const Entry kTable[] = {\n    {"int8", "blocks", make},\n};\n'


class Tidy(ScriptCase):
    def refuse(self, path, text, *said):
        self.write(path, text)
        self.expect("tidy", 1, path, *said)

    def test_a_clean_tree(self):
        self.write("longhaul/base/a.cpp", "int f() {\n  return 1;\n}\n")
        self.write("docs/a.md", "x " * 59 + "y\n")
        self.expect("tidy", 0, "0 findings")

    def test_sizes(self):
        self.refuse("longhaul/base/a.cpp", "int a;\n" * 901, "901 lines; at most 900")
        self.write("longhaul/base/a.cpp", "int a;\n" * 900)
        self.refuse("longhaul/base/a_test.cpp", "int a;\n" * 801, "801 lines; at most 800")
        self.write("longhaul/base/a_test.cpp", "int a;\n" * 800)
        self.expect("tidy", 0)

    def test_long_functions(self):
        self.refuse("longhaul/base/a.cpp", "int f() {\n" + "  g();\n" * 61 + "}\n",
                    "a.cpp:1: function of 61 lines; at most 60")
        self.refuse("longhaul/base/a.cpp", "class A {\n  int f() {\n" + "    g();\n" * 61 +
                    "  }\n};\n", "a.cpp:2: function of 61 lines")

    def test_a_table_is_no_function(self):
        self.write("longhaul/base/a.cpp", "constexpr int kTable[] = {\n" + "    1,\n" * 61 + "};\n")
        self.expect("tidy", 0)

    def test_columns(self):
        self.refuse("longhaul/base/a.h", "// " + "x" * 98 + "\n", "101 columns; at most 100")
        os.remove(os.path.join(self.root, "longhaul/base/a.h"))
        self.refuse("docs/a.md", "x " * 60 + "y\n", "121 columns; at most 120")
        self.write("docs/a.md", "| " + "x " * 60 + "|\n")
        self.expect("tidy", 0)

    def test_leftovers(self):
        for left in ("// TO" "DO: later", "// FIX" "ME", "// XX" "X", "// HA" "CK",
                     "GTEST_" "SKIP();", "GTEST_" "SKIP() << made.error().what;",
                     "TEST(A, DIS" "ABLED_B) {", "EXPECT_" "TRUE(true);"):
            self.refuse("longhaul/base/a_test.cpp", left + "\n", "leftover")
        self.write("longhaul/base/a_test.cpp",
                   "GTEST_" "SKIP() << \"this machine has not a device\";\n")
        self.expect("tidy", 0)

    def test_blanks_tabs_and_the_last_newline(self):
        self.refuse("docs/a.md", "a \n", "blanks at the end")
        self.refuse("docs/a.md", "a\tb\n", "a tab")
        self.refuse("docs/a.md", "a", "no newline at the end")

    def test_paths_of_one_machine(self):
        self.refuse("docs/a.md", "see /home/" "me/x\n", "a path of one machine")
        self.refuse("docs/a.md", "see /ro" "ot/x\n", "a path of one machine")

    def test_ascii_in_code(self):
        self.refuse("longhaul/base/a.h", "// \u00b5s\n", "not ASCII")

    def test_a_registered_part_needs_test_page_and_cost(self):
        self.write("longhaul/codec/registry.cpp", REGISTRY)
        self.expect("tidy", 1, "int8 has no test: longhaul/codec/int8_test.cpp",
                    "int8 has no page docs/codec/int8.md", "int8 has no line in docs/costs.md")
        self.write("longhaul/codec/int8_test.cpp", "\n")
        self.write("docs/costs.md", "| int8 | d + 4 ceil(d/256) |\n")
        self.refuse("docs/codec/int8.md", "# int8\n", "begins with no example")
        self.write("docs/codec/int8.md", "# int8\n\nOne byte.\n\n    [codec]\n    kind = 1\n")
        self.expect("tidy", 0, "0 findings")

    def test_a_registry_without_entries(self):
        self.refuse("longhaul/outer/registry.cpp", "int a;\n", "no entry")

    def test_entries_made_by_a_template(self):
        self.refuse("longhaul/outer/registry.cpp",
                    '    entry<None, NoneConfig>("none", "as it is"),\n', "none has no test")

    def test_entries_that_stand_beside_their_part(self):
        self.refuse("longhaul/sync/registry.cpp", "    FedAvg::entry,  //\n", "FedAvg::entry()")
        self.refuse("longhaul/sync/registry.cpp", "    bsp_entry,\n", "bsp has no test")
        self.refuse("longhaul/sync/registry.cpp", "    FedAvg::entry,  //\n", "FedAvg::entry()")
        self.write("longhaul/sync/fedavg.cpp", "SyncEntry FedAvg::entry() {\n"
                   "  return made(\n      {.name = \"fedavg\"});\n}\n")
        self.expect("tidy", 1, "fedavg has no test", "fedavg has no page docs/sync/fedavg.md")

    def test_a_helper_named_like_what_a_neighbour_imports(self):
        self.write("longhaul/base/a_test.cpp", "using longhaul::testing::made;\n")
        self.write("longhaul/codec/b_test.cpp", "int made() {\n  return made(1);\n}\n")
        self.expect("tidy", 0)
        said = "made is also what longhaul/base/a_test.cpp imports"
        for helper in ("int made(int a) { return a; }", "const A& made(int a,\n        int b) {",
                       "template <class A>\nstd::vector<A> made() {", "struct made {",
                       "void f() {}\nint made(int a) {"):
            self.refuse("longhaul/base/b_test.cpp", helper + "\n}\n", said)
        self.write("longhaul/base/b_test.cpp", "int A::made() {\n  return made(1);\n}\n")
        self.expect("tidy", 0)


if __name__ == "__main__":
    unittest.main()
