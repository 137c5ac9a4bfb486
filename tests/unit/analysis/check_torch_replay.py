#!/usr/bin/env python3
"""`memprof frag`: replays of snapshots, real (if $MEMPROF_TEST_DATA is set) and made-up, must be exact. Segments and
holes are compared with the snapshots' own."""
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

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

    def __init__(self, seed, calls=400, tight=None, settings=None):
        self.random = random.Random(seed)
        self.settings = self.random.choice(SETTINGS) if settings is None else settings
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
            # a trace does not show whether a completion right after its request came with it or later
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
        return snapshot_of(self.allocator, self.settings, first, with_pools)


def snapshot_of(allocator, settings, first=0, with_pools=True):
    """The snapshot that PyTorch would write of an allocator whose trace begins at entry `first`."""
    entries = []
    for at, (action, address, size, stream, pool) in enumerate(allocator.trace[first:]):
        place = {"device_free" if action == "oom" else "addr": address}
        pools = {"pool_id": (pool, 0)} if with_pools else {}
        entries.append({"action": action, **place, "size": size, "stream": stream, "time_us": 10**15 + at, **pools})
    segments = []
    for run in allocator.listing():
        blocks = [{"address": run["address"] + offset, "size": size, "requested_size": requested,
                   "state": STATES[state], "frames": []} for offset, size, state, requested in run["blocks"]]
        segments.append({"device": 0, "address": run["address"], "total_size": run["size"], "stream": run["stream"],
                         "segment_type": run["pool"], "segment_pool_id": (run["pool_id"], 0),
                         "is_expandable": run["expandable"], "frames": [], "blocks": blocks})
    divisions = settings.get("roundup", 0)
    divisions = [divisions] * 16 if isinstance(divisions, int) else divisions
    told = {"PYTORCH_CUDA_ALLOC_CONF": settings_of(settings),
            "max_split_size": settings.get("max_split_size", -1), "garbage_collection_threshold": 0.0,
                "expandable_segments": settings.get("expandable_segments", False),
                "roundup_power2_divisions": {str(1 << i): d for i, d in enumerate(divisions)}}
    return {"segments": segments, "device_traces": [entries], "allocator_settings": told}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "made.pickle"

    def tearDown(self):
        self.folder.cleanup()

    def check_exact(self, path, snapshot, name):
        """Asserts that the replay is exact, also of an imported recording, and that its end equals the snapshot."""
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
        """Compares the state at the end with the snapshot's segments."""
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


def unfreed(snapshot):
    """Blocks that are live at a trace's end, but in no segment of the file."""
    held = {block["address"] for segment in snapshot["segments"] for block in segment["blocks"]
            if block["state"].startswith("active")}
    live = set()
    for entry in snapshot["device_traces"][0]:
        if entry["action"] == "alloc":
            live.add(entry["addr"])
        elif entry["action"] == "free_completed":
            live.discard(entry["addr"])
    return len(live - held)


class Recorded(Case):
    def test_real_snapshots(self):
        if "MEMPROF_TEST_DATA" not in os.environ:
            self.skipTest("MEMPROF_TEST_DATA is not set")
        exact, allocations = 0, 0
        for path in sorted(pathlib.Path(os.environ["MEMPROF_TEST_DATA"]).glob("*.pickle")):
            snapshot = load(path)
            if path.name.startswith("drisspg"):  # its trace was cut
                said = frag(path, "--replay", "recorded")["replay"]
                self.assertEqual((said["differences"], said["differences_at_end"]), (19, 19))
                self.assertIn("at the end", said["first_difference"])
                self.assertEqual(said["unfreed_blocks"], unfreed(snapshot))
                self.assertGreater(said["unfreed_blocks"], 0)
            elif any(entry["action"] == "alloc" for trace in snapshot["device_traces"] for entry in trace):
                counts = self.check_exact(path, snapshot, path.name)
                exact, allocations = exact + 1, allocations + counts[0]
            else:
                self.assertIn("no allocator's trace", frag(path, "--replay", "recorded", status=1))
            self.check_end(frag(path), snapshot)
        print(f"{exact} real snapshots exact, {allocations} allocations")
        self.assertGreaterEqual(exact, 10)


