#!/usr/bin/python3
"""The page's views and keys on a real recording of PyTorch, compared with memprof's reports."""

import collections
import json
import os
import pathlib
import pickle
import subprocess
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import asserted
import harness

from browser import ActionChains, BrowserTest, By, Keys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MEMPROF = os.path.abspath("memprof")
DATA = os.environ.get("MEMPROF_TEST_DATA")

ROWS = """
const { table } = window.memprof.page.pane.view();
return table.rows.map((row) => table.columns.map((column) => column.value(row)));"""
FLAME = """
const { tree } = window.memprof.page.pane.view();
const out = {};
const walk = (node, path) => {
  const key = path.join('\\n'); // calls of one name from different lines are two nodes
  out[key] = (out[key] ?? 0) + node.value;
  for (const child of node.children.values()) walk(child, [...path, child.frame.function]);
};
walk(tree, []);
return out;"""
SAVED = """
window.saved = [];
const old = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.saved.push(blob); return old.call(URL, blob); };
HTMLAnchorElement.prototype.click = function () {};"""


PYTHON = harness.python_with_torch()


def answer(recording, command, *options):
    result = subprocess.run([MEMPROF, command, recording, "--json", *options], capture_output=True, text=True,
                            check=False)
    if result.returncode not in (0, 4):
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


class ViewTest(BrowserTest):
    def view(self, fragment, page=None):
        self.open(page=page, fragment="#" + fragment)
        self.settle()

    def rows(self):
        return self.js(ROWS)

    def rows_by_group(self):
        return {name: (size, blocks) for name, size, blocks in self.js(
            "return window.memprof.page.pane.views.get('sites').table.rows.map((row) => [row.key, row.bytes, row.blocks])")}

    def amount(self):
        return self.js("const { scope } = window.memprof.page.pane; return [scope.bytes, scope.ids.length]")


