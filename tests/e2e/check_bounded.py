#!/usr/bin/env python3
"""Recordings of the newest events (--max-events). Their live blocks and peaks equal those of a full recording of the
same program. The file stays small on disk. Kills at random moments leave a complete file. $MEMPROF_KILLS sets how many
(5)."""

import os
import random
import signal
import sys
import time

import harness

sys.dont_write_bytecode = True
sys.path.insert(0, str(harness.SOURCE / "tests" / "unit" / "format"))
import read_mp

KILLS = int(os.environ.get("MEMPROF_KILLS", "5"))


def read_by_the_book(path):
    """By track: (peak bytes, its time, live bytes at the end), by docs/FORMAT.md alone. Blocks known only by their frees
    are left out: the programs here have none."""
    _, chunks, _ = read_mp.walk(read_mp.load_zstd(), path.read_bytes())
    live, peaks = {}, {}
    for _, _, kind, meta, columns in chunks:
        if kind == "past peaks":
            for track, size, when in zip(columns["track"], columns["bytes"], columns["time"]):
                peaks[track] = (size, when)
        if kind == "base" and not live:
            for number, track, size in zip(columns.get("block", []), columns.get("track", []),
                                           columns.get("bytes", [])):
                live[number] = (track, size)
        if kind != "events":
            continue
        for event in read_mp.events_of(meta, columns):
            if event["type"] == read_mp.ALLOC:
                live[event["block"]] = (event["track"], event["bytes"])
                level = sum(size for track, size in live.values() if track == event["track"])
                if level > peaks.get(event["track"], (0, 0))[0]:
                    peaks[event["track"]] = (level, event["time"])
            if event["type"] == read_mp.FREE:
                del live[event["block"]]
    return {track: (*peak, sum(size for where, size in live.values() if where == track))
            for track, peak in peaks.items()}


class Bounded(harness.Churning):
    threads = 2

    def record(self, name, *options, command):
        path = self.folder / name
        result = harness.memprof("snapshot", "-o", path, *options, "--", *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return path, result.stderr

    def test_against_a_full_recording(self):
        command = [harness.program("guest"), "waves", "200"]
        full, _ = self.record("full.mp", command=command)
        wanted = harness.answer("peak", full)
        total = harness.answer("info", full)["coverage"]["events"]
        for keep in (1, 7, 100, 1000, total - 1, total, 10 * total):
            with self.subTest(keep=keep):
                path, told = self.record(f"kept{keep}.mp", "--max-events", keep, command=command)
                peak = harness.answer("peak", path)
                for key in ("track", "peak_bytes", "blocks", "step"):
                    self.assertEqual(peak[key], wanted[key], key)
                self.assertEqual([site["bytes"] for site in peak["sites"]],
                                 [site["bytes"] for site in wanted["sites"]])
                self.assertEqual([site["stack"][0]["line"] for site in peak["sites"]],
                                 [site["stack"][0]["line"] for site in wanted["sites"]])
                coverage = peak["coverage"]
                self.assertEqual(coverage["events"] + coverage["folded_events"], total)
                self.assertLessEqual(coverage["events"], max(keep, 3))
                self.assertEqual(coverage["complete"], keep >= total)
                self.assertEqual("newest" in told, keep < total)
                tracks = [harness.answer("info", file)["tracks"][0] for file in (full, path)]
                if keep <= 1000:
                    self.assertEqual(read_by_the_book(path)[0],
                                     tuple(tracks[1][key] for key in ("peak_bytes", "peak_ns", "end_bytes")))
                for key in ("end_bytes", "peak_bytes"):
                    self.assertEqual(tracks[1][key], tracks[0][key], key)
                outstanding = [harness.answer("leaks", file)["outstanding"] for file in (full, path)]
                self.assertEqual(outstanding[1]["bytes"], outstanding[0]["bytes"])
                self.assertEqual(outstanding[1]["blocks"], outstanding[0]["blocks"])
                steps = [harness.answer("steps", file)["steps"] for file in (full, path)]
                if steps[1]:
                    self.assertEqual(steps[1][-1]["step"], steps[0][-1]["step"])
                for form in ("text", "markdown", "html"):
                    self.assertEqual(harness.memprof("report", path, "--format", form).returncode, 0)

    def check(self, path, keep):
        allocs, frees = self.handed_over()
        info = harness.answer("info", path, status=(0, 4))
        track = next(track for track in info["tracks"] if track["id"] == self.track_id)
        coverage = info["coverage"]
        seen = coverage["events"] + coverage["folded_events"] + coverage["dropped"]
        self.assertGreaterEqual(seen, allocs + frees)
        self.assertLessEqual(seen, allocs + frees + self.threads)
        self.assertLessEqual(coverage["events"], keep)
        if not coverage["dropped"]:
            self.assertLessEqual(abs(track["end_bytes"] - 64 * (allocs - frees)), 64 * self.threads)
            self.assertGreaterEqual(track["peak_bytes"], track["end_bytes"])
            self.assertLessEqual(track["peak_bytes"], track["end_bytes"] + 64 * self.threads)

    def test_kills(self):
        for seed in range(KILLS):
            with self.subTest(seed=seed):
                chance, keep = random.Random(seed), 5000
                self.start("--max-events", str(keep))
                time.sleep(chance.uniform(0.1, 1.8))
                victims = chance.choice(([self.program], [self.collector.pid, self.program],
                                         [self.program, self.collector.pid]))
                for victim in victims:
                    os.kill(victim, signal.SIGKILL)
                self.collector.wait()
                whole = self.file
                if len(victims) > 1:
                    self.wait_for(lambda: harness.is_gone(self.program))
                    whole = self.folder / "whole.mp"
                    result = harness.memprof("recover", self.file, "-o", whole)
                    self.assertIn(result.returncode, (0, 4), result.stderr)
                self.check(whole, keep)
                left = {path.name for path in self.folder.iterdir()}
                self.assertLessEqual(left, {"run.mp", "counters", "whole.mp"}, "a file was left behind")

    def test_wrong_numbers(self):
        for number in ("0", "-1", "many", "", "4294967296"):
            result = harness.memprof("snapshot", "--max-events", number, "--", "true")
            self.assertEqual(result.returncode, 2)
            self.assertIn("--max-events", result.stderr)


if __name__ == "__main__":
    harness.main()