class Written(Case):
    def write(self, snapshot):
        self.path.write_bytes(pickle.dumps(snapshot))
        return self.path


class Made(Written):
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

    def test_either_order_of_free_blocks(self):
        """Among free blocks of one size, PyTorch 2.15 takes one of the oldest segment, 2.11 the lowest address."""
        for seed in range(8):
            for oldest_first in (True, False):
                program = Program(seed, tight=False, settings={"downwards": True, "oldest_first": oldest_first})
                snapshot = program.snapshot()
                self.check_exact(self.write(snapshot), snapshot, f"seed {seed} {oldest_first}")

    def test_difference_is_found(self):
        program = Program(3, tight=False)
        snapshot = program.snapshot()
        entry = next(e for e in snapshot["device_traces"][0][200:] if e["action"] == "alloc")
        entry["size"] += 2 * MIB
        said = frag(self.write(snapshot), "--replay", "recorded")
        self.assertGreater(said["replay"]["differences"], 0)
        self.assertIn("in the record", said["replay"]["first_difference"])

    def test_difference_at_the_end_is_found(self):
        """The state at the end has one block with another size, request or state than the trace's end."""
        for name, change in (("size", lambda block: block.update(size=block["size"] + 512)),
                             ("requested_size", lambda block: block.update(requested_size=block["requested_size"] - 1)),
                             ("state", lambda block: block.update(state="active_pending_free"))):
            program = Program(3, tight=False)
            snapshot = program.snapshot()
            blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
            change(blocks[len(blocks) // 2])
            replay = frag(self.write(snapshot), "--replay", "recorded")["replay"]
            self.assertGreater(replay["differences"], 0, name)
            self.assertIn("at the end the block at", replay["first_difference"], name)


REMEDIES = {"expandable_segments:True": {"expandable_segments": True},
            **{f"max_split_size_mb:{size}": {"max_split_size": size * MIB} for size in (512, 256, 128, 64, 21)},
            "roundup_power2_divisions:8": {"roundup": 8},
            "expandable_segments:True,roundup_power2_divisions:8": {"expandable_segments": True, "roundup": 8}}


def fits(trace, settings, capacity):
    """True if all requests of a trace, failed ones included, find memory under other settings."""
    allocator, live = naive_allocator.Allocator(capacity, capacity, settings), {}
    for action, address, size, stream, _ in trace:
        try:
            if action == "alloc":
                live[address] = allocator.malloc(size, stream)
            elif action == "oom":
                allocator.free(allocator.malloc(size, stream))
            elif action == "free_completed":
                allocator.free(live.pop(address))
        except naive_allocator.OutOfMemory:
            return False
    return True


def allocated_levels(trace):
    """Allocated bytes after each entry of a trace."""
    level = 0
    for action, _, size, _, _ in trace:
        level += size * ((action == "alloc") - (action == "free_requested"))
        yield level


class Moments(Written):
    def test_all_given_back(self):
        """If a program has released everything at its end, the moment of the highest reserved bytes is shown."""
        for settings in ({}, {"expandable_segments": True}):
            allocator = naive_allocator.Allocator(1 << 36, 1 << 40, settings)
            held = [allocator.malloc(size * MIB, 0) for size in (30, 3, 50)]
            reserved, allocated = allocator.reserved(), allocator.allocated()
            for handle in held:
                allocator.free(handle)
            allocator.free(allocator.malloc(40 * MIB, 0))
            allocator.release_all()
            self.assertEqual(allocator.reserved(), 0)
            said = frag(self.write(snapshot_of(allocator, settings)))
            self.assertEqual((said["moment"], said["exact"], said["reserved_bytes"], said["allocated_bytes"]),
                             ("peak", True, reserved, allocated))

    def test_a_new_segment_where_one_was_given_back(self):
        """The program empties the cache. At the end a segment for small blocks is at an address that was released."""
        base = 1 << 40
        trace = [{"action": action, "addr": base + at * MIB, "size": size, "stream": 0, "time_us": i + 1, "frames": []}
                 for i, (action, at, size) in enumerate((
                     ("segment_free", 0, 10 * MIB), ("segment_free", 64, 10 * MIB), ("segment_free", 192, 10 * MIB),
                     ("segment_alloc", 128, 10 * MIB), ("alloc", 128, 10 * MIB), ("segment_alloc", 64, 2 * MIB),
                     ("alloc", 64, 4096)))]
        segments = [{"device": 0, "address": base + at * MIB, "total_size": size, "stream": 0, "segment_type": kind,
                     "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": taken, "active_size": taken,
                     "blocks": [{"address": base + at * MIB, "size": taken, "requested_size": taken,
                                 "state": "active_allocated"}] +
                               [{"address": base + at * MIB + taken, "size": size - taken, "state": "inactive"}
                                for _ in range(taken < size)]}
                    for at, size, kind, taken in ((64, 2 * MIB, "small", 4096), (128, 10 * MIB, "large", 10 * MIB))]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "made.pickle"
            path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [trace],
                                           "allocator_settings": {"max_split_size": -1}}))
            replay = frag(path, "--replay", "recorded")["replay"]
        self.assertEqual(replay["differences"], 0)

    def test_a_pool_that_ends_gives_back_first(self):
        """When a MemPool ends, its memory is given back; only then may the program empty the cache."""
        base = 1 << 40
        calls = [("segment_alloc", 64, 20, 0), ("alloc", 64, 4, 0), ("segment_alloc", 0, 20, 1), ("alloc", 0, 4, 1),
                 ("free_requested", 0, 4, 1), ("free_completed", 0, 4, 1), ("free_requested", 64, 4, 0),
                 ("free_completed", 64, 4, 0), ("segment_free", 0, 20, 1)]
        for name, more, reserved in (("ends", [("alloc", 64, 4, 0)], 40), ("ends and empties", [
                ("segment_free", 64, 20, 0), ("segment_alloc", 64, 30, 0), ("alloc", 64, 30, 0)], 50)):
            with self.subTest(name):
                trace = [{"action": action, "addr": base + at * MIB, "size": size * MIB, "stream": 0,
                          "pool_id": (pool, 0), "time_us": i + 1, "frames": []}
                         for i, (action, at, size, pool) in enumerate(calls + more)]
                path = self.write({"segments": [], "device_traces": [trace], "allocator_settings": {"max_split_size": -1}})
                replay = frag(path, "--replay", "recorded")["replay"]
                self.assertEqual((replay["differences"], replay["first_difference"]), (0, None))
                self.assertEqual(frag(path, "--replay", "")["replay"]["reserved_peak_bytes"], reserved * MIB)

    def test_without_a_trace_of_its_own(self):
        """A trace that contradicts itself is dropped. The moment is then made from segments and blocks. It is right,
        except for remainders inside of blocks of the large pool."""
        for seed in range(12):
            r = random.Random(seed)
            settings = r.choice([{}, {"expandable_segments": True}])
            allocator, live, states = naive_allocator.Allocator(1 << 36, 1 << 40, settings), [], []
            for _ in range(150):
                if not live or r.random() < 0.6:
                    live.append(allocator.malloc(r.choice([512, 70000, 3 * MIB, 11 * MIB, int(2 ** r.uniform(9, 25))]), 0))
                else:
                    allocator.free(live.pop(r.randrange(len(live))))
                states.append((len(allocator.trace), allocator.listing()))
            snapshot = snapshot_of(allocator, settings)
            entries = snapshot["device_traces"][0]
            held = {"action": "alloc", "addr": live[0][1].address, "size": 512, "stream": 0}
            entries.append(dict(held, time_us=entries[-1]["time_us"] + 1000))  # at an address that nothing has freed
            length, listing = states[r.randrange(40, 140)]
            said = frag(self.write(snapshot), "--to", f"{length - 1}us")
            self.assertEqual((said["moment"], said["exact"]), ("end", False))
            have = [(s["address"], s["bytes"], s["stream"], s["pool"]) for s in said["segments"]]
            self.assertEqual(have, [(hex(s["address"]), s["size"], None, None) for s in listing])
            for segment, of in zip(said["segments"], listing):
                allocated = sum(size for _, size, state, _ in of["blocks"] if state == "a")
                self.assertEqual(segment["allocated_bytes"], allocated)
            self.assertIn("no allocator's trace", frag(self.path, "--replay", "recorded", status=1))


