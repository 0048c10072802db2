"""scripts/check-unchanged against fake programs of a build."""
import os
import unittest

from scripts_case import CopiedCase

FACTS = """case $1 in
traces) (($2)) || echo "fedavg hub loss: $TRACE"; echo "bsp hub $2: finished" ;;
job-file) printf '## `[job]`\\n\\n- `seed` (integer, default\\n  `1`): of what is random.\\n' ;;
*) echo "membership prepare: $1" ;;
esac"""
PROGRAM = """printf 'Options:\\n  -h,--help  help\\n  --all BAD --no  all\\n'
[[ $1 != --help ]] || printf '\\nSubcommands:\\n  plan  plans\\n\\nExample:\\n  longhaul plan\\n'"""
PARTS = ("traces", "messages", "wire", "job-file", "flags")


class CheckUnchanged(CopiedCase):
    copied = ("check-unchanged",)

    def setUp(self):
        super().setUp()
        self.fake("build/gate/tests/longhaul_facts", FACTS)
        self.fake("build/gate/longhaul", PROGRAM)
        self.env = {**os.environ, "TRACE": "finished"}
        self.check(0, "--rewrite", "--jobs", "1", *PARTS)

    def check(self, status, *arguments, said=()):
        return self.expect("check-unchanged", status, *said, arguments=arguments, env=self.env)

    def recorded(self, part):
        with open(os.path.join(self.root, f"tests/recorded/{part}.txt"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_what_is_recorded_is_unchanged(self):
        self.check(0, "--jobs", "1", *PARTS, said=["flags: 5 cases, 0 differ"])
        self.assertEqual(self.recorded("job-file"), ["[job] seed: integer, default `1`"])
        self.assertEqual(self.recorded("flags"), [
            "longhaul --all: option", "longhaul --help: option", "longhaul plan: subcommand",
            "longhaul plan --all: option", "longhaul plan --help: option"])

    def test_each_case_that_differs_is_named(self):
        self.env["TRACE"] = "error 2"
        self.check(1, "--share", "7", "traces", "wire", said=[
            "- fedavg hub loss: finished\n+ fedavg hub loss: error 2\n", "2 cases, 1 differ",
            "wire: 1 cases, 0 differ"])

    def test_cases_that_are_gone_or_new_differ(self):
        self.write("tests/recorded/wire.txt", "membership promise: 01\n")
        self.check(1, "wire", said=["+ membership prepare: wire", "- membership promise: 01"])

    def test_bad_usage(self):
        self.check(2, "trace", said=["expected one of traces"])
        self.check(1, "--build", self.root, "wire", said=["build it first"])


if __name__ == "__main__":
    unittest.main()
