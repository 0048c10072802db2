#!/usr/bin/env python3
"""explain JOB: the plan of its overlay, as text, JSON and a picture.

    LONGHAUL=build/release/longhaul tests/cli/plan_test.py
"""
import json
import os
import unittest
import xml.etree.ElementTree

import cli_test
from effort import chosen, nightly

OVERLAYS = cli_test.ROOT / "examples/overlays.toml"
SVG = "{http://www.w3.org/2000/svg}"
# Sites that send and get 1 MB/s; the model is 2 MB.
JOB = """\
[model]
kind = "phantom"
mbytes = 2
[sync]
kind = "bsp"
[overlay]
kind = "ring"
[wan]
delay_ms = 5
""" + "".join(f'[[site]]\nname = "{name}"\nup_mbps = 8\ndown_mbps = 8\n'
              for name in ("tokyo", "lima", "oslo"))


class Case(cli_test.Case):
    def setUp(self):
        super().setUp()
        self.write(JOB)

    def plan(self, *args, job="job.toml"):
        return json.loads(self.run_ok("explain", job, "--json", *args).stdout)

    def kind(self, name):
        return ("--set", f"overlay.kind={name}")


class Text(Case):
    def test_the_plan_comes_after_the_rest(self):
        said = self.run_ok("explain", "job.toml").stdout
        plan = said[said.index("Plan of ring: a round of 2 MB, 2 MB as encoded"):]
        self.assertLess(said.index("Roles"), said.index("Plan of"))
        self.assertIn("The busiest link, the uplink of tokyo, takes 2.76 s; no overlay takes less "
                      "than 2.76 s.", plan)
        rows = [line.split() for line in plan.splitlines()]
        self.assertIn(["tokyo", "lima", "2.667", "1.333", "1.333", "100", "%"], rows)
        self.assertIn(["oslo", "2.667", "2.667", "100", "%", "100", "%"], rows)
        self.assertIn(["lima", "33.33", "%", "2", "2"], rows)

    def test_of_many_pairs_the_most_used(self):
        said = self.run_ok("explain", OVERLAYS, *self.kind("direct")).stdout
        self.assertIn("and 90 pairs with less; --json has all", said)

    def test_help_says_what_used_is(self):
        said = self.run_ok("explain", "--help").stdout
        self.assertIn("--svg plan.svg", said)
        self.assertIn("used: ", said)


class Json(Case):
    def test_all_pairs_and_the_models_size(self):
        told = self.plan(*self.kind("direct"), job=OVERLAYS)
        self.assertEqual(len(told["pairs"]), 110)
        self.assertEqual(told["overlay"], "direct")
        used = [pair["used"] for pair in told["pairs"]]
        self.assertEqual(used, sorted(used, reverse=True))
        whole = sum(pair["bytes"] for pair in told["pairs"])
        self.assertEqual(whole, 20 * told["vector_bytes"])
        self.assertEqual(told["vector_bytes"], round(told["mbytes"] * 1e6))

    def test_a_model_is_as_large_as_it_counts_on_the_wire(self):
        plain, scaled = self.plan(), self.plan("--set", "wan.wire_scale=10")
        self.assertAlmostEqual(scaled["mbytes"], 10 * plain["mbytes"])
        self.assertEqual(self.plan("--mbytes", "3", "--set", "wan.wire_scale=10")["mbytes"], 3)

    def test_it_is_what_a_round_sends(self):
        for overlay in chosen(("direct", "hub", "ring", "rack", "binary", "halving_doubling",
                               "forest"), 1, 2, 5):
            told = self.plan("--mbytes", 4, *self.kind(overlay))
            planned = sum(pair["bytes"] for pair in told["pairs"])
            timed = json.loads(self.run_ok("perf", "job.toml", "--mbytes", 4, "--repeat", 1,
                                           "--quiet", "--json", *self.kind(overlay)).stdout)
            self.assertGreaterEqual(timed["wan_bytes"], planned, overlay)
            self.assertLess(timed["wan_bytes"], 1.01 * planned + 2000, overlay)
            self.assertGreater(timed["time_s"] * 1500 / 1448, told["busy_s"], overlay)

    @nightly
    def test_trees_of_a_forest(self):
        told = self.plan("--mbytes", 25, *self.kind("forest"), "--set", "wan.rate_scale=0.1",
                         job=OVERLAYS)
        self.assertGreater(len(told["trees"]), 3)
        self.assertAlmostEqual(sum(tree["share"] for tree in told["trees"]), 1)
        self.assertLess(told["busy_s"], 1.05 * told["bound_s"])

    def test_nothing_is_planned_by_tsengine(self):
        told = self.plan(*self.kind("tsengine"))
        self.assertFalse(told["planned"])
        self.assertEqual((told["pairs"], told["trees"]), ([], []))
        self.assertGreater(told["bound_s"], 2)

    def test_without_data(self):
        text = JOB.replace('kind = "phantom"\nmbytes = 2',
                           'kind = "lenet"\n[data]\nkind = "mnist"\npath = "nowhere"')
        self.write(text)
        self.assertEqual(len(self.plan("--mbytes", 1)["pairs"]), 3)
        self.bad("explain", "job.toml", "--json", names=("nowhere", "[data] path"))
        done = self.longhaul("explain", "job.toml", "--mbytes", 1)
        self.assertEqual(done.returncode, 2)
        self.assertIn("Plan of ring: a round of 1 MB", done.stdout)
        self.assertIn("[data] path", done.stderr)