class OutOfMemory(Written):
    def autopsy(self, allocator, settings, **more):
        said = frag(self.write({**snapshot_of(allocator, settings), **more}))
        self.assertEqual(said["moment"], "oom")
        return said

    def check(self, allocator, settings):
        """Checks the state, the cause and the settings that would have helped, for a trace that ends when memory runs
        out."""
        said = self.autopsy(allocator, settings)
        action, device_free, size, _, _ = allocator.trace[-1]
        self.assertEqual((action, said["oom"]["requested_bytes"], said["oom"]["device_free_bytes"]),
                         ("oom", size, device_free))
        holes = [b.size for s in allocator.segments for b in s.blocks if b.state == "free"]
        self.assertEqual((said["reserved_bytes"], said["allocated_bytes"], said["free_bytes"]),
                         (allocator.reserved(), allocator.allocated(), sum(holes)))
        scattered = sum(hole for hole in holes if hole < size)
        if holes:
            self.assertAlmostEqual(said["unusable_ratio"], scattered / sum(holes), places=5)
        free, room = sum(holes) + device_free, allocator.reserved() + device_free
        rises = allocator.allocated() + size > max(allocated_levels(allocator.trace))
        full, scarce = rises and free * 20 < room, rises and free < 2 * size
        self.assertEqual(said["oom"]["cause"],
                         "capacity" if free < size or full else None if scarce else "fragmentation")
        self.assertEqual(said["oom"]["further_bytes"], free - size if free >= size else None)
        want = [name for name, remedy in REMEDIES.items() if {**settings, **remedy} != settings
                and fits(allocator.trace, {**settings, **remedy}, allocator.capacity)]
        self.assertEqual(said["oom"]["would_fit"], None if free >= size and full else want)
        for name in list(REMEDIES)[:2]:
            replay = frag(self.path, "--replay", name)["replay"]
            self.assertEqual((replay["capacity_bytes"], replay["oom"]), (allocator.capacity, name not in want))
        return want

    def test_random(self):
        causes = {True: 0, False: 0}
        for seed in range(int(os.environ.get("MEMPROF_REPLAYS", "40"))):
            r = random.Random(seed)
            settings = r.choice([{}, {}, {"expandable_segments": True}, {"max_split_size": 40 * MIB}])
            capacity = r.choice([100, 200, 400]) * MIB
            allocator, live = naive_allocator.Allocator(capacity, 1 << 40, settings), []
            while True:
                try:
                    live.append(allocator.malloc(int(2 ** r.uniform(9, 25)), r.choice([0, 0, 5])))
                except naive_allocator.OutOfMemory:
                    break
                while live and r.random() < 0.45:
                    allocator.free(live.pop(r.randrange(len(live))))
            causes[bool(self.check(allocator, settings))] += 1
        self.assertTrue(all(causes.values()), causes)

    def test_an_earlier_one(self):
        """If a program ran out of memory several times, the last time counts."""
        allocator = naive_allocator.Allocator(100 * MIB, 1 << 40, {})
        held = [allocator.malloc(30 * MIB, 0) for _ in range(3)]
        with self.assertRaises(naive_allocator.OutOfMemory):
            allocator.malloc(500 * MIB, 0)
        for handle in held[:2]:
            allocator.free(handle)
        allocator.malloc(3 * MIB, 0)
        with self.assertRaises(naive_allocator.OutOfMemory):
            allocator.malloc(50 * MIB, 0)
        said = self.autopsy(allocator, {})
        self.assertEqual(said["oom"]["cause"], "fragmentation")
        self.assertIn("expandable_segments:True", said["oom"]["would_fit"])

    def test_full(self):
        """Live blocks alone fill the memory: a setting would fit one request, and not the rest of the program. If more
        was live at an earlier time, the program would go on."""
        for earlier, cause in ((False, "capacity"), (True, "fragmentation")):
            allocator = naive_allocator.Allocator(965 * MIB, 1 << 40, {})
            for segment in range(48):
                passing = [allocator.malloc(size * MIB, 0) for size in (8, 8, 4)[:2 if segment < 5 and not earlier else 3]]
                if segment < 5 and earlier:
                    last = passing[2:] if segment == 0 else last + passing[2:]
            for handle in last if earlier else []:
                allocator.free(handle)
            with self.assertRaises(naive_allocator.OutOfMemory):
                allocator.malloc(12 * MIB, 0)
            oom = self.autopsy(allocator, {})["oom"]
            self.assertEqual((oom["cause"], oom["further_bytes"]), (cause, 13 * MIB))
            self.assertEqual(oom["would_fit"] is None, not earlier)

    def test_no_remedy_that_pytorch_refuses(self):
        """max_split_size_mb below the size of a large segment."""
        settings = {"large_segment_size": 64 * MIB}
        allocator = naive_allocator.Allocator(200 * MIB, 1 << 40, settings)
        for handle in [allocator.malloc(60 * MIB, 0) for _ in range(3)][:2]:
            allocator.free(handle)
        with self.assertRaises(naive_allocator.OutOfMemory):
            allocator.malloc(199 * MIB, 0)
        said = self.autopsy(allocator, settings)
        self.assertNotIn("max_split_size_mb:21", said["oom"]["would_fit"] or [])

    def test_limit(self):
        settings = {"fraction": 0.5}
        allocator = naive_allocator.Allocator(100 * MIB, 100 * MIB, settings)
        allocator.malloc(30 * MIB, 0)
        with self.assertRaises(naive_allocator.OutOfMemory):
            allocator.malloc(22 * MIB, 0)
        said = self.autopsy(allocator, settings)
        self.assertEqual((said["oom"]["cause"], said["oom"]["would_fit"]), ("limit", None))

    def test_leak(self):
        allocator, marks = naive_allocator.Allocator(600 * MIB, 1 << 40, {}), []
        with self.assertRaises(naive_allocator.OutOfMemory):
            for step in range(1000):
                marks.append((len(allocator.trace), step))
                held = [allocator.malloc(20 * MIB, 0) for _ in range(3)]
                allocator.malloc(11 * MIB, 0)
                for handle in held:
                    allocator.free(handle)
        self.assertEqual(self.autopsy_of_steps(allocator, marks)["cause"], "leak")

    def test_a_leak_that_the_next_step_cannot_add_to(self):
        """Its blocks leave 258 MiB free in pieces, enough for the request, and grow by 300 MiB a step."""
        allocator, marks = naive_allocator.Allocator(4680 * MIB, 1 << 40, {}), []
        for handle in [allocator.malloc(8 * MIB, 0) for block in range(48)][1::2]:
            allocator.free(handle)
        with self.assertRaises(naive_allocator.OutOfMemory):
            for step in range(1000):
                marks.append((len(allocator.trace), step))
                for block in range(10):
                    allocator.malloc(30 * MIB, 0)
        oom = self.autopsy_of_steps(allocator, marks)
        self.assertEqual((oom["cause"], oom["would_fit"], oom["further_bytes"]), ("leak", None, 258 * MIB))

    def autopsy_of_steps(self, allocator, marks):
        """`marks`: (place in the trace, number) of each step."""
        notes = []
        for at, step in marks:
            notes += [{"stage": stage, "name": f"ProfilerStep#{step}", "device": 0, "time_us": time}
                      for stage, time in (("END", 10**15 + at - 1), ("START", 10**15 + at))][step == 0:]
        notes = [dict(note, name=f"ProfilerStep#{int(note['name'][13:]) - (note['stage'] == 'END')}") for note in notes]
        return self.autopsy(allocator, {}, external_annotations=notes)["oom"]

    def test_what_did_not_fit_without_free_memory_proves_nothing(self):
        """The device may have had more free memory, so memprof does not claim that no setting fits."""
        unknown = 0
        for seed in range(20):
            program = Program(seed, 300, True)
            if not program.allocator.trace or program.allocator.trace[-1][0] != "oom":
                continue
            snapshot = snapshot_of(program.allocator, program.settings)
            del snapshot["device_traces"][0][-1]["device_free"]
            fit = frag(self.write(snapshot))["oom"]["would_fit"]
            unknown += fit is None
            self.assertNotEqual(fit, [])
        self.assertGreater(unknown, 0)

    def test_no_stated_free_memory(self):
        """Old traces lack the device's free bytes. A request that fits into the reserved bytes fits anyway."""
        allocator = naive_allocator.Allocator(40 * MIB, 1 << 40, {})
        first = allocator.malloc(20 * MIB, 0)
        allocator.malloc(20 * MIB, 0)
        allocator.free(first)
        allocator.malloc(2 * MIB, 0)
        with self.assertRaises(naive_allocator.OutOfMemory):
            allocator.malloc(20 * MIB, 0)
        snapshot = snapshot_of(allocator, {})
        del snapshot["device_traces"][0][-1]["device_free"]
        said = frag(self.write(snapshot))
        self.assertIsNone(said["oom"]["device_free_bytes"])
        self.assertEqual(said["reserved_bytes"], allocator.reserved())


