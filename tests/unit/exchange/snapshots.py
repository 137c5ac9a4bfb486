"""Made-up snapshots of PyTorch, the right answers about them, and helpers to run memprof."""
import json
import pathlib
import pickle
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness  # noqa: E402

START = 1757044802340508
MIB = 1 << 20


def frame(i):
    if i % 5 == 0:
        return {"name": f"at::native::op_{i}(at::Tensor const&)", "filename": "??", "line": 0}
    return {"name": f"function_{i}", "filename": f"/home/u/model_{i % 7}.py", "line": i}


class Made:
    """A made-up snapshot, and the truth about it, from a replay that counts every byte."""

    def __init__(self, seed, devices=1, before=20, length=400, frames=True, host=False):
        self.random = random.Random(seed)
        self.frames = [frame(i) for i in range(60)]
        self.stacks = [[self.frames[(s * 7 + k) % 60] for k in range(1 + s % 9)] for s in range(25)]
        self.with_frames = frames
        self.snapshot = {"segments": [], "device_traces": [], "allocator_settings": {"max_split_size": -1},
                         "external_annotations": []}
        if host:
            self.snapshot["host_segments"], self.snapshot["host_traces"] = [], []
        self.truth = {}
        for device in range(devices):
            self.make_device(device, before, length, self.snapshot["segments"], self.snapshot["device_traces"],
                             f"cuda:{device}")
        if host:
            self.make_device(0, before, length, self.snapshot["host_segments"], self.snapshot["host_traces"], "cpu")

    def make_device(self, device, before, length, segments, traces, name):
        r, now = self.random, START
        live, free, trace = {}, [], []
        mapped = {}  # address of a segment: size, traced?
        truth = {"allocs": 0, "frees": 0, "base_bytes": 0, "level": 0, "peak_bytes": 0, "reserved": 0}
        next_segment = 0x7f0000000000 + (device << 36)

        def entry(action, addr, size, stack):
            nonlocal now
            now += r.choice((0, 0, 1, 7, 1000))
            made = {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": now}
            if self.with_frames and r.random() < 0.9:
                made["frames"] = self.stacks[stack]
            trace.append(made)

        def segment(traced):
            nonlocal next_segment
            address, size = next_segment, 20 * MIB
            next_segment += 64 * MIB
            mapped[address] = size
            free.extend(address + i * 64 * 1024 for i in range(size // (64 * 1024)))
            truth["reserved"] += size
            if traced:
                entry("segment_alloc", address, size, 0)

        def alloc(traced):
            if not free:
                segment(traced)
            address, size = free.pop(r.randrange(len(free))), r.randrange(1, 64 * 1024)
            stack = r.randrange(25)
            live[address] = size, stack
            truth["level"] += size
            if traced:
                entry("alloc", address, size, stack)
                truth["allocs"] += 1
            else:
                truth["base_bytes"] += size

        for _ in range(before):
            alloc(False)
        truth["peak_bytes"], truth["reserved_peak"] = truth["level"], truth["reserved"]
        for _ in range(length):
            if live and r.random() < 0.45:
                address = r.choice(list(live))
                size, stack = live.pop(address)
                entry("free_requested", address, size, stack)
                entry("free_completed", address, size, stack)
                truth["frees"] += 1
                truth["level"] -= size
                free.append(address)
            elif r.random() < 0.02:
                entry("snapshot", 0, truth["level"], 0)
            else:
                alloc(True)
            truth["peak_bytes"] = max(truth["peak_bytes"], truth["level"])
            truth["reserved_peak"] = max(truth["reserved_peak"], truth["reserved"])
        for address, size in sorted(mapped.items()):
            blocks = []
            for at in range(address, address + size, 64 * 1024):
                taken = at in live
                blocks.append({"address": at, "size": 64 * 1024, "state": "active_allocated" if taken else "inactive",
                               "requested_size": live[at][0] if taken else 0,
                               "frames": self.stacks[live[at][1]] if taken and self.with_frames else []})
            segments.append({"device": device, "address": address, "total_size": size, "stream": 0,
                             "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                             "blocks": blocks})
        traces.append(trace)
        self.truth[name] = truth


def without_file(answer):
    """An answer without the facts about its file."""
    info = answer.get("info", answer)
    info["file"] = None
    return answer


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def memprof(self, *arguments):
        return harness.memprof(*arguments)

    def answer(self, *arguments):
        run = self.memprof(*arguments, "--json")
        self.assertEqual((run.returncode, run.stderr), (0, ""), arguments)
        return json.loads(run.stdout)

    def put(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def dump(self, snapshot, protocol=4):
        return self.put("made.pickle", pickle.dumps(snapshot, protocol))

    def check_truth(self, info, truth):
        tracks = {track["id"]: track for track in info["tracks"]}
        for device, want in truth.items():
            got = tracks[device + "/torch"]
            self.assertEqual(
                {key: got[key] for key in ("allocs", "frees", "base_bytes", "peak_bytes", "end_bytes",
                                           "reserved_peak_bytes", "size_basis")},
                {"allocs": want["allocs"], "frees": want["frees"], "base_bytes": want["base_bytes"],
                 "peak_bytes": want["peak_bytes"], "end_bytes": want["level"],
                 "reserved_peak_bytes": want["reserved_peak"], "size_basis": "requested"}, device)
            self.assertEqual(tracks[device + "/driver"]["end_bytes"], want["reserved"])