@unittest.skipUnless(PYTHON, "no Python here has torch")
class TrainingTest(ViewTest):
    @classmethod
    def make_page(cls):
        cls.recording = cls.folder / "train.mp"
        subprocess.run([MEMPROF, "snapshot", "--quiet", "-o", cls.recording, "--", PYTHON,
                        SOURCE / "tests/viz/marked_training.py", SOURCE / "examples"], check=True, timeout=240,
                       stdout=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=str(SOURCE / "python")))
        page = cls.folder / "train.html"
        subprocess.run([MEMPROF, "trace_plot", cls.recording, "-o", page], check=True)
        cls.peak = answer(cls.recording, "peak", "-n", "0")
        return page

    def test_sites_are_those_of_the_report(self):
        self.view("v=sites")
        expected = [[site["bytes"], site["blocks"]] for site in self.peak["sites"]]
        found = self.rows()
        self.assertEqual(sorted([row[0], row[2]] for row in found), sorted(expected))
        self.assertEqual([row[0] for row in found], [site[0] for site in expected])
        self.assertEqual(self.amount(), [self.peak["peak_bytes"], self.peak["blocks"]])
        # a new user's question: the line that holds most is the first row, and is in the panel
        top = next(frame for frame in self.peak["sites"][0]["stack"] if (frame["file"] or "").endswith("train.py"))
        line = f"train.py:{top['line']}"
        self.assertIn(line, self.text(".view.sites tbody tr:not(.space)"))
        self.assertIn(line, self.text("#block"))

    def test_groups_are_those_of_the_report(self):
        for group in ("function", "file", "library", "stack:1", "stack:3"):
            self.view("g=" + group)
            expected = answer(self.recording, "peak", "-n", "0", "--group", group)["sites"]
            found = {row[-1]: (row[0], row[2]) for row in self.rows()}
            self.assertEqual(found, {site["group"] or "(unknown)": (site["bytes"], site["blocks"])
                                     for site in expected})
        for group, none in (("category", "(no category)"), ("module", "(no module)")):
            self.view("g=" + group)
            expected = answer(self.recording, "peak", "-n", "0", "--group", group)["sites"]
            self.assertEqual(self.rows_by_group(), {site["group"] or none: (site["bytes"], site["blocks"])
                                                    for site in expected})
        for group in ("size", "step", "region", "thread", "kind"):
            self.view("g=" + group)
            self.assertEqual(sum(row[0] for row in self.rows()), self.peak["peak_bytes"])
            self.assertEqual(sum(row[2] for row in self.rows()), self.peak["blocks"])

    def test_flame_graph_holds_the_peak_in_its_stacks(self):
        for frames in ("user", "python", "all"):
            self.view("v=flame&f=" + frames)
            tree = self.js(FLAME)
            self.assertEqual(tree[""], self.peak["peak_bytes"])
            expected = collections.Counter()
            for site in self.peak["sites"]:
                if any(frame["function"] == "Block.forward" for frame in site["stack"]):
                    expected["Block.forward"] += site["bytes"]
            under = sum(value for path, value in tree.items() if path.split("\n")[-1] == "Block.forward")
            self.assertEqual(under, expected["Block.forward"])
        self.view("v=flame&m=blocks&i")
        self.assertEqual(self.js(FLAME)[""], self.peak["blocks"])

    def test_flame_graph_by_keyboard_and_click(self):
        self.view("v=flame")
        boxes = "return document.querySelectorAll('.call').length"
        self.assertGreater(self.js(boxes), 5)
        self.js("document.querySelector('.call').focus()")
        self.press(Keys.ARROW_DOWN)
        self.assertEqual(self.js("return document.activeElement.style.top"), "21px")
        name = self.js("return document.activeElement.textContent")
        self.press(Keys.ENTER)
        wide = self.js("return [...document.querySelectorAll('.call:not(.outer)')][0]")
        self.assertEqual(wide.text, name)
        self.assertEqual(self.js("return arguments[0].style.width", wide), "100%")

    def test_steps_are_those_of_the_report(self):
        self.view("v=steps")
        steps = answer(self.recording, "steps")["steps"]
        found = self.rows()
        self.assertEqual(len(found), 12)
        for row, step in zip(found, steps):
            index, _, _, peak, allocated, freed, kept, end = row[:8]
            self.assertEqual((index, peak, allocated, freed, end),
                             tuple(step[key] for key in ("step", "peak_bytes", "allocated_bytes", "freed_bytes", "end_bytes")))
            self.assertEqual(kept, step["allocated_bytes"] - step["freed_bytes"])
        self.driver.find_elements(By.CSS_SELECTOR, ".view.steps tbody .link")[2].click()
        self.settle()
        window = self.state()["window"]
        unit = self.js("return window.memprof.recording.timeUnit")
        self.assertEqual([round(time * unit) for time in window], [steps[2]["start_ns"], steps[2]["end_ns"]])
        self.press("2")
        self.assertEqual(self.amount()[0], steps[2]["peak_bytes"])

    def test_growth_is_in_the_order_of_the_report(self):
        self.view("v=growth")
        held = answer(self.recording, "leaks", "-n", "0", "--sort", "growth")["held"]
        found = self.rows()
        self.assertEqual(sorted(row[:3] for row in found),
                         sorted([site["birth_periods"], site["bytes"], site["blocks"]] for site in held["sites"]))
        self.assertEqual([row[0] for row in found], [site["birth_periods"] for site in held["sites"]])
        self.assertGreaterEqual(found[0][0], 8)
        leaks = answer(self.recording, "leaks", "-n", "0")
        told = self.js("return window.memprof.recording.header.leaks")
        self.assertEqual(told["verdict"], leaks["verdict"])
        keys = ("class", "bytes", "blocks", "bytes_per_step", "first_step")
        self.assertEqual([[one[key] for key in keys] for one in told["findings"]],
                         [[one[key] for key in keys] for one in leaks["findings"]])
        for one, exact in zip(told["findings"], leaks["findings"]):
            left = exact["eta_oom_steps"]
            if left is None or left > 1000000:
                self.assertIsNone(one["steps_left"])
            else:
                self.assertAlmostEqual(one["steps_left"], left, delta=left * 0.05)
        self.assertEqual(len(self.driver.find_elements(By.CSS_SELECTOR, ".finding")), len(leaks["findings"]))
        self.assertEqual([one["holders"] for one in told["findings"]], [one["holders"][:3] for one in leaks["findings"]])
        shown = self.text(".findings")
        for finding in leaks["findings"]:
            for holder in finding["holders"][:3]:
                self.assertIn(holder["path"], shown)
        self.assertIn("marked_training.py", self.text(".view.growth tbody tr:not(.space)"))

    def test_outstanding_is_that_of_the_report(self):
        self.view("of=end")
        outstanding = answer(self.recording, "leaks", "-n", "0")["outstanding"]
        self.assertEqual(self.amount(), [outstanding["bytes"], outstanding["blocks"]])

    def test_every_view_follows_a_selection(self):
        self.view("v=sites")
        over = self.driver.find_element(By.ID, "over")
        ActionChains(self.driver).move_to_element(over).key_down(Keys.SHIFT).click_and_hold().move_by_offset(
            150, 0).release().key_up(Keys.SHIFT).perform()
        self.settle()
        window = self.state()["window"]
        unit = self.js("return window.memprof.recording.timeUnit")
        ends = [f"{time * unit / 1e9:.9f}s" for time in window]
        report = answer(self.recording, "peak", "-n", "0", "--from", ends[0], "--to", ends[1])
        self.assertEqual(self.amount(), [report["peak_bytes"], report["blocks"]])
        self.assertEqual(sum(row[0] for row in self.rows()), report["peak_bytes"])
        self.press("1")
        self.assertEqual(self.js(FLAME)[""], report["peak_bytes"])
        self.press(Keys.ESCAPE)
        self.assertIsNone(self.state()["window"])
        self.assertEqual(self.js(FLAME)[""], self.peak["peak_bytes"])
        # by keyboard, and by dragging along the axis
        self.press("x")
        self.assertEqual(self.state()["window"], [self.state()["start"], self.state()["end"]])
        self.assertEqual(self.js(FLAME)[""], self.peak["peak_bytes"])
        self.press(Keys.ESCAPE)
        height = over.size["height"]
        ActionChains(self.driver).move_to_element_with_offset(over, 0, height // 2 - 8).click_and_hold().move_by_offset(
            80, 0).release().perform()
        self.settle()
        self.assertIsNotNone(self.state()["window"])

    def test_a_click_shows_its_moment(self):
        self.view("v=sites")
        shape = self.js("const b = document.getElementById('over').getBoundingClientRect(); "
                        "return [b.left, b.top, b.width, b.height]")
        self.pointer(shape[0] + shape[2] * 0.4, shape[1] + shape[3] - 60, click=True)
        state = self.state()
        self.assertGreaterEqual(state["moment"], 0)
        total = self.js("return window.memprof.page.track.totalAt(window.memprof.store.state.moment)")
        self.assertEqual(self.amount()[0], total)
        self.press("m")
        birth = self.js("return window.memprof.page.track.blocks.birth[window.memprof.store.state.pinned]")
        self.assertEqual(self.state()["moment"], birth)

    def test_along_events_every_event_has_its_room(self):
        self.view("")
        count = self.js("return window.memprof.page.track.count")
        picture = "return document.getElementById('picture').toDataURL()"
        before = self.js(picture)
        self.press("e")
        self.assertEqual((self.state()["start"], self.state()["end"]), (0, count))
        self.assertNotEqual(self.js(picture), before)
        self.press("p")
        peak = self.js("return window.memprof.page.track.peak")
        state = self.state()
        self.assertTrue(state["start"] <= peak["event"] <= state["end"])
        self.assertLess(state["end"] - state["start"], count / 4)
        # The block under the pointer is live after that event.
        box = self.js("""const b = document.getElementById('over').getBoundingClientRect(), t = window.memprof.page.timeline;
            return [b.left + t.xAt(arguments[0] + 0.5), b.top + t.y(arguments[1] / 3)]""", peak["event"], peak["bytes"])
        self.pointer(*box, click=True)
        pinned, moment = self.state()["pinned"], self.state()["moment"]
        self.assertIn(pinned, self.js("return [...window.memprof.page.track.side.seek(arguments[0]).ids()]", moment))
        self.press("x")
        self.assertEqual(self.amount()[0], peak["bytes"])
        self.wait("return location.hash.includes('x=events') && location.hash.includes('w=')")
        link = self.js("return location.hash")
        self.view(link.lstrip("#"))
        for key in ("start", "end"):
            self.assertAlmostEqual(self.state()[key], state[key], delta=1)
        self.press("e")
        times = self.js("return [window.memprof.page.timeline.sight(), window.memprof.recording.to]")
        self.assertTrue(times[0][0] <= self.js("const t = window.memprof.page.track; return t.time[t.peak.event]")
                        <= times[0][1])
        self.press("f")
        self.assertEqual(self.state()["end"], times[1])

    def test_bands_of_regions_and_steps_say_what_they_are(self):
        self.view("")
        left, top = self.js("const b = document.getElementById('over').getBoundingClientRect(); return [b.left, b.top]")
        regions = self.js("""const { timeline: t, recording: r } = window.memprof.page;
            return r.notes.lanes[0].regions.filter((one) => t.x(one.end) - t.x(one.start) > 6)
                .map((one) => [one.name, t.x((one.start + one.end) / 2)])""")
        # which of them are wide enough depends on their durations
        self.assertLessEqual({name for name, _ in regions}, {"forward", "backward", "optimizer",
                                                             "Optimizer.zero_grad#Adam.zero_grad",
                                                             "Optimizer.step#Adam.step"})
        self.assertGreater(len(regions), 5)
        for name, x in regions[:4]:
            self.pointer(left + x, top + 30)
            self.assertIn("region " + name, self.text("#tip"))
        self.pointer(left + regions[0][1], top + 10)
        self.assertIn("step", self.text("#tip"))

    def test_number_keys_and_tabs(self):
        self.view("")
        for i, name in enumerate(["flame", "sites", "steps", "growth", None, "summary"], 1):
            self.press(str(i))
            chosen = self.js("return document.querySelector('[role=tab][aria-selected=true]').id")
            if name:  # this recording has no segments
                self.assertEqual(chosen, "tab-" + name)
                self.assertEqual(len(self.driver.find_elements(By.CSS_SELECTOR, ".view:not([hidden])")), 1)
        self.driver.find_element(By.ID, "tab-summary").send_keys(Keys.ARROW_LEFT)
        self.assertEqual(self.js("return document.activeElement.id"), "tab-growth")

    def test_search_counts_what_the_filter_picks(self):
        self.view("")
        self.press("/")
        self.assertEqual(self.js("return document.activeElement.id"), "search")
        self.press("attention.forward" + Keys.ENTER)
        report = answer(self.recording, "peak", "-n", "0", "--filter", "fn~Attention\\.forward")
        found = self.js("""const { found } = window.memprof.store.state, { track } = window.memprof.page;
            let bytes = 0;
            for (const id of track.side.seek(track.peak.event).ids()) if (found.mask[id]) bytes += track.bytesOf(id);
            return [bytes, found.blocks]""")
        self.assertEqual(found[0], report["picked_bytes"])
        self.assertIn("at the peak", self.text("#search-said"))
        first = self.state()["pinned"]
        mask = "return window.memprof.store.state.found.mask[window.memprof.store.state.pinned]"
        self.assertEqual(self.js(mask), 1)
        self.press(Keys.ENTER)
        second = self.state()["pinned"]
        self.assertGreater(second, first)
        self.assertEqual(self.js(mask), 1)
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
        self.assertEqual(self.state()["pinned"], first)
        self.js("document.activeElement.blur()")
        self.press("n")
        self.assertEqual(self.state()["pinned"], second)
        self.press("N")
        self.assertEqual(self.state()["pinned"], first)
        self.press("/")
        self.press(Keys.ESCAPE)
        self.assertEqual(self.state()["query"], "")
        self.view("q=%3E100KiB")
        sizes = answer(self.recording, "peak", "-n", "0", "--filter", "size>100KiB")
        self.assertEqual(self.js("""const { found } = window.memprof.store.state, { track } = window.memprof.page;
            return [...track.side.seek(track.peak.event).ids()].filter((id) => found.mask[id]).length"""),
            sum(site["blocks"] for site in sizes["sites"]))

    def test_search_dims_the_rest(self):
        self.view("")
        picture = "return document.getElementById('picture').toDataURL()"
        minimap = "return document.getElementById('minimap').toDataURL()"
        before = self.js(picture), self.js(minimap)
        self.view("q=attention")
        self.assertNotEqual(self.js(picture), before[0])
        self.assertNotEqual(self.js(minimap), before[1])

    def test_next_block_of_the_site(self):
        self.view("")
        self.press(Keys.ARROW_UP)
        first = self.state()["pinned"]
        site = "const { track } = window.memprof.page; return track.blocks.site[window.memprof.store.state.pinned]"
        before = self.js(site)
        self.press(".")
        self.assertNotEqual(self.state()["pinned"], first)
        self.assertEqual(self.js(site), before)
        self.press(",")
        self.assertEqual(self.state()["pinned"], first)
        address = "const { track } = window.memprof.page; return track.address(window.memprof.store.state.pinned)"
        here = self.js(address)
        self.press(">")
        later = self.state()["pinned"]
        if later != first:
            self.assertGreater(later, first)
            self.assertEqual(self.js(address), here)
            self.press("<")
        self.assertEqual(self.state()["pinned"], first)
        self.js("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (t) => { window.copied = t; } } })")
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys("c").key_up(Keys.CONTROL).perform()
        self.wait("return typeof window.copied === 'string'")
        self.assertIn(".py:", self.js("return window.copied"))

    def test_colours(self):
        self.view("")
        pictures = {self.js("return document.getElementById('picture').toDataURL()")}
        count = self.js("return document.getElementById('colour').options.length")
        for _ in range(count - 1):
            self.press("c")
            pictures.add(self.js("return document.getElementById('picture').toDataURL()"))
            self.assertTrue(self.text("#legend"))
        self.assertGreaterEqual(len(pictures), count - 1)  # with one thread, two colourings may look alike
        self.assertGreaterEqual(count, 6)

    def test_a_link_brings_everything_back(self):
        self.view("v=flame&c=life&m=blocks&f=all&q=forward")
        self.press("wwx")
        state = self.state()
        self.wait("return location.hash.includes('w=')")
        self.view(self.js("return location.hash").lstrip("#"))
        again = self.state()
        for key in ("view", "colour", "measure", "frames", "query", "of", "track"):
            self.assertEqual(again[key], state[key])
        for key in ("start", "end"):
            self.assertAlmostEqual(again[key], state[key], delta=1)

    def test_exports_add_up(self):
        self.view("v=sites")
        self.js(SAVED)
        for name in ("csv", "folded", "png"):
            self.js("document.getElementById('export-' + arguments[0]).click()", name)
        self.wait("return window.saved.length === 3")
        csv, folded = (self.driver.execute_async_script("window.saved[arguments[0]].text().then(arguments[1])", i)
                       for i in (0, 1))
        self.assertEqual(sum(int(line.split(",")[0]) for line in csv.splitlines()[1:]), self.peak["peak_bytes"])
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), self.peak["peak_bytes"])
        self.assertEqual(self.js("return window.saved[2].type"), "image/png")

    def test_tables_say_how_they_are_sorted(self):
        self.view("v=sites")
        sort = "return [...document.querySelectorAll('.view.sites th')].map((cell) => cell.getAttribute('aria-sort'))"
        self.assertEqual(self.js(sort)[0], "descending")
        self.driver.find_element(By.CSS_SELECTOR, '.view.sites [data-key="blocks"]').click()
        self.assertEqual(self.js(sort), ["none", "none", "descending", "none", "none", "none"])
        blocks = [row[2] for row in self.rows()]
        self.assertEqual(blocks, sorted(blocks, reverse=True))
        self.js("document.querySelector('.view.sites tbody .link').focus()")
        self.press(Keys.END)
        self.assertEqual(self.js("return Number(document.activeElement.closest('tr').dataset.index)"), len(blocks) - 1)
        self.press(Keys.HOME + Keys.ENTER)
        self.assertGreaterEqual(self.state()["site"], 0)

    def test_everything_that_can_be_pressed_has_a_name(self):
        for view in ("flame", "sites", "steps", "growth", "summary"):
            self.view("v=" + view)
            nameless = self.js("""
                return [...document.querySelectorAll('button, select, input, [role=img], canvas:not([aria-hidden])')]
                  .filter((one) => one.offsetParent && !(one.getAttribute('aria-label') || one.textContent.trim() ||
                    one.title || one.labels?.length)).map((one) => one.outerHTML)""")
            self.assertEqual([one for one in nameless if "picture" not in one], [])

    def test_keys_are_listed(self):
        self.view("")
        self.press("?")
        self.assertTrue(self.js("return document.getElementById('help').open"))
        for key in ("1 … 7", "/", "Shift + drag", ". ,", "Esc"):
            self.assertIn(key, self.text("#help"))
        self.press(Keys.ESCAPE)
        self.assertFalse(self.js("return document.getElementById('help').open"))


