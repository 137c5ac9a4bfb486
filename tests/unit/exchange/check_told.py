#!/usr/bin/env python3
"""A snapshot with every key that PyTorch ever wrote, and with an unknown key in every dictionary, is read and written.
The lists of its keys and words are those of the installed PyTorch."""
import copy
import itertools
import json
import pathlib
import pickle
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

import torch_sources
from check_export import as_lists
from snapshots import MIB, START, Case

# All keys and words of snapshots, from PyTorch 1.13 to 2.14 and the development after it. A test below fails if the
# installed PyTorch has others. They come from PyTorch's sources:
#
# - the tests of _snapshot() (test/test_cuda.py)
# - writers of snapshots: torch/cuda/memory.py, torch/csrc/cuda/Module.cpp and memory_snapshot.cpp
# - readers of snapshots: torch/_utils.py, torch/cuda/_memory_viz.py, torch/utils/viz/*.js
ACTIONS = ("alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free", "segment_map",
           "segment_unmap", "snapshot", "oom", "user_defined", "annotate", "an action of tomorrow")
STATES = ("active_allocated", "active_pending_free", "active_awaiting_free", "inactive", "a state of tomorrow")
SEGMENT_TYPES = ("small", "large")
STAGES = ("START", "END")
FIELDS = {
    "Snapshot": {"segments", "device_traces", "allocator_settings", "external_annotations", "host_segments", "host_traces",
                 "categories"},
    "Segment": {"device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream",
                "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"},
    "Block": {"address", "size", "requested_size", "state", "frames", "history", "user_metadata"},
    "History": {"addr", "real_size", "frames"},  # of a block, up to 2.0
    "TraceEntry": {"action", "addr", "device_free", "size", "stream", "time_us", "frames", "pool_id",
                   "compile_context", "user_metadata", "internal_metadata", "forward_frames", "category"},
    "Frame": {"name", "filename", "line", "fx_node_op", "fx_node_name", "fx_node_target", "fx_node_info",
              "fx_original_trace"},
    "Annotation": {"stage", "name", "device", "time_us"},
    "Settings": {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size", "garbage_collection_threshold", "expandable_segments",
                 "pinned_num_register_threads", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
                 "graph_capture_record_stream_reuse", "roundup_power2_divisions", "trace_alloc_max_entries",
                 "trace_alloc_overflowed"},
}
NOT_OF_SNAPSHOTS = {"base64", "traces"}  # of the viewer's own page, and its first form


