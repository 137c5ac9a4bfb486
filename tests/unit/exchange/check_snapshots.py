#!/usr/bin/env python3
"""PyTorch's memory snapshots as memprof reads them: pickles by Python at protocols 2 to 5, JSON and gzip. Answers are
compared with a replay that shares no code with memprof."""
import cProfile
import gzip
import json
import pathlib
import pickle
import random
import struct
import sys
import tracemalloc
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import MIB, START, Case, Made, frame, without_file

PAGE = 2 * MIB


class CppPickler:
    """Writes as PyTorch's own C++ pickler does: protocol 2, lists in one go, integers of 8 bytes, all texts stored."""

    def __init__(self):
        self.out, self.stored = [b"\x80\x02"], {}

    def store(self, key):
        number = self.stored[key] = len(self.stored)
        self.out.append(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def put(self, value):
        key = value if isinstance(value, str) else id(value)
        if isinstance(value, (str, dict, list)) and key in self.stored:
            number = self.stored[key]
            self.out.append(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
        elif isinstance(value, str):
            self.out.append(b"X" + struct.pack("<I", len(value.encode())) + value.encode())
            self.store(key)
        elif isinstance(value, bool):
            self.out.append(b"\x88" if value else b"\x89")
        elif isinstance(value, int):
            self.out.append(b"\x8a\x08" + struct.pack("<q", value) if abs(value) >> 31 else
                            b"J" + struct.pack("<i", value))
        elif isinstance(value, tuple):
            self.out.append(b"(")
            for item in value:
                self.put(item)
            self.out.append(b"t")
        else:
            self.out.append(b"}" if isinstance(value, dict) else b"]")
            self.store(key)
            self.out.append(b"(")
            for item in (word for pair in value.items() for word in pair) if isinstance(value, dict) else value:
                self.put(item)
            self.out.append(b"u" if isinstance(value, dict) else b"e")

    def dumps(self, value):
        self.put(value)
        return b"".join(self.out) + b"."


class Snapshots(Case):
    def test_truth(self):
        for seed in range(12):
            made = Made(seed, devices=1 + seed % 3, before=(seed % 4) * 30, frames=seed % 2 == 0, host=seed % 5 == 0)
            self.check_truth(self.answer("info", self.dump(made.snapshot)), made.truth)

    def test_every_form_answers_the_same(self):
        made = Made(99, devices=2)
        made.snapshot["external_annotations"] = [
            {"stage": stage, "name": f"ProfilerStep#{i}", "device": 0, "time_us": START + i * 20000 + (stage == "END")}
            for i in range(5) for stage in ("START", "END")]
        text = json.dumps(made.snapshot).encode()
        forms = {f"{protocol}.pickle": pickle.dumps(made.snapshot, protocol) for protocol in (2, 3, 4, 5)}
        forms.update({"cpp.pickle": CppPickler().dumps(made.snapshot), "s.json": text, "pretty.json": b"\xef\xbb\xbf\n " + json.dumps(made.snapshot, indent=1).encode(),
                      "s.json.gz": gzip.compress(text), "no-suffix": gzip.compress(forms["4.pickle"])})
        for command in ("info", "report", "leaks", "steps"):
            answers = {name: without_file(self.answer(command, self.put(name, data))) for name, data in forms.items()}
            for name in forms:
                self.assertEqual(answers[name], answers["4.pickle"], (command, name))
        self.assertEqual(answers["4.pickle"]["source"], "torch")
        self.assertEqual(len(answers["4.pickle"]["steps"]), 5)

    def test_import_answers_the_same(self):
        path = self.dump(Made(7, devices=2, host=True).snapshot)
        kept = self.folder / "kept.mp"
        self.assertEqual(self.memprof("import", path, "-o", kept).returncode, 0)
        for command in ("info", "report", "peak", "leaks", "steps"):
            self.assertEqual(without_file(self.answer(command, kept)), without_file(self.answer(command, path)))
        self.assertEqual(self.answer("info", kept)["file"]["format"], "mp")
        (self.folder / "kept.mp.gz").write_bytes(gzip.compress(kept.read_bytes()))
        self.assertEqual(without_file(self.answer("info", self.folder / "kept.mp.gz")),
                         without_file(self.answer("info", path)))
        again = self.memprof("import", path, "-o", kept)
        self.assertEqual(again.returncode, 1)
        self.assertIn("already there", again.stderr)
        self.assertEqual(self.memprof("import", path).returncode, 2)
        self.assertEqual(self.memprof("import", kept, "-o", self.folder / "k2.mp").returncode, 1)
        self.assertFalse((self.folder / "k2.mp").exists())

    def test_python_and_native_frames(self):
        made = Made(3, before=0)
        sites = self.answer("peak", self.dump(made.snapshot))["sites"]
        seen = {(f["language"], f["function"], f["file"], f["line"]) for site in sites for f in site["stack"]}
        self.assertIn(("python", "function_1", "/home/u/model_1.py", 1), seen)
        self.assertIn(("native", "at::native::op_5(at::Tensor const&)", None, None), {
            (language, function, file, line or None) for language, function, file, line in seen})
        longest = max((site["stack"] for site in sites), key=len)
        names = [f["function"] for f in longest]
        self.assertIn(names, [[f["name"] for f in stack] for stack in made.stacks])

    def test_paths_of_windows(self):
        frames = [{"name": "f", "filename": "D:\\venv\\Lib\\site-packages\\torch\\nn.py", "line": 4},
                  {"name": "main", "filename": "D:\\Dev\\train.py", "line": 7}]
        trace = [{"action": "alloc", "addr": 4096, "size": 1, "stream": 0, "time_us": START, "frames": frames}]
        sites = self.answer("peak", self.dump({"segments": [], "device_traces": [trace]}), "--group", "file")["sites"]
        self.assertEqual([site["group"] for site in sites], ["D:\\Dev\\train.py"])
        report = self.memprof("report", self.folder / "made.pickle").stdout
        self.assertIn(" train.py:7 main\n", report)

    def test_blocks_that_wait_for_a_stream(self):
        """Between free_requested and free_completed a block is still taken."""
        trace = [{"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "time_us": START},
                 {"action": "free_requested", "addr": 4096, "size": 1000, "stream": 0, "time_us": START + 1},
                 {"action": "alloc", "addr": 8192, "size": 500, "stream": 0, "time_us": START + 2},
                 {"action": "free_completed", "addr": 4096, "size": 1000, "stream": 0, "time_us": START + 3}]
        track = self.answer("info", self.dump({"segments": [], "device_traces": [trace]}))["tracks"][0]
        self.assertEqual((track["peak_bytes"], track["end_bytes"], track["peak_ns"]), (1500, 500, 2000))
        without = [entry for entry in trace if entry["action"] != "free_completed"]
        info = self.answer("info", self.dump({"segments": [], "device_traces": [without]}))
        self.assertEqual((info["tracks"][0]["peak_bytes"], info["tracks"][0]["end_bytes"]), (1000, 500))
        self.assertTrue(any("free_completed" in note for note in info["coverage"]["notes"]))

    def test_expandable_segments(self):
        """Ranges are mapped and unmapped in different pieces; the test has its own page map."""
        for seed in range(6):
            r, pages, base, trace, peak = random.Random(seed), set(range(8)), 8, [], 8
            for i in range(120):
                first = r.randrange(60)
                span = set(range(first, first + r.randrange(1, 8)))
                maps = not span & pages
                if not maps and not span <= pages:
                    continue
                pages = pages | span if maps else pages - span
                peak = max(peak, len(pages))
                trace.append({"action": "segment_map" if maps else "segment_unmap", "addr": (1 << 40) + min(span) * PAGE,
                              "size": len(span) * PAGE, "stream": 0, "time_us": START + i})
            segments = [{"device": 0, "address": (1 << 40) + page * PAGE, "total_size": PAGE, "stream": 0,
                         "is_expandable": True, "blocks": []} for page in pages]
            info = self.answer("info", self.dump({"segments": segments, "device_traces": [trace]}))
            driver = {track["id"]: track for track in info["tracks"]}["cuda:0/driver"]
            self.assertEqual([driver["base_bytes"], driver["peak_bytes"], driver["end_bytes"]],
                             [base * PAGE, peak * PAGE, len(pages) * PAGE])

    def test_odd_entries_and_their_notes(self):
        trace = [{"action": "alloc", "addr": 1 << 20, "size": 512, "stream": 0, "time_us": START, "frames": None},
                 {"action": "teleport", "addr": 5, "size": 5, "stream": 0, "time_us": START},
                 {"action": "alloc", "size": 512, "stream": 0, "time_us": START},
                 {"action": "oom", "device_free": 3 * MIB, "size": 5 * MIB, "stream": 0, "time_us": START + 5},
                 {"action": "user_defined", "frames": [{"name": "START", "filename": "forward", "line": 0}],
                  "addr": 0, "size": 0, "stream": 0, "time_us": START + 6},
                 {"action": "user_defined", "frames": [{"name": "END", "filename": "forward", "line": 0}],
                  "addr": 0, "size": 0, "stream": 0, "time_us": START + 8},
                 {"action": "alloc", "addr": 2 << 20, "size": 1, "stream": 0, "user_metadata": {"k": 1 << 200}},
                 "what is this"]
        info = self.answer("info", self.dump({"segments": [], "device_traces": [[], trace]}))
        self.assertEqual([track["id"] for track in info["tracks"]], ["cuda:1/torch"])
        track = info["tracks"][0]
        self.assertEqual((track["allocs"], track["end_bytes"], track["ooms"], track["reserved_peak_bytes"]),
                         (2, 513, 1, None))
        notes = "\n".join(info["coverage"]["notes"])
        for words in ("teleport", "no usable address", "3.00 MiB free", "no segments", "neither entries nor segments"):
            self.assertIn(words, notes)
        self.assertFalse(info["coverage"]["complete"])
        regions = self.answer("steps", self.dump({"segments": [], "device_traces": [[], trace]}))["regions"]
        self.assertEqual([(region["name"], region["count"]) for region in regions], [("forward", 1)])

    def test_regions_that_do_not_nest(self):
        spans = [("a", 0, 50), ("b", 10, 70), ("inner", 20, 30), ("open", 60, None), ("old", -50, -20),
                 ("reaches in", -10, 5)]
        notes = sorted([(START + at, stage, name) for name, start, end in spans
                        for at, stage in ((start, "START"), (end, "END")) if at is not None])
        snapshot = {"segments": [], "external_annotations": [
            {"stage": stage, "name": name, "device": 0, "time_us": at} for at, stage, name in notes],
            "device_traces": [[{"action": "alloc", "addr": 4096 * (i + 1), "size": 1 << i % 20, "stream": 0,
                                "time_us": START + i} for i in range(100)]]}
        rows = {row["name"]: row for row in self.answer("steps", self.dump(snapshot))["regions"]}
        self.assertEqual(set(rows), {"a", "b", "inner", "open", "reaches in"})
        for name, start, end in spans[:3]:
            want = sum(1 << i % 20 for i in range(start, end + 1))
            self.assertEqual(rows[name]["total_allocated_bytes"], want, name)

    def test_old_formats(self):
        blocks = [{"size": 1024, "state": "active_allocated", "history": [
                      {"addr": 4096, "real_size": 1000, "frames": [frame(1)]}]},
                  {"size": 512, "state": "inactive"}, {"size": 2048, "requested_size": 2000, "state": "active_pending_free"}]
        segment = {"device": 0, "address": 4096, "total_size": 3584, "allocated_size": 3072, "stream": 0,
                   "segment_type": "small", "blocks": blocks}
        for snapshot in ([segment], {"segments": [segment], "device_traces": [[]]}):
            info = self.answer("info", self.dump(snapshot))
            track = info["tracks"][0]
            self.assertEqual((track["base_bytes"], track["end_bytes"], track["reserved_peak_bytes"]), (3000, 3000, 3584))
            self.assertIsNone(info["process"]["start_unix_ns"])
            self.assertFalse(info["coverage"]["complete"])
            self.assertTrue(any("no times" in note for note in info["coverage"]["notes"]))
            stacks = [site["stack"] for site in self.answer("peak", self.dump(snapshot))["sites"]]
            self.assertIn("function_1", [frames[0]["function"] for frames in stacks if frames])

    def test_ring(self):
        made = Made(5)
        for key, says, complete in (("trace_alloc_overflowed", True, False), ("trace_alloc_overflowed", False, True),
                                    ("other", True, False)):
            made.snapshot["allocator_settings"] = {key: says}
            self.assertEqual(self.answer("info", self.dump(made.snapshot))["coverage"]["complete"], complete, key)

    def test_segments_that_overlap(self):
        """The first listed of two overlapping segments counts. No byte counts twice, a note says so, and the export
        lacks the other segment."""
        made = Made(7)
        truth = self.answer("info", self.dump(made.snapshot))["tracks"]
        first = made.snapshot["segments"][0]
        for shift, size in ((0, first["total_size"]), (4096 * 3, 4096 * 8), (-4096, 8192)):
            address = first["address"] + shift
            block = {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": []}
            twice = {**first, "address": address, "total_size": size, "blocks": [block]}
            path = self.dump({**made.snapshot, "segments": [*made.snapshot["segments"], twice]})
            info = self.answer("info", path)
            self.assertEqual(info["tracks"], truth)
            self.assertTrue([note for note in info["coverage"]["notes"] if "overlap" in note], shift)
            self.assertFalse(info["coverage"]["complete"])
            frag = self.answer("frag", path)
            again = self.folder / "again.pickle"
            self.memprof("export", path, "-o", again, "--force", "--format", "pytorch")
            self.assertEqual(len(pickle.loads(again.read_bytes())["segments"]), len(made.snapshot["segments"]))
            self.assertEqual(self.answer("info", again)["tracks"], truth)
            told = self.answer("frag", self.dump(made.snapshot))
            del frag["coverage"], told["coverage"]
            self.assertEqual(without_file(frag), without_file(told))

    def test_generated_code_is_shown_as_the_model(self):
        """Generated code is shown as the innermost line of fx_original_trace, with the graph's node."""
        trace = ('  File "/src/train.py", line 9, in <module>\n    loss = model(x)\n'
                 '  File "/src/model.py", line 42, in forward\n    a = self.net1(x)\n')
        generated = {"name": "forward", "filename": "<eval_with_key>.5", "line": 6, "fx_node_op": "call_module",
                     "fx_node_name": "net1", "fx_original_trace": trace}
        plain = {**generated, "fx_original_trace": "nothing of the kind"}
        for frame, want in ((generated, ("forward", "/src/model.py", 42)), (plain, ("forward", "<eval_with_key>.5", 6))):
            snapshot = {"segments": [], "device_traces": [[{"action": "alloc", "addr": 4096, "size": 512, "stream": 0,
                                                            "time_us": START, "frames": [frame]}]]}
            path = self.dump(snapshot)
            (site,) = self.answer("peak", path)["sites"]
            shown = site["stack"][0]
            self.assertEqual((shown["function"], shown["file"], shown["line"]), want)
            again = self.folder / "again.pickle"
            self.memprof("export", path, "-o", again, "--force", "--format", "pytorch")
            ((entry,),) = pickle.loads(again.read_bytes())["device_traces"]
            self.assertEqual(entry["frames"], [{"name": want[0], "filename": want[1], "line": want[2],
                                                "fx_node_name": "net1", "fx_node_op": "call_module"}])

    def test_files_that_are_no_recording_say_what_they_are(self):
        files = {"git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
                 "RMM's debug log": b"[1][12:00:00:000001][info   ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n",
                 "_dump_snapshot()": b"PK\x03\x04" + bytes(60),
                 "pprof": gzip.compress(b"\x0a\x04\x08\x01\x10\x02"),
                 "memray": b"memray\x0b" + bytes(60), "perf report": b"PERFILE2" + bytes(60), "a web page": b"<!DOCTYPE html>",
                 "speedscope": b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}',
                 "massif": b"desc: (none)\ncmd: ls\ntime_unit: i\n", "TensorBoard": bytes(9) + b"\x1a\x0dbrain.Event:2",
                 "neither PyTorch's snapshot": b'{"a": 1}', "man memprof-formats": b"main;f 3\n",
                 "nsys export": bytes(60), "memprof snapshot -- python3": b"import torch\n", "safetensors": bytes(60)}
        tracemalloc.start()
        tracemalloc.take_snapshot().dump(str(self.folder / "dumped"))
        tracemalloc.stop()
        profile = cProfile.Profile()
        profile.runcall(sorted, [2, 1])
        profile.dump_stats(self.folder / "timed")
        files |= {"tracemalloc.Snapshot.load()": (self.folder / "dumped").read_bytes(),
                  "pstats reads it": (self.folder / "timed").read_bytes(),
                  "is a pickle, but no memory snapshot": pickle.dumps(pathlib.PurePosixPath("a")),
                  "profile_memory=True": b'[{"name": "aten::randn", "ph": "X", "ts": 190, "dur": 213}]'}
        names = {"nsys export": "a.nsys-rep", "memprof snapshot -- python3": "train.py", "safetensors": "model.safetensors"}
        for says, content in files.items():
            path = self.folder / names.get(says, "other")
            path.write_bytes(content)
            result = self.memprof("report", path)
            self.assertEqual(result.returncode, 1, says)
            self.assertIn(says, result.stderr)

    def test_an_empty_snapshot_says_how_to_fill_it(self):
        block = {"address": 1 << 40, "size": MIB, "requested_size": MIB, "state": "active_allocated", "frames": []}
        segment = {"device": 0, "address": 1 << 40, "total_size": MIB, "allocated_size": MIB, "active_size": MIB,
                   "stream": 0, "segment_type": "large", "blocks": [block]}
        for snapshot in ({"segments": [], "device_traces": [[]]}, {"segments": [segment], "device_traces": [[]]}):
            notes = self.answer("info", self.dump(snapshot))["coverage"]["notes"]
            self.assertTrue([note for note in notes if "_record_memory_history()" in note], notes)

    def test_a_segment_that_another_takes_the_place_of(self):
        """A small segment of the base goes back to the driver, and a large one takes its place, from below. The end
        does not show which pool the small one belonged to."""
        small, large = 1 << 40, (1 << 40) - MIB
        after = [("alloc", small, 512), ("free_requested", small, 512), ("free_completed", small, 512),
                 ("segment_free", small, 2 * MIB), ("segment_alloc", large, 20 * MIB), ("alloc", large, 2 * MIB)]
        trace = [{"action": action, "addr": at, "size": size, "stream": 0, "time_us": START + i}
                 for i, (action, at, size) in enumerate(after)]
        blocks = [{"address": large, "size": 2 * MIB, "requested_size": 2 * MIB, "state": "active_allocated"},
                  {"address": large + 2 * MIB, "size": 18 * MIB, "requested_size": 0, "state": "inactive"}]
        segment = {"device": 0, "address": large, "total_size": 20 * MIB, "stream": 0, "segment_type": "large",
                   "segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks}
        path = self.dump({"segments": [segment], "device_traces": [trace], "allocator_settings": {}})
        run = self.memprof("frag", path, "--replay", "recorded")
        self.assertIn("exact", run.stdout)

    def test_disagreement_is_said(self):
        made = Made(6)
        for segment in made.snapshot["segments"]:
            segment["blocks"] = []
        info = self.answer("info", self.dump(made.snapshot))
        self.assertTrue(any("disagree" in note for note in info["coverage"]["notes"]))
        self.assertFalse(info["coverage"]["complete"])


if __name__ == "__main__":
    asserted.main()
