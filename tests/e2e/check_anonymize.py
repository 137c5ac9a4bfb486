#!/usr/bin/env python3
"""An anonymised recording has none of the user's names, and keeps every figure. The reader of the test shares no code
with memprof."""

import json
import os
import pathlib
import re
import sys
import unittest

import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "unit" / "format"))
sys.dont_write_bytecode = True
import read_mp

PYTHON = harness.python_with_torch()
DATA = os.environ.get("MEMPROF_TEST_DATA")
SECRET = "swordfish"

TRAINING = """
import torch
import libmemprof as mp

class {0}Layer(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)

def leak_{0}(kept, x):
    kept.append(x.clone())

model, kept = {0}Layer(), []
mp._api["module_code"](id({0}Layer.forward.__code__))
mp._api["module_name"](id(model), b"{0}Net.blocks.3.{0}")
held = torch.zeros(500)
mp._api["label"](held.data_ptr(), 1, b"blocks.3.{0}.weight")
mp.mark("{0} begins")
for i in range(30):
    mp.step()
    with mp.region("{0} forward"):
        y = model(torch.zeros(1000))
    exec("import torch\\ndef made_{0}(): return torch.zeros(77)\\nmade_{0}()")
    leak_{0}(kept, y)
"""


def strings_of(path):
    """All texts of a file: those in its first object, and its table of strings."""
    start, chunks, _ = read_mp.walk(read_mp.load_zstd(), pathlib.Path(path).read_bytes())
    found = [str(start)]
    for _, _, kind, _, columns in chunks:
        if kind == "strings":
            found += read_mp.strings_of(columns)
    return found


class Anonymize(harness.TestCase):
    def figures(self, path, without=()):
        """The commands' answers without names, and without the keys in `without`."""
        found = []
        for command in (("peak",), ("leaks",), ("steps",), ("info",)):
            text = json.dumps(harness.answer(*command, path, status=(0, 1, 4)) if command else None, sort_keys=True)
            answer = json.loads(text)
            for key in ("file", "process", "devices", "coverage", *without):
                answer.pop(key, None)
            found.append(self.without_names(answer))
        return found

    def without_names(self, value):
        if isinstance(value, dict):
            return {key: self.without_names(item) for key, item in value.items()
                    if key not in ("function", "file", "module", "name", "path", "holder")}
        if isinstance(value, list):
            return [None if isinstance(item, str) else self.without_names(item) for item in value]
        return value

    def anonymize(self, path):
        result = harness.memprof("anonymize", path, "-o", self.folder / "anonymous.mp", "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / "anonymous.mp"

    @unittest.skipUnless(PYTHON, "no Python with PyTorch")
    def test_a_recording(self):
        folder = self.folder / SECRET
        folder.mkdir()
        script = folder / f"{SECRET}_train.py"
        script.write_text(TRAINING.format(SECRET))
        path = self.folder / "run.mp"
        result = harness.memprof("snapshot", "-o", path, "--", PYTHON, script, f"--{SECRET}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(any(SECRET in text for text in strings_of(path)))
        anonymous = self.anonymize(path)
        words = [SECRET, str(self.folder), os.uname().nodename, str(harness.SOURCE)]
        for text in strings_of(anonymous):
            for word in words:
                self.assertNotIn(word, text)
        texts = strings_of(anonymous)
        for form in (r"m\d+\.m\d+\.3\.m\d+", r"m\d+\.3\.m\d+\.weight"):
            self.assertTrue(any(re.fullmatch(form, text) for text in texts), form)
        self.assertEqual(self.figures(path), self.figures(anonymous))
        self.assertEqual(harness.answer("leaks", anonymous)["verdict"], "leak")
        paths = [holder["path"] for site in harness.answer("holders", anonymous)["sites"] for holder in site["holders"]]
        self.assertTrue(any(re.fullmatch(r"m\d+\[\*\]", path) for path in paths), paths)
        stack = str(harness.answer("peak", anonymous)["sites"])
        self.assertIn("_call_impl", stack)  # PyTorch's own names stay
        self.assertEqual(harness.memprof("report", anonymous).returncode, 0)

    def test_marks_that_replays_go_by(self):
        """Marks that have only the shim's own words stay as they are. A program's own marks are renamed like
        regions."""
        kept = ["torch: empty_cache", "torch: pool 0:1 made on cuda:0", "torch: capture begins on cuda:1",
                "torch: memory fraction 0.5 on cuda:0", "torch: DataLoader 6 ahead", "torch: settings:max_split_size_mb:64"]
        gone = [f"torch: {SECRET}", f"torch: pool 0:1 made on {SECRET}", f"torch: pool of {SECRET}", SECRET]
        script = self.folder / "marks.py"
        script.write_text(f"import libmemprof\nfor name in {kept + gone!r}: libmemprof.mark(name)\n"
                          f"libmemprof.mark('torch: settings:{SECRET}:7,expandable_segments:True')\n")
        path = self.folder / "run.mp"
        result = harness.memprof("snapshot", "-o", path, "--", sys.executable, script)
        self.assertEqual(result.returncode, 0, result.stderr)
        texts = strings_of(self.anonymize(path))
        self.assertEqual([name for name in kept if name not in texts], [])
        self.assertEqual([text for text in texts if SECRET in text], [])
        self.assertIn("torch: settings:expandable_segments:True", texts)

    @unittest.skipUnless(DATA, "$MEMPROF_TEST_DATA is not set")
    def test_snapshots_by_others(self):
        for name in ("silmont_small.pickle", "drisspg_mini.pickle", "yiyi_oom_v1.pickle", "sidnb13_transformer.pt.trace.json"):
            with self.subTest(name):
                path = pathlib.Path(DATA) / name
                anonymous = self.anonymize(path)
                categories = ("categories",)  # known by names alone here, and those are gone
                self.assertEqual(self.figures(path, categories), self.figures(anonymous, categories))
                for text in strings_of(anonymous):
                    self.assertIsNone(re.search(r"/(home|root|Users|data|workspace|mnt)/", text), text)

    def test_what_cannot_be_anonymised(self):
        result = harness.memprof("anonymize", self.folder / "nosuch.mp", "-o", self.folder / "x.mp")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(harness.memprof("anonymize", "x.mp").returncode, 2)


if __name__ == "__main__":
    harness.main()