class Values:
    """Every value once."""

    def __init__(self):
        self.numbers = itertools.count(1000, 7)

    def number(self):
        return next(self.numbers)

    def text(self, of):
        return f"{of} {next(self.numbers)}"

    def more(self, of):
        """Keys that no PyTorch writes yet."""
        return {f"{of}_of_tomorrow": self.text(of), f"{of}_number": -self.number(), f"{of}_share": self.number() / 3.0,
                f"{of}_whole": float(self.number()), f"{of}_wide": (1 << 62) + self.number(),
                f"{of}_list": [self.number(), None, True, [False, {}], {"state": self.text("state")}],
                f"{of}_dict": {"name": self.text("name"), "deep": {"er": [self.number()]}}}

    def frame(self):
        return {"name": self.text("function"), "filename": f"/src/file_{self.number()}.py", "line": self.number(),
                "fx_node_op": self.text("op"), "fx_node_name": self.text("node"), "fx_node_target": self.text("target"),
                "fx_original_trace": f'  File "/src/model_{self.number()}.py", line {self.number()}, in forward\n'
                                     "    a = self.net1(x)\n",
                "fx_node_info": {"target": self.text("target")}, **self.more("frame")}

    def frames(self):
        return [self.frame(), {"name": "torch::op", "filename": "??", "line": 0},
                {"name": "PyEval", "filename": "", "line": 0}, self.frame()]

    def entry(self, action, address, size, at):
        place = "device_free" if action == "oom" else "addr"
        return {"action": action, place: address, "size": size, "stream": self.number(), "time_us": at,
                "frames": self.frames(), "pool_id": (self.number(), self.number()),
                "compile_context": self.text("compile"), "user_metadata": self.text("metadata"),
                "internal_metadata": {"stage": self.text("stage"), "action": self.text("action")},
                "category": self.text("category"),
                "forward_frames": [f'  File "/src/forward_{self.number()}.py", line 3, in forward\n    y = f(x)\n'],
                **self.more("entry")}

    def block(self, address, size, state):
        return {"address": address, "size": size, "requested_size": size - self.number() % 500, "state": state,
                "frames": self.frames(), "user_metadata": self.text("metadata"), **self.more("block"),
                "history": [{"addr": address, "real_size": self.number(), "frames": self.frames()}]}

    def segment(self, device, address):
        blocks = [self.block(address + i * 65536, 65536, state) for i, state in enumerate(STATES)]
        active = [block for block in blocks if block["state"].startswith("active")]
        return {"device": device, "address": address, "total_size": len(blocks) * 65536, "stream": -self.number(),
                "segment_type": SEGMENT_TYPES[device % 2], "segment_pool_id": (self.number(), self.number()), "is_expandable": True,
                "allocated_size": 65536, "active_size": sum(block["size"] for block in active),
                "requested_size": sum(block["requested_size"] for block in active), "frames": self.frames(),
                "blocks": blocks, **self.more("segment")}

    def trace(self, address):
        """One entry of each action; together they leave the memory unchanged."""
        return [self.entry(action, address + i * MIB, 4096, START + i) for i, action in enumerate(ACTIONS)]

    def snapshot(self):
        base = 1 << 40
        return {"segments": [self.segment(0, base), self.segment(3, base + (1 << 30))],
                "device_traces": [self.trace(base + 8 * MIB), [], [], self.trace(base + (2 << 30)), []],
                "host_segments": [self.segment(0, base + (3 << 30))], "host_traces": [self.trace(base + (4 << 30)), []],
                "allocator_settings": {
                    "PYTORCH_CUDA_ALLOC_CONF": self.text("expandable_segments:True,"), "max_split_size": -1,
                    "garbage_collection_threshold": 0.0, "expandable_segments": True,
                    "pinned_num_register_threads": self.number(), "release_lock_on_cudamalloc": False,
                    "pinned_use_cuda_host_register": True, "graph_capture_record_stream_reuse": False,
                    "roundup_power2_divisions": {str(1 << i): self.number() for i in range(16)},
                    "trace_alloc_max_entries": self.number(), "trace_alloc_overflowed": False,
                    **self.more("settings")},
                "external_annotations": [
                    {"stage": stage, "name": "forward", "device": self.number(), "time_us": START + at,
                     **self.more("annotation")} for stage, at in (("START", 2), ("END", 5), ("END", 7))],
                "categories": [self.text("category")], **self.more("snapshot")}


def by_place(snapshot):
    """{place: [dictionary]}, by the names of FIELDS."""
    found = {"Snapshot": [snapshot], "Settings": [snapshot["allocator_settings"]],
             "Annotation": snapshot["external_annotations"], "Segment": snapshot["segments"] + snapshot["host_segments"],
             "TraceEntry": [entry for key in ("device_traces", "host_traces") for trace in snapshot[key] for entry in trace]}
    found["Block"] = [block for segment in found["Segment"] for block in segment["blocks"]]
    found["History"] = [past for block in found["Block"] for past in block["history"]]
    found["Frame"] = [frame for place in ("Segment", "Block", "History", "TraceEntry") for row in found[place]
                      for frame in row["frames"]]
    return found


