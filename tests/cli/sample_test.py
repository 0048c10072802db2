#!/usr/bin/env python3
"""From images to an index with models trained on them: an accurate model, its verdicts as data sets
of the sites, a cheap model trained on these over the sites, a choice, and queries.

    LONGHAUL=build/release/longhaul tests/cli/sample_test.py
"""
import json
import pathlib
import random
import struct
import subprocess
import tempfile
import time
import unittest

from cli_test import LONGHAUL, PATIENCE_S
from effort import GATE, chosen, nightly

MAKE = pathlib.Path(__file__).parents[1] / "python/make_script_kinds.py"
SIZE, CLASSES = 8, 3
SITES = ("a", "b")
DATA = 'kind = "idx"\npath = "images"\nmean = [0.3]\nstd = [0.4]\nclasses = 3\n'
TRAINING = """\
job = {{name = "{name}"}}
stop = {{max_epochs = 12}}
optimizer = {{kind = "adam", rate = 0.01}}
sync = {{kind = "fedavg", steps = 5}}
site = [{sites}]
[data]
{data}
[model]
{model}
"""
CHEAP = '[[focus.cheap]]\npath = "runs/cheap/model.pt"\nms = 0.2\n'
STREAM = f"""\
job = {{name = "stream"}}
site = [{", ".join(f'{{name = "{site}"}}' for site in SITES)}]
[focus]
stream = "images"
gt = "runs/gt/model.pt"
sample = 360
objects = 480
recall = 0.8
precision = 0.8
gt_ms = 20
{CHEAP}[[focus.query]]
class = 1
at_s = 60
[data]
{DATA}"""


def image(cls, draw):
    """A bar in one of three places, with noise."""
    def pixel(row, column):
        inside = row // 2 == cls or column // 3 == cls
        return min(255, max(0, int((220 if inside else 20) + draw.gauss(0, 15))))
    return bytes(pixel(row, column) for row in range(SIZE) for column in range(SIZE))


def make_endless(folder):
    subprocess.run(["/usr/bin/python3", "-B", MAKE, folder, "endless"], check=True)


def write_images(folder):
    draw = random.Random(1)
    folder.mkdir()
    for name, count in (("train", 240), ("t10k", 90)):
        labels = [draw.randrange(CLASSES) for _ in range(count)]
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">BBBBIII", 0, 0, 8, 3, count, SIZE, SIZE) +
            b"".join(image(cls, draw) for cls in labels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(labels))


