#!/usr/bin/env python3
"""NVTX ranges as regions, marks and steps. Programs print their ranges, and an independent reader prints those of the
recording. The programs use NVIDIA's own headers, if the build found them, and a stand-in."""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import harness

READER = harness.SOURCE / "tests" / "unit" / "format" / "read_mp.py"
BEGIN, END, MARK = 6, 7, 8
LETTERS = {BEGIN: "B", END: "E", MARK: "M"}
LANE = 0xFFFFFFFF


class Recorded:
    """Regions and marks of a snapshot file, by thread."""

    def __init__(self, path):
        strings, threads, events = [], [], []
        result = subprocess.run([sys.executable, READER, path, "--events"], capture_output=True, text=True)
        if result.returncode == 77:
            raise unittest.SkipTest("no libzstd")
        result.check_returncode()
        for line in result.stdout.splitlines()[1:]:
            chunk = json.loads(line)
            if chunk["kind"] == "strings":
                strings += chunk["strings"]
            elif chunk["kind"] == "threads":
                threads += zip(chunk["columns"]["tid"], chunk["columns"]["name"])
            elif chunk["kind"] == "events":
                events += chunk["events"]
        self.threads = collections.defaultdict(list)
        self.lanes = collections.defaultdict(list)
        for event in events:
            if event["type"] not in LETTERS:
                continue
            tid, name = threads[event["thread"]]
            entry = (LETTERS[event["type"]], strings[event["name"]])
            (self.lanes[strings[name]] if tid == LANE else self.threads[strings[name]]).append(entry)


def told(output):
    threads = collections.defaultdict(list)
    for line in output.splitlines():
        thread, letter, name = line.split(" ", 2)
        threads[thread].append((letter, name))
    return dict(threads)


class StandIn(harness.TestCase):
    program = "nvtx_stand_in"

    def setUp(self):
        super().setUp()
        self.path = self.folder / "run.mp"
        if not pathlib.Path(harness.program(self.program)).exists():
            self.skipTest("no NVTX headers were found when memprof was configured")

    def record(self, *arguments, options=(), status=0, environment=None, symbols=False):
        if not symbols:
            options = ("--no-symbols", *options)
        result = harness.memprof("snapshot", "-o", self.path, *options, "--", harness.program(self.program), *arguments,
                                 env=environment)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def both(self, mode):
        result = self.record(mode)
        recorded = Recorded(self.path)
        self.assertEqual(dict(recorded.threads), told(result.stdout))
        return recorded

    def test_every_kind_of_message_domain_and_mark(self):
        self.both("kinds")
        info = harness.answer("info", self.path)
        self.assertEqual(info["coverage"]["sources"], ["nvtx"])
        self.assertEqual(info["coverage"]["dropped"], 0)

    def test_unbalanced_and_too_deep(self):
        self.both("unbalanced")

    def test_domains_that_cross(self):
        self.both("crossing")

    def test_ranges_without_a_thread(self):
        self.record("ranges")
        recorded = Recorded(self.path)
        self.assertEqual(dict(recorded.threads), {})
        self.assertEqual(len(recorded.lanes), 255)
        self.assertEqual(recorded.lanes["ranges 1"], [("B", "a"), ("E", "a"), ("B", "many"), ("E", "many")])
        self.assertEqual(recorded.lanes["ranges 2"], [("B", "b"), ("E", "b"), ("B", "many"), ("E", "many")])
        for number in range(3, 256):
            self.assertEqual(recorded.lanes[f"ranges {number}"], [("B", "many"), ("E", "many")])
        self.assertIn("255", " ".join(harness.answer("info", self.path)["coverage"]["notes"]))

    def test_a_child_made_inside_a_range(self):
        result = self.record("child", options=("--follow", "all"))
        threads = told(result.stdout)
        other, = (path for path in self.folder.glob("run.*.mp"))
        files = {name: Recorded(path) for path in (self.path, other) for name in Recorded(path).threads}
        self.assertEqual({name: files[name].threads[name] for name in files}, threads)
        self.assertEqual(dict(files["main"].lanes), {"ranges 1": [("B", "lane"), ("E", "lane")]})
        self.assertEqual(dict(files["child"].lanes), {})

    def test_many_libraries_at_once(self):
        libraries = [harness.program(f"{self.program}_{number}.so") for number in (1, 2, 3)]
        result = self.record("libraries", *libraries)
        recorded = Recorded(self.path)
        self.assertEqual(dict(recorded.threads), told(result.stdout))
        self.assertEqual(len(recorded.threads), 9)

    def steps(self, name, *options):
        self.record("steps", name, options=options)
        report = harness.answer("steps", self.path)
        rows = report["steps"]
        for before, row in zip(rows, rows[1:]):
            self.assertEqual(before["end_ns"], row["start_ns"])
        return report["source"], [(row["allocated_bytes"], row["freed_bytes"]) for row in rows]

    def test_steps_by_their_usual_names(self):
        for name in ("ProfilerStep#%d", "step %d", "step"):
            with self.subTest(name):
                self.assertEqual(self.steps(name, "--force"), ("nvtx", [(1500, 500)] * 10))
        self.assertEqual(harness.answer("leaks", self.path)["steps"], {"count": 10, "source": "nvtx"})
        self.assertEqual(harness.answer("info", self.path)["steps"], {"count": 10, "source": "nvtx"})

    def test_steps_by_an_expression(self):
        self.assertEqual(self.steps("epoch; 100%%, batch %d", "--step-range", "^epoch; 100%, batch [0-9]+$"),
                         ("nvtx", [(1500, 500)] * 10))
        self.assertEqual(self.steps("batch %d", "--force", "--step-range", "^batch [02468]$")[1], [(3000, 1000)] * 5)

    def test_the_peak_names_its_ranges(self):
        self.record("steps", "step %d")
        peak = harness.answer("peak", self.path)
        self.assertEqual((peak["step"], peak["regions"]), (10, ["step 9", "step_optimizer"]))

    def test_a_wrong_expression_starts_nothing(self):
        for wrong in ("", "(", "x" * 300):
            result = self.record("kinds", options=("--step-range", wrong), status=2)
            self.assertIn("regular expression", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_another_tool_keeps_nvtx(self):
        environment = dict(os.environ, NVTX_INJECTION64_PATH="/nonexistent/tool.so")
        for symbols, steps in (False, {"count": 0, "source": "none"}), (True, {"count": 10, "source": "inferred"}):
            with self.subTest(symbols=symbols):
                self.record("steps", "step %d", options=("--force",), environment=environment, symbols=symbols)
                info = harness.answer("info", self.path)
                self.assertEqual(info["steps"], steps)
                self.assertTrue(any(re.search("NVTX.*another tool", note) for note in info["coverage"]["notes"]), info)


class RealHeaders(StandIn):
    program = "nvtx"

    def counts(self):
        return {track["id"]: [track[key] for key in ("allocs", "frees", "peak_bytes", "end_bytes")]
                for track in harness.answer("info", self.path)["tracks"]}

    def test_heaps_that_an_allocator_announces(self):
        self.record("memory")
        self.assertEqual(self.counts(), {"device/app/alloc:scratch": [101, 101, 104000, 0],
                                         "device/app/nvtx": [100, 0, 100000, 100000]})

    def test_blocks_at_ever_new_addresses(self):
        self.record("churn")
        self.assertEqual(self.counts(), {"device/app/nvtx": [150000, 148000, 200000, 200000]})


if __name__ == "__main__":
    harness.main()
