#!/usr/bin/python3
"""The page of memprof flamegraph, in a Chromium. Its tree is compared with folded stacks. Also tests search, zoom, keys
and hostile names."""

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


class Flame(BrowserTest):
    @classmethod
    def draw(cls, *kinds):
        for kind in kinds:
            subprocess.run([BUILD / "tests/unit/cli/make_recording", cls.folder / f"{kind}.mp", kind], check=True)
        page = cls.folder / f"{'-'.join(kinds)}.html"
        subprocess.run([BUILD / "memprof", "flamegraph", *(cls.folder / f"{kind}.mp" for kind in kinds), "-o", page],
                       check=True, stdin=subprocess.DEVNULL)
        return page

    @classmethod
    def make_page(cls):
        return cls.draw("train")

    def said(self):
        return self.text("#at")

    def test_tree(self):
        self.open()
        peak = json.loads(subprocess.run([BUILD / "memprof", "peak", self.folder / "train.mp", "--json"],
                                         capture_output=True, check=True).stdout)
        self.assertEqual(self.js("return [root.after, root.blocks]"), [peak["peak_bytes"], peak["blocks"]])
        # first only Python frames, then all frames: the first stack has native frames between
        inside = "return boxes.map(box => label(box.node))"
        self.assertNotIn("c10::alloc_cpu(unsigned long)", self.js(inside))
        self.assertIn("train_step (train.py:42)", self.js(inside))
        self.press("n")
        self.assertIn("c10::alloc_cpu(unsigned long)", self.js(inside))
        self.assertEqual(self.js("return root.after"), peak["peak_bytes"])
        # every node is as wide as its bytes, and contains its children
        self.assertTrue(self.js("return boxes.every(box => box.w <= canvas.clientWidth + 1 && Math.abs(box.w -"
                                 " box.node.after / root.after * canvas.clientWidth) < 0.01)"))

    def test_search_and_zoom(self):
        self.open()
        self.press("/forward")
        self.assertIn("27.0 MiB", self.said())
        self.press(Keys.ESCAPE)
        self.assertIn("all48.5 MiB", self.said())
        self.js("canvas.focus()")
        self.press(Keys.ARROW_DOWN * 3)
        self.assertIn("train_step (train.py:42)", self.said())
        self.press(Keys.ARROW_RIGHT)
        self.assertIn("__init__ (model.py:12)", self.said())
        self.press(Keys.ARROW_UP)
        self.assertIn("main (train.py:60)", self.said())
        self.press(Keys.ESCAPE)
        self.pointer(*self.js("const box = boxes.find(box => label(box.node).startsWith('remember'));"
                              "const area = canvas.getBoundingClientRect();"
                              "return [area.x + box.x + box.w / 2, area.y + box.y + 5]"), click=True)
        self.assertIn("remember (train.py:27)3.00 MiB", self.said())

    def test_empty(self):
        page = self.folder / "empty.html"
        subprocess.run([BUILD / "memprof", "flamegraph", self.folder / "train.mp", "-o", page, "--filter", "fn~nosuch"],
                       check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.open(page)
        self.assertIn("No block is in it", self.said())

    def test_difference(self):
        self.open(self.draw("train", "leaking"))
        self.assertIn("→", self.said())
        self.js("document.querySelector('details').open = true")
        rows = self.js("return [...document.querySelectorAll('tbody tr')].map(row => row.textContent)")
        self.assertTrue(rows[0].endswith("remember (train.py:27)"), rows)

    def test_hostile_names(self):
        self.open(self.draw("hostile"))
        self.press("n")
        self.assertEqual(self.js("return document.querySelectorAll('script').length"), 2)
        self.assertGreater(self.js("return boxes.length"), 3)

    def test_page_in_a_notebook(self):
        """libmemprof.show() puts the page into a notebook, in a frame that may only run scripts."""
        self.draw("train")
        code = "import libmemprof, sys; print(libmemprof.show(sys.argv[1])._repr_html_())"
        shown = subprocess.run([sys.executable, "-c", code, self.folder / "train.mp"], check=True, cwd=self.folder,
                               capture_output=True, text=True, env={
                                   **os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}",
                                   "PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[2] / "python")}).stdout
        cell = self.folder / "cell.html"
        cell.write_text("<!DOCTYPE html><html data-ready=true><body>" + shown)
        self.open(cell)
        self.driver.switch_to.frame(0)
        self.wait("return document.documentElement.dataset.ready === 'true'")
        self.assertIn("48.5 MiB", self.text("body"))
        self.driver.switch_to.default_content()


if __name__ == "__main__":
    asserted.main()