class Sample(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-sample-")
        self.folder = pathlib.Path(self.temporary.name)
        write_images(self.folder / "images")

    def tearDown(self):
        self.temporary.cleanup()

    # Its JSON; of the code None one object for each line, of another what it says.
    def run_it(self, *words, code=0, stdout=False):
        done = subprocess.run([LONGHAUL, *words], cwd=self.folder, text=True, capture_output=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code or 0, done.stdout + done.stderr)
        if code is None:
            return [json.loads(line) for line in done.stdout.splitlines()]
        if code == 0:
            return json.loads(done.stdout)
        return done.stdout + done.stderr if stdout else done.stderr

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def test_from_images_to_an_index(self):
        self.write("gt.toml", TRAINING.format(name="gt", data=DATA, sites='{name = "here"}',
                                              model='kind = "mlp"\nhidden = [32]'))
        self.run_it("simulate", "gt.toml", "--json")
        self.write("label.toml", STREAM.replace(CHEAP, "").replace(
            "sample = 360", 'images = "train"'))
        labelled = self.run_it("sample", "label.toml", "--objects", "150", "--every", "7",
                               "--labels", "labelled", "--json")
        again = [] if GATE else [self.run_it("sample", "label.toml", "--objects", "150", "--every",
                                             "7", "--labels", "again", "--json")]
        for one in (labelled, *again):
            self.assertEqual([site["site"] for site in one["sites"]], list(SITES))
            self.assertEqual([sum(site["by_class"]) for site in one["sites"]], [150, 150])
        files = sorted(path.relative_to(self.folder / "labelled")
                       for path in (self.folder / "labelled").rglob("*ubyte"))
        self.assertEqual(len(files), 4 * len(SITES))
        for file in files if again else []:  # by seed alone
            self.assertEqual((self.folder / "labelled" / file).read_bytes(),
                             (self.folder / "again" / file).read_bytes())
        self.assertNotEqual((self.folder / "labelled/a/train-images-idx3-ubyte").read_bytes(),
                            (self.folder / "labelled/b/train-images-idx3-ubyte").read_bytes())
        stream = STREAM
        if GATE:  # the accurate one is the cheap one, too
            stream = STREAM.replace("runs/cheap", "runs/gt")
        else:
            self.train_cheap(labelled)
        self.write("stream.toml", stream)
        chosen = self.run_it("sample", "stream.toml", "--held-out", "360", "--json")
        for site in chosen["sites"]:
            self.assertGreater(site["cheap"][0]["top_1"], 0.7)
            held = site["chosen"]["balance"]["held_out"]
            self.assertGreater(held["recall"], 0.7)
            self.assertGreater(held["precision"], 0.7)
            self.assertLess(held["checks"], 360)
        if GATE:
            return
        found = self.run_it("simulate", "stream.toml", "--json")
        query = found["queries"][0]
        self.assertEqual(query["missing"], [])
        self.assertGreater(query["objects"], 0)
        self.assertEqual([site["objects"] for site in found["sites"]], [480, 480])
        self.serve_and_give()

    def train_cheap(self, labelled):
        data = "".join(f"{key} = {json.dumps(value)}\n" for key, value in labelled["data"].items())
        self.write("cheap.toml", TRAINING.format(
            name="cheap", data=data + 'test_path = "images"\n', model='kind = "logistic"',
            sites=", ".join(f'{{name = "{site}", data = "labelled/{site}"}}' for site in SITES)))
        self.run_it("simulate", "cheap.toml", "--json")

    # A model for all sites while they serve; one of another shape; another accurate model.
    def serve_and_give(self):
        self.write("other.toml", """stop = {max_rounds = 1}
model = {kind = "mlp"}
data = {kind = "synthetic", classes = 5, features = 20}
sync = {kind = "fedavg", steps = 1}
site = [{name = "here"}]
""")
        self.run_it("simulate", "other.toml", "--json")
        serving = subprocess.Popen([LONGHAUL, "serve", "stream.toml", "--set", "focus.rate=400"],
                                   cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        try:
            files = [self.folder / f"runs/stream/{site}/api.json" for site in SITES]
            end = time.monotonic() + PATIENCE_S
            while not all(file.exists() for file in files):
                self.assertLess(time.monotonic(), end, "it does not serve")
                self.assertIsNone(serving.poll())
                time.sleep(0.05)
            give = ("model", "stream.toml", "--json", "--file")
            why = self.run_it(*give, "runs/other/model.pt", code=2, stdout=True)
            self.assertIn("does not take these items", why)
            why = self.run_it(*give, "stream.toml", code=2, stdout=True)
            self.assertIn("no TorchScript file", why)
            if not GATE:
                self.give_endless(give)
            lines = self.run_it(*give, "runs/gt/model.pt", "--T", "1", "--classes", "2,0",
                                code=None)
            self.assertEqual([line["kind"] for line in lines], ["taken", "taken", "given"])
            self.assertEqual(lines[-1]["model"], 1)
            answers = self.run_it("query", "stream.toml", "1", "--json", code=None)
            self.assertFalse(answers[-1]["partial"])
        finally:
            serving.terminate()
            serving.communicate(timeout=PATIENCE_S)
        refused = self.run_it("serve", "stream.toml", "--set", "focus.rate=400", "--set",
                              "focus.gt=runs/cheap/model.pt", code=2, stdout=True)
        self.assertIn("gt is another model", refused)

    # A model that never ends. The site answers meanwhile.
    def give_endless(self, give):
        make_endless(self.folder)
        giving = subprocess.Popen([LONGHAUL, *give, "endless/forever.pt"], cwd=self.folder,
                                  text=True, stdout=subprocess.PIPE)
        answers = self.run_it("query", "stream.toml", "1", "--json", code=None)
        self.assertFalse(answers[-1]["partial"])
        self.assertIsNone(giving.poll())
        text, _ = giving.communicate(timeout=PATIENCE_S)
        self.assertEqual(giving.returncode, 2)
        self.assertIn("the given model took more than 20 s", text)

    # Before a run computes anything, a file that never ends, or takes all memory, is refused.
    @nightly
    def test_a_model_that_comes_to_no_end_is_refused(self):
        make_endless(self.folder)
        self.write("script.toml", """stop = {max_rounds = 1}
model = {kind = "script", path = "endless/forever.pt", trial_s = 1, trial_mb = 300}
data = {kind = "synthetic", classes = 4, features = 4}
sync = {kind = "fedavg", steps = 1}
site = [{name = "here"}]
""")
        self.assertIn("took more than 1 s", self.run_it("simulate", "script.toml", code=2))
        grows = ("simulate", "script.toml", "--set", "model.path=endless/grows.pt", "--set",
                 "model.trial_s=60")
        self.assertIn("took more than 300 MB", self.run_it(*grows, code=2))

    def test_errors_name_what_is_wrong(self):
        self.write("stream.toml", STREAM)
        cases = ((("sample", "stream.toml"), "runs/gt/model.pt"),
                 (("simulate", "stream.toml", "--set", "focus.T=1", "--set", "focus.drift=0.2"),
                  "[focus] drift"),
                 (("simulate", "stream.toml", "--set", "focus.stream=tracks"), "[data] kind"),
                 (("simulate", "stream.toml", "--set", "focus.gt="), "[focus] gt"),
                 (("simulate", "stream.toml", "--set", "focus.cheap[0].path="), "path"),
                 (("sample", "stream.toml", "--every", "2", "--held-out", "5"), "--held-out"),
                 (("simulate", "stream.toml", "--set", "focus.query[0].class=3"),
                  "expected 0 to 2"))
        for words, part in chosen(cases, 1, 2, 3, 4, 5, 6):
            with self.subTest(words=words):
                self.assertIn(part, self.run_it(*words, code=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
