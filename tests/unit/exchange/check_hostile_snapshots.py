#!/usr/bin/env python3
"""Malicious snapshots: each ends memprof with one message and status 1. No crash, no partial answer, nothing executed,
bounded time and memory."""
import gzip
import json
import os
import pathlib
import pickle
import random
import resource
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import START, Case, Made, frame, harness


class Hostile(Case):
    def check_refused(self, data, *words):
        path = self.put("hostile", data)
        run = self.memprof("info", "--json", path)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)

    def test_code_is_refused_by_name(self):
        proof = self.folder / "executed"

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {proof}",)

        for protocol in (2, 3, 4, 5):
            self.check_refused(pickle.dumps({"segments": [Evil()]}, protocol), "STACK_GLOBAL" if protocol > 3 else
                               "GLOBAL", "at byte")
        self.assertFalse(proof.exists())
        for code, name in ((b"cos\nsystem\n", "GLOBAL"), (b"NR", "REDUCE"), (b"Nb", "BUILD"), (b"Px\n", "PERSID"),
                           (b"NQ", "BINPERSID"), (b"(ios\nsystem\n", "INST"), (b"(o", "OBJ"), (b"\x81", "NEWOBJ"),
                           (b"\x92", "NEWOBJ_EX"), (b"\x82\x01", "EXT1"), (b"\x97", "NEXT_BUFFER")):
            self.check_refused(b"\x80\x04}" + code + b".", name, "at byte ")
        self.check_refused(b"\x80\x04\xff.", "byte 2", "0xff")
        self.check_refused(b"\x80\x06N.", "protocol 6")
        self.check_refused(b"\x80\x01N.", "protocol 1")

    def test_cut_anywhere(self):
        snapshot = Made(1, before=1, length=0).snapshot
        del snapshot["segments"][0]["blocks"][2:]
        snapshot["device_traces"] = [[{"action": "alloc", "addr": 1 << 40, "size": 70000, "frames": [frame(1)]}]]
        for protocol in (2, 4):
            data = pickle.dumps(snapshot, protocol)
            for end in range(2, len(data)):
                self.check_refused(data[:end], "cut", f"byte {end}")
        text = json.dumps(snapshot).encode()
        for end in range(13, len(text), 5):
            self.check_refused(text[:end], f"byte {end}")
        for end in range(1, 13):
            self.check_refused(text[:end])
        whole = gzip.compress(pickle.dumps(snapshot, 4))
        for end in range(20, len(whole) - 1, 7):
            self.check_refused(whole[:end], "gzip")
        self.check_refused(whole[:-8] + b"\0" * 8, "gzip")

    def test_what_is_out_of_proportion(self):
        self.check_refused(b'{"segments": ["' + b"x" * (20 << 20), "more than 16 MiB")
        for start, filler in ((b'{"segments": [', b" 0,"), (b"\x80\x04}(", b"N0")):
            self.check_refused(gzip.compress(start + filler * (20 << 20)), "run gunzip")

    def test_values_that_outgrow_their_bytes(self):
        """Each is refused within four times the file and 200 MB: one byte may make an object of 32."""
        def filled(start, *fillers):
            return [start + filler * ((20 << 20) // len(filler)) for filler in fillers]

        pickles = filled(b"\x80\x04](", b"]", b"}", b")", b"N", b"N2", b"N\x94", b")\x85", b"]]a0", b"}NNs0", b"]" * 900 + b"e(")
        texts = filled(b'{"segments": [', b"[],", b"{},", b"[[[[[]]]]],", b"{\"a\":0},")
        for filling in (*pickles, *texts):
            path = self.put("filling", filling)
            memory = 4 * path.stat().st_size + 200 * 10**6
            run = subprocess.run([harness.MEMPROF, "info", path], capture_output=True, text=True, preexec_fn=lambda: (
                harness.SANITIZED or resource.setrlimit(resource.RLIMIT_AS, (memory, memory))))
            self.assertEqual(run.returncode, 1, filling[:30])
            self.assertIn("needs more memory than a memory snapshot of its size", run.stderr, filling[:30])

    def test_damage_never_crashes(self):
        data = bytearray(pickle.dumps(Made(2, before=3, length=10).snapshot, 4))
        r = random.Random(4)
        for _ in range(150):
            broken = bytearray(data)
            for _ in range(r.randrange(1, 6)):
                broken[r.randrange(2, len(broken))] = r.randrange(256)
            run = self.memprof("info", self.put("broken", bytes(broken)))
            self.assertIn(run.returncode, (0, 1), run.stderr)
            self.assertEqual(run.stderr.count("\n"), run.returncode)

    def test_sizes_that_lie(self):
        for code in (b"\x8d" + struct.pack("<Q", 1 << 62), b"X" + struct.pack("<I", 1 << 31) + b"abc",
                     b"\x8b" + struct.pack("<I", 1 << 30), b"\x8b" + struct.pack("<i", -1),
                     b"\x95" + struct.pack("<Q", 1 << 60), b"Nr" + struct.pack("<I", 1 << 31) + b".",
                     b"j" + struct.pack("<I", 7) + b".", b"u.", b"a.", b"0.", b"\x86.", b"(.", b"NN.", b"}(Nu.", b"\x94."):
            self.check_refused(b"\x80\x04" + code, "byte ")

    def test_what_comes_and_goes(self):
        """Values that a pickle makes and drops again, as Python's own reader does."""
        snapshot = Made(3, before=2, length=20).snapshot
        plain = pickle.dumps(snapshot, 4)
        wanted = self.answer("info", self.dump(snapshot))["tracks"]
        for more in (b"K\x010", b"(1", b"(K\x01K\x021", b"K\x01(K\x0210", b"K\x01200", b"((1K\x0101"):
            data = plain[:2] + more + plain[2:]
            self.assertEqual(pickle.loads(data), snapshot)
            self.assertEqual(self.answer("info", self.put("dropped.pickle", data))["tracks"], wanted, more)

    def test_nesting_and_loops(self):
        self.check_refused(b"\x80\x04" + b"](" * 100000, "1000 deep")
        self.check_refused(b'{"segments": ' + b"[" * 100000, "1000 deep")
        self.check_refused(b"{\"segments\":" * 100000, "1000 deep")
        self.check_refused(b"\x80\x04]\x94h\x00a.", "neither segments")  # a list in itself
        loop = []
        loop.append(loop)
        self.check_refused(pickle.dumps({"trace": loop}), "neither segments")

    def test_bombs(self):
        """A value that a memo refers to a million times is neither copied nor walked a million times."""
        bomb = b"\x80\x04]\x94"
        for i in range(200):
            bomb += b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 40 + b"e\x94"
        self.check_refused(bomb, "cut")
        blocks = [{"address": i, "size": 1, "requested_size": 1, "state": "active_allocated", "frames": []}
                  for i in range(20000)]
        segments = [{"device": 0, "address": 0, "total_size": 4096, "blocks": blocks} for _ in range(20000)]
        info = self.answer("info", self.dump({"segments": segments, "device_traces": []}))
        self.assertEqual(info["tracks"][0]["end_bytes"], 20000)
        trace = [{"action": "alloc", "addr": i + 1, "size": 1, "stream": 0, "time_us": START} for i in range(20000)]
        info = self.answer("info", self.dump({"segments": [], "device_traces": [trace] * 20000}))
        self.assertEqual(sum(track["allocs"] for track in info["tracks"]), 20000)

    def entries(self, count, **fields):
        """Allocations that share the values in `fields`, by a pickle's memo."""
        return [{"action": "alloc", "addr": (i + 1) << 9, "size": 512, "stream": 0, "time_us": START + i, **fields}
                for i in range(count)]

    def sites(self, trace, segments=(), seconds=harness.TIMEOUT):
        path = self.dump({"segments": list(segments), "device_traces": [trace]})
        run = harness.memprof("peak", path, "--json", timeout=seconds)
        self.assertEqual(run.returncode, 0, run.stderr)
        return path, json.loads(run.stdout)

    def test_what_is_shared_is_read_once(self):
        """Shared values are read once: once for each reference would be 10^9 times or more."""
        many = 60_000
        tracebacks = [f'  File "/src/a.py", line {i + 1}, in f{i % 50}\n    y = f(x)\n' for i in range(many)]
        for shared in (tracebacks, ["no traceback"] * many, ["".join(tracebacks)]):
            _, peak = self.sites(self.entries(many, forward_frames=shared, frames=[frame(1)]))
            self.assertEqual(peak["blocks"], many)
            shown = [one["function"] for one in peak["sites"][0]["stack"]]
            self.assertEqual(shown[:1], ["function_1"])
            self.assertEqual("backward of" in shown, shared[0] != "no traceback")
        text = "".join(tracebacks[:4000])  # of longer ones not all is read
        generated = [{"name": "g", "filename": "<eval>", "line": i + 1, "fx_original_trace": text} for i in range(many)]
        trace = self.entries(many)
        for entry, one in zip(trace, generated):
            entry["frames"] = [one]
        _, peak = self.sites(trace)
        self.assertEqual(peak["sites"][0]["stack"][0]["line"], 4000)
        odd = [frame(1), *range(2 * many)]
        _, peak = self.sites(self.entries(many, frames=odd))
        self.assertEqual(peak["sites"][0]["stack"][0]["function"], "function_1")

    def test_blocks_of_segments_that_overlap(self):
        blocks = [{"address": i << 9, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": []}
                  for i in range(1, 100_001)]
        segment = {"device": 0, "address": 512, "total_size": 512 * 100_000, "allocated_size": 7, "stream": 0}
        segments = [{**segment, "blocks": blocks[:]}, *({**segment, "blocks": blocks} for _ in range(100_000))]
        _, peak = self.sites([], segments)
        self.assertEqual(peak["blocks"], 100_000)

    def test_lists_that_are_named_again_and_again(self):
        """A dictionary whose keys repeat: Python's own keeps one."""
        trace = json.dumps(self.entries(1000))
        segments = json.dumps([{"device": 0, "address": 1 << 30, "total_size": 4096, "blocks": []}])
        text = f'{{"segments": {segments}, "device_traces": [{trace}]' + f', "segments": {segments}' * 2000 + "}"
        info = self.answer("info", self.put("again.json", text.encode()))
        self.assertEqual([track["allocs"] for track in info["tracks"]], [1000, 0])
        self.assertEqual([track["end_bytes"] for track in info["tracks"]], [512_000, 4096])

    def test_much_that_is_said_of_one_block(self):
        """A text is not compared with each earlier one: 400 000 metadata of one block stay quick."""
        many = 400_000
        said = [{"action": "annotate", "addr": 512, "size": 512, "stream": 0, "time_us": START + 1,
                 "user_metadata": f"{i % (many // 2)}"} for i in range(many)]
        path, peak = self.sites(self.entries(1) + said)
        self.assertEqual(len({one["text"] for one in peak["sites"][0]["metadata"]}), len(peak["sites"][0]["metadata"]))
        run = self.memprof("trace_plot", path, "-o", self.folder / "page.html")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_a_pool_for_each_block(self):
        many = 200_000
        trace = self.entries(many)
        for i, entry in enumerate(trace):
            entry["pool_id"] = (i, 7)
        run = self.memprof("trace_plot", self.sites(trace)[0], "-o", self.folder / "page.html")
        self.assertEqual(run.returncode, 0, run.stderr)

    def limited(self, *command, seconds=60, memory=resource.RLIM_INFINITY):
        """Runs a command with a limit of processor time, about a hundred times what it needs."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            if not harness.SANITIZED:  # its shadow is larger than any limit
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))

        run = subprocess.run([harness.MEMPROF, *map(str, command)], capture_output=True, text=True, preexec_fn=limit)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run.stdout

    def info_limited(self, trace, **parts):
        path = self.dump({"segments": [], "device_traces": [trace], **parts})
        return path, json.loads(self.limited("info", "--json", path))

    def test_what_is_there_again_and_again(self):
        """Long names, and long values with a number of each entry's own: a file of some megabytes takes no
        gigabytes."""
        many = 60_000
        name, text, items = "n" * 50_000, "t" * 50_000, ["an item"] * 4000
        for fields in ({name: 1}, {name: 1, name + "a": 2}, {"x": text}, {"x": items}, {"x": [items]}):
            trace = self.entries(many, **fields)
            for i, entry in enumerate(trace):
                entry["own"] = i
            path = self.dump({"segments": [], "device_traces": [trace]})
            self.limited("info", path, memory=2 << 30)

    def test_dictionaries_that_are_shared(self):
        """Shared dictionaries take no space, and are not read again for each reference."""
        many = 300_000
        keys = dict.fromkeys(range(many))
        _, info = self.info_limited(self.entries(1), external_annotations=[keys] * many)
        self.assertEqual(info["tracks"][0]["allocs"], 1)
        trace = self.entries(20)
        for entry in trace:
            entry["x"] = [keys] * 19_000
            entry["user_metadata"] = {1: 2, "a": {(3, 4): 5, "b": 6}}
        _, info = self.info_limited(trace)
        self.assertEqual(info["tracks"][0]["allocs"], 20)

    def test_lists_that_are_read_once_are_counted(self):
        blocks = [{"address": 4096 + (i << 9), "size": 512, "requested_size": 512, "state": "active_allocated",
                   "frames": []} for i in range(8)]

        def segment(address, blocks):
            return {"device": 0, "address": address, "total_size": 4096, "blocks": blocks}

        def said(snapshot):
            notes = self.answer("info", self.dump(snapshot))["coverage"]
            return [note for note in [*notes["notes"], *notes.get("limits", [])] if "stand in the file again" in note]

        trace, none = self.entries(5), []
        for count, parts in ((1, {"segments": [segment(4096, blocks)], "host_segments": [segment(4096, blocks)]}),
                             (2, {"segments": [segment(4096 * (i + 1), blocks) for i in range(3)]}),
                             (1, {"device_traces": [trace, trace]}),
                             (0, {"segments": [segment(4096 * (i + 1), none) for i in range(3)],
                                  "device_traces": [none, none]}),
                             (0, {"segments": [segment(4096, blocks)], "host_segments": [segment(4096, blocks[:])]})):
            notes = said({"segments": [], "device_traces": [], **parts})
            self.assertEqual([note.rsplit(" ", 1)[1] for note in notes], [str(count)] * bool(count))

    def test_numbers_and_texts(self):
        entry = {"action": "alloc", "addr": 1 << 80, "size": 1, "stream": 0, "time_us": START}
        self.check_refused(pickle.dumps({"segments": [], "device_traces": [[entry]]}), "beyond 64 bits", "byte ")
        self.check_refused(json.dumps({"segments": [], "device_traces": [[entry]]}).encode(), "beyond 64 bits", "byte ")
        self.check_refused(b'{"segments": ["\xff\xfe"]}', "byte ", "JSON")
        self.check_refused(b'{"segments": [}', "byte ")
        for nothing in (b"{}", b"[]", b'{"a": [1, 2]}', b"\x80\x04N.", pickle.dumps({"a": 1}), b"plain text", b"\x80\x04]."):
            self.check_refused(nothing)
        odd = {"action": "alloc", "addr": (1 << 64) - 1, "size": (1 << 64) - 1, "stream": -1, "time_us": -5}
        info = self.answer("info", self.dump({"segments": [{"address": (1 << 64) - 1, "total_size": 1 << 63,
                                                           "device": 0, "blocks": []}], "device_traces": [[odd, odd]]}))
        self.assertTrue(any("no usable address" in note for note in info["coverage"]["notes"]))
        self.check_refused(pickle.dumps({"segments": [{"device": i, "address": 0, "total_size": 0, "blocks": []}
                                                      for i in range(5000)]}), "devices")


if __name__ == "__main__":
    asserted.main()
