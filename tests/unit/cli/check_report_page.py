#!/usr/bin/env python3
"""memprof report --format html: its curve is compared, column by column, with levels computed from an export's blocks;
also its rows."""
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness  # noqa: E402

COLUMNS, LEFT, RIGHT, TOP, FLOOR = 480, 90, 940, 28, 206  # of the picture

# The sites of one line differ only in the call that allocates.
PROGRAM = """import sys, time, torch
kept = []
def work(size):
    for part in (torch.zeros(size) + 1).chunk(2): kept.append(part.clone())
for size in (40000, 900000, 20000):
    work(size)
    time.sleep(0.02)
    kept.clear()
"""


def levels(blocks, from_ns, to_ns):
    """The maximum of each column, computed only from blocks' lifetimes. Blocks allocated and freed at the same time
    count."""
    changes = []
    for block in blocks:
        if block["alloc_ns"] is not None and block["alloc_ns"] > to_ns:
            continue
        changes.append((block["alloc_ns"] if block["alloc_ns"] is not None else -1, 0, block["bytes"]))
        if block["free_ns"] is not None:
            changes.append((block["free_ns"], 1, -block["bytes"]))
    changes.sort()
    most, level, at = [0] * COLUMNS, 0, 0
    span = to_ns - from_ns
    for column in range(COLUMNS):
        end = from_ns + span * (column + 1) / COLUMNS
        most[column] = level
        while at < len(changes) and (changes[at][0] < end or column == COLUMNS - 1):
            if changes[at][0] > to_ns:
                break
            level += changes[at][2]
            if changes[at][0] >= from_ns:
                most[column] = max(most[column], level)
            elif column == 0:
                most[column] = level
            at += 1
    return most


def drawn(page):
    """The heights of the curve's columns, as drawn; runs of equal ones have only their two ends."""
    numbers = [float(word) for word in re.search(r'class="curve" d="M([^"]*)"', page).group(1).split()]
    points = list(zip(numbers[::2], numbers[1::2]))
    wide, heights = (RIGHT - LEFT) / COLUMNS, [None] * COLUMNS
    for (x, y), (end, _) in zip(points[::2], points[1::2]):
        heights[round((x - LEFT) / wide)] = y
    for column in range(1, COLUMNS):
        if heights[column] is None:
            heights[column] = heights[column - 1]
    return heights


class Curve(harness.TestCase):
    def check(self, path, *window):
        page = harness.memprof("report", "--format", "html", *window, path).stdout
        exported = harness.memprof("export", path, "-o", "-", "--format", "jsonl").stdout
        rows = [json.loads(line) for line in exported.splitlines()]
        peak = harness.answer("peak", *window, path)
        start = rows[0]
        from_ns, to_ns = start["from_ns"], start["to_ns"]
        if window:
            from_ns, to_ns = (int(float(word) * 1e6) for word in (window[1][:-2], window[3][:-2]))
        blocks = [row for row in rows if row["type"] == "block" and row["track"] == peak["track"]]
        expected = levels(blocks, from_ns, to_ns)
        self.assertEqual(max(expected), peak["peak_bytes"])
        heights = drawn(page)
        differing = [column for column in range(COLUMNS)
                     if abs(FLOOR - (FLOOR - TOP) * expected[column] / peak["peak_bytes"] - heights[column]) > 0.06]
        self.assertLess(len(differing), 3, differing)  # an event on the line between two columns may fall to either side
        self.assertIn(f'cy="{TOP}" r="4"', page)
        return page

    def test_a_program(self):
        python = harness.python_with_torch()
        if not python:
            self.skipTest("no Python with torch")
        (self.folder / "program.py").write_text(PROGRAM)
        run = self.folder / "run.mp"
        harness.memprof("snapshot", "-o", run, "--", python, self.folder / "program.py")
        page = self.check(run)
        rows = re.findall(r'<td class="l">([^<]*program.py:4 [^<]*)</td>', page)
        self.assertGreater(len(rows), 1)
        self.assertEqual(len(rows), len(set(rows)), rows)
        half = harness.answer("peak", run)["peak_ns"] / 1e6
        marks = re.findall(r'y="226" text-anchor="middle">([^<]*)<', page)
        self.assertGreater(len(marks), 2)
        self.assertEqual(len(marks), len(set(marks)), marks)
        self.check(run, "--from", f"{max(0, half - 25):.3f}ms", "--to", f"{half + 25:.3f}ms")

    @unittest.skipUnless(harness.DATA, "no recordings by others")
    def test_a_snapshot(self):
        self.check(harness.DATA + "/sidsoc_train.pickle")


if __name__ == "__main__":
    asserted.main()
