"""What the tests of scripts/ share: tiny trees, and a script run over them."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from effort import GATE, nightly


class ScriptCase(unittest.TestCase):
    scripts = os.path.join(ROOT, "scripts")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = self.folder.name

    def write(self, path, text):
        place = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as handle:
            handle.write(text)

    def run_script(self, name, *arguments, env=None):
        done = subprocess.run([os.path.join(self.scripts, name), *arguments], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=600, check=False)
        return done.returncode, done.stdout

    def expect(self, name, status, *said, arguments=None, env=None):
        got, output = self.run_script(name, *(arguments or [self.root]), env=env)
        self.assertEqual(got, status, output)
        for text in said:
            self.assertIn(text, output)
        return output


class CopiedCase(ScriptCase):
    """The scripts `copied` in a tree of their own, beside fake ones."""
    copied = ()

    def setUp(self):
        super().setUp()
        self.scripts = os.path.join(self.root, "scripts")
        self.calls = os.path.join(self.root, "calls")
        os.mkdir(self.scripts)
        for name in self.copied:
            shutil.copy(os.path.join(ROOT, "scripts", name), self.scripts)

    def fake(self, path, body):
        self.write(path, f"#!/bin/bash\necho \"{os.path.basename(path)} $*\" >> {self.calls}\n"
                   f"{body}\n")
        os.chmod(os.path.join(self.root, path), 0o755)

    def called(self):
        with open(self.calls, encoding="utf-8") as handle:
            return handle.read().splitlines()