class Strategy(Case):
    def test_a_strategy_says_what_it_sends_to_whom_and_why(self):
        said = self.run_ok("explain", "job.toml", "--set", "sync.kind=gaia").stdout
        self.assertLess(said.index("What gaia sends"), said.index("Plan of"))
        self.assertIn("larger than T times their parameters", said)
        self.assertRegex(said, r"(?m)^tokyo +updates .* lima oslo$")
        self.assertIn("What bsp sends", self.run_ok("explain", "job.toml").stdout)

    def test_adpsgd_is_no_exchange_over_the_overlay(self):
        adpsgd = ("--set", "sync.kind=adpsgd", "--set", "overlay.kind=ring")
        said = self.run_ok("explain", "job.toml", *adpsgd).stdout
        self.assertIn("the two models cross", said)
        self.assertIn("Plan of ring: the last mean of", said)
        self.assertIn("when the run ends", said)
        self.assertNotIn("busiest link", said[said.index("Plan of"):])
        self.assertIsNone(self.plan(*adpsgd)["busiest"])
        self.bad("explain", "job.toml", *adpsgd, "--svg", "ring.svg",
                 names=["--svg: adpsgd sends nothing over ring but the mean at the end"])
        self.assertFalse((self.folder / "ring.svg").exists())

    def test_as_json(self):
        table, = self.plan("--set", "sync.kind=ds_sync")["strategy"]["tables"]
        self.assertEqual(table["head"], ["from", "part", "round", "MB", "to"])
        self.assertIn(["lima", "overlay", "end"], [row[:3] for row in table["rows"]])


class Svg(Case):
    def draw(self, *args, job="job.toml"):
        done = self.run_ok("explain", job, "--svg", "plan.svg", *args)
        self.assertEqual(done.stderr, "the plan is drawn in plan.svg\n")
        return xml.etree.ElementTree.parse(self.folder / "plan.svg").getroot()

    def test_an_arrow_for_each_pair(self):
        for overlay, pairs in (("ring", 3), ("hub", 4), ("direct", 6)):
            root = self.draw(*self.kind(overlay))
            self.assertEqual(root.tag, SVG + "svg")
            titles = [title.text for title in root.iterfind(f"./{SVG}g/{SVG}title")]
            self.assertEqual(len(titles), pairs)
            self.assertTrue(any(title.startswith("lima to ") for title in titles), titles)
            words = [text.text for text in root.iter(SVG + "text")]
            self.assertIn(f"job: a round of 2 MB over {overlay}, 3 sites", words)
            for site in ("tokyo", "lima", "oslo"):
                self.assertIn(site, words)
            for element in root.iter():
                self.assertNotIn(element.tag, (SVG + "script", SVG + "image", SVG + "style"))

    def test_shares_below_one_percent(self):
        root = self.draw("--set", "site.lima.up_mbps=1e6", "--set", "site.lima.down_mbps=1e6")
        titles = [title.text for title in root.iter(SVG + "title")]
        self.assertIn("lima: sends 2.67 MB, gets 2.67 MB; up <1 %, down <1 %", titles)

    def test_eleven_sites_and_the_text_beside_it(self):
        said = self.run_ok("explain", OVERLAYS, "--svg", "eleven.svg", *self.kind("forest")).stdout
        self.assertIn("Plan of forest", said)
        root = xml.etree.ElementTree.parse(self.folder / "eleven.svg").getroot()
        self.assertEqual(len(list(root.iter(SVG + "circle"))), 11)
        self.assertLess((self.folder / "eleven.svg").stat().st_size, 60_000)

    def test_standard_output(self):
        said = self.run_ok("explain", "job.toml", "--svg", "-").stdout
        self.assertEqual(xml.etree.ElementTree.fromstring(said).tag, SVG + "svg")
        self.run_ok("explain", "job.toml", "--svg", "plan.svg")
        self.assertEqual((self.folder / "plan.svg").read_text(), said)


class Bad(Case):
    def test_bad_input(self):
        (self.folder / "folder").mkdir()
        for args, names in (
                (("job.toml", "--svg", "no/such/plan.svg"), ("no/such/plan.svg", "folder")),
                (("job.toml", "--svg", "folder"), ("--svg: folder", "- for standard output")),
                (("job.toml", "--svg", os.devnull), (os.devnull, "no regular file")),
                (("job.toml", "--svg", "-", "--json"), ("--svg -", "--json")),
                (("job.toml", "--svg", "x.svg", "--set", "overlay.kind=tsengine"),
                 ("tsengine", "--set overlay.kind=forest")),
                (("job.toml", "--mbytes", "0"), ("--mbytes",)),
                (("job.toml", "--json", "--set", "site.tokyo.nodes=300"), ("302 nodes", "256")),
                (("ring", "--json"), ("ring: no job file", "--json")),
                (("nowhere.toml", "--json"), ("nowhere.toml",))):
            with self.subTest(args=args):
                self.bad("explain", *args, names=names)
                self.assertFalse((self.folder / "x.svg").exists())

    def test_too_many_nodes_are_no_error_unless_asked_for(self):
        said = self.run_ok("explain", "job.toml", "--set", "site.tokyo.nodes=300").stdout
        self.assertIn("Plan of ring: none; job.toml: 302 nodes", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