class TensorTest(ViewTest):
    """A recording with the log of operators."""

    @classmethod
    def make_page(cls):
        cls.recording, page = cls.folder / "used.mp", cls.folder / "used.html"
        subprocess.run(["tests/unit/cli/make_recording", cls.recording, "used"], check=True)
        subprocess.run([MEMPROF, "trace_plot", cls.recording, "-o", page], check=True)
        return page

    def test_types_and_operators_are_those_of_the_report(self):
        for group in ("dtype", "operator"):
            self.view(f"v=sites&g={group}&c={group}")
            told = {row["group"] or "(unknown)": (row["bytes"], row["blocks"])
                    for row in answer(self.recording, "peak", "--group", group)["sites"]}
            self.assertEqual(self.rows_by_group(), told)
            for name in told:
                self.assertIn(name, self.text("#legend"))

    def test_a_block_says_its_tensor_and_is_hatched_once_idle(self):
        self.view("v=sites")
        block = self.js("""const { page: { track }, recording: { words } } = window.memprof;
            return [...Array(track.blocks.count).keys()].find((id) => words[track.tensor(id)] === arguments[0])""",
                        "float32 [8, 128] of gelu in forward, saved for MmBackward0")
        self.view(f"b={block}")
        self.assertIn("float32 [8, 128] of gelu in forward, saved for MmBackward0", self.text("#block"))
        self.assertIn("then idle for", self.text("#block"))
        self.assertIn("hatched", self.text(".legend"))
        differing = """const { timeline: t } = window.memprof.page, draw = () => { t.paint(); return t.image.data.slice(); };
            const hatched = draw(), { idle } = t; t.idle = () => null;
            const plain = draw(); t.idle = idle;
            return hatched.filter((value, i) => value !== plain[i]).length"""
        self.assertGreater(self.js(differing), 1000)


