#!/usr/bin/env python3
"""The commands in the documentation: programs, options, files and settings that they name exist,
and those that take seconds run.

    LONGHAUL=build/release/longhaul tests/cli/docs_test.py
"""
import functools
import re
import shlex
import subprocess
import unittest

import cli_test
from effort import nightly

ROOT = cli_test.ROOT
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), ROOT / "python/README.md"])
# What a page's reader has, and this tree has not.
OWN_FILES = re.compile(
    r"(job|four|images|best|wan|train)[\w-]*\.(toml|py)|runs/|v/bin|JOB|FILE|NAME")
# Commands of seconds that need nothing but the examples, run as they stand or with these words.
RUNS = {"explain": [], "list": [], "bound": [], "simulate": ["--dry-run"],
        "perf": ["--repeat", "1"]}


def commands(text):
    """(line, command) of those in the text's code blocks, without comments."""
    fenced, pending = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if not (fenced or line.startswith("    ")):
            pending = ""
            continue
        line = pending + line.strip().removeprefix("$ ")
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        pending = ""
        if re.match(r"(longhaul |scripts/|bench/\S+\.py|make [a-z])", line):
            # A comment is behind "#", or behind several spaces; a program may have some, too.
            words = re.sub(r"\s+#.*", "", line).split(None, 2)
            rest = re.split(r"\s{2,}", words[2])[0] if len(words) > 2 else ""
            yield number, " ".join([*words[:2], rest]).rstrip(" &")


ALL = [(page.relative_to(ROOT), *found) for page in PAGES for found in commands(page.read_text())]


class Docs(cli_test.Case):
    def setUp(self):
        super().setUp()
        for name in ("examples", "bench", "presets", "data"):
            if (ROOT / name).exists():
                (self.folder / name).symlink_to(ROOT / name)

    @functools.cache
    def help(self, command):
        return self.run_ok(*command, "--help").stdout

    def each(self, begin, check):
        """check(words) of the commands that begin so; answers how many there were."""
        chosen = [one for one in ALL if one[2].startswith(begin)]
        for page, line, command in chosen:
            with self.subTest(f"{page}:{line}: {command}"):
                check(shlex.split(command.replace(";", " ")))
        return len(chosen)

    def options(self, words):
        return [word.split("=")[0] for word in words if word.startswith("--")]

    def test_options_of_the_program_exist(self):
        def check(words):
            if words[1] in ("COMMAND", "--version"):
                return
            sub = words[1:3] if words[1] == "keys" else words[1:2]
            for option in self.options(words):
                self.assertRegex(self.help(tuple(sub)), re.escape(option) + r"\b")

        self.assertGreater(self.each("longhaul ", check), 100)

    def test_files_exist(self):
        def check(words):
            for word in words:
                if re.match(r"(examples|bench|scripts|presets)/[\w./-]+$", word):
                    self.assertTrue((ROOT / word).exists(), word)

        self.each(("longhaul ", "scripts/", "bench/"), check)

    def test_options_of_scripts_exist(self):
        def check(words):
            text = (ROOT / words[0].rstrip(",")).read_text()
            for option in self.options(words):
                self.assertIn(option, text)

        self.assertGreater(self.each(("scripts/", "bench/"), check), 10)

    def test_targets_of_make_exist(self):
        makefile = (ROOT / "Makefile").read_text()

        def check(words):
            for target in words[1:]:
                if "=" not in target and not target.startswith("-"):
                    self.assertRegex(makefile, rf"(?m)\b{re.escape(target)}\b")

        self.assertGreater(self.each("make ", check), 10)

    @nightly
    def test_what_takes_seconds_runs(self):
        run = 0

        def check(words):
            nonlocal run
            if words[1] not in RUNS or OWN_FILES.search(" ".join(words)) or "--lab" in words:
                return
            drop = {"--resume", "--record", "--view", "8080", "--seeds", "3"}
            trains = "focus" not in " ".join(words)
            args = [word for word in words[1:] if word not in drop]
            args += RUNS[words[1]] if trains else []
            done = subprocess.run([cli_test.LONGHAUL, *args], cwd=self.folder,
                                  capture_output=True, text=True, timeout=cli_test.PATIENCE_S,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            run += 1

        self.each("longhaul ", check)
        self.assertGreater(run, 25)


if __name__ == "__main__":
    unittest.main()
