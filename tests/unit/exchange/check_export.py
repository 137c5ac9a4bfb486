#!/usr/bin/env python3
"""Files of memprof export: read by Python's own pickle, replayed by hand, and compared with the snapshot they were made
of."""
import collections
import glob
import json
import os
import pathlib
import pickle
import pickletools
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from check_kineto import memory, span

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from harness import DATA, memprof, make_recording  # noqa: E402

# The opcodes that torch/utils/viz/MemoryViz.js of PyTorch can read, by their names in pickletools.
KNOWN_TO_THE_VIEWER = {
    "PROTO", "FRAME", "STOP", "MARK", "APPEND", "APPENDS", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE",
    "NEWTRUE", "NEWFALSE", "NONE", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BININT", "BININT1",
    "BININT2", "LONG1", "EMPTY_DICT", "EMPTY_LIST", "DICT", "SETITEM", "SETITEMS", "SHORT_BINUNICODE", "BINUNICODE",
    "BINFLOAT"}


def as_lists(value):
    """The value with lists for tuples, as in JSON."""
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def end_state(trace, segments):
    """Level and peak of a trace by addresses alone, from the blocks in its segments at the end. Every live block must
    be inside of a segment that exists at that moment."""
    live = {block["address"]: block["requested_size"] for segment in segments for block in segment["blocks"]
            if block["state"] == "active_allocated"}
    places = {segment["address"]: segment["total_size"] for segment in segments}
    peak = end = sum(live.values())

    def inside(address, size):
        return any(start <= address and address + size <= start + room for start, room in places.items())

    for entry in reversed(trace):
        action, size = entry["action"], entry["size"]
        if action == "alloc":
            assert live.pop(entry["addr"]) == size
        elif action == "free_completed":
            assert entry["addr"] not in live and inside(entry["addr"], size), entry
            live[entry["addr"]] = size
        elif action == "segment_free":
            places[entry["addr"]] = size
        elif action == "segment_alloc":
            assert places.pop(entry["addr"]) == size
        peak = max(peak, sum(live.values()))
    return sum(live.values()), peak, end


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-export-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def export(self, path, name="out.pickle"):
        done = memprof("export", path, "-o", self.folder / name, "--format", "pytorch")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return done.stderr

    def read(self, path):
        said = self.export(path)
        with open(self.folder / "out.pickle", "rb") as file:
            snapshot = pickle.load(file)
        self.check_segments(snapshot)
        if os.path.getsize(self.folder / "out.pickle") < 100_000:  # JSON repeats every frame
            self.check_form()
            self.export(path, "out.json")
            with open(self.folder / "out.json", encoding="utf-8") as file:
                self.assertEqual(as_lists(snapshot), json.load(file))
        return snapshot, said

    def check_form(self):
        """No opcode that the viewer does not know, and at most 1000 items at a time."""
        with open(self.folder / "out.pickle", "rb") as file:
            data = file.read()
        self.assertEqual(data[:2], b"\x80\x04")
        pending = [0]
        for opcode, argument, _ in pickletools.genops(data):
            self.assertIn(opcode.name, KNOWN_TO_THE_VIEWER)
            if opcode.name == "LONG1":
                self.assertLess(argument, 1 << 64)
            if opcode.name == "MARK":
                pending.append(0)
            elif opcode.name in ("APPENDS", "SETITEMS"):
                items = pending.pop()
                self.assertTrue(0 < items <= (2000 if opcode.name == "SETITEMS" else 1000))
            elif opcode.name == "TUPLE2":
                pending[-1] -= 1
            elif opcode.name not in ("PROTO", "MEMOIZE", "STOP"):
                pending[-1] += 1

    def check_segments(self, snapshot):
        ends = collections.defaultdict(int)
        for segment in snapshot["segments"]:
            self.assertGreaterEqual(segment["address"], ends[segment["device"]])
            ends[segment["device"]] = segment["address"] + segment["total_size"]
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at)
                self.assertGreater(block["size"], 0)
                self.assertLessEqual(block["requested_size"], block["size"])
                at += block["size"]
            self.assertEqual(at, segment["address"] + segment["total_size"])
            active = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
            self.assertEqual(segment["allocated_size"], sum(block["size"] for block in active))
            self.assertEqual(segment["requested_size"], sum(block["requested_size"] for block in active))

    def info(self, path, command="info"):
        done = memprof(command, path, "--json")
        self.assertIn(done.returncode, (0, 4), done.stderr)
        return json.loads(done.stdout)

    def make(self, kind):
        path = self.folder / f"{kind}.mp"
        make_recording(path, kind)
        return path

    def kineto(self, *events):
        path = self.folder / "x.json"
        path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 10**18, "traceEvents": events}))
        return path

    def test_a_recording(self):
        path = self.make("train")
        snapshot, _ = self.read(path)
        tracks = {track["id"]: track for track in self.info(path)["tracks"]}
        for device, trace in enumerate(snapshot["device_traces"]):
            track = tracks[f"cuda:{device}/torch"]
            segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
            self.assertEqual(end_state(trace, segments),
                             (track["base_bytes"], track["peak_bytes"], track["end_bytes"]))
            actions = collections.Counter(entry["action"] for entry in trace)
            self.assertEqual(actions["alloc"], track["allocs"])
            self.assertEqual((actions["free_requested"], actions["free_completed"]), (track["frees"],) * 2)
        self.assertEqual({entry["stage"] for entry in snapshot["external_annotations"]}, {"START", "END"})
        names = [entry["name"] for entry in snapshot["external_annotations"] if entry["stage"] == "START"]
        self.assertIn("ProfilerStep#1", names)
        self.assertIn("forward", names)

    def test_frames(self):
        path = self.kineto(span("train.py(3): main", 0, 100, "python_function"), span("aten::mm", 5, 20),
                           memory(10, 512, 4096, 512, 1024), memory(12, 512, 8192, 1024, 1024))
        snapshot, _ = self.read(path)
        first, second = snapshot["device_traces"][0]
        self.assertEqual(first["frames"], [{"name": "aten::mm", "filename": "??", "line": 0},
                                           {"name": "main", "filename": "train.py", "line": 3}])
        self.assertIs(first["frames"], second["frames"])
        self.assertEqual(first["time_us"], 10**15 + 10)

    def test_more_than_a_batch(self):
        events = [memory(at, 512, 4096 + 512 * at, 512 * (at + 1)) for at in range(3001)]
        snapshot, _ = self.read(self.kineto(*events))
        self.assertEqual([entry["addr"] for entry in snapshot["device_traces"][0]],
                         [4096 + 512 * at for at in range(3001)])

    def test_devices_keep_their_ordinals(self):
        snapshot, said = self.read(self.kineto(memory(1, 512, 4096, 512, device=(1, 2)),
                                               memory(2, 64, 4096, 64, device=(0, -1))))
        self.assertEqual([len(trace) for trace in snapshot["device_traces"]], [0, 0, 1])
        self.assertEqual({segment["device"] for segment in snapshot["segments"]}, {2})
        self.assertIn("tracks left out, because a snapshot has one for each device: 1", said)

    def test_cpu_alone(self):
        snapshot, said = self.read(self.kineto(memory(1, 512, 4096, 512, device=(0, -1))))
        self.assertIn("the recording has no GPU: cpu/torch is written as device 0", said)
        self.assertEqual(len(snapshot["device_traces"][0]), 1)

    def test_addresses_that_are_not_known(self):
        """Two blocks at a time without addresses, and a base with unknown blocks."""
        path = self.kineto(memory(1, 512, total=1512), memory(2, 512, total=2024), memory(3, -512, total=1512),
                           memory(4, 512, total=2024), memory(5, -512, total=1512), memory(6, 256, total=1768))
        snapshot, said = self.read(path)
        self.assertEqual(end_state(snapshot["device_traces"][0], snapshot["segments"]), (1000, 2024, 1768))
        self.assertIn("is unknown or another block's: 5", said)

    def test_sizes_that_change(self):
        path = self.kineto(memory(1, 512, 4096, 1512), memory(2, 64, 8192, 2576), memory(3, 32, 12288, 1608))
        snapshot, _ = self.read(path)
        track = self.info(path)["tracks"][0]
        self.assertEqual(end_state(snapshot["device_traces"][0], snapshot["segments"]),
                         (track["base_bytes"], track["peak_bytes"], track["end_bytes"]))

    def test_blocks_that_overlap(self):
        snapshot, _ = self.read(self.kineto(memory(1, 4096, 4096, 4096), memory(2, 4096, 6144, 8192),
                                            memory(3, 4096, 4096, 12288), memory(4, 512, 2**63, 12800)))
        self.assertEqual(end_state(snapshot["device_traces"][0], snapshot["segments"])[2],
                         self.info(self.folder / "x.json")["tracks"][0]["end_bytes"])

    def test_out_of_memory(self):
        path = self.kineto(memory(1, 512, 4096, 512, 1024),
                           memory(2, 1 << 40, None, 512, 1024, name="[OutOfMemory]"))
        snapshot, _ = self.read(path)
        self.assertEqual(snapshot["device_traces"][0][1],
                         {"action": "oom", "device_free": 0, "size": 1 << 40, "stream": 0, "time_us": 10**15 + 2})

    def test_names_of_any_bytes(self):
        snapshot, _ = self.read(self.make("hostile"))
        self.assertIn("\ufffd", json.dumps(snapshot, ensure_ascii=False))

    def test_in_out_and_in_again(self):
        """A snapshot is read, written and read again: both readings agree."""
        paths = sorted(glob.glob(f"{DATA}/*.pickle")) if DATA else []
        if not paths:
            self.skipTest("no recordings by others at hand")
        for path in paths:
            with self.subTest(file=os.path.basename(path)):
                self.check_in_out_in(path)

    def check_in_out_in(self, path):
        self.assertEqual(self.export(path), "")
        again = self.folder / "out.pickle"
        first = again.read_bytes()
        for command in (["info"], ["peak", "-n", "0"], ["leaks", "-n", "0"], ["steps"], ["frag"],
                        ["frag", "--replay", "recorded"]):
            self.assertEqual(self.said_by(command, path), self.said_by(command, again), command)
        again.rename(self.folder / "first.pickle")
        self.assertEqual(self.export(self.folder / "first.pickle"), "")
        self.assertEqual(again.read_bytes(), first)

    def said_by(self, command, path):
        done = memprof(*command, path, "--json")
        answer = json.loads(done.stdout) if done.stdout else {}
        answer.get("info", answer).update(file=None, coverage=None)
        for part in (answer, answer.get("held"), answer.get("outstanding")):
            if part and part.get("sites"):  # equal ones come in the order of their stacks' ids
                part["sites"].sort(key=json.dumps)
        return done.returncode, done.stderr, answer

    def test_wrong_use(self):
        path = self.make("train")
        for arguments in ((), ("-o", "x"), ("--format", "pytorch"), ("-o", "x", "--format", "pdf")):
            done = memprof("export", path, *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"\Amemprof: ")
        done = memprof("export", self.make("nothing"), "-o", self.folder / "x", "--format", "pytorch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no track", done.stderr)
        self.assertFalse((self.folder / "x").exists())
        done = memprof("export", path, "-o", "/dev/full", "--format", "pytorch")
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    asserted.main()
