#!/usr/bin/env python3
"""The pytest plugin under the real command, on real tensors; libmemprof.show() as a notebook would call it."""

import html
import os
import re
import subprocess
import sys
import unittest

import harness

PYTHON = harness.python_with_torch()
PLUGIN = harness.SOURCE / "python"

TESTS = """
import pytest, torch
kept = []

@pytest.mark.limit_memory("3 MB")
def test_small():
    torch.zeros(500_000)
    torch.zeros(500_000)

@pytest.mark.limit_memory("3 MB")
def test_too_much_at_once():
    first, second = torch.zeros(500_000), torch.zeros(500_000)

@pytest.mark.limit_leaks("1 MB")
def test_gives_back():
    torch.zeros(5_000_000)
    cycle = [torch.zeros(500_000)]
    cycle.append(cycle)

@pytest.mark.limit_leaks(1_000_000)
def test_keeps():
    kept.append(torch.zeros(500_000))

@pytest.mark.limit_memory("1 KiB", track="cuda:0/torch")
def test_of_another_track():
    torch.zeros(500_000)

@pytest.mark.limit_memory("1 KiB")
def test_fails_by_itself():
    torch.zeros(500_000)
    assert False

def test_without_limit():
    torch.zeros(500_000)
"""


@unittest.skipUnless(PYTHON, "no PyTorch")
class Pytest(harness.TestCase):
    def setUp(self):
        super().setUp()
        if subprocess.run([PYTHON, "-c", "import pytest"], capture_output=True).returncode:
            self.skipTest("no pytest")
        (self.folder / "test_memory.py").write_text(TESTS)
        self.command = [PYTHON, "-m", "pytest", "-p", "pytest_memprof", "-p", "no:cacheprovider", "-rA",
                        "--strict-markers", "test_memory.py"]

    def outcomes(self, text):
        found = re.findall(r"^(PASSED|FAILED) test_memory.py::test_(\w+)", text, re.M)
        return {name: outcome for outcome, name in found}

    def test_limits(self):
        done = harness.memprof("snapshot", "-o", self.folder / "tests.mp", "--", *self.command, cwd=self.folder)
        self.assertEqual(self.outcomes(done.stdout), {
            "small": "PASSED", "too_much_at_once": "FAILED", "gives_back": "PASSED", "keeps": "FAILED",
            "of_another_track": "PASSED", "fails_by_itself": "FAILED", "without_limit": "PASSED"},
            done.stdout + done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertIn("3.8 MiB was live at once, more than 2.9 MiB (limit_memory)", done.stdout)
        self.assertIn("1.9 MiB stayed, more than 976.6 KiB (limit_leaks)", done.stdout)
        self.assertIn("memprof: limits of memory are checked", done.stdout)
        regions = {row["name"]: row for row in harness.answer("steps", self.folder / "tests.mp")["regions"]}
        self.assertEqual(regions["test_memory.py::test_small"]["total_allocated_bytes"], 4_000_000)
        self.assertEqual(regions["test_memory.py::test_keeps"]["kept_bytes"], 2_000_000)

    def test_without_a_recording(self):
        done = subprocess.run(self.command, cwd=self.folder, env={**os.environ, "PYTHONPATH": str(PLUGIN)},
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(self.outcomes(done.stdout)["too_much_at_once"], "PASSED")
        self.assertIn("nothing is recorded", done.stdout)

    def test_sizes(self):
        sys.path.insert(0, str(PLUGIN))
        code = "import pytest_memprof as p; print([p.parse_size(s) for s in ('100 MB', '1.5GiB', 7, '12', '3 k')]);" \
               "p.parse_size('many')"
        done = subprocess.run([PYTHON, "-c", code], cwd=self.folder, env={**os.environ, "PYTHONPATH": str(PLUGIN)},
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, f"{[10**8, 3 << 29, 7, 12, 3000]}\n")
        self.assertIn("'many' is not a size", done.stderr)


@unittest.skipUnless(PYTHON, "no PyTorch")
class Show(harness.TestCase):
    CODE = "import libmemprof as mp, torch; kept = torch.zeros(500_000); page = mp.show({}); print(page._repr_html_())"

    def page_of(self, text):
        (page,) = re.findall(r'<iframe srcdoc="(.*)" width="100%"', text, re.DOTALL)
        return html.unescape(page)

    def environment(self):
        return {**os.environ, "PATH": f"{harness.BUILD}:{os.environ['PATH']}", "PYTHONPATH": str(PLUGIN)}

    def test_of_a_file(self):
        recording = self.folder / "kept.mp"
        subprocess.run([str(harness.BUILD / "tests/unit/cli/make_recording"), str(recording), "train"], check=True)
        done = subprocess.run([PYTHON, "-c", self.CODE.format(repr(str(recording)))], cwd=self.folder,
                              env=self.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stderr, "")
        written = self.folder / "page.html"
        self.assertEqual(harness.memprof("trace_plot", recording, "-o", written).returncode, 0)
        self.assertEqual(self.page_of(done.stdout).strip(), written.read_text().strip())

    def test_of_what_runs(self):
        done = subprocess.run([harness.MEMPROF, "snapshot", "--quiet", "-o", str(self.folder / "run.mp"), "--", PYTHON,
                               "-c", self.CODE.format("")], cwd=self.folder,
                              env=self.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.page_of(done.stdout).lower().startswith("<!doctype html>"))

    def test_what_cannot_be_shown(self):
        for argument, word in (("", "nothing is recorded"), ("'absent.mp'", "absent.mp")):
            done = subprocess.run([PYTHON, "-c", self.CODE.format(argument)], cwd=self.folder,
                              env=self.environment(), capture_output=True,
                                  text=True, timeout=120)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    harness.main()
