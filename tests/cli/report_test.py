#!/usr/bin/env python3
"""report: the page of several runs, and what it holds.

    LONGHAUL=build/release/longhaul tests/cli/report_test.py
"""
import json
import re
import shutil
import unittest
import xml.etree.ElementTree

from effort import GATE
from report_runs import HAS_CHARTS, JOB, Runs


class Report(Runs):
    def data_of(self, page):
        text = (self.folder / page).read_text()
        return json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S)[1])

    def test_errors(self):
        done = self.longhaul("report", "none", code=2)
        self.assertIn("none: neither the folder of a run", done.stderr)
        done = self.longhaul("report", *["c"] * 8, code=2)
        self.assertIn("32 runs; at most 30", done.stderr)

    @unittest.skipIf(HAS_CHARTS, "the chart library is built in")
    def test_without_the_chart_library_the_remedy_is_named(self):
        self.assertIn("scripts/fetch-web", self.longhaul("report", "c", code=2).stderr)

    @unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
    def test_one_file_with_everything(self):
        out = self.longhaul("report", "c", "--out", "page.html").stdout
        self.assertIn("4 runs", out)
        text = (self.folder / "page.html").read_text()
        for reference in re.findall(r'(?:src|href)="([^"]*)"', text):
            self.assertTrue(reference.startswith("data:"), reference)
        data = self.data_of("page.html")
        self.assertIn("One seed cannot tell which is first (compare --seeds 3 may): fedavg over "
                      "direct reaches 99 % in ", data["verdict"])
        labels = [run["label"] for run in data["runs"]]
        self.assertEqual(labels[:2], ["fedavg-direct", "fedavg-ring"])
        self.assertEqual(sorted(labels[2:]), ["diloco-direct", "diloco-ring"])
        for run in data["runs"]:
            summary = json.loads((self.folder / run["folder"] / "summary.json").read_text())
            self.assertEqual(run["summary"], summary)
            scores = run["scores"]
            self.assertGreater(len(scores["time_s"]), 5)
            self.assertLessEqual(scores["wan_bytes"][-1], summary["wan_bytes"])
            self.assertEqual(scores["wan_bytes"], sorted(scores["wan_bytes"]))
            links = run["activity"]["links"]
            # The heads of frames are not counted.
            self.assertAlmostEqual(sum(link[2] for link in links) / summary["wan_bytes"], 1, 0)
            computing = sum(sum(site["computing"]) for site in run["activity"]["sites"])
            self.assertAlmostEqual(computing / 3 / summary["time_s"],
                                   summary["compute_utilisation"], 2)
            self.assertTrue(xml.etree.ElementTree.fromstring(run["plan_svg"]).tag.endswith("svg"))
            self.assertEqual(run["settings"]["[sync] steps"], "3")

    @unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
    def test_folders_named_with_a_slash_have_names(self):
        self.longhaul("report", "c/fedavg-ring/", "c/diloco-ring/", "--out", "slash.html")
        labels = [run["label"] for run in self.data_of("slash.html")["runs"]]
        self.assertEqual(labels, ["fedavg-ring", "diloco-ring"])

    @unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
    def test_links_are_those_that_were_used(self):
        # Random pairs of a complete graph, whatever overlay is there for the end.
        folders = [self.over_sockets()]
        if not GATE:
            job = JOB.replace('"fedavg", steps = 3', '"adpsgd", graph = "complete"')
            (self.folder / "pairs.toml").write_text(job + 'overlay = {kind = "ring"}\n')
            self.longhaul("simulate", "pairs.toml", "--quiet", "--out", "pairs")
            folders.append("pairs")
        for folder in folders:
            out = self.longhaul("report", folder, "--out", "pairs.html").stdout
            self.assertIn(" Its busiest link is the uplink of oslo.", out)
            run = self.data_of("pairs.html")["runs"][0]
            self.assertIn("sent between 3 sites", run["plan_svg"])
            names = [site["name"] for site in run["activity"]["sites"]]
            used = {f"{names[a]} to {names[b]}: " for a, b, _ in run["activity"]["links"]}
            self.assertEqual(set(re.findall(r"<title>(\w+ to \w+: )", run["plan_svg"])), used)
            self.assertEqual(len(used), 6)

    @unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
    def test_folders_of_the_sites_of_a_run_are_one_run(self):
        shutil.copytree(self.folder / self.over_sockets(), self.folder / "whole")
        whole = json.loads((self.folder / "whole/summary.json").read_text())
        sites = ["tokyo", "lima", "oslo"]
        # Those of a launch are that; those that were copied beside each other are one, too.
        for site in sites:
            shutil.copytree(self.folder / "whole" / site, self.folder / "copied" / site)
        for folders, label in (([f"whole/{site}" for site in sites], "whole"),
                               ([f"copied/{site}/" for site in sites], "copied"),
                               (["copied"], "copied")):
            out = self.longhaul("report", *folders, "--out", "sites.html").stdout
            self.assertIn("fedavg over direct reached 99 % in", out)
            self.assertRegex(out, r"\.html: 1 run")
            run, = self.data_of("sites.html")["runs"]
            self.assertEqual((run["label"], run["clock"], run["of_site"]), (label, "real", ""))
            self.assertEqual(run["summary"]["wan_bytes"], whole["wan_bytes"])
            self.assertEqual(run["summary"]["samples"], whole["samples"])
            self.assertAlmostEqual(run["summary"]["compute_utilisation"],
                                   whole["compute_utilisation"], 6)
            self.assertEqual(len(run["activity"]["links"]), 6)
            self.assertEqual(run["scores"]["time_s"], sorted(run["scores"]["time_s"]))
            self.assertIn("sent between 3 sites", run["plan_svg"])
        # One that is missing is said to be.
        out = self.longhaul("report", "copied/tokyo", "copied/oslo", "--out", "two.html").stdout
        self.assertRegex(out, "with [0-9.]+ kB sent by oslo, tokyo")
        # Another run of the job stays another run, and so does a simulated one beside it.
        shutil.copytree(self.folder / "whole/lima", self.folder / "copied/lima-before")
        self.longhaul("report", "copied", "c/fedavg-direct", "--out", "more.html")
        self.assertEqual(len(self.data_of("more.html")["runs"]), 3)

    def test_a_picture_for_a_slide(self):
        out = self.longhaul("report", "c", "--svg", "c.svg").stdout
        self.assertIn("c.svg: a picture, ", out)
        self.assertFalse((self.folder / "c/report.html").exists())
        svg = xml.etree.ElementTree.parse(self.folder / "c.svg").getroot()
        self.assertEqual(svg.get("width"), "1280")
        texts = "\n".join(text.text for text in svg.iter("{http://www.w3.org/2000/svg}text"))
        for label in ("fedavg-direct: 99 % in 0.446 s, ", "diloco-ring: ", "virtual time, s",
                      "and over bytes between sites", "Accuracy on the test set, %, over time"):
            self.assertIn(label, texts)
        done = self.longhaul("report", "c", "--svg", "none/c.svg", code=2)
        self.assertIn("--svg: ", done.stderr)

    @unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
    def test_virtual_time_is_not_compared_with_real_time(self):
        self.over_sockets()
        out = self.longhaul("report", "c/fedavg-direct", "c/diloco-ring", "sockets", "--out",
                            "both.html").stdout
        self.assertRegex(out, "^Simulated: One seed cannot tell .*: fedavg over direct reaches "
                              "99 % in .*Over sockets: fedavg over direct reached 99 % .*: they "
                              "are not compared.")
        runs = self.data_of("both.html")["runs"]
        self.assertEqual([(run["label"], run["clock"]) for run in runs],
                         [("fedavg-direct (simulated)", "virtual"),
                          ("diloco-ring (simulated)", "virtual"), ("sockets (sockets)", "real")])
        # What a folder of one site knows is what that site has sent.
        out = self.longhaul("report", "sockets/lima", "--out", "lima.html").stdout
        self.assertRegex(out, "with [0-9.]+ kB sent by lima")

    @unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
    def test_damaged_folders_are_read_as_far_as_they_go(self):
        run = self.folder / "damaged"
        shutil.copytree(self.folder / "c/fedavg-ring", run)
        (run / "summary.json").write_text("{")
        (run / "activity.json").unlink()
        text = (run / "metrics.jsonl").read_text()
        (run / "metrics.jsonl").write_text(
            'not JSON\n[1]\n{"kind":"score","values":{"accuracy":null}}\n{"kind":"new"}\n'
            + text[:len(text) // 2])
        self.longhaul("report", "damaged", "--out", "damaged.html")
        data = self.data_of("damaged.html")["runs"][0]
        self.assertIsNone(data["summary"])
        self.assertGreater(len(data["scores"]["time_s"]), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
