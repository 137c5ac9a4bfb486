#!/usr/bin/python3
"""The links of a report into the page of its recording, followed by clicks in a Chromium: each selects what its row told,
held against what other commands say of the file."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from browser import BrowserTest, By

BUILD = pathlib.Path(os.getcwd())
UNITS = {"B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30}
# What is chosen in the table in sight: the site's functions and lines, from the innermost, its bytes and blocks.
CHOSEN = """
const { recording, page } = window.memprof, { table } = page.pane.view();
const row = table.rows.find((one) => table.chosen(one));
const shown = document.querySelector('#view tr.chosen');
return row && { track: page.track.info.id, stack: recording.stacks.stack(row.site ?? row.key)
                  .map((frame) => [frame.function || null, frame.line || null]), bytes: row.bytes, blocks: row.blocks,
                shown: shown && shown.textContent };"""


def memprof(*words, status=0, cwd=None):
    result = subprocess.run([BUILD / "memprof", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd)
    if result.returncode != status:
        raise AssertionError(f"{words}: {result.returncode} {result.stderr}")
    return result


class Report(BrowserTest):
    @classmethod
    def make_page(cls):
        """In folders whose names need care in an address, of which the page's is another than the report's."""
        cls.recording = cls.folder / "run.mp"
        (cls.folder / "a#b").mkdir()
        (cls.folder / "pages of 50%").mkdir()
        subprocess.run([BUILD / "tests/unit/cli/make_recording", cls.recording, "leaking"], check=True)
        memprof("report", cls.recording, "-n", "20", "-o", cls.folder / "a#b/report.html",
                "--page", cls.folder / "pages of 50%/trace?.html")
        return cls.folder / "a#b/report.html"

    def report(self):
        self.driver.get("about:blank")
        self.driver.get(self.page.as_uri().replace("#", "%23"))

    def follow(self, index):
        """Clicks on a link of the report; what the row had told."""
        self.report()
        link = self.driver.find_elements(By.TAG_NAME, "a")[index]
        told = self.js("const row = arguments[0].closest('tr');"
                       "return row ? [...row.cells].map((cell) => cell.textContent) : [arguments[0].textContent]", link)
        self.js("arguments[0].scrollIntoView({ block: 'center' })", link)
        link.click()
        self.wait("return document.documentElement.dataset.ready === 'true'")
        self.wait("return Boolean(window.memprof.page.pane.scope)")
        return told

    def links(self, pattern):
        """The places of the links whose address holds this."""
        self.report()
        found = [one.get_attribute("href") for one in self.driver.find_elements(By.TAG_NAME, "a")]
        return [i for i, href in enumerate(found) if re.search(pattern, href)]

    def answer(self, command):
        return json.loads(memprof(command, self.recording, "--json").stdout)

    def check_sites(self, sites, pattern):
        rows = self.links(pattern)
        self.assertEqual(len(rows), len(sites))
        seen = set()
        for index in rows:
            told = self.follow(index)
            chosen = self.js(CHOSEN)
            seen.add(json.dumps([chosen["track"], chosen["stack"]]))
            number, unit = told[1].split()
            self.assertAlmostEqual(chosen["bytes"] / UNITS[unit], float(number), delta=0.01 * float(number))
            self.assertEqual(chosen["blocks"], int(told[2]))
            self.assertIn(told[1], chosen["shown"])
            expected = [site for site in sites if (site["bytes"], site["blocks"]) == (chosen["bytes"], chosen["blocks"])]
            self.assertIn(chosen["stack"], [[[frame["function"], frame["line"]] for frame in site["stack"]]
                                            for site in expected])
        self.assertEqual(len(seen), len(sites))

    def test_sites_of_the_peak(self):
        self.check_sites(self.answer("peak")["sites"], "of=peak.*[&]s=")

    def test_outstanding_sites_of_every_track(self):
        self.check_sites(self.answer("leaks")["outstanding"]["sites"], "of=end")

    def test_peak(self):
        peak, steps = self.answer("peak"), self.answer("steps")["steps"]
        index, = self.links("of=peak[^=]*=sites[^s]*$")
        self.assertIn("85.5 MiB", self.follow(index)[0])
        state, unit = self.state(), self.js("return window.memprof.recording.timeUnit")
        step = next(step for step in steps if step["step"] == peak["step"])
        self.assertLessEqual(state["start"] * unit, step["start_ns"])
        self.assertGreaterEqual(state["end"] * unit, peak["peak_ns"])
        self.assertLess(state["end"] - state["start"], 0.2 * steps[-1]["end_ns"] / unit)
        self.assertEqual(self.js("const { track, scope } = window.memprof.page.pane; return [track.info.id, scope.bytes]"),
                         [peak["track"], peak["peak_bytes"]])

    def test_a_leak_and_the_step_where_it_began(self):
        finding, = self.answer("leaks")["findings"]
        steps = self.answer("steps")["steps"]
        leak, = self.links("v=growth")
        self.assertIn("remember", self.follow(leak)[-1])
        self.assertEqual(self.js(CHOSEN)["stack"], [[frame["function"], frame["line"]] for frame in finding["stack"]])
        self.assertTrue(self.js("return !document.querySelector('#view .growth').hidden"))
        step, = self.links("v=steps")
        self.assertEqual(self.follow(step)[1], str(finding["first_step"]))
        began = next(step for step in steps if step["step"] == finding["first_step"])
        unit = self.js("return window.memprof.recording.timeUnit")
        self.assertEqual([time * unit for time in self.state()["window"]], [began["start_ns"], began["end_ns"]])
        self.assertIn(f"{began['step']}", self.js("return document.querySelector('#view .steps tr.chosen').textContent"))

    def test_the_page_alone(self):
        index, = self.links("html$")
        self.assertEqual(self.follow(index), ["Every block over time"])

    def test_a_part_of_the_recording(self):
        memprof("report", self.recording, "--from", "step:3", "--to", "step:9", "-o", "part.html", "--page", "page.html",
                cwd=self.folder)
        page, self.page = self.page, self.folder / "part.html"
        self.addCleanup(setattr, self, "page", page)
        index = self.links("of=peak.*[&]s=")[0]
        told = self.follow(index)
        chosen = self.js(CHOSEN)
        self.assertEqual((f"{chosen['bytes'] / 2 ** 20:.1f} MiB", chosen["blocks"]), (told[1], int(told[2])))

    def test_without_a_page_nothing_is_linked(self):
        self.assertNotIn("<a ", memprof("report", self.recording, "--format", "html").stdout)
        markdown = memprof("report", self.recording, "--page", self.folder / "x.html", "--format", "markdown", status=2)
        self.assertIn("--page is for a report in HTML", markdown.stderr)

    def test_files_that_are_no_page(self):
        own = self.folder / "own.html"
        for page in (own, self.folder / "a#b/../own.html", "-", ""):
            self.assertIn("--page needs the name of a file of its own",
                          memprof("report", self.recording, "-o", own, "--page", page, status=2).stderr)
        for page in (self.folder / "nowhere/page.html", self.folder):
            self.assertIn(str(page), memprof("report", self.recording, "-o", own, "--page", page, status=1).stderr)
        memprof("report", self.recording, "-o", own, "--page", self.recording, status=1)
        self.assertFalse(own.exists())


class Compared(Report):
    """Of two recordings, the rows of compare lead to the sites of the page of the later."""
    tests_of_reports = [name for name in dir(Report) if name.startswith("test_")]

    @classmethod
    def make_page(cls):
        cls.before, cls.recording = cls.folder / "before.mp", cls.folder / "run.mp"
        subprocess.run([BUILD / "tests/unit/cli/make_recording", cls.before, "train"], check=True)
        subprocess.run([BUILD / "tests/unit/cli/make_recording", cls.recording, "leaking"], check=True)
        return cls.folder / "compare.html"

    def test_sites_of_each_sense(self):
        for sense, swapped in (("peak", False), ("peak", True), ("outstanding", False), ("allocated", False)):
            files = [self.recording, self.before] if swapped else [self.before, self.recording]
            question = ["compare", *files, "--of", sense, "-n", "0"]
            memprof(*question, "--force", "-o", self.page, "--page", self.folder / "later page.html")
            rows = json.loads(memprof(*question, "--json").stdout)["sites"]
            links = self.links("")
            self.assertEqual(len(links), sum(row["after_blocks"] > 0 for row in rows), rows)
            for index in links:
                told, chosen = self.follow(index), self.js(CHOSEN)
                expected = [row for row in rows if row["after_bytes"] == chosen["bytes"]
                            and row["after_blocks"] == chosen["blocks"]]
                self.assertIn(chosen["stack"], [[[frame["function"], frame["line"]] for frame in row["stack"]]
                                                for row in expected], (sense, told))
                number, unit = told[2].split()
                self.assertAlmostEqual(chosen["bytes"] / UNITS[unit], float(number), delta=0.01 * float(number))

    def test_page_needs_a_document(self):
        done = memprof("compare", self.before, self.recording, "--page", self.folder / "x.html", status=2)
        self.assertIn("--page is for a report in HTML", done.stderr)


for name in Compared.tests_of_reports:
    setattr(Compared, name, None)

if __name__ == "__main__":
    asserted.main()
