"""What the tests of scripts/ share: tiny trees, and a script run over them."""
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class ScriptCase(unittest.TestCase):
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
        done = subprocess.run([os.path.join(ROOT, "scripts", name), *arguments], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=110, check=False)
        return done.returncode, done.stdout

    def expect(self, name, status, *said, arguments=None, env=None):
        got, output = self.run_script(name, *(arguments or [self.root]), env=env)
        self.assertEqual(got, status, output)
        for text in said:
            self.assertIn(text, output)
        return output