@unittest.skipUnless(DATA, "MEMPROF_TEST_DATA names no recordings")
class PartTest(ViewTest):
    """Pages of a part of a recording, and of some of its blocks."""

    @classmethod
    def make_page(cls):
        cls.recording = pathlib.Path(DATA) / "niu_fb_200_mixed.pickle"
        page = cls.folder / "part.html"
        cls.part = ["--from", "20%", "--to", "60%"]
        subprocess.run([MEMPROF, "trace_plot", cls.recording, "-o", page, *cls.part], check=True)
        return page

    def test_a_part_has_the_peak_of_its_window(self):
        self.view("v=sites")
        report = answer(self.recording, "peak", "-n", "0", *self.part)
        self.assertEqual(self.amount(), [report["peak_bytes"], report["blocks"]])
        self.assertEqual(sorted((row[0], row[2]) for row in self.rows()),
                         sorted((site["bytes"], site["blocks"]) for site in report["sites"]))
        duration = answer(self.recording, "info")["process"]["duration_ns"]
        unit = self.js("return window.memprof.recording.timeUnit")
        state = self.state()
        self.assertAlmostEqual(state["start"] * unit, duration * 0.2, delta=unit)
        self.assertAlmostEqual(state["end"] * unit, duration * 0.6, delta=unit)
        self.press("sssf")
        self.assertEqual(self.state()["start"], state["start"])
        self.view("of=end")
        held = answer(self.recording, "leaks", "-n", "0", "--track", report["track"], *self.part)["outstanding"]
        self.assertEqual(self.amount(), [held["bytes"], held["blocks"]])

    def test_it_says_what_is_not_in_it(self):
        self.view("")
        left_out = self.js("return window.memprof.recording.header.tracks.reduce((sum, one) => sum + one.left_out, 0)")
        blocks = sum(track["allocs"] for track in answer(self.recording, "info")["tracks"])
        inside = self.js("return window.memprof.recording.header.tracks.reduce((sum, one) => sum + one.blocks, 0)")
        self.assertEqual(left_out + inside, blocks)
        for where in ("#cut", ".view.summary"):
            self.view("v=summary")
            self.assertIn(f"{left_out:,}".replace(",", "\u202f") + " blocks are not", self.text(where))
            self.assertIn("--from, --to", self.text(where))
            self.assertNotIn("none left out", self.text(where))
        self.assertTrue(self.driver.find_element(By.ID, "cut").is_displayed())

    def test_a_filter_leaves_blocks_out_and_says_so(self):
        page = self.folder / "large.html"
        subprocess.run([MEMPROF, "trace_plot", self.recording, "-o", page, "--filter", "size>1MiB"], check=True)
        self.view("v=sites", page=page)
        whole = answer(self.recording, "peak", "-n", "0", "--filter", "size>1MiB")
        header = self.js("return window.memprof.recording.header.tracks[window.memprof.store.state.track]")
        self.assertEqual(header["whole_peak_bytes"], whole["peak_bytes"])
        self.assertLess(header["peak_bytes"], whole["peak_bytes"])
        self.assertEqual(self.js("return window.memprof.page.track.peak.bytes"), header["peak_bytes"])
        moment = self.js("""const { track } = window.memprof.page, ns = arguments[0];
            return track.totalAt(track.stateAt(ns / track.timeUnit))""", whole["peak_ns"])
        self.assertEqual(moment, whole["picked_bytes"])
        self.assertIn("--filter size>1MiB picks", self.text("#cut"))
        self.assertIn("instead of", self.text("#cut"))


