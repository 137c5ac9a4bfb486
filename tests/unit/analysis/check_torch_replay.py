#!/usr/bin/env python3
"""`memprof frag`: replays of snapshots, real ones where $MEMPROF_TEST_DATA is set and made-up ones, which must be exact;
what it says of segments and holes against what the snapshots say."""
import json
import os
import pathlib
import pickle
import random
import subprocess
import tempfile
import unittest

import naive_allocator
from check_torch_allocator import MIB, settings_of

MEMPROF = str(pathlib.Path(os.getcwd()) / "memprof")
STATES = {"a": "active_allocated", "p": "active_pending_free", "i": "inactive"}
SETTINGS = [{}, {}, {"expandable_segments": True}, {"expandable_segments": True}, {"max_split_size": 40 * MIB},
            {"max_split_size": 20 * MIB, "max_non_split_rounding": 32 * MIB}, {"roundup": 4},
            {"roundup": [1, 2, 4, 8, 0, 16, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4]}, {"large_segment_size": 12 * MIB},
            {"expandable_segments": True, "max_split_size": 64 * MIB}]


def load(path):
    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            raise pickle.UnpicklingError(f"{module}.{name}")
    with open(path, "rb") as file:
        return Unpickler(file).load()


def frag(path, *options, status=0):
    done = subprocess.run([MEMPROF, "frag", str(path), "--json", *options], capture_output=True, text=True, timeout=120)
    if done.returncode not in (status, 4):
        raise AssertionError(f"{path} {options}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout) if done.stdout else done.stderr


class Program:
    """A random program on the naive allocator, and the snapshot that PyTorch would write of it."""

    def __init__(self, seed, calls=400, tight=None):
        self.random = random.Random(seed)
        self.settings = self.random.choice(SETTINGS)
        tight = self.random.random() < 0.4 if tight is None else tight
        total = self.random.choice([150, 300, 500]) * MIB if tight else 1 << 36
        self.allocator = naive_allocator.Allocator(total, 1 << 40, self.settings)  # room for addresses is never short
        self.pools = not tight and self.random.random() < 0.4
        self.streams = [0, 0, 0, 94037712][:self.random.choice([1, 4])]
        self.live = []
        self.uncut = []  # places in the trace at which a cut leaves nothing out that later entries are about
        for _ in range(calls):
            self.call()
            if not any(b.state == "pending" for s in self.allocator.segments for b in s.blocks):
                self.uncut.append(len(self.allocator.trace))

    def malloc(self, size):
        try:
            return self.allocator.malloc(size, self.random.choice(self.streams))
        except naive_allocator.OutOfMemory:
            return None

    def call(self):
        r, a = self.random, self.allocator
        what = r.random()
        if what < 0.5:
            size = r.choice([int(2 ** r.uniform(0, 25)), 512, MIB, MIB + 1, 2 * MIB, 10 * MIB, 11 * MIB, 20 * MIB])
            self.live += [made for made in [self.malloc(size)] if made]
        elif what < 0.93 and self.live:
            handle = self.live.pop(r.randrange(len(self.live)))
            if r.random() > 0.1:
                a.free(handle)
                return
            a.record_stream(handle, 17)
            a.free(handle)
            # Whether a completion that follows its request at once came with it or later, a trace does not say.
            self.live += [kept for kept in [self.malloc(512)] if kept]
        elif what < 0.96:
            a.stream_done(17)
        elif what < 0.98 and not a.contexts:
            a.release_all()
        elif self.pools and a.contexts:
            a.end(a.contexts[-1][0])
        elif self.pools:
            a.begin(r.choice([1, 2]), naive_allocator.ANY_STREAM)

    def snapshot(self, first=0, with_pools=True):
        entries = []
        for at, (action, address, size, stream, pool) in enumerate(self.allocator.trace[first:]):
            place = {"device_free": self.allocator.capacity % MIB} if action == "oom" else {"addr": address}
            pools = {"pool_id": (pool, 0)} if with_pools else {}
            entries.append({"action": action, **place, "size": size, "stream": stream, "time_us": 10**15 + at, **pools})
        segments = []
        for run in self.allocator.listing():
            blocks = [{"address": run["address"] + offset, "size": size, "requested_size": requested,
                       "state": STATES[state], "frames": []} for offset, size, state, requested in run["blocks"]]
            segments.append({"device": 0, "address": run["address"], "total_size": run["size"], "stream": run["stream"],
                             "segment_type": run["pool"], "segment_pool_id": (run["pool_id"], 0),
                             "is_expandable": run["expandable"], "frames": [], "blocks": blocks})
        divisions = self.settings.get("roundup", 0)
        divisions = [divisions] * 16 if isinstance(divisions, int) else divisions
        settings = {"PYTORCH_CUDA_ALLOC_CONF": settings_of(self.settings),
                    "max_split_size": self.settings.get("max_split_size", -1), "garbage_collection_threshold": 0.0,
                    "expandable_segments": self.settings.get("expandable_segments", False),
                    "roundup_power2_divisions": {str(1 << i): d for i, d in enumerate(divisions)}}
        return {"segments": segments, "device_traces": [entries], "allocator_settings": settings}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "made.pickle"

    def tearDown(self):
        self.folder.cleanup()

    def check_exact(self, path, snapshot, name):
        """The replay is exact, also through a recording, and what is said of the end is what the snapshot says."""
        recording = pathlib.Path(self.folder.name) / "made.mp"
        subprocess.run([MEMPROF, "import", str(path), "-o", str(recording), "--force"], check=True, capture_output=True,
                       timeout=60)
        counts = None
        for device, entries in enumerate(snapshot["device_traces"]):
            if not any(entry["action"] == "alloc" for entry in entries):
                continue
            for file in (path, recording):
                said = frag(file, "--replay", "recorded", "--track", f"cuda:{device}/torch")
                replay = said["replay"]
                self.assertEqual(replay["differences"], 0, f"{name} cuda:{device} {replay['first_difference']}")
                count = [sum(entry["action"].startswith(action) for entry in entries) for action in ("alloc", "segment")]
                mine = [segment for segment in snapshot["segments"] if segment["device"] == device]
                blocks = sum(len(segment["blocks"]) for segment in mine)
                self.assertEqual([replay[key] for key in ("allocations", "segment_events", "end_segments", "end_blocks")],
                                 [*count, len(mine), blocks])
            counts = count
        return counts

    def check_end(self, said, snapshot, device=0):
        """The state at the end, against the snapshot's segments."""
        mine = sorted((s for s in snapshot["segments"] if s["device"] == device), key=lambda s: s["address"])
        holes = [(b["size"], s) for s in mine for b in s["blocks"] if b["state"] == "inactive"]
        self.assertEqual(said["moment"], "end")
        self.assertTrue(said["exact"])
        self.assertEqual(said["reserved_bytes"], sum(s["total_size"] for s in mine))
        allocated = [sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated") for s in mine]
        self.assertEqual(said["allocated_bytes"], sum(allocated))
        self.assertEqual(said["free_bytes"], sum(size for size, _ in holes))
        self.assertEqual(said["largest_free_bytes"], max((size for size, _ in holes), default=0))
        have = [(s["address"], s["bytes"], s["allocated_bytes"], s["stream"], s["pool"]) for s in said["segments"]]
        want = [(hex(s["address"]), s["total_size"], of, s["stream"],
                 ",".join(map(str, s.get("segment_pool_id") or (0, 0)))) for s, of in zip(mine, allocated)]
        self.assertEqual(have, want)
        pins = {}
        for segment in mine:
            held = sum(b["size"] for b in segment["blocks"] if b["state"] != "inactive")
            if 0 < held < segment["total_size"] // 2:
                pins[hex(segment["address"])] = (segment["total_size"], held)
        self.assertEqual({pin["address"]: (pin["segment_bytes"], pin["held_bytes"]) for pin in said["pins"]}, pins)
        for pin in said["pins"]:
            self.assertEqual(sum(site["bytes"] for site in pin["sites"]), pin["held_bytes"])
        free = [pin["segment_bytes"] - pin["held_bytes"] for pin in said["pins"]]
        self.assertEqual(free, sorted(free, reverse=True))


class Recorded(Case):
    def test_real_snapshots(self):
        if "MEMPROF_TEST_DATA" not in os.environ:
            self.skipTest("MEMPROF_TEST_DATA is not set")
        exact, allocations = 0, 0
        for path in sorted(pathlib.Path(os.environ["MEMPROF_TEST_DATA"]).glob("*.pickle")):
            snapshot = load(path)
            if path.name.startswith("drisspg"):  # its trace was cut
                said = frag(path, "--replay", "recorded")
                self.assertGreater(said["replay"]["differences"], 0)
                self.assertIn("at the end", said["replay"]["first_difference"])
            elif any(entry["action"] == "alloc" for trace in snapshot["device_traces"] for entry in trace):
                counts = self.check_exact(path, snapshot, path.name)
                exact, allocations = exact + 1, allocations + counts[0]
            else:
                self.assertIn("no allocator's trace", frag(path, "--replay", "recorded", status=1))
            self.check_end(frag(path), snapshot)
        print(f"{exact} real snapshots exact, {allocations} allocations")
        self.assertGreaterEqual(exact, 10)


class Made(Case):
    def write(self, snapshot):
        self.path.write_bytes(pickle.dumps(snapshot))
        return self.path

    def test_exact(self):
        seen = {"segment_free": 0, "segment_unmap": 0, "oom": 0}
        for seed in range(int(os.environ.get("MEMPROF_REPLAYS", "40"))):
            program = Program(seed)
            first = program.random.choice(program.uncut) if seed % 2 else 0
            snapshot = program.snapshot(first, with_pools=not program.pools or seed % 4 < 2)
            for entry in snapshot["device_traces"][0]:
                if entry["action"] in seen:
                    seen[entry["action"]] += 1
            self.check_exact(self.write(snapshot), snapshot, f"seed {seed} cut {first} {program.settings}")
            if not seen["oom"]:
                self.check_end(frag(self.path), snapshot)
        self.assertTrue(all(seen.values()), seen)

    def test_difference_is_found(self):
        program = Program(3, tight=False)
        snapshot = program.snapshot()
        entry = next(e for e in snapshot["device_traces"][0][200:] if e["action"] == "alloc")
        entry["size"] += 2 * MIB
        said = frag(self.write(snapshot), "--replay", "recorded")
        self.assertGreater(said["replay"]["differences"], 0)
        self.assertIn("in the record", said["replay"]["first_difference"])


if __name__ == "__main__":
    unittest.main()
