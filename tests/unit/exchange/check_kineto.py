#!/usr/bin/env python3
"""Kineto traces: real ones with known contents, and made ones for each convention and each kind of error."""
import collections
import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from harness import DATA, memprof  # noqa: E402

BASE_NS = 1_735_689_600_000_000_000  # what newer traces count from: the beginning of a quarter


def span(name, start, length, category="cpu_op", tid=7, pid=7, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length,
            "args": arguments}


def memory(at, size, address=None, total=None, reserved=None, device=(1, 0), tid=7, name="[memory]"):
    arguments = {"Device Type": device[0], "Device Id": device[1], "Bytes": size}
    if address is not None:
        arguments["Addr"] = address
    if total is not None:
        arguments["Total Allocated"] = total
    if reserved is not None:
        arguments["Total Reserved"] = reserved
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": name, "pid": 7, "tid": tid, "ts": at,
            "args": arguments}


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-kineto-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "x.pt.trace.json"

    def write(self, events, **header):
        self.path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": events}, indent=1))

    def ask(self, command="info", *options):
        done = memprof(command, self.path, "--json", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def track(self, name="cuda:0/torch"):
        (track,) = [track for track in self.ask()["tracks"] if track["id"] == name]
        return track

    def refused(self, *words):
        done = memprof("info", self.path)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Amemprof: [^\n]*\n\Z")
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr

    def test_totals_give_the_base(self):
        self.write([memory(10, 512, 4096, 1512, 2048), memory(20, -1000, 9000, 512, 2048),
                    memory(30, 256, 8192, 768, 4096), memory(40, -512, 4096, 256, 4096)])
        track = self.track()
        self.assertEqual((track["base_bytes"], track["peak_bytes"], track["end_bytes"]), (1000, 1512, 256))
        self.assertEqual((track["allocs"], track["frees"], track["reserved_peak_bytes"]), (2, 2, 4096))
        self.assertEqual((track["size_basis"], track["peak_ns"]), ("block", 0))

    def test_base_that_nobody_frees(self):
        self.write([memory(10, 512, 4096, 1512, 2048), memory(20, -400, 9000, 1112, 2048)])
        track = self.track()
        self.assertEqual((track["base_bytes"], track["peak_bytes"], track["end_bytes"]), (1000, 1512, 1112))
        self.assertIn("cuda:0: 600 B were live before the trace began; it does not say whose they are",
                      self.ask()["coverage"]["notes"])
        sites = self.ask("peak")["sites"]
        self.assertEqual([(site["bytes"], site["blocks"], site["stack"]) for site in sites], [(1512, 3, [])])

    def test_both_clocks(self):
        for header, unix in (({"baseTimeNanoseconds": BASE_NS}, BASE_NS + 5_000_123_456),
                             ({}, 1_735_689_605_000_123_000)):
            start = (unix - header.get("baseTimeNanoseconds", 0)) / 1000
            text = f"{start:.3f}" if header else str(int(start))
            self.write([memory("T0", 512, 4096, 512), memory("T1", -512, 4096, 0)], **header)
            later = f"{float(text) + 2000:.3f}" if header else str(int(start) + 2000)
            self.path.write_text(self.path.read_text().replace('"T0"', text).replace('"T1"', later))
            info = self.ask()
            self.assertEqual(info["process"]["start_unix_ns"], unix)
            self.assertEqual(info["process"]["duration_ns"], 2_000_000)
            self.assertEqual(info["process"]["pid"], 7)
            self.assertIsNone(info["process"]["host"])

    def test_a_clock_that_counts_from_nowhere(self):
        self.write([memory(10, 512, 4096, 512)])
        info = self.ask()
        self.assertIsNone(info["process"]["start_unix_ns"])
        self.assertIn("the trace does not say when it was recorded", info["coverage"]["notes"])

    def test_without_totals_the_base_is_not_known(self):
        self.write([memory(10, 512, 4096), memory(20, -512, 4096)])
        track = self.track()
        self.assertEqual((track["base_bytes"], track["reserved_peak_bytes"]), (None, None))
        self.assertEqual((track["peak_bytes"], track["end_bytes"]), (512, 0))

    def test_without_addresses_frees_go_by_size(self):
        self.write([memory(10, 512), memory(20, 512), memory(30, 64), memory(40, -512), memory(50, -64),
                    memory(60, -32), span("first", 10, 1), span("second", 20, 1)])
        track = self.track()
        self.assertEqual((track["allocs"], track["frees"], track["end_bytes"]), (3, 3, 512))
        self.assertIsNone(track["base_bytes"])
        notes = " ".join(self.ask()["coverage"]["notes"])
        self.assertIn("the trace has no addresses", notes)
        self.assertIn("others would have fitted, too: 1", notes)
        outstanding = self.ask("leaks")["outstanding"]["sites"]
        self.assertEqual([site["stack"][0]["function"] for site in outstanding if site["stack"]], ["first"])

    def test_what_changes_without_an_event(self):
        """A thread that the profiler does not follow allocates 300 and frees the first block."""
        self.write([memory(10, 512, 4096, 1512), memory(20, 64, 8192, 1876), memory(30, 128, 4096, 1492)])
        info = self.ask()
        (track,) = info["tracks"]
        self.assertEqual((track["base_bytes"], track["peak_bytes"], track["end_bytes"]), (1000, 1876, 1492))
        self.assertIn("without an event (a thread that was not profiled?): 1", " ".join(info["coverage"]["notes"]))

    def test_out_of_memory(self):
        self.write([memory(10, 512, 4096, 512, 1024), span("aten::huge", 15, 10),
                    memory(20, 1 << 40, None, 512, 1024, name="[OutOfMemory]")])
        track = self.track()
        self.assertEqual((track["ooms"], track["allocs"], track["peak_bytes"]), (1, 1, 512))

    def test_stack_of_operators(self):
        self.write([
            span("train.py(3): <module>", 0, 100, "python_function"),
            span("aten::linear", 10, 50, **{"Input Dims": [[2, 3], [], [[4]]]}),
            span("aten::addmm", 15, 20), span("aten::empty", 18, 5), span("other", 19, 2, tid=8),
            span("aten::over", 36, 5),
            span("<built-in method f of PyCapsule object at 0x7f0011223344>", 70, 10, "python_function"),
            span("cudaMalloc", 20, 2, "cuda_runtime"), span("gpu", 20, 2, "kernel"),
            memory(20, 512, 4096, 512), memory(75, 64, 8192, 576), memory(200, 32, 12288, 608),
        ])
        sites = {site["bytes"]: site["stack"] for site in self.ask("peak")["sites"]}
        self.assertEqual([frame["function"] for frame in sites[512]],
                         ["aten::empty", "aten::addmm", "aten::linear([2, 3], [], [[4]])", "<module>"])
        self.assertEqual(sites[512][0], {"function": "aten::empty", "file": None, "line": None, "module": None,
                                         "language": "native"})
        self.assertEqual(sites[512][-1], {"function": "<module>", "file": "train.py", "line": 3, "module": None,
                                          "language": "python"})
        self.assertEqual([frame["function"] for frame in sites[64]],
                         ["<built-in method f of PyCapsule>", "<module>"])
        self.assertEqual(sites[32], [])
        self.assertIn("allocations in no operator that the trace has: 1 of 3", self.ask()["coverage"]["notes"])

    def test_call_stack_of_old_traces(self):
        stack = "inner.py(30): f;/x/train.py(3): <module>"
        self.write([span("aten::zeros", 10, 20, "Operator", "7", **{"Call stack": stack}),
                    span("aten::empty", 12, 5, "Operator", "7", **{"Call stack": stack}), memory(14, 8, 64)])
        (site,) = [site for site in self.ask("peak")["sites"] if site["stack"]]
        self.assertEqual([(frame["function"], frame["file"], frame["line"]) for frame in site["stack"]],
                         [("aten::empty", None, None), ("aten::zeros", None, None), ("f", "inner.py", 30),
                          ("<module>", "/x/train.py", 3)])

    def test_regions_and_steps(self):
        self.write([
            span("ProfilerStep#4", 10, 90, "user_annotation"), span("ProfilerStep#5", 100, 100, "user_annotation"),
            span("forward", 20, 60, "user_annotation"), span("layer", 30, 20, "user_annotation"),
            span("next", 50, 10, "user_annotation"),
            span("forward", 20, 60, "gpu_user_annotation", tid=0, pid=0),
            span("forward", 20, 60, "user_annotation", tid=0, pid=0),
            memory(40, 512, 4096, 512), memory(55, 1024, 8192, 1536), memory(110, -512, 4096, 1024),
            {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python3.11"}},
        ])
        info = self.ask()
        self.assertEqual(info["steps"], {"count": 2, "source": "torch"})
        self.assertEqual(info["process"]["command"], "python3.11")
        peak = self.ask("peak")
        self.assertEqual((peak["step"], peak["regions"]), (1, ["forward", "next"]))
        steps = self.ask("steps")
        self.assertEqual([step["allocated_bytes"] for step in steps["steps"]], [1536, 0])
        self.assertEqual({region["name"]: region["count"] for region in steps["regions"]},
                         {"forward": 1, "layer": 1, "next": 1})

    def test_devices(self):
        self.write([memory(10, 512, 4096, 512, device=(1, 3)), memory(11, 64, 4096, 64, device=(0, -1)),
                    memory(12, 32, -140737488355328, 32, device=(12, 0))],
                   deviceProperties=[{"id": 3, "name": "NVIDIA H100", "totalGlobalMem": 85045477376}])
        info = self.ask()
        self.assertEqual([(device["id"], device["name"], device["total_bytes"]) for device in info["devices"]],
                         [("cuda:3", "NVIDIA H100", 85045477376), ("cpu", None, None), ("xpu:0", None, None)])
        self.assertEqual([track["peak_bytes"] for track in info["tracks"]], [512, 64, 32])

    def test_what_kineto_gets_wrong(self):
        """Bytes that are not UTF-8, control characters and line ends in names, a byte order mark, gzip."""
        self.write([span("NAME", 0, 50), memory(10, 512, 4096, 512)])
        text = self.path.read_bytes().replace(b"NAME", b"a\xff\xfe\x01b\nc")
        self.path.write_bytes(b"\xef\xbb\xbf" + text)
        self.assertEqual(self.ask("peak")["sites"][0]["stack"][0]["function"], "a\ufffd\ufffd b c")
        self.path.write_bytes(gzip.compress(text))
        self.assertEqual(self.ask("peak")["peak_bytes"], 512)

    def test_unescaped_quotation_mark(self):
        self.write([span("NAME", 0, 50), memory(10, 512, 4096, 512)])
        text = self.path.read_text().replace("NAME", 'say "hello"')
        self.path.write_text(text)
        said = self.refused("is not JSON at byte", "quotation marks")
        at = int(said.split("at byte ")[1].split(":")[0])
        self.assertLess(abs(at - text.index("hello")), 3)

    def test_cut_anywhere(self):
        self.write([span("aten::empty", 0, 50), memory(10, 512, 4096, 512)])
        whole = self.path.read_bytes().rstrip()
        begin = whole.index(b"traceEvents") + 20
        for length in list(range(begin, begin + 60)) + list(range(begin + 60, len(whole), 7)):
            self.path.write_bytes(whole[:length])
            self.refused("is cut", f"byte {length}")
        packed = gzip.compress(whole)
        for length in range(len(packed) // 2, len(packed), 9):
            self.path.write_bytes(packed[:length])
            self.refused()

    def test_numbers_beyond_64_bits(self):
        for key, wrong in (("Bytes", "9223372036854775808"), ("Bytes", "1e30"), ("Addr", "18446744073709551616"),
                           ("ts", "9223372036854775807"), ("Total Allocated", "-92233720368547758080")):
            self.write([memory(10, 512, 4096, 512)])
            text = self.path.read_text()
            at = text.index(f'"{key}": ') + len(key) + 4
            self.path.write_text(text[:at] + wrong + text[text.index("\n", at):].lstrip("0123456789"))
            self.path.write_text(self.path.read_text().replace(wrong + "\n", wrong + ",\n"))
            if f"{wrong},\n   }}" in self.path.read_text():
                self.path.write_text(self.path.read_text().replace(wrong + ",\n", wrong + "\n"))
            self.refused("does not fit into 64 bits at byte")

    def test_deep_nesting(self):
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            for deep in (200, 1_000_000):
                self.write([memory(10, 512, 4096, 512)])
                text = self.path.read_text()
                self.path.write_text(text.replace('"Bytes"', '"Input Dims": ' + opening * deep + "1" +
                                                  closing * deep + ', "Bytes"'))
                self.refused("nest deeper than 128 levels at byte")

    def test_endless_text(self):
        self.path.write_bytes(gzip.compress(b'{"traceEvents": [{"name": "' + b"x" * (64 << 20), 1))
        self.refused("more than 16 MiB")

    def test_long_text_that_ends(self):
        for length in (65_536, 300_000, 5_000_000):
            self.write([memory(10, 512, 4096, 512)])
            text = self.path.read_text()
            self.path.write_text(text.replace('"Bytes"', f'"Note": "{"x" * length}", "Bytes"', 1))
            self.assertEqual(self.ask()["coverage"]["events"], 1)

    def test_no_trace_or_no_memory(self):
        self.write([span("aten::empty", 0, 50)])
        self.refused("profile_memory=True")
        self.path.write_text('{"deviceProperties": []}')
        self.refused('it has no "traceEvents"')
        self.path.write_text('{"traceEvents": []} {}')
        self.refused("not JSON at byte")

    def test_facts_of_another_type(self):
        """A value of an unexpected kind is passed over."""
        good = [memory(10, 512, 4096, 512), span("aten::empty", 0, 50), memory(20, -512, 4096, 0)]
        for wrong in (None, True, "text", [], [[1]], {}, {"name": {"Bytes": 5}}, 1.5, -1):
            odd = [{key: wrong if key == hit else value for key, value in event.items()}
                   for event in good for hit in event]
            odd += [{**event, "args": {key: wrong if key == hit else value for key, value in event["args"].items()}}
                    for event in good for hit in event["args"]]
            self.write(good + odd + [wrong], deviceProperties=wrong)
            done = memprof("report", self.path, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipUnless(DATA and os.path.exists(f"{DATA}/manifest.json"), "no recordings by others at hand")
class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(f"{DATA}/manifest.json", encoding="utf-8") as file:
            cls.files = [entry for entry in json.load(file)["files"] if entry["kind"] == "kineto-trace"]

    def test_counts_and_sums(self):
        for entry in self.files:
            done = memprof("info", f"{DATA}/{entry['name']}", "--json")
            if not entry["facts"]["memory_events"]:
                self.assertEqual(done.returncode, 1)
                self.assertIn("without memory events", done.stderr)
                continue
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            info = json.loads(done.stdout)
            self.assertEqual(info["file"]["format"], "kineto")
            self.assertEqual(len(info["tracks"]), len(entry["facts"]["per_device"]))
            tracks = {track["id"]: track for track in info["tracks"]}
            for key, truth in entry["facts"]["per_device"].items():
                kind, number = key.removeprefix("type").split("_id")
                with self.subTest(file=entry["name"], device=key):
                    self.check_track(tracks["cpu/torch" if kind == "0" else f"cuda:{number}/torch"], truth)

    def check_track(self, track, truth):
        totals = truth["total_allocated_min_max_last"]
        self.assertEqual((track["allocs"], track["frees"]), (truth["allocs"], truth["frees"]))
        if totals:
            self.assertEqual((track["peak_bytes"], track["end_bytes"]), (totals[1], totals[2]))
            self.assertEqual(track["base_bytes"], totals[2] - truth["sum_bytes"])
        else:
            self.assertEqual((track["peak_bytes"], track["end_bytes"]),
                             (truth["peak_from_zero_sorted_by_ts"], truth["sum_bytes"]))
            self.assertIsNone(track["base_bytes"])

    def test_who_holds_the_peak(self):
        """Compared with a plain search of intervals: the shortest operator around each block live at the peak."""
        for entry in self.files:
            path = f"{DATA}/{entry['name']}"
            if not entry["facts"]["memory_events"] or entry["facts"]["per_device"]["type0_id-1"]["has_addr"] is False:
                continue
            done = memprof("peak", path, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            got = collections.Counter()
            for site in json.loads(done.stdout)["sites"]:
                native = [frame["function"] for frame in site["stack"] if frame["language"] == "native"]
                got[native[0].split("(")[0] if native else None] += site["bytes"]
            with self.subTest(file=entry["name"]):
                self.assertEqual(got, self.oracle(path))

    @staticmethod
    def oracle(path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="replace") as file:
            events = json.load(file)["traceEvents"]
        changes = sorted((event for event in events if event["name"] == "[memory]" and event["args"]["Device Type"]),
                         key=lambda event: event["ts"])
        live, best, held = {}, -1, None
        for event in changes:
            facts = event["args"]
            if facts["Bytes"] > 0:
                live[facts["Addr"]] = event
            else:
                del live[facts["Addr"]]
            if facts["Total Allocated"] > best:
                best, held = facts["Total Allocated"], list(live.values())
        sites = collections.Counter()
        sites[None] = best - sum(event["args"]["Bytes"] for event in held)
        operators = [event for event in events if event.get("cat") == "cpu_op"]
        for event in held:
            around = [other for other in operators if other["tid"] == event["tid"] and
                      other["ts"] <= event["ts"] <= other["ts"] + other["dur"]]
            inner = min(around, key=lambda other: (other["dur"], -other["ts"]), default={"name": None})
            sites[inner["name"]] += event["args"]["Bytes"]
        return sites


if __name__ == "__main__":
    asserted.main()
