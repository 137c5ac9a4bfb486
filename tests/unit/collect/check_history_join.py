#!/usr/bin/env python3
"""Joins entries of PyTorch's history to allocations. Small made-up cases are compared with brute force. In traces of
real snapshots, entries of both sides are removed in every way. Run in the build folder."""
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

EARLY, LATE = 2_000_000, 50_000_000  # src/collect/history/history_join.h
MIB = 1 << 20


class Refusing(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def join(allocs, entries):
    """The index of each entry's allocation, or None. Allocations and entries are (time, address, bytes)."""
    lines = [f"{len(allocs)} {len(entries)}"] + [f"{time} {address} {size}" for time, address, size in allocs + entries]
    done = subprocess.run(["tests/unit/collect/join_history"], input="\n".join(lines), capture_output=True, text=True,
                          timeout=300, check=True)
    return [None if line == "-1" else int(line) for line in done.stdout.split()]


def may_be(alloc, entry, allocs):
    """True if the pair is possible. The first allocation after an entry may be at any distance, since its thread may
    have been preempted."""
    fits = [other for other in allocs if other[1] == entry[1] and 0 < entry[2] <= other[2]]
    later = [other for other in fits if other[0] >= entry[0]]
    return alloc in fits and (-EARLY <= alloc[0] - entry[0] <= LATE or alloc in later[:1])


def best(allocs, entries):
    """The largest number of pairs, and the least sum of time differences for it, by the recurrence for common
    subsequences."""
    row = [(0, 0)] * (len(allocs) + 1)
    for entry in entries:
        above, row = row, [(0, 0)]
        for i, alloc in enumerate(allocs):
            choices = [above[i + 1], row[i]]
            if may_be(alloc, entry, allocs):
                choices.append((above[i][0] + 1, above[i][1] - (abs(alloc[0] - entry[0]) >> 10)))
            row.append(max(choices))
    return row[-1]


def block_size(requested, r):
    """The bytes of the block, including a remainder of the free block that is too small to be split off."""
    size = max(512, -(-requested // 512) * 512)
    return size + (r.randrange(0, MIB + 1, 512) if size > MIB and r.random() < 0.3 else 0)


class MadeUp(unittest.TestCase):
    def test_against_brute_force(self):
        for seed in range(150):
            r = random.Random(seed)
            addresses = [512 * (1 + a) for a in range(r.choice((1, 3, 10)))]
            allocs, now = [], 100_000_000
            for _ in range(r.randrange(60)):  # no address more often within reach than the join looks at
                now += r.choice((0, 1000, 20_000, 1_000_000, 40_000_000)) + 40_000_000 // (8 * len(addresses))
                allocs.append((now, r.choice(addresses), r.choice((512, 1024, 4096))))
            entries = [(max(0, time + r.randrange(-60_000_000, 3_000_000) if r.random() < 0.2 else time - 500), address,
                        size - r.randrange(0, 600)) for time, address, size in allocs if r.random() < 0.8]
            found = join(allocs, entries)
            pairs = [(allocs[alloc], entry) for alloc, entry in zip(found, entries) if alloc is not None]
            chosen = [alloc for alloc in found if alloc is not None]
            self.assertEqual(chosen, sorted(set(chosen)))
            self.assertTrue(all(may_be(alloc, entry, allocs) for alloc, entry in pairs))
            distance = sum(abs(alloc[0] - entry[0]) >> 10 for alloc, entry in pairs)
            self.assertEqual((len(pairs), -distance), best(allocs, entries), f"seed {seed}")

    def test_a_thread_that_lost_its_processor(self):
        """A thread is preempted before it reports its allocation. Later allocations wait for the lock, and are not
        confused."""
        allocs, entries, now = [], [], 0
        for i in range(2000):
            entries.append((now, 512 * (1 + i % 3), 1 + i % 500))
            now += 3_000_000_000 if i % 100 == 50 else 700
            allocs.append((now, 512 * (1 + i % 3), 512))
            now += 300
        self.assertEqual(join(allocs, entries), list(range(2000)))

    def test_nothing(self):
        self.assertEqual(join([], []), [])
        self.assertEqual(join([], [(1, 512, 1)]), [None])
        self.assertEqual(join([(1, 512, 512)], []), [])
        self.assertEqual(join([(1, (1 << 64) - 1, 512)], [(1, (1 << 64) - 1, 512)]), [0])
        self.assertEqual(join([(1, 512, 512)], [(1, 512, 0)]), [None])

    def test_many_at_one_address(self):
        """A loop that allocates and frees one block: only the times distinguish its turns."""
        allocs = [(10_000 * i, 512, 512) for i in range(30_000)]
        entries = [(10_000 * i - 700, 512, 1 + i % 500) for i in range(20_000, 30_000)]
        self.assertEqual(join(allocs, entries), list(range(20_000, 30_000)))


@unittest.skipUnless("MEMPROF_TEST_DATA" in os.environ, "MEMPROF_TEST_DATA is not set")
class Recorded(unittest.TestCase):
    """`truth`: the allocations of a real trace. The recorder's copy has rounded sizes and another clock; both copies
    lack some allocations. An entry must not be joined to another entry's allocation."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(os.environ["MEMPROF_TEST_DATA"])
        cls.traces = {}
        for file in json.loads((folder / "manifest.json").read_text())["files"]:
            if file["kind"] != "torch-snapshot":
                continue
            with open(folder / file["name"], "rb") as stream:
                snapshot = Refusing(stream).load()
            for device, trace in enumerate(snapshot.get("device_traces", []) if isinstance(snapshot, dict) else []):
                truth = [(entry["time_us"] * 1000, entry["addr"], entry["size"], entry["stream"]) for entry in trace
                         if entry["action"] == "alloc" and "time_us" in entry]
                if len(truth) > 100 and truth == sorted(truth, key=lambda row: row[0]):
                    cls.traces[file["name"], device] = truth

    def check(self, keep_ours, keep_theirs, least, shift=0, seed=1):
        checked = 0
        for name, truth in self.traces.items():
            r = random.Random(seed)
            ours, theirs, delay = [], [], 0
            for time, address, size, _ in truth:
                # both times are taken under one lock, so a preempted thread delays all others
                time = max(time + delay, ours[-1][0] if ours else 0)
                late = r.randrange(100, 3000) + (r.randrange(9_000_000) if r.random() < 1e-3 else 0)
                theirs.append((time // 1000 * 1000 + shift, address, size))
                ours.append((time + late, address, block_size(size, r)))
                delay += late if late > 3000 else 0
            kept_ours = [i for i in range(len(truth)) if keep_ours(i, len(truth), r)]
            kept_theirs = [i for i in range(len(truth)) if keep_theirs(i, len(truth), r)]
            found = join([ours[i] for i in kept_ours], [theirs[i] for i in kept_theirs])
            common = len(set(kept_ours) & set(kept_theirs))
            pairs = [(kept_ours[alloc], i) for alloc, i in zip(found, kept_theirs) if alloc is not None]
            right = sum(truth[alloc][1:] == truth[i][1:] for alloc, i in pairs)
            self.assertLessEqual(len(pairs) - right, (1 - least) * common, f"{name}: given what another asked for")
            self.assertGreaterEqual(right, least * common, name)
            if least == 1:
                self.assertTrue(all(alloc == i for alloc, i in pairs), name)
            checked += common
        self.assertGreater(checked, 1000)

    def test_whole(self):
        self.check(lambda i, n, r: True, lambda i, n, r: True, 1)

    def test_a_ring_that_forgot_the_beginning(self):
        self.check(lambda i, n, r: True, lambda i, n, r: i > n - n // 3, 1)

    def test_readings_far_apart(self):
        self.check(lambda i, n, r: True, lambda i, n, r: i // 500 % 4 == 1, 1)

    def test_a_recording_that_began_later(self):
        self.check(lambda i, n, r: i > n // 2, lambda i, n, r: True, 1)

    def test_clocks_that_differ(self):
        for shift in (-300_000, 300_000):
            self.check(lambda i, n, r: True, lambda i, n, r: True, 1, shift)

    def test_dropped_events(self):
        for share, least in ((0.001, 0.999), (0.05, 0.99)):
            self.check(lambda i, n, r: r.random() > share, lambda i, n, r: i > n // 3, least)

    def test_dropped_runs(self):
        self.check(lambda i, n, r: i // 200 % 7 != 3, lambda i, n, r: True, 0.999)


if __name__ == "__main__":
    asserted.main()