class Settings(Written):
    def test_other_settings(self):
        """The highest reserved bytes under other settings equal those of the naive allocator for the same requests."""
        for seed in range(int(os.environ.get("MEMPROF_REPLAYS", "40")) // 2):
            r = random.Random(seed)
            allocator, live = naive_allocator.Allocator(1 << 36, 1 << 40, {}), []
            for _ in range(300):
                if r.random() < 0.55:
                    live.append(allocator.malloc(int(2 ** r.uniform(9, 26)), r.choice([0, 0, 5])))
                elif live:
                    allocator.free(live.pop(r.randrange(len(live))))
            self.write(snapshot_of(allocator, {}))
            for text, settings in REMEDIES.items():
                other, live = naive_allocator.Allocator(1 << 60, 1 << 40, settings), {}
                for action, address, size, stream, _ in allocator.trace:
                    if action == "alloc":
                        live[address] = other.malloc(size, stream)
                    elif action == "free_completed":
                        other.free(live.pop(address))
                replay = frag(self.path, "--replay", text)["replay"]
                self.assertEqual((replay["reserved_peak_bytes"], replay["allocated_peak_bytes"], replay["oom"]),
                                 (other.peak_reserved, other.peak_allocated, False), f"{seed} {text}")

    def test_nonsense(self):
        self.write(Program(1).snapshot())
        for text, word in (("expandable_segments:yes", "True or False"), ("max_split_size_mb:3", "at least"),
                           ("nothing", "no setting"), ("nothing:1", "no setting"), ("backend:cudaMallocAsync", "native"),
                           ("roundup_power2_divisions:[256:3]", "power of two"), ("roundup_power2_divisions:[", "list"),
                           ("garbage_collection_threshold:1.5", "share"), ("max_split_size_mb:99999999999999", "MiB"),
                           ("per_process_memory_fraction:", "share"), ("large_segment_size_mb:8", "more than 10"),
                           ("expandable_segments_reserve:40M", "GiB"), ("expandable_segments_reserve:0", "GiB")):
            self.assertIn(word, frag(self.path, "--replay", text, status=2))
        for text in ("", " expandable_segments:True , max_split_size_mb:512", "pinned_use_background_threads:True",
                     "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "garbage_collection_threshold:0.8",
                     "expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[serving:8G]",
                     "pinned_max_cached_size_mb:64,pinned_max_round_threshold_mb:1,pinned_free_catch_all:True"):
            self.assertIsNotNone(frag(self.path, "--replay", text)["replay"])


if __name__ == "__main__":
    asserted.main()
