#!/usr/bin/env python3
"""Memory that PyTorch's allocator counts as allocated, but whose pages were unmapped under live blocks. Compared with a
replay that counts page by page and shares no code with memprof."""
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import MIB, START, Case

BASE, PAGES, PAGE = 0x7f0000000000, 24, 2 * MIB


class Sleeper:
    """Pages that are mapped and unmapped at random, and blocks of whole pages and parts of them above."""

    def __init__(self, seed, careful, length=500):
        r = random.Random(seed)
        self.trace, self.levels = [], []
        mapped, seen, blocks = set(), set(), {}
        level = peak = 0
        self.at_peak = 0

        def say(action, first, size, offset=0):
            self.trace.append({"action": action, "addr": BASE + first * PAGE + offset, "size": size, "stream": 0,
                               "time_us": START + 1000 * len(self.trace), "frames": []})

        def unbacked():
            return sum(size for page, size in ((page, size) for taken in blocks.values() for page, size in taken)
                       if page in seen and page not in mapped)

        for _ in range(length):
            do = r.random()
            used = {page for taken in blocks.values() for page, _ in taken}
            if do < 0.3:  # one mapping at a time is made or comes back
                first = r.randrange(PAGES - 4)
                run = range(first, first + r.randint(1, 4))
                if mapped & set(run):
                    continue
                mapped |= set(run)
                seen |= set(run)
                say("segment_map", first, len(run) * PAGE)
            elif do < 0.5:
                first = r.randrange(PAGES - 4)
                run = range(first, first + r.randint(1, 4))
                if not set(run) <= mapped or (careful and used & set(run)):
                    continue
                mapped -= set(run)
                say("segment_unmap", first, len(run) * PAGE)
            elif do < 0.8:
                first, pages = r.randrange(PAGES - 3), r.randint(1, 3)
                if used & set(range(first, first + pages)) or not set(range(first, first + pages)) <= mapped:
                    continue
                last = r.choice((PAGE, PAGE // 2, 512))
                blocks[first] = [(page, PAGE) for page in range(first, first + pages - 1)] + [(first + pages - 1, last)]
                level += (pages - 1) * PAGE + last
                say("alloc", first, (pages - 1) * PAGE + last)
            elif blocks:
                first = r.choice(sorted(blocks))
                size = sum(size for _, size in blocks.pop(first))
                level -= size
                say("free_requested", first, size)
                self.levels.append(self.levels[-1])
                say("free_completed", first, size)
            else:
                continue
            self.levels.append(unbacked())
            if level > peak:
                peak, self.at_peak = level, self.levels[-1]
        assert len(self.levels) == len(self.trace)

    def snapshot(self):
        return {"segments": [], "device_traces": [self.trace]}


class Unbacked(Case):
    def ask(self, path):
        use = json.loads(self.memprof("info", path, "--json").stdout)["device_use"][0]
        peak = json.loads(self.memprof("peak", path, "--json").stdout)
        return use, peak

    def test_unmapped_beneath_live_blocks_is_counted_page_by_page(self):
        at_peaks = 0
        for seed in range(6):
            made = Sleeper(seed, careful=False)
            path = self.dump(made.snapshot())
            recording = self.folder / "s.mp"
            self.memprof("import", path, "-o", recording, "--force")
            for file in (path, recording):
                use, peak = self.ask(file)
                most = max(made.levels)
                self.assertGreater(most, 0)
                self.assertEqual(use["unbacked_most_bytes"], most)
                self.assertEqual(use["unbacked_most_ns"], made.levels.index(most) * 10**6)
                self.assertEqual(use["unbacked_end_bytes"], made.levels[-1])
                self.assertEqual(peak["unbacked_bytes"], made.at_peak)
                text = self.memprof("info", file).stdout
                self.assertRegex(text, r"that PyTorch counts as allocated had no memory at ")
                self.assertEqual("of it had no memory" in self.memprof("peak", file).stdout, made.at_peak > 0)
            at_peaks += made.at_peak > 0
        self.assertGreater(at_peaks, 0)

    def test_an_allocator_that_unmaps_free_pages_has_none(self):
        for seed in range(3):
            made = Sleeper(seed, careful=True)
            self.assertIn("segment_unmap", {entry["action"] for entry in made.trace})
            use, peak = self.ask(self.dump(made.snapshot()))
            self.assertEqual([use[key] for key in ("unbacked_bytes", "unbacked_most_bytes", "unbacked_most_ns",
                                                   "unbacked_end_bytes")], [0, 0, None, 0])
            self.assertEqual(peak["unbacked_bytes"], 0)
            self.assertNotIn("had no memory", self.memprof("info", self.dump(made.snapshot())).stdout)


if __name__ == "__main__":
    asserted.main()
