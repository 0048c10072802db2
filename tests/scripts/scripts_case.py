"""What the tests of scripts/ share: tiny trees, and a script run over them."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from effort import GATE, nightly


PATIENCE_S = 60
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hear_signals():
    """In a child, before it becomes a script: these are not ignored, whoever runs the tests. Bash
    and Python leave alone what was ignored when they began."""
    for one in ENDING:
        signal.signal(one, signal.SIG_DFL)


def lives(process):
    """Whether there is such a process that has not ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as handle:
            return ") Z " not in handle.read()
    except OSError:
        return False


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

    def until(self, done, what):
        end = time.monotonic() + PATIENCE_S
        while not done():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def numbers_in(self, name):
        """The processes that a fake has written into a file of this tree, once it is there."""
        path = os.path.join(self.root, name)
        self.until(lambda: os.path.exists(path) and os.path.getsize(path), f"no {name}")
        with open(path, encoding="utf-8") as handle:
            return [int(word) for word in handle.read().split()]

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
