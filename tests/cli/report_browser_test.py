#!/usr/bin/env python3
"""report in a headless browser: every chart is drawn, runs can be switched, no error.

    LONGHAUL=build/release/longhaul tests/cli/report_browser_test.py

LONGHAUL_SCREENSHOTS=DIR keeps pictures of the pages there.
"""
import base64
import json
import os
import pathlib
import re
import struct
import unittest

import browser
from report_runs import HAS_CHARTS, Runs

# Pixels that are neither transparent nor grey: of lines and bars, not of axes and text.
COLOURED = """(() => [...document.querySelectorAll(
    "#score canvas, #loss canvas, #timeline")].map(c => {
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  let n = 0;
  for (let i = 0; i < d.length; i += 4)
    if (d[i + 3] > 128 && Math.max(d[i], d[i+1], d[i+2]) - Math.min(d[i], d[i+1], d[i+2]) > 60) ++n;
  return n; }))()"""


@unittest.skipUnless(browser.CHROMIUM and HAS_CHARTS, "this machine has not chromium")
class Drawn(Runs):
    def test_every_chart_is_drawn_at_both_widths(self):
        self.longhaul("report", "c", "--out", "page.html")
        page = (self.folder / "page.html").as_uri()
        chromium = browser.Browser()
        self.addCleanup(chromium.close)
        for width in (1280, 390):
            for dark in (False, True):
                chromium.open(page, width, dark=dark)
                for axis in ("time_s", "wan_bytes", "samples"):
                    chromium.evaluate(f'document.querySelector("[data-axis={axis}]").click()')
                    counts = chromium.evaluate(COLOURED)
                    self.assertEqual(len(counts), 3)
                    self.assertTrue(all(n > 100 for n in counts), (width, axis, counts))
                chromium.evaluate('document.getElementById("log").click()')
                counts = chromium.evaluate(COLOURED)
                self.assertTrue(all(n > 100 for n in counts), (width, "log", counts))
                wide = chromium.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width)
                cells = chromium.evaluate('document.querySelectorAll("#links td[title]").length')
                self.assertEqual(cells, 9)
                self.assertGreater(chromium.evaluate(
                    'document.querySelectorAll("#plan svg *").length'), 5)
                self.assertGreater(chromium.evaluate(
                    'document.querySelectorAll("#differences tr").length'), 1)
                if keep := os.environ.get("LONGHAUL_SCREENSHOTS"):
                    chromium.screenshot(f"{keep}/report-{width}-{'dark' if dark else 'light'}.png")
        self.assertEqual(chromium.errors, [])

    def test_charts_are_saved_as_pictures(self):
        self.longhaul("report", "c", "--out", "page.html")
        chromium = browser.Browser()
        self.addCleanup(chromium.close)
        chromium.open((self.folder / "page.html").as_uri(), 1280)
        # The links that the buttons press, in place of downloads.
        chromium.evaluate("""window.saved = []; HTMLAnchorElement.prototype.click = function() {
                             window.saved.push([this.download, this.href]); }; 0""")
        for button in ("[data-save=score]", "[data-save=loss]", "#save-timeline"):
            chromium.evaluate(f"document.querySelector('{button}').click()")
        saved = chromium.evaluate("window.saved")
        self.assertEqual([name for name, _ in saved], ["score.png", "loss.png", "sites.png"])
        for name, link in saved:
            picture = base64.b64decode(link.removeprefix("data:image/png;base64,"))
            self.assertTrue(picture.startswith(b"\x89PNG"))
            width, height = struct.unpack(">II", picture[16:24])
            self.assertEqual(width, 1920)  # of a slide
            self.assertGreater(height, 300)
            if keep := os.environ.get("LONGHAUL_SCREENSHOTS"):
                pathlib.Path(keep, name).write_bytes(picture)
        self.assertEqual(chromium.errors, [])

    def test_axes_end_at_100_percent_and_have_no_two_equal_labels(self):
        self.longhaul("report", "c", "--out", "page.html")
        text = (self.folder / "page.html").read_text()
        data = re.search(r'(?<=type="application/json">).*?(?=</script>)', text, re.S)[0]
        runs = json.loads(data)
        for number, run in enumerate(runs["runs"]):
            scores = run["scores"]
            scores["score"] = [1] * len(scores["score"])
            scores["loss"] = [0.00712 - 0.00001 * (number + i) for i in range(len(scores["loss"]))]
            run["target"] = None
        (self.folder / "perfect.html").write_text(text.replace(data, json.dumps(runs)))
        chromium = browser.Browser()
        self.addCleanup(chromium.close)
        for width in (1280, 390):
            chromium.open((self.folder / "perfect.html").as_uri(), width)
            chromium.evaluate("""window.drawn = new Map(); const fill =
                CanvasRenderingContext2D.prototype.fillText;
                CanvasRenderingContext2D.prototype.fillText = function(text, ...rest) {
                  const id = (this.canvas.closest(".chart") || this.canvas).id;
                  drawn.set(id, [...(drawn.get(id) || []), text]);
                  return fill.call(this, text, ...rest); }; 0""")
            for axis in ("wan_bytes", "samples", "time_s"):
                chromium.evaluate("drawn.clear()")
                chromium.evaluate(f'document.querySelector("[data-axis={axis}]").click()')
                for chart in ("score", "loss"):
                    labels = chromium.evaluate(f'drawn.get("{chart}")')
                    self.assertGreater(len(labels), 4)
                    self.assertEqual(len(labels), len(set(labels)), labels)
                    if chart == "score":
                        percents = [float(one[:-2]) for one in labels if one.endswith(" %")]
                        self.assertEqual(max(percents), 100, labels)
                        self.assertGreater(len(percents), 2)
        # Steps of an axis are of one unit.
        self.assertEqual(chromium.evaluate("ticks.time([0, 600, 1200], 600)"),
                         ["0 min", "10 min", "20 min"])
        self.assertEqual(chromium.evaluate("ticks.plain([0, 2.5e-7], 2.5e-7)"), ["0", "2.5e-7"])
        self.assertEqual(chromium.errors, [])

    def test_clocks_are_named(self):
        self.longhaul("report", "c", "--out", "page.html")
        text = (self.folder / "page.html").read_text()
        (self.folder / "both.html").write_text(
            text.replace('"clock":"virtual"', '"clock":"real"', 1))
        chromium = browser.Browser()
        self.addCleanup(chromium.close)
        for page, heads, note in (("page", "virtual time", ""), ("both", "time", "Times of")):
            chromium.open((self.folder / f"{page}.html").as_uri(), 1280)
            self.assertIn(heads, chromium.evaluate(
                '[...document.querySelectorAll("#runs th")].map(th => th.textContent)'))
            found = chromium.evaluate('document.getElementById("clocks").textContent')
            self.assertEqual(found[:len(note)] if note else found, note)
            chromium.evaluate('document.querySelector("[data-axis=samples]").click()')
            self.assertEqual(
                chromium.evaluate('document.getElementById("clocks").textContent'), "")
        self.assertEqual(chromium.errors, [])

    def test_runs_can_be_switched_and_zoomed(self):
        self.longhaul("report", "c", "--out", "page.html")
        chromium = browser.Browser()
        self.addCleanup(chromium.close)
        chromium.open((self.folder / "page.html").as_uri(), 1280)
        before = chromium.evaluate(COLOURED)
        for run in (1, 2, 3):
            chromium.evaluate(f'document.querySelector("[data-run=\\"{run}\\"]").click()')
        self.assertLess(chromium.evaluate(COLOURED)[0], before[0])
        links = 'document.getElementById("links").textContent'
        first = chromium.evaluate(links)
        chromium.evaluate("""(() => { const s = document.getElementById("choose"); s.value = 1;
                             s.dispatchEvent(new Event("change")); })()""")
        self.assertNotEqual(chromium.evaluate(links), first)
        scale = 'JSON.parse(document.getElementById("timeline").dataset.scale)'
        whole = chromium.evaluate(scale)
        chromium.evaluate("""(() => { const c = document.getElementById("timeline");
          const box = c.getBoundingClientRect();
          for (const [kind, x] of [["pointerdown", 0.5], ["pointerup", 0.75]])
            c.dispatchEvent(new PointerEvent(kind, {clientX: box.left + box.width * x,
                                                    clientY: box.top + 5})); })()""")
        zoomed = chromium.evaluate(scale)
        self.assertLess(zoomed["to"] - zoomed["from"], 0.5 * (whole["to"] - whole["from"]))
        self.assertEqual(chromium.errors, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
