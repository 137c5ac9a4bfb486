#!/usr/bin/python3
"""The page of a job, in a Chromium. Its ranks, curves, sites and differences are compared with memprof's answers for
the single recordings. A click chooses a rank, and names stay plain text."""

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
from browser import BrowserTest, Keys

BUILD = pathlib.Path(os.getcwd())
LEAK = 262144
PAGE = "const { page, job } = window.memprof; "


def make_rank(path, rank, leak=0, world=12, role="", sites=60, steps=20):
    words = (path, rank, sites, steps, leak, world, role)
    subprocess.run([BUILD / "tests/unit/cli/make_rank", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


def answer(command, *words):
    result = subprocess.run([BUILD / "memprof", command, *words, "--json"], capture_output=True, stdin=subprocess.DEVNULL)
    return json.loads(result.stdout)


class Page(BrowserTest):
    @classmethod
    def draw(cls, name, *recordings):
        page = cls.folder / name
        subprocess.run([BUILD / "memprof", "trace_plot", *recordings, "-o", page, "--force"], stdin=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return page

    @classmethod
    def make_page(cls):
        cls.run_folder = cls.folder / "run"
        cls.run_folder.mkdir()
        for rank in range(12):
            make_rank(cls.run_folder / f"r{rank:02}.mp", rank, LEAK if rank == 7 else 0)
        make_rank(cls.run_folder / "worker.mp", 3, role="loader worker", sites=5)
        return cls.draw("job.html", cls.run_folder)

    def of_page(self, code, *arguments):
        return self.js(PAGE + code, *arguments)

    def place(self, code):
        """The position of a drawn item in the viewport. `code` returns [canvas, x, y] of the item."""
        return self.of_page("const [canvas, x, y] = (() => {" + code + "})(); const area = canvas.getBoundingClientRect();"
                            "return [area.x + x, area.y + y]")

    def bar(self, name):
        return self.place("const i = page.shown.indexOf(job.processes.name.indexOf(" + json.dumps(name) + "));"
                          "return [page.bars.canvas, 66 + page.bars.room * (i + 0.5) / page.shown.length, 60]")

    def test_its_numbers_are_those_of_the_recordings(self):
        self.open()
        told = self.of_page("return job.processes")
        self.assertEqual(told["name"], [f"rank {i}" for i in range(4)] + ["loader worker 6003 of rank 3"] +
                         [f"rank {i}" for i in range(4, 12)])
        for i, path in enumerate(told["path"]):
            peak, leaks = answer("peak", path), answer("leaks", path)
            self.assertEqual((told["peak"][i], told["peak_ns"][i], told["end"][i], told["verdict"][i]),
                             (peak["peak_bytes"], peak["peak_ns"], leaks["outstanding"]["bytes"], leaks["verdict"]))
            steps = [[step["step"], step["peak_bytes"]] for step in answer("steps", path)["steps"]]
            self.assertEqual(self.of_page("const { at, most, unit } = page.curves.of[arguments[0]];"
                                          "return [...at].map((one, k) => [one * unit, most[k]])", i), steps)
        all_sites = answer("peak", self.run_folder, "-n", "0")["sites"]
        rows = self.of_page("return job.facts.sites.map((site) => [site[2], site[4], site[5], site[7]])")
        self.assertEqual(sorted(rows), sorted([site["bytes"], site["processes"], site["least_bytes"], site["most_bytes"]]
                                              for site in all_sites))

    def test_a_process_without_memory_has_no_curve(self):
        """As a launcher, which only starts the others."""
        self.open()
        order, said = self.of_page("job.processes.peak[4] = 0; page.orderKey = ''; page.paint();"
                                   "return [page.multiples.order, document.getElementById('caption').textContent]")
        self.assertEqual(order, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12])
        self.assertIn("1 process without memory left out", said)
        self.assertEqual(self.of_page("return page.bars.order.length"), 12)

    def test_curves_by_the_clock(self):
        self.open(fragment="#along=clock")
        self.assertEqual(self.of_page("return page.curves.of.map((curve) => Math.max(...curve.most))"),
                         self.of_page("return job.processes.peak"))
        # each rank began 1 ms after the one before; a point lasts 1/128 of the recording
        begins = self.of_page("return page.curves.of.map((curve) => [curve.at[0] * curve.unit, curve.unit])")
        starts = self.of_page("return job.processes.start_ns")
        for (begin, unit), start in zip(begins, starts):
            self.assertLessEqual(abs(begin - start), unit)

    def test_what_deserves_a_look_comes_first(self):
        self.open()
        panel = self.text("#block")
        self.assertIn("Out of line: 1 of 13rank 7", panel)
        self.assertIn("Leaks in 1 of 13rank 7 +256 KiB a step", panel)
        self.assertIn("leaksin 1of 13 processes", self.text("#tiles"))
        self.assertIn("complete", self.text("#tiles"))

    def test_a_click_shows_a_rank_and_another_what_differs(self):
        self.open()
        self.pointer(*self.bar("rank 7"), click=True)
        held = answer("peak", self.run_folder / "r07.mp")
        panel = self.text("#block")
        self.assertIn("rank 7", panel)
        self.assertIn(f"memprof trace_plot {self.run_folder}/r07.mp -o", panel)
        first = held["sites"][0]["stack"][0]
        self.assertIn(f"{first['file'].rsplit('/')[-1]}:{first['line']} {first['function']}",
                      self.js("return document.querySelector('#block .held tr').textContent"))
        self.assertIn("process=8", self.js("return location.hash"))
        self.of_page("page.compare(job.processes.name.indexOf('rank 2'))")
        self.settle()
        own = {site["stack"][0]["function"]: site["bytes"] for site in held["sites"]}
        other = {site["stack"][0]["function"]: site["bytes"]
                 for site in answer("peak", self.run_folder / "r02.mp", "-n", "0")["sites"]}
        rows = self.of_page("return job.difference(page.state.process, page.state.other).map((row) =>"
                            " [job.frames(row.stack)[0].name, row.a, row.b, row.atMost])")
        self.assertEqual(rows[0][0], "f2")
        for function, a, b, at_most in rows:
            for side, bytes, truth in (("a", a, own), ("b", b, other)):
                if at_most == side:
                    self.assertGreaterEqual(bytes, truth.get(function, 0), (function, side))
                else:
                    self.assertEqual(bytes, truth.get(function, 0), (function, side))
        self.press(Keys.ESCAPE * 2)
        self.assertEqual(self.of_page("return [page.state.process, page.state.other]"), [-1, -1])

    def test_a_click_in_curves_and_in_the_heat_map_finds_its_process(self):
        for view in ("curves", "heat"):
            self.open(fragment=f"#view={view}")
            where = {"curves": "const { multiples } = page, { columns, width, height } = multiples.place;"
                               "return [multiples.canvas, (8 % columns + 0.5) * width, (Math.floor(8 / columns) + 0.6) * height]",
                     "heat": "const { canvas, area } = page.heat; return [canvas, area.x + area.width * 0.9,"
                             " area.y + area.height * 8.5 / page.shown.length]"}[view]
            self.pointer(*self.place(where))
            self.assertIn("rank 7", self.text("#tip"))
            self.pointer(*self.place(where), click=True)
            self.assertEqual(self.of_page("return job.processes.name[page.state.process]"), "rank 7")

    def test_the_heat_map_holds_what_the_curves_hold(self):
        self.open(fragment="#view=heat")
        rows = self.of_page("const { values, columns } = page.heat.bytes;"
                            "return page.shown.map((_, row) => [...values.slice(row * columns, (row + 1) * columns)])")
        for i, row in enumerate(rows):
            most = self.of_page("return [...page.curves.of[arguments[0]].most]", i)
            self.assertEqual([value for value in row if value is not None][-1], most[-1])
            self.assertLessEqual(set(value for value in row if value is not None), set(most))
        # differences from the median: the leaking rank differs most, at its end
        self.js("document.getElementById('differences').click()")
        self.settle()
        self.assertEqual(self.of_page("const { shown, most } = page.heat; const at = shown.values.indexOf(most);"
                                      "return job.processes.name[page.shown[Math.floor(at / shown.columns)]]"), "rank 7")
        colours = self.of_page("""const { canvas, area } = page.heat, ratio = devicePixelRatio;
            const column = canvas.getContext('2d').getImageData((area.x + area.width - 4) * ratio, 0, 1, canvas.height).data;
            return page.shown.map((_, row) => {
              const at = 4 * Math.round((area.y + area.height * (row + 0.5) / page.shown.length) * ratio);
              return column.slice(at, at + 3).join(); })""")
        self.assertEqual(colours.count(colours[8]), 1, colours)

    def test_thousands_fit_a_heat_map(self):
        """With more processes than pixels, the unusual process stays visible."""
        self.open(fragment="#view=heat")
        shown = self.of_page("""
            const many = [], odd = job.processes.name.indexOf('rank 7'), usual = job.processes.name.indexOf('rank 1');
            for (let i = 0; i < 5000; i++) many.push(i === 3210 ? odd : usual);
            page.heat.draw(many, page.curves, false);
            page.bars.draw(many);
            const { canvas, area } = page.heat, ratio = devicePixelRatio, found = new Set();
            const data = canvas.getContext('2d').getImageData((area.x + area.width - 3) * ratio, area.y * ratio, 1, area.height * ratio).data;
            for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 3).join());
            const at = page.heat.at(area.x + area.width - 3, area.y + area.height * 3210 / 5000);
            return [found.size, job.processes.name[at.process],
                    job.processes.name[page.bars.at(66 + page.bars.room * 3210.5 / 5000)]];""")
        self.assertGreaterEqual(shown[0], 2)
        self.assertEqual(shown[1:], ["rank 7", "rank 7"])

    def test_the_tooltip_passes_over_a_process_without_a_value(self):
        self.open(fragment="#view=heat")
        self.assertEqual(self.of_page("""
            const many = new Array(5000).fill(0), { heat } = page;
            heat.draw(many, page.curves, false);
            const { columns } = heat.shown, { area } = heat;
            const lines = Math.min(many.length, Math.floor(area.height * devicePixelRatio));
            const line = Math.floor(lines / 2), first = Math.floor(many.length * line / lines);
            many[first + 1] = 7;
            heat.shown.values.fill(NaN, first * columns, (first + 1) * columns);
            return heat.at(area.x + area.width - 3, area.y + area.height * (line + 0.5) / lines).process"""), 7)

    def test_find_order_groups_and_keys(self):
        self.open()
        self.press("/11" + Keys.ENTER)
        self.assertEqual(self.of_page("return job.processes.name[page.state.process]"), "rank 11")
        self.press(Keys.ESCAPE)
        self.press("o")
        self.assertEqual(self.of_page("return job.processes.name[page.shown[0]]"), "rank 7")
        self.assertEqual(self.js("return document.getElementById('order').value"), "peak")
        self.of_page("page.set({ group: 1 })")
        self.settle()
        self.assertEqual(self.of_page("return page.shown.map((i) => job.processes.name[i])"), ["loader worker 6003 of rank 3"])
        self.of_page("page.set({ group: -1 })")
        self.press("4")
        self.assertEqual(self.js("return document.querySelectorAll('#view tbody tr:not(.space)').length"), 13)
        self.press("3")
        self.assertTrue(self.js("return document.querySelector('#view tbody').textContent.includes('f2')"))
        self.press("p")
        self.assertEqual(self.of_page("return job.processes.name[page.state.process]"), "rank 7")

    def test_what_is_missing_is_said(self):
        (self.folder / "cut").mkdir()
        for rank in (0, 1, 3):
            make_rank(self.folder / "cut" / f"{rank}.mp", rank, world=4)
        data = (self.folder / "cut" / "3.mp").read_bytes()
        (self.folder / "cut" / "3.mp").write_bytes(data[:-200])
        self.open(self.draw("cut.html", self.folder / "cut"))
        self.assertIn("1 rank has no recording: 2", self.text("#notes"))
        self.assertIn("1 recording is not whole", self.text("#notes"))
        self.assertIn("INCOMPLETE", self.text("#tiles"))

    def test_hostile_names_stay_text(self):
        folder = self.folder / "<img src=x onerror=alert(1)>"
        folder.mkdir()
        for rank in range(2):
            make_rank(folder / f"<script>alert({rank})<!--{rank}.mp", rank, world=0)
        self.open(self.draw("hostile.html", folder))
        self.assertIn("<img src=x", self.text("#name"))
        self.assertEqual(self.js("return document.querySelectorAll('img').length"), 0)
        self.of_page("page.choose(1)")
        self.settle()
        self.assertIn("<script>alert(1)<!--1.mp", self.text("#block"))
        # a shell must read the path in the command unchanged
        for path in ("-r0.mp", "a/$(touch PWNED) 'r0'.mp", "-$x.mp", "run/r0.mp"):
            told = self.of_page("job.processes.path[1] = arguments[0]; page.panel.draw(page.curves);"
                                "return document.querySelector('#block code.line').textContent", path)
            words = subprocess.run(["sh", "-c", 'set -- ' + told + '; printf "%s\\n" "$@"'], capture_output=True, text=True,
                                   cwd=self.folder, stdin=subprocess.DEVNULL).stdout.splitlines()
            self.assertEqual(words, ["memprof", "trace_plot", "./" * path.startswith("-") + path, "-o", "trace.html"])
        self.assertIn(" run/r0.mp ", told)
        self.assertFalse((self.folder / "PWNED").exists())

    def test_a_wrong_address_chooses_nothing(self):
        for fragment, process, other in (("#process=0.5", -1, -1), ("#process=-3", -1, -1), ("#process=", -1, -1),
                                         ("#process=1&with=1", 1, -1), ("#process=1&with=1e9", 1, -1),
                                         ("#process=1&with=2", 1, 2)):
            self.open(fragment=fragment)
            self.assertEqual(self.of_page("return [page.state.process, page.state.other]"), [process, other], fragment)

    def test_a_process_without_a_pid_is_not_found_by_null(self):
        self.open()
        self.assertEqual(self.of_page("job.processes.pid[0] = null; return job.find('null')"), [])

    def test_narrow_and_dark(self):
        self.open()
        self.driver.set_window_size(600, 900)
        try:
            self.settle()
            self.assertTrue(self.js("return document.documentElement.scrollWidth <= innerWidth"))
            wide = self.js("return document.getElementById('bars').getBoundingClientRect().width")
            self.assertGreater(wide, 300)
            before = self.of_page("return page.bars.canvas.toDataURL()")
            self.js("document.getElementById('theme').click()")
            self.settle()
            self.assertNotEqual(self.of_page("return page.bars.canvas.toDataURL()"), before)
        finally:
            self.driver.set_window_size(1500, 1200)
            self.js("document.getElementById('theme').click(); document.getElementById('theme').click()")


if __name__ == "__main__":
    asserted.main()