class Told(Case):
    def again(self, path, name):
        run = self.memprof("export", path, "-o", self.folder / name, "--format", "pytorch")
        self.assertEqual((run.returncode, run.stdout), (0, ""), run.stderr)
        return self.folder / name

    def allocator_of(self, path):
        """Facts about a GPU's allocator."""
        tracks = self.answer("info", path)["tracks"]
        return {track["id"]: [track[key] for key in ("allocs", "frees", "base_bytes", "peak_bytes", "end_bytes")]
                for track in tracks if track["id"].startswith("cuda") and track["id"].endswith("torch")}

    def check(self, snapshot):
        path = self.dump(snapshot)
        once = self.again(path, "once.pickle")
        self.assertEqual(self.allocator_of(once), self.allocator_of(path))
        twice = self.again(once, "twice.pickle")
        self.assertEqual(once.read_bytes(), twice.read_bytes())
        written = pickle.loads(once.read_bytes())["allocator_settings"]
        if "garbage_collection_threshold" in written:
            self.assertIsInstance(written["garbage_collection_threshold"], float)  # 0 and 0.0 are equal
        text = self.again(path, "once.json")
        self.assertEqual(as_lists(pickle.loads(once.read_bytes())), json.loads(text.read_text()))

    def test_every_key(self):
        snapshot = Values().snapshot()
        planted = json.dumps(snapshot)
        for word in ("fx_original_trace", "forward_frames", "internal_metadata", "tomorrow", "active_awaiting_free"):
            self.assertIn(word, planted)
        self.check(snapshot)

    def test_every_field_and_word_is_among_them(self):
        places = by_place(Values().snapshot())
        for place, fields in FIELDS.items():
            self.assertEqual(fields - {key for row in places[place] for key in row}, set(), place)
        for place, field, words in (("TraceEntry", "action", ACTIONS), ("Block", "state", STATES),
                                    ("Segment", "segment_type", SEGMENT_TYPES), ("Annotation", "stage", STAGES)):
            self.assertEqual({row[field] for row in places[place]}, set(words), field)

    def test_what_the_installed_pytorch_knows(self):
        """Fails if a newer PyTorch documents fields or words that the lists above lack, or if its viewer asks for
        such."""
        known = set().union(*FIELDS.values())
        words = {*ACTIONS, *STATES, *SEGMENT_TYPES, *STAGES}
        folders = torch_sources.folders()
        if not folders:
            self.skipTest("no PyTorch is here")
        for folder in folders:
            fields, literals = torch_sources.documented(folder)
            if torch_sources.version_of(folder) >= (2, 0):
                self.assertGreaterEqual(set(fields), {"Snapshot", "Segment", "Block", "Frame", "TraceEntry"}, folder)
            for place, those in fields.items():
                self.assertEqual(those - FIELDS[place], set(), (folder, place))
            self.assertEqual(literals - words, set(), folder)
            asked = torch_sources.subscripts(folder) - NOT_OF_SNAPSHOTS
            self.assertGreaterEqual(asked, {"segments", "blocks", "total_size", "state"}, folder)
            self.assertEqual(asked - known, set(), folder)

    def test_the_manual_names_every_key(self):
        page = (pathlib.Path(__file__).resolve().parents[3] / "src/cli/memprof-formats.7").read_text()
        page = page[page.index(".SH FORMS THAT ARE READ"):]
        table = page[page.index(".TS"):page.index(".TE")]
        named, whole = set(re.findall(r"[a-z_]+", table)), {"allocator_settings", "external_annotations",
                                                            "internal_metadata", "fx_node_info", "categories"}
        inside = {"segments", "device_traces"}  # the table says "traces"
        keys = set()

        def gather(value):
            for key, item in value.items() if isinstance(value, dict) else ():
                if key in whole or re.match(r"(frame|entry|block|segment|snapshot)_(of|list|dict|number|share|whole|wide)",
                                            key):
                    continue  # kept whole; of tomorrow
                keys.add(key)
                gather(item)
            for item in value if isinstance(value, (list, tuple)) else ():
                gather(item)

        gather(Values().snapshot())
        self.assertGreater(len(keys), 30)
        self.assertEqual(keys - named - inside, set())

    def test_keys_that_are_not_there(self):
        """Each row without each of its keys, except the key that identifies the kind of row."""
        made, values = Values().snapshot(), Values()
        needed = {"action", "filename", "blocks", "state", "size", "name", "line", "time_us", "stage"}
        entry = values.entry("alloc", 1 << 41, 512, START)
        made["device_traces"] = [[{key: value for key, value in entry.items() if key != left_out}
                                  for left_out in entry if left_out not in needed]]
        for i, short in enumerate(made["device_traces"][0]):
            if "addr" in short:
                short["addr"] += 65536 * i
        block = values.block(1 << 42, 65536, "active_allocated")
        segment = values.segment(0, 1 << 42)
        segment["blocks"] = [{key: value for key, value in block.items() if key != left_out}
                             for left_out in block if left_out not in needed]
        for i, short in enumerate(segment["blocks"]):
            if "address" in short:
                short["address"] += 65536 * i
        made["segments"] = [{key: copy.deepcopy(value) for key, value in segment.items() if key != left_out}
                            for left_out in segment if left_out not in needed and left_out != "device"]
        for i, short in enumerate(made["segments"]):
            if "address" in short:
                short["address"] += i << 30
        del made["host_segments"], made["host_traces"], made["external_annotations"]
        self.check(made)

    def test_a_trace_of_pinned_memory_alone(self):
        """host_traces as one list of entries, or one for each allocator."""
        for traces in (lambda trace: trace, lambda trace: [trace], lambda trace: [trace, []], lambda trace: []):
            made = Values().snapshot()
            made["host_traces"] = traces(made["host_traces"][0])
            made["external_annotations"] += [{"stage": "START"}, {"of": "tomorrow"}, made["external_annotations"][0]]
            host = {"host_segments": made["host_segments"], "host_traces": made["host_traces"], "segments": [],
                    "device_traces": []}
            for snapshot in (made, host):
                tracks = {track["id"]: track["allocs"] for track in self.answer("info", self.dump(snapshot))["tracks"]}
                self.assertEqual(tracks["cpu/torch"], bool(made["host_traces"]))

    def test_what_a_program_says_in_words_of_pytorch(self):
        """A program's own dictionaries may look like rows, anywhere in the file."""
        values = Values()
        rows = [values.frame(), values.entry("alloc", 1 << 41, 512, START), values.entry("oom", 1 << 41, 512, START),
                values.entry("annotate", 1 << 41, 512, START), values.segment(0, 1 << 42),
                values.block(1 << 41, 512, "inactive"), values.block(1 << 41, 512, "active_pending_free"),
                {"size": 512, "state": "active_allocated", "history": [{"addr": 7, "real_size": 500, "frames": []}]},
                {"addr": 7, "real_size": 500, "size": 512, "frames": values.frames()},
                {"stage": "START", "name": "forward", "time_us": START},
                {"filename": "a.py", "line": "3"}, {"filename": 7, "name": "f"}, {"blocks": 12, "device": "cuda:0"},
                {"blocks": [1, "b", {"state": "idle", "size": 3}], "device": 0}, {"blocks": [], "device": 0},
                {"action": "forward", "size": 2}, {"action": 5, "time_us": 1.5}, {"state": 9, "size": "large"}]
        made, rows = Values().snapshot(), as_lists(rows)
        made["said"] = made["segments"][0]["said"] = made["segments"][0]["blocks"][0]["said"] = [*rows, {"of": rows}]
        made["allocator_settings"]["said"] = rows
        for row in rows:
            entry = values.entry("alloc", (1 << 42) + values.number() * 4096, 512, START + 30)
            made["device_traces"][0].append({**entry, "user_metadata": row, "internal_metadata": row, "said": row})
        self.check(made)

    def test_values_of_other_kinds(self):
        """Values of a wrong kind: none is a number, a text or a list where one should be."""
        made, values = Values().snapshot(), Values()
        for odd in (None, "a text", 1.5, [1], {"a": 1}, -5, True):
            for key in ("stream", "pool_id", "frames", "user_metadata", "forward_frames"):
                entry = values.entry("alloc", (1 << 42) + values.number() * 4096, 512, START + 30)
                entry[key] = odd
                made["device_traces"][0].append(entry)
            segment = values.segment(0, (1 << 43) + values.number() * MIB)
            for key in ("stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "allocated_size"):
                made["segments"].append({**copy.deepcopy(segment), key: odd, "address": (1 << 43) + values.number() * MIB})
        self.check(made)


if __name__ == "__main__":
    asserted.main()