@unittest.skipUnless(DATA, "MEMPROF_TEST_DATA names no recordings")
class SnapshotTest(ViewTest):
    """PyTorch's own snapshots of GPU programs."""

    @classmethod
    def make_page(cls):
        cls.recording = pathlib.Path(DATA) / "niu_fb_200_mixed.pickle"
        page = cls.folder / "segments.html"
        subprocess.run([MEMPROF, "segment_plot", cls.recording, "-o", page], check=True)
        return page

    def test_segments_hold_what_is_allocated_and_reserved(self):
        self.view("")
        self.assertEqual(self.state()["view"], "segments")
        self.wait("return window.memprof.page.pane.view().map !== null")
        sums = self.js("""const { map } = window.memprof.page.pane.view();
            const sum = (of) => map.reduce((total, segment) => total + of(segment), 0);
            return [sum((one) => one.bytes), sum((one) => one.used), sum((one) => one.blocks.length)]""")
        peak = answer(self.recording, "peak")
        self.assertEqual(peak["track"], "cuda:0/torch")
        self.assertEqual(sums[1:], [peak["peak_bytes"], peak["blocks"]])
        driver = answer(self.recording, "peak", "--track", "cuda:0/driver", "--from", "0s",
                        "--to", f"{peak['peak_ns'] / 1e9:.9f}s")
        self.assertEqual(sums[0], driver["peak_bytes"])

    def test_categories_are_those_of_the_report(self):
        rules = self.folder / "rules"
        rules.write_text("by hand = .\n")
        for name, options in (("sidsoc_train", ()), ("magma27", ()), ("silmont_small", ("--rules", rules))):
            recording, page = pathlib.Path(DATA) / f"{name}.pickle", self.folder / f"{name}.html"
            subprocess.run([MEMPROF, "trace_plot", recording, "-o", page, *options], check=True)
            self.view("v=sites&g=category&c=category", page=page)
            expected = answer(recording, "peak", "-n", "0", "--group", "category", *options)["sites"]
            self.assertEqual(self.rows_by_group(), {site["group"] or "(no category)": (site["bytes"], site["blocks"])
                                                    for site in expected})
            for site in expected:
                self.assertIn(site["group"] or "(no category)", self.text("#legend"))
            first = next(site["group"] for site in expected if site["group"])
            self.assertIn(first, self.text(".made-of"))
            self.view(f'v=sites&q="{first}"'.replace(" ", "%20"), page=page)
            size, blocks = next((site["bytes"], site["blocks"]) for site in expected if site["group"] == first)
            found = self.js("const { page, store } = window.memprof, { track } = page;"
                            "return track.side.seek(track.peak.event).ids().filter((id) => store.state.found.mask[id]).length")
            self.assertGreaterEqual(found, blocks)

    def test_segments_over_time_hold_what_is_live(self):
        self.view("v=segments&sg=time&x=events")
        self.wait("return document.querySelector('.view.segments canvas[aria-label*=\"over time\"]') !== null")
        # compare each column's pixels with the live bytes in its middle: the largest blocks are many pixels high
        found = self.js("""
            const view = window.memprof.page.pane.view(), { track } = window.memprof.page, { time } = view;
            const { start, end } = window.memprof.store.state, out = [];
            for (let x = 20; x < time.columns; x += 41) {
              const event = Math.floor(start + (x + 0.5) / time.columns * (end - start));
              const seen = new Map();
              for (let y = 0; y < time.rows; y++) {
                const id = time.pick[y * time.columns + x];
                if (id >= 0) seen.set(id, (seen.get(id) ?? 0) + 1);
              }
              const pixel = time.ranges.total / time.rows;
              const large = [...track.side.seek(event).ids()].filter((id) => track.bytesOf(id) > 6 * pixel &&
                track.blocks.birth[id] < event - 10 && (track.blocks.death[id] < 0 || track.blocks.death[id] > event + 10));
              out.push(large.map((id) => [track.bytesOf(id) / pixel, seen.get(id) ?? 0]));
            }
            return out""")
        checked = [pair for column in found for pair in column]
        self.assertGreater(len(checked), 50)
        for expected, rows in checked:
            self.assertAlmostEqual(rows, expected, delta=0.25 * expected + 2)
        self.assertEqual(self.js("return window.memprof.page.pane.view().time.drawn"),
                         self.js("return window.memprof.page.track.info.blocks"))

    def test_blocks_are_grouped_by_their_streams(self):
        """A snapshot whose entries the test distributes over streams."""
        with open(pathlib.Path(DATA) / "silmont_small.pickle", "rb") as file:
            snapshot = pickle.load(file)
        streams = collections.Counter()
        for entry in snapshot["device_traces"][0]:
            entry["stream"] = entry["addr"] // 512 % 3 * 4096
            streams[entry["stream"]] += entry["action"] == "alloc"
        spread = self.folder / "streams.pickle"
        spread.write_bytes(pickle.dumps(snapshot))
        page = self.folder / "streams.html"
        subprocess.run([MEMPROF, "trace_plot", spread, "-o", page], check=True)
        self.view("v=sites&g=stream&of=born", page=page)
        self.press("x")
        self.js("window.memprof.store.set({ of: 'born' })")
        self.settle()
        found = {row[-1]: row[2] for row in self.rows()}
        self.assertEqual(found, {f"stream {stream:#x}" if stream else "default stream": count
                                 for stream, count in streams.items()})
        self.assertGreater(len(found), 1)
        self.press(Keys.ARROW_UP)
        self.assertRegex(self.text("#block"), "stream(default|0x)")

    def test_other_tracks_in_strips(self):
        self.view("v=sites")
        self.assertFalse(self.driver.find_element(By.ID, "strips").is_displayed())
        self.press("t")
        self.wait("return document.querySelectorAll('.strip').length === 1")
        name = self.text(".strip-name")
        self.assertIn("cuda:0/driver", name)
        self.assertIn("1.12 GiB", name)
        self.driver.find_element(By.CSS_SELECTOR, ".strip").click()
        self.wait("return window.memprof.page.track.info.id === 'cuda:0/driver'")
        self.wait("return document.querySelector('.strip-name').textContent.includes('cuda:0/torch')")
        self.wait("return location.hash.includes('all')")
        self.press("t")
        self.assertFalse(self.driver.find_element(By.ID, "strips").is_displayed())

    def test_steps_that_nobody_marked_are_those_of_the_report(self):
        """Steps that are inferred, or from PyTorch's own profiler."""
        for name in ("niu_fb_200_mixed.pickle", "sidnb13_transformer.pt.trace.json", "bolong_cl128.pickle"):
            recording, page = pathlib.Path(DATA) / name, self.folder / "steps.html"
            subprocess.run([MEMPROF, "trace_plot", recording, "-o", page], check=True)
            report = answer(recording, "steps")
            self.view("v=steps", page=page)
            self.assertEqual(self.js("return window.memprof.recording.header.step_source"), report["source"])
            shown = self.js("return window.memprof.page.track.info.id")
            if report["source"] != "none" and shown == report["track"]:
                self.assertEqual([row[3:6] for row in self.rows()],
                                 [[step["peak_bytes"], step["allocated_bytes"], step["freed_bytes"]]
                                  for step in report["steps"]])

    def test_steps_of_a_bounded_recording_are_the_programs(self):
        recording, page = SOURCE / "tests/recordings/formats/2-folded.mp", self.folder / "folded.html"
        subprocess.run([MEMPROF, "trace_plot", recording, "-o", page], check=True)
        numbers = [step["step"] for step in answer(recording, "steps")["steps"]]
        self.assertEqual(numbers, [37, 38, 39, 40])
        self.view("v=steps", page=page)
        self.assertEqual(self.js("return window.memprof.recording.notes.steps.map((step) => step.index)"), numbers)
        self.assertEqual([row[0] for row in self.rows()], numbers)

    def test_each_track_has_its_peak(self):
        self.view("v=sites")
        for i, track in enumerate(answer(self.recording, "info")["tracks"]):
            self.js("const s = document.getElementById('tracks'); s.value = arguments[0]; "
                    "s.dispatchEvent(new Event('change'))", str(i))
            self.wait("return window.memprof.page.pane.track?.info.id === arguments[0]", track["id"])
            self.settle()
            self.assertEqual(self.amount()[0], track["peak_bytes"])


if __name__ == "__main__":
    asserted.main()
