#!/usr/bin/python3
"""The page in a real Chromium, opened from disk and without a network, compared with its recording."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

from browser import CHROMIUM, FLAGS, ActionChains, BrowserTest, By, Keys

MAKE_PAGE = os.path.abspath("tests/viz/make_page")
GEOMETRY = """
const { page } = window.memprof, t = page.timeline, box = document.getElementById('over').getBoundingClientRect();
return { left: box.left + t.x(page.store.state.start), top: box.top + t.top, width: t.width, height: t.height,
         columns: t.columns, rows: t.rows, low: t.low, high: t.high, start: page.store.state.start,
         end: page.store.state.end, unit: page.recording.timeUnit };"""

# The number of pixels in a box in which two pictures (PNG as base64) differ.
DIFFERING = """
const [pictures, { x, y, width, height }, done] = arguments;
Promise.all(pictures.map((base64) => new Promise((loaded) => {
  const image = new Image();
  image.onload = () => {
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    loaded(new Uint32Array(context.getImageData(x, y, width, height).data.buffer));
  };
  image.src = 'data:image/png;base64,' + base64;
}))).then(([one, other]) => done([one.length, one.filter((pixel, i) => pixel !== other[i]).length]));"""


def make_page(folder, what):
    page, truth = folder / f"{what}.html", folder / f"{what}.json"
    subprocess.run([MAKE_PAGE, what, page, truth], check=True, stdout=subprocess.DEVNULL)
    return page, json.loads(truth.read_text())


def total(blocks):
    return sum(block["bytes"] for block in blocks)


class Truth:
    """Live bytes over time, computed only from the list of blocks."""

    def __init__(self, blocks):
        self.blocks = sorted(blocks, key=lambda block: -1 if block["birth_ns"] is None else block["birth_ns"])
        self.times = sorted({block[key] for block in blocks for key in ("birth_ns", "death_ns")
                             if block[key] is not None})

    def live(self, ns):
        return [block for block in self.blocks if (block["birth_ns"] is None or block["birth_ns"] <= ns) and
                (block["death_ns"] is None or block["death_ns"] > ns)]

    def fullest(self, start, end):
        """The live blocks at the moment of [start, end) with most bytes."""
        moments = [self.live(start)] + [self.live(ns) for ns in self.times if start < ns < end]
        return max(moments, key=total)


class PageTest(BrowserTest):
    @classmethod
    def make_page(cls):
        page, cls.truth = make_page(cls.folder, "small")
        return page

    def truth_of_track(self, index):
        return Truth([block for block in self.truth["blocks"] if block["track"] == index])

    def places(self, count, least_rows=5):
        """(x, y, block) of pixels in the middle of blocks that are high enough, in some of `count` columns."""
        shape = self.js(GEOMETRY)
        truth = self.truth_of_track(0)
        scale = shape["rows"] / (shape["high"] - shape["low"])
        ratio = shape["columns"] / shape["width"]
        found = []
        for i in range(count):
            column = int(shape["columns"] * (i + 0.5) / count)
            # Viewport coordinates are whole numbers, so take the column that contains the pixel.
            x = int(shape["left"] + column / ratio) + 0.5
            column = int((x - shape["left"]) * ratio)
            span = (shape["end"] - shape["start"]) / shape["columns"]
            start = (shape["start"] + column * span) * shape["unit"]
            live = truth.fullest(start, start + span * shape["unit"])
            below, places = 0, []
            for block in live:
                middle = (below + block["bytes"] / 2 - shape["low"]) * scale
                below += block["bytes"]
                if block["bytes"] * scale >= least_rows:
                    places.append((x - 0.5, shape["top"] + (shape["rows"] - middle) / ratio, block))
            if places:
                found.append(places[(i * 7) % len(places)])
        self.assertGreaterEqual(len(found), count / 2)
        return found

    def test_says_what_it_is(self):
        self.open()
        title = self.driver.title
        command = "python3 train.py --tag=</title> <img src =x onerror=document.title='broken'>"
        self.assertIn(f"made.mp: {command}, cuda:0/torch, peak ", title)
        self.assertTrue(self.js("return document.getElementById('error').hidden"))
        peak = self.truth["peaks"][0]
        self.assertEqual(self.js("return window.memprof.page.track.peak.bytes"), peak)
        self.assertIn(f"{peak / 2**20:.1f} MiB", self.text("#tiles"))
        self.assertIn("not complete", self.text("#tiles"))
        self.assertIn("12 events were dropped", self.text("#notes"))
        self.assertIn("stacks cut at the depth limit: 2", self.text("#notes"))
        self.assertIn("exit 0", self.text("#tiles"))

    def test_names_cannot_break_out(self):
        """Markup in names of functions, files, regions, marks and the command stays text in every view."""
        self.open()
        views = ("flame", "sites", "steps", "growth", "segments", "summary", "advice")
        looks = [f"v={view}&g={group}&c={colour}&f=all" for view in views for group, colour in
                 (("stack", "site"), ("function", "region"), ("file", "step"), ("region", "thread"))]
        elements = "return document.querySelectorAll('img, svg[onload], script:not([id]), iframe, b').length"
        expected = self.js(elements)
        for look in looks + ["v=segments&sg=time&x=events&all", "of=end&all&g=stack:3",
                             "q=%3Cimg%20src=x%20onerror=document.title='broken'%3E"]:
            self.open(fragment="#" + look)
            self.press(Keys.ARROW_UP)
            for x, y, _ in self.places(4, 3):
                self.pointer(x, y)
            self.assertEqual(self.js(elements), expected, look)
            self.assertNotEqual(self.driver.title, "broken")
        self.open(fragment="#g=region")
        self.assertIn("<svg onload=document.title='broken'>", self.text(".view.sites"))
        self.open(fragment="#v=summary")
        self.assertIn("<img src =x onerror=document.title='broken'>", self.text(".view.summary"))
        self.open()
        self.assertIn("</script><script>document.title='broken'</script><!--", self.text(".view.sites"))
        self.assertIn("<b>&amp;.py:100", self.text(".view.sites"))

    def test_draws_every_site(self):
        self.open()
        colours = self.js("""
            const c = document.getElementById('picture'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height);
            const words = new Map();
            for (const word of new Uint32Array(d.data.buffer)) words.set(word, (words.get(word) ?? 0) + 1);
            return [...words.values()].sort((a, b) => b - a).slice(0, 40)""")
        self.assertGreater(len(colours), 8)
        self.assertGreater(colours[4], 1000)
        blocks = sum(block["track"] == 0 for block in self.truth["blocks"])
        self.assertIn(f"{blocks} of {blocks} blocks in view", self.text(".legend"))

    def test_hover_names_the_block_that_lies_there(self):
        self.open()
        for x, y, block in self.places(16):
            self.pointer(x, y)
            panel = self.text("#block")
            self.assertIn(block["address"], panel)
            self.assertIn(f"{block['bytes']:,}".replace(",", "\u202f") + " B", panel)
            names = self.js("return [...document.querySelectorAll('#block .function')].map((n) => n.textContent)")
            self.assertEqual(len(names), len(block["stack"]))
            for name, expected in zip(names, block["stack"]):
                self.assertEqual(name, expected or "0x2000")
            if block["birth_ns"] is None:
                self.assertIn("before the recording began", panel)
            else:
                self.assertIn(f"{block['birth_ns'] / 1e9:.9f} s", panel)
            if block["death_ns"] is None:
                self.assertIn("live at the end", panel)
            else:
                self.assertIn(f"{block['death_ns'] / 1e9:.9f} s", panel)
            tip = self.text("#tip")
            self.assertIn(next(name for name in block["stack"] if name and ("made_" in name or "<" in name)), tip)

    def test_modules_are_those_of_the_recording(self):
        """The panel, the search, groups, colours and the flame graph show the recorded modules."""
        truth = self.truth_of_track(0)
        path = lambda block: block["module"].removeprefix("Net.")
        self.open()
        found = self.js("const { recording, page } = window.memprof; return [...page.track.blocks.site.keys()].map("
                        "(id) => recording.modules[page.track.module(id)])")
        self.assertEqual(found, [path(block) for block in truth.blocks])
        self.assertGreater(len(set(found)), 10)
        for x, y, block in self.places(8):
            self.pointer(x, y)
            self.assertIn(path(block), self.text("#block dl"))
            self.assertIn(path(block), self.text("#tip"))
            dividers = self.js("return document.querySelectorAll('#block .divider').length")
            self.assertEqual(dividers, block["stack"].count("backward of"))
        live = max((truth.live(ns) for ns in truth.times), key=total)
        for word, fits in (("blocks.3.attn", lambda one: one.startswith("blocks.3.attn")),
                           ("blocks.*.mlp", lambda one: one.endswith("mlp"))):
            self.open(fragment="#q=" + word)
            expected = [block for block in truth.blocks if fits(path(block))]
            self.assertGreater(len(expected), 3)
            self.assertIn(f"{len(expected)} blocks", self.text("#search-said"))
        self.open(fragment="#g=module&c=modules")
        rows = self.js("return window.memprof.page.pane.views.get('sites').table.rows.map((row) => [row.key, row.bytes])")
        expected = {}
        for block in live:
            expected[path(block) or "(no module)"] = expected.get(path(block) or "(no module)", 0) + block["bytes"]
        self.assertEqual(dict(rows), expected)
        for name in ("blocks.*.attn", "blocks.*.mlp", "</script><b>.\ufffd", "(no module)"):
            self.assertIn(name, self.text("#legend"))
            self.assertIn(name, self.text("#block"))
        self.open(fragment="#v=flame&u=module&f=line")
        boxes = self.js("return [...document.querySelectorAll('.call.group')].map((one) => [one.dataset.path, one.title])")
        titles = {path.replace("group\n", "").replace("\n\n", "/"): title for path, title in boxes}
        attention = total(block for block in live if path(block) == "blocks.3.attn")
        self.assertIn(f"{attention / 2**20:.3g}", titles["blocks/blocks.3/attn"])
        self.assertTrue(self.js("return document.querySelectorAll('.call.backward').length"))

    def test_click_pins_and_escape_lets_go(self):
        self.open()
        (x, y, first), (other_x, other_y, second) = self.places(8)[:2]
        self.pointer(x, y, click=True)
        self.pointer(other_x, other_y)
        self.assertIn(first["address"], self.text("#block"))
        self.assertIn("pinned", self.text("#block"))
        self.wait("return location.hash.includes('b=')")
        self.press(Keys.ESCAPE)
        self.pointer(other_x + 1, other_y)
        self.assertIn(second["address"], self.text("#block"))
        self.assertEqual(self.state()["pinned"], -1)

    def test_zoom_keeps_what_is_under_the_pointer(self):
        self.open()
        x, y, block = self.places(9)[3]
        before = self.js(GEOMETRY)
        over = self.driver.find_element(By.ID, "over")
        self.pointer(x, y)
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {
            "type": "mouseWheel", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": -600})
        self.wait("return window.memprof.store.state.end - window.memprof.store.state.start < arguments[0]",
                  (before["end"] - before["start"]) * 0.9)
        self.settle()
        after = self.js(GEOMETRY)
        share = (int(x) - before["left"]) / before["width"]
        under = [shape["start"] + share * (shape["end"] - shape["start"]) for shape in (before, after)]
        self.assertAlmostEqual(under[0] / before["end"], under[1] / before["end"], places=6)
        self.pointer(x + 1, y)
        self.pointer(x, y)
        self.assertIn(block["address"], self.text("#block"))
        for x, y, block in self.places(6):
            self.pointer(x, y)
            self.assertIn(block["address"], self.text("#block"))
        over.click()
        self.press("f")
        self.assertEqual((self.state()["start"], self.state()["end"]), (before["start"], before["end"]))

    def test_keys_and_drag_move_the_window(self):
        self.open()
        self.press("www")
        zoomed = self.state()
        self.assertLess(zoomed["end"] - zoomed["start"], self.js("return (window.memprof.recording.to - window.memprof.recording.from)") / 2)
        self.press("d")
        moved = self.state()
        self.assertGreater(moved["start"], zoomed["start"])
        self.assertAlmostEqual(moved["end"] - moved["start"], zoomed["end"] - zoomed["start"], delta=1)
        over = self.driver.find_element(By.ID, "over")
        ActionChains(self.driver).move_to_element(over).click_and_hold().move_by_offset(120, 0).release().perform()
        self.settle()
        self.assertLess(self.state()["start"], moved["start"])
        self.assertEqual(self.state()["pinned"], -1)
        self.press("p")
        state = self.state()
        peak = self.js("const t = window.memprof.page.track; return t.time[t.peak.event]")
        self.assertTrue(state["start"] <= peak <= state["end"])
        shape = self.js(GEOMETRY)
        self.press("W")
        self.assertLess(self.state()["high"], shape["high"])
        near = self.state()
        self.press("D")
        self.assertGreater(self.state()["low"], near["low"])
        self.assertAlmostEqual(self.state()["high"] - self.state()["low"], near["high"] - near["low"], delta=2)
        self.press("A")
        self.assertAlmostEqual(self.state()["low"], near["low"], delta=2)
        self.press("S")
        self.assertGreater(self.state()["high"] - self.state()["low"], near["high"] - near["low"])
        place = self.state()
        self.press("a")
        self.assertLess(self.state()["start"], place["start"])
        self.press(Keys.ARROW_RIGHT)
        self.assertAlmostEqual(self.state()["start"], place["start"], delta=2)
        self.press("s")
        self.assertLess(self.state()["start"], place["start"])
        self.press("f")
        self.assertIsNone(self.state()["high"])

    def test_minimap_moves_the_window(self):
        self.open()
        minimap = self.driver.find_element(By.ID, "minimap")
        ActionChains(self.driver).move_to_element_with_offset(minimap, -200, 0).click_and_hold().move_by_offset(
            100, 0).release().perform()
        self.settle()
        state, shape = self.state(), self.js(GEOMETRY)
        share = (state["end"] - state["start"]) / self.js("return (window.memprof.recording.to - window.memprof.recording.from)")
        self.assertAlmostEqual(share, 100 / shape["width"], delta=0.02)

    def test_site_of_the_peak_is_told_and_shown_alone(self):
        self.open()
        truth = self.truth_of_track(0)
        live = truth.fullest(0, self.truth["duration_ns"])
        self.assertEqual(total(live), self.truth["peaks"][0])
        by_name = {}
        for block in live:
            name = next(name for name in block["stack"] if name and ("made_" in name or "<" in name))
            by_name[name] = by_name.get(name, 0) + block["bytes"]
        rows = self.js("""return [...document.querySelectorAll('.view.sites tbody tr:not(.space)')].map((row) =>
            [row.querySelector('.link').textContent, row.cells[0].textContent, row.cells[2].textContent])""")
        self.assertEqual(sorted(row[0] for row in rows), sorted(by_name))
        name, size, _ = rows[0]
        self.assertEqual(by_name[name], max(by_name.values()))
        self.assertEqual(size, f"{by_name[name] / 2**20:.{1 if by_name[name] >= 9.995 * 2**20 else 2}f} MiB")
        picture = "return document.getElementById('picture').toDataURL()"
        before = self.js(picture)
        self.driver.find_element(By.CSS_SELECTOR, ".view.sites tbody .link").click()
        self.settle()
        self.assertGreaterEqual(self.state()["site"], 0)
        self.assertNotEqual(self.js(picture), before)
        self.press(Keys.ESCAPE)
        self.assertEqual(self.js(picture), before)

    def test_address_brings_back_window_and_block(self):
        self.open()
        x, y, block = self.places(9)[3]
        self.press("ww")
        x, y, block = self.places(9)[3]
        self.pointer(x, y, click=True)
        state = self.state()
        self.wait("return location.hash.includes('b=') && location.hash.includes('t=')")
        self.open(fragment=self.js("return location.hash"))
        again = self.state()
        self.assertEqual(again["pinned"], state["pinned"])
        self.assertAlmostEqual(again["start"], state["start"], delta=2)
        self.assertIn(block["address"], self.text("#block"))

    def test_levels_are_where_their_bytes_are(self):
        """Reserved bytes, the device's sampled total and its capacity each have a line at the height of their bytes."""
        self.open()
        self.settle()
        lines = self.js("""const t = window.memprof.page.timeline, n = t.levels.lines.length;
            const out = t.levels.lines.map(({ name, most, bytes }) => [name, most, bytes.length]);
            return out""")
        self.assertEqual([name for name, _, _ in lines], ["reserved", "device, in use", "capacity 96.0 MiB"])
        self.assertEqual([most for _, most, _ in lines], [80 << 20, 91 << 20, 96 << 20])
        self.assertEqual(lines[1][2], 8)
        # with nothing else on the canvas, only the lines' rows have colour
        rows = self.js("""
            const { timeline: t } = window.memprof.page, c = document.getElementById('over'), k = c.getContext('2d');
            const ratio = c.height / t.box.clientHeight, x = Math.round((74 + t.width * 0.56) * ratio);
            const d = k.getImageData(x, 0, 8, c.height).data, out = [];
            for (let y = 0; y < c.height; y++) {
              let most = 0;
              for (let i = 0; i < 8; i++) most = Math.max(most, d[(y * 8 + i) * 4 + 3]);
              if (most > 100) out.push(y / ratio);
            }
            const device = t.levels.lines[1], time = t.timeAt(x / ratio);
            const sampled = device.bytes[device.time.findLastIndex((one) => one <= time)];
            const wanted = [80 * 2 ** 20, sampled, 96 * 2 ** 20].map((bytes) => t.y(bytes));
            return [out, wanted]""")
        for wanted in rows[1]:
            self.assertTrue(any(abs(y - wanted) < 2.5 for y in rows[0]), (wanted, rows[0]))

    def test_a_broken_link_still_opens_the_page(self):
        """A link with numbers that the recording does not have, and unknown words."""
        self.open()
        whole = self.state()["start"], self.state()["end"]
        for fragment in ("t=999999999999999-9999999999999999", "x=events&e=99999999-999999999", "w=5-1&at=7e9", "x=events&e=0-0",
                         "b=123456789&s=99999&at=99999999", "y=5-3&v=nothing&c=__proto__&g=constructor", "%%%=%&t=&e=-1",
                         "v=segments&sg=time", "track=cuda:9/none&of=moment", "of=window", "q=%3E&c=size&all&i&f=x&m=y"):
            self.open(fragment="#" + fragment)
            state = self.state()
            self.assertGreater(state["end"], state["start"])
            if "e=" not in fragment:
                self.assertEqual((state["start"], state["end"]), whole, fragment)
            self.assertTrue(self.js("return document.getElementById('error').hidden"))

    def test_other_track(self):
        self.open()
        self.js("const s = document.getElementById('tracks'); s.value = '1'; s.dispatchEvent(new Event('change'))")
        self.wait("return window.memprof.store.state.track === 1")
        self.settle()
        self.assertEqual(self.js("return window.memprof.page.track.peak.bytes"), self.truth["peaks"][1])

    def test_copies_the_stack(self):
        self.open()
        x, y, block = self.places(9)[3]
        self.pointer(x, y, click=True)
        self.js("""window.copied = null;
            Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (t) => { window.copied = t; } } });
            document.getElementById('copy-stack').click()""")
        self.wait("return window.copied !== null")
        lines = self.js("return window.copied").split("\n")
        self.assertEqual([line.split("  (")[0] for line in lines], [name or "0x2000" for name in block["stack"]])
        self.wait("return document.getElementById('copy-stack').textContent === 'Copied'")

    def test_a_long_fact_leaves_room_for_the_others(self):
        self.open()
        x, y, _ = self.places(9)[3]
        self.pointer(x, y, click=True)
        shown, whole, panel = self.js("""
            const fact = document.querySelector('#block dd');
            fact.textContent = 'kept until the next token; '.repeat(500);
            return [fact.getBoundingClientRect().height, fact.scrollHeight,
                    document.getElementById('block').getBoundingClientRect().height];""")
        self.assertGreater(whole, panel)
        self.assertLess(shown, panel / 3)

    def test_arrows_walk_from_block_to_block(self):
        self.open()
        x, y, block = self.places(9)[3]
        self.pointer(x, y, click=True)
        self.press(Keys.ARROW_UP)
        self.assertNotIn(block["address"], self.text("#block"))
        self.press(Keys.ARROW_DOWN)
        self.assertIn(block["address"], self.text("#block"))

    def test_light_and_dark(self):
        self.open()
        shown = self.js("return document.documentElement.dataset.theme")
        self.driver.find_element(By.ID, "theme").click()
        self.settle()
        self.assertNotEqual(self.js("return document.documentElement.dataset.theme"), shown)
        self.driver.find_element(By.ID, "theme").click()

    def test_says_what_the_picture_shows(self):
        self.open()
        words = self.js("return document.getElementById('over').getAttribute('aria-label')")
        self.assertIn("cuda:0/torch", words)
        self.assertIn(f"Peak {self.truth['peaks'][0] / 2**20:.1f} MiB", words)

    def test_a_picture_is_what_a_screen_shows(self):
        """Screenshots are taken without a window and without waiting, in the browser's virtual time."""
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        for width, height in ((1280, 720), (1000, 800)):
            for fragment in ("", "#v=steps"):
                picture = self.folder / "picture.png"
                flags = [flag for flag in FLAGS if not flag.startswith("--window-size")]
                subprocess.run([CHROMIUM, *flags, f"--user-data-dir={self.folder / 'taken'}", "--hide-scrollbars",
                                f"--window-size={width},{height}", "--virtual-time-budget=5000", f"--screenshot={picture}",
                                self.page.as_uri() + fragment], check=True, capture_output=True, timeout=120)
                self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                    "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
                self.open(fragment=fragment)
                self.settle()
                # without the round corners, whose pixels are blended differently
                box = self.js("const { x, y, width, height } = document.getElementById('plot').getBoundingClientRect();"
                              "return { x: x + 6, y: Math.ceil(y) + 6, width: width - 12, height: Math.floor(height) - 14 }")
                shown = self.driver.get_screenshot_as_base64()
                self.driver.get("about:blank")
                pixels, differing = self.driver.execute_async_script(
                    DIFFERING, [shown, base64.b64encode(picture.read_bytes()).decode()], box)
                self.assertGreater(pixels, 50000)
                self.assertEqual(differing, 0, f"{width} x {height} {fragment}")

    def test_large_recording_has_every_block(self):
        page, truth = make_page(self.folder, "300000")
        self.open(page)
        self.assertEqual(self.js("return window.memprof.page.track.peak.bytes"), truth["peaks"][0])
        blocks = self.js("return window.memprof.page.track.info.blocks")
        self.assertEqual(self.js("return window.memprof.page.timeline.inView"), blocks)
        self.assertGreater(blocks, 100000)

    def test_a_worker_unpacks_what_is_very_large(self):
        page, truth = make_page(self.folder, "2200000")
        peaks = []
        for worker in (True, False):
            script = None if worker else self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {
                "source": "window.Worker = class { constructor() { throw new Error('none here'); } }"})["identifier"]
            self.open(page)
            if script:
                self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})
            self.assertEqual(self.js("return window.memprof.recording.archive.inWorker"), worker)
            peaks.append(self.js("return window.memprof.page.track.peak"))
            self.assertEqual(peaks[-1]["bytes"], truth["peaks"][0])
        self.assertEqual(peaks[0], peaks[1])

    def test_asks_for_nothing_but_itself(self):
        self.driver.get_log("performance")
        self.open()
        self.press("w")
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        self.assertEqual({url.split("#")[0] for url in asked} - {"about:blank"}, {self.page.as_uri()})

    def test_says_that_memory_is_short(self):
        short = "window.Int32Array = class { constructor() { throw new RangeError('Array buffer allocation failed'); } }"
        script = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": short})["identifier"]
        try:
            self.quiet = False
            self.open(ready="error")
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})
        self.assertIn("too large for this browser's memory", self.text("#error"))

    def test_says_that_data_is_missing(self):
        whole = self.page.read_text(errors="surrogateescape")
        start = whole.index('<script type="text/plain" id="d0">') + len('<script type="text/plain" id="d0">')
        cut = self.folder / "cut.html"
        cut.write_text(whole[:start] + whole[start + 400:], errors="surrogateescape")
        self.quiet = False
        self.open(cut, ready="error")
        self.assertIn("cannot show its recording", self.text("#error"))
        self.assertTrue(self.driver.find_element(By.ID, "error").is_displayed())


if __name__ == "__main__":
    asserted.main()
