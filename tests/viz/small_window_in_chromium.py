#!/usr/bin/python3
"""The page of a leaking program in a window of 1280 x 720. The leak and its holder are visible and not cut, searching
moves nothing, and no words of the plot overlap. Compared with the answer of `memprof leaks`."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from browser import BrowserTest, By

BUILD = pathlib.Path(os.getcwd())
PLACES = """return [...document.querySelectorAll('body *')].filter((one) => one.id !== 'search-said' && !one.closest('svg'))
    .map((one) => { const { x, y, width, height } = one.getBoundingClientRect(); return [one.tagName, x, y, width, height]; });"""
# The visible part of an element after scrolling to it, without parts that its ancestors cut off.
CUT = """
const [one] = arguments;
one.scrollIntoView({ block: 'nearest' });
const box = one.getBoundingClientRect();
let [top, bottom] = [box.top, box.bottom];
for (let up = one.parentElement; up; up = up.parentElement) {
  if (getComputedStyle(up).overflow === 'visible') continue;
  const around = up.getBoundingClientRect();
  [top, bottom] = [Math.max(top, around.top), Math.min(bottom, around.bottom)];
}
return box.height - Math.max(bottom - top, 0);"""


class SmallWindow(BrowserTest):
    @classmethod
    def make_page(cls):
        cls.recording, page = cls.folder / "held.mp", cls.folder / "held.html"
        subprocess.run([BUILD / "tests/unit/cli/make_recording", cls.recording, "held"], check=True)
        subprocess.run([BUILD / "memprof", "trace_plot", cls.recording, "-o", page], check=True, stdin=subprocess.DEVNULL)
        return page

    def at(self, fragment="", width=1280, height=720):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        self.open(fragment=fragment)
        self.settle()

    def finding(self):
        said = subprocess.run([BUILD / "memprof", "leaks", self.recording, "--json"], capture_output=True, check=True,
                              stdin=subprocess.DEVNULL).stdout
        finding, = json.loads(said)["findings"]
        self.assertGreater(len(finding["holders"]), 2)
        return finding

    def test_leaks_are_not_cut(self):
        self.at("#v=growth")
        finding = self.finding()
        lines = self.driver.find_elements(By.CSS_SELECTOR, ".growth .finding, .growth .finding > *")
        self.assertGreater(len(lines), len(finding["holders"]))
        for line in lines:
            self.assertLess(self.js(CUT, line), 1, line.text)
        # the view can be scrolled, but nothing inside of it
        self.assertEqual(self.js("return [...document.querySelectorAll('.growth, .growth *')].filter((one) => "
                                 "/auto|scroll/.test(getComputedStyle(one).overflowY)).map((one) => one.className)"),
                         ["view growth"])
        said = self.text(".growth .findings")
        for holder in finding["holders"]:
            self.assertIn(holder["path"] or "not found", said)
        self.assertEqual(said.count("a kept tensor holds the graph that made it"), 1)

    def test_every_row_below_the_leaks_comes_into_sight(self):
        """Only visible rows are made, and the leaks above the table take part of the visible area."""
        self.at("#v=growth")
        self.js("""
            const { table } = window.memprof.page.pane.view();
            document.querySelector('.findings').style.height = '900px'; // as of many leaks
            table.set(Array.from({ length: 500 }, (_, order) => ({ ...table.rows[0], order })));""")
        for top in (0, 300, 850, 1200, 5000, 13000, 10 ** 6):
            shown = self.js("""
                const box = document.querySelector('.view.growth');
                box.scrollTop = arguments[0];
                return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
                  const { top, bottom } = box.getBoundingClientRect();
                  const rows = [...box.querySelectorAll('tbody tr:not(.space)')].map((row) =>
                    [Number(row.dataset.index), row.getBoundingClientRect()]);
                  const head = box.querySelector('thead').getBoundingClientRect();
                  done({ least: Math.min(...rows.map(([, r]) => r.top)), most: Math.max(...rows.map(([, r]) => r.bottom)),
                         last: rows.at(-1)[0], top: Math.max(top, head.bottom), bottom });
                })));""", top)
            self.assertTrue(shown["least"] <= shown["top"] + 1 or top < 900, (top, shown))
            self.assertTrue(shown["most"] >= shown["bottom"] - 1 or shown["last"] == 499, (top, shown))
        self.assertEqual(shown["last"], 499)

    def test_the_summary_tells_the_leak(self):
        self.at("#v=summary")
        finding = self.finding()
        line = self.driver.find_element(By.CSS_SELECTOR, ".summary .leak").find_element(By.XPATH, "..")
        frame = next(frame for frame in finding["stack"] if frame["language"] == "python")
        certain = next(holder for holder in finding["holders"] if holder["certain"])
        for words in (f"+{finding['bytes_per_step'] / 2 ** 20:.2f} MiB a step", f"since step {finding['first_step']}",
                      f"{finding['bytes'] / 2 ** 20:.1f} MiB by now", f"{frame['function']} {os.path.basename(frame['file'])}:"
                      f"{frame['line']}", f"held by {certain['path']}", f"{os.path.basename(certain['file'])}:{certain['line']}",
                      certain["advice"]):
            self.assertIn(words, line.text)
        # at least its first line is visible without scrolling
        self.assertLess(self.js("return arguments[0].getClientRects()[0].bottom", self.driver.find_element(
            By.CSS_SELECTOR, ".summary .leak")), 710)
        line.find_element(By.TAG_NAME, "button").click()
        self.settle()
        state = self.state()
        self.assertEqual((state["view"], self.js("return window.memprof.recording.stacks.describe(arguments[0]).name",
                                                 state["site"])), ("growth", frame["function"]))

    def test_search_moves_nothing(self):
        for width in (1280, 1000):
            self.at(width=width)
            before = self.js(PLACES)
            for words in ("remember", "nosuchthing", "size>1", "e"):
                self.press("/")
                self.press(words)
                self.wait("return document.getElementById('search-said').textContent !== ''")
                self.settle()
                self.assertEqual(self.js(PLACES), before, (width, words))
                self.js("const field = document.getElementById('search'); field.value = ''; field.blur();"
                        "window.memprof.store.set({ query: '' })")
                self.settle()

    def test_words_of_the_plot_lie_apart(self):
        """Memory ran out right after the peak: both have a label."""
        for width in (1280, 1000):
            self.at(width=width)
            peak, lanes, top = self.js(
                "const { timeline } = window.memprof.page, { overlay } = timeline;"
                "return [overlay.peakLabel(document.getElementById('over').getContext('2d')), overlay.marks, timeline.top]")
            self.assertIn("peak 85.5 MiB", peak["text"])
            self.assertTrue(lanes[0])
            self.assertGreaterEqual(peak["top"], top)  # labels of marks lie above it
            for lane in lanes:
                for one, other in zip(lane, lane[1:]):
                    self.assertGreaterEqual(other["left"], one["right"])


if __name__ == "__main__":
    asserted.main()
