#!/usr/bin/env python3
"""A snapshot in which every key that PyTorch ever wrote, and at every place one that it never did, has a value of its
own: in, out and in again nothing may be missing, whatever a later PyTorch adds."""
import copy
import itertools
import json
import pathlib
import pickle
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from check_export import as_lists, differences
from snapshots import MIB, START, Case

# By torch/cuda/memory.py, torch/csrc/cuda/Module.cpp and torch/csrc/memory_snapshot.cpp of PyTorch, 1.13 to 2.13.
ACTIONS = ("alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free", "segment_map",
           "segment_unmap", "snapshot", "oom", "user_defined", "annotate", "an action of tomorrow")
STATES = ("active_allocated", "active_pending_free", "active_awaiting_free", "inactive", "a state of tomorrow")


class Values:
    """Every value once."""

    def __init__(self):
        self.numbers = itertools.count(1000, 7)

    def number(self):
        return next(self.numbers)

    def text(self, of):
        return f"{of} {next(self.numbers)}"

    def more(self, of):
        """What no PyTorch writes yet."""
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
                "forward_frames": [f'  File "/src/forward_{self.number()}.py", line 3, in forward\n    y = f(x)\n'],
                **self.more("entry")}

    def block(self, address, size, state):
        return {"address": address, "size": size, "requested_size": size - self.number() % 500, "state": state,
                "frames": self.frames(), "user_metadata": self.text("metadata"), **self.more("block")}

    def segment(self, device, address):
        blocks = [self.block(address + i * 65536, 65536, state) for i, state in enumerate(STATES)]
        active = [block for block in blocks if block["state"].startswith("active")]
        return {"device": device, "address": address, "total_size": len(blocks) * 65536, "stream": -self.number(),
                "segment_type": "small", "segment_pool_id": (self.number(), self.number()), "is_expandable": True,
                "allocated_size": 65536, "active_size": sum(block["size"] for block in active),
                "requested_size": sum(block["requested_size"] for block in active), "frames": self.frames(),
                "blocks": blocks, **self.more("segment")}

    def trace(self, address):
        """One entry of each action, of memory that each leaves as it was."""
        return [self.entry(action, address + i * MIB, 4096, START + i) for i, action in enumerate(ACTIONS)]

    def snapshot(self):
        base = 1 << 40
        return {"segments": [self.segment(0, base), self.segment(2, base + (1 << 30))],
                "device_traces": [self.trace(base + 8 * MIB), [], self.trace(base + (2 << 30)), []],
                "host_segments": [self.segment(0, base + (3 << 30))], "host_traces": [self.trace(base + (4 << 30)), []],
                "allocator_settings": {
                    "PYTORCH_CUDA_ALLOC_CONF": self.text("expandable_segments:True,"), "max_split_size": -1,
                    "garbage_collection_threshold": 0.0, "expandable_segments": True,
                    "pinned_num_register_threads": self.number(), "release_lock_on_cudamalloc": False,
                    "roundup_power2_divisions": {str(1 << i): self.number() for i in range(16)},
                    "trace_alloc_max_entries": self.number(), "trace_alloc_overflowed": False,
                    **self.more("settings")},
                "external_annotations": [
                    {"stage": stage, "name": "forward", "device": self.number(), "time_us": START + at,
                     **self.more("annotation")} for stage, at in (("START", 2), ("END", 5), ("END", 7))],
                "categories": [self.text("category")], **self.more("snapshot")}


class Told(Case):
    def again(self, path, name):
        run = self.memprof("export", path, "-o", self.folder / name, "--format", "pytorch")
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        return self.folder / name

    def check(self, snapshot):
        path = self.dump(snapshot)
        once = self.again(path, "once.pickle")
        self.assertEqual(differences(snapshot, pickle.loads(once.read_bytes())), [])
        twice = self.again(once, "twice.pickle")
        self.assertEqual(once.read_bytes(), twice.read_bytes())
        text = self.again(path, "once.json")
        self.assertEqual(differences(as_lists(snapshot), json.loads(text.read_text())), [])
        self.assertEqual(self.again(text, "twice.json").read_bytes(), text.read_bytes())
        for command in ("info", "peak", "leaks", "steps"):
            runs = [self.memprof(command, file, "--json") for file in (path, once)]
            answers = [json.loads(run.stdout) if run.stdout else {} for run in runs]
            for answer in answers:
                answer.get("info", answer)["file"] = None
            self.assertEqual(answers[0], answers[1], command)

    def test_every_key(self):
        snapshot = Values().snapshot()
        planted = json.dumps(snapshot)
        for word in ("fx_original_trace", "forward_frames", "internal_metadata", "tomorrow", "active_awaiting_free"):
            self.assertIn(word, planted)
        self.check(snapshot)

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
        """Each row without each of its keys, but for what makes it that row."""
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

    def test_values_of_other_kinds(self):
        """What should be a number, a text or a list is none."""
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
