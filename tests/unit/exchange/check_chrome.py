#!/usr/bin/env python3
"""Chrome traces: read back by Python's json and by memprof's own import, and merged into traces of PyTorch's profiler,
whose bytes must all stay."""
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from check_kineto import BASE_NS, memory, span

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from harness import BUILD, DATA, memprof, make_recording, needs  # noqa: E402

REAL = ("sidnb13_transformer.pt.trace.json", "kineto_resnet50_w0.pt.trace.json.gz", "hta_df_index_resolver.json.gz")
SNAPSHOTS = ("niu_fb_200_mixed.pickle", "sidsoc_train.pickle", "silmont_small.pickle")
# The names by which TensorBoard's PyTorch plugin picks files: worker and span.
PLUGIN = re.compile(r"^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$")
PLUGIN_SOURCE = os.environ.get("TENSORBOARD_PLUGIN")
START = 1_763_620_000_123_456_789  # of the made recordings


def read(path):
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


@needs("export")
class Chrome(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-chrome-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for kind in ("train", "odd", "nothing"):
            make_recording(self.folder / f"{kind}.mp", kind)
        self.train = self.folder / "train.mp"

    def write(self, *arguments, name="out.json"):
        out = self.folder / name
        done = memprof("chrome_trace", *arguments, "-o", out)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return out, done.stderr

    def ask(self, command, path, *options):
        return json.loads(memprof(command, path, "--json", *options).stdout)

    def facts(self, path, without=()):
        """The facts of a recording that a trace can carry, for the tracks that it can carry."""
        info = self.ask("info", path)
        keys = ("allocs", "frees", "ooms", "base_bytes", "peak_bytes", "peak_ns", "end_bytes", "reserved_peak_bytes")
        tracks = {track["id"]: tuple(track[key] for key in keys) for track in info["tracks"]
                  if track["events"] and track["id"] not in without and "/driver" not in track["id"]}
        process = info["process"]
        return tracks, info["steps"]["count"], process["pid"], process["start_unix_ns"], process["duration_ns"]

    def test_read_back(self):
        """The first trace of a file may begin before its first event; so a trace of a trace is compared."""
        if not DATA:
            self.skipTest("$MEMPROF_TEST_DATA is not set")
        for name in REAL:
            with self.subTest(name=name):
                path = pathlib.Path(DATA) / name
                self.assertEqual(self.facts(self.write(path)[0]), self.facts(path))
                regions = [self.ask("steps", each, "--track", "cuda:0/torch" if "hta" not in name else "cuda:1/torch")
                           ["regions"] for each in (path, self.folder / "out.json")]
                self.assertEqual(regions[0], regions[1])

    def test_recording_read_back(self):
        tracks, steps, *when = self.facts(self.train, without=("cpu/torch",))
        again, _ = self.write(self.train)
        self.assertEqual(self.facts(again, without=("cpu/torch",)), (tracks, steps, *when))
        # A trace has no bytes for a block of unknown size, and no totals.
        (cpu,) = [track for track in self.ask("info", again)["tracks"] if track["id"] == "cpu/torch"]
        self.assertEqual((cpu["allocs"], cpu["peak_bytes"], cpu["base_bytes"]), (1, 3 << 20, None))
        for name in SNAPSHOTS if DATA else ():
            path = pathlib.Path(DATA) / name
            tracks, *_ = self.facts(path)
            written, *_ = self.facts(self.write(path)[0])
            for track, expected in tracks.items():
                self.assertEqual(written[track][:2] + written[track][3:5] + written[track][6:7],
                                 expected[:2] + expected[3:5] + expected[6:7], (name, track))

    def test_form(self):
        """Events have Kineto's form, since other programs rely on it."""
        trace = json.loads(read(self.write(self.train)[0]))
        self.assertEqual(trace["deviceProperties"], [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096}])
        events = trace["traceEvents"]
        self.assertTrue(all(event["name"] for event in events))
        instants = [event for event in events if event["name"] == "[memory]"]
        for event in instants:
            self.assertEqual((event["ph"], event["cat"], event["s"], event["pid"]), ("i", "cpu_instant_event", "t",
                                                                                     4711))
            arguments = event["args"]
            self.assertLessEqual({"Ev Idx", "Device Type", "Device Id", "Addr", "Bytes"}, set(arguments))
            self.assertIn((arguments["Device Type"], arguments["Device Id"]), {(0, -1), (1, 0)})
        self.assertEqual([event["args"]["Ev Idx"] for event in instants],
                         list(range(len(instants))))  # failures are counted on
        on_gpu = [event["args"] for event in instants if event["args"]["Device Type"] == 1]
        level = 512 << 10
        for arguments in on_gpu:
            level += arguments["Bytes"]
            self.assertEqual(arguments["Total Allocated"], level)
        self.assertEqual({arguments["Total Reserved"] >> 20 for arguments in on_gpu}, {20})
        (failed,) = [event["args"] for event in events if event["name"] == "[OutOfMemory]"]
        self.assertEqual((failed["Total Reserved"] >> 20, "Addr" in failed), (48, False))
        steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
        self.assertEqual([step["name"] for step in steps], ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"])
        self.assertTrue(all(step["ph"] == "X" and step["cat"] == "user_annotation" for step in steps))
        self.assertEqual(events[-1]["name"], "Record Window End")
        counters = {(event["pid"], event["name"]) for event in events if event["ph"] == "C"}
        self.assertEqual(counters, {(0, "cuda:0/torch"), (0, "cuda:0/torch reserved"), (0, "cuda:0/driver"),
                                    (4711, "cpu/torch"), (4711, "cpu/resident"), (4711, "cpu/shared")})
        names = {(event["pid"], event["name"]): event["args"] for event in events if event["ph"] == "M"}
        self.assertEqual(names[0, "process_name"], {"name": "cuda:0"})
        self.assertEqual(names[0, "process_labels"], {"labels": "GPU 0"})

    def test_out_of_memory(self):
        path = self.folder / "oom.json"
        path.write_text(json.dumps({"traceEvents": [memory(10, 512, 4096, 512, 1024), span("huge", 15, 10),
                                                    memory(20, 1 << 40, None, 512, 1024, name="[OutOfMemory]")]}))
        events = json.loads(read(self.write(path)[0]))["traceEvents"]
        (failed,) = [event for event in events if event["name"] == "[OutOfMemory]"]
        self.assertEqual(failed["args"], {"Ev Idx": 1, "Device Type": 1, "Device Id": 0, "Bytes": 1 << 40,
                                          "Total Allocated": 512, "Total Reserved": 1024})
        self.assertEqual(failed["ts"], 10)

    def test_a_part(self):
        out, _ = self.write(self.train, "--from", "step:2", "--to", "step:2")
        events = json.loads(read(out))["traceEvents"]
        times = [event["ts"] for event in events if event["ph"] != "M"]
        ends = [event["ts"] + event.get("dur", 0) for event in events if event["ph"] != "M"]
        self.assertEqual((min(times), max(ends)), (27000, 45000))
        points = [event["args"]["allocated"] for event in events if event["name"] == "cuda:0/torch"]
        peak = self.ask("peak", self.train, "--from", "step:2", "--to", "step:2")
        self.assertEqual(max(points), peak["peak_bytes"])

    def test_steps_never_cross(self):
        """Readers add the times of JSON as doubles, whose sums are rounded."""
        make_recording(self.folder / "fine.mp", "leaking", 1000037)
        for part in ((), ("--from", "step:3", "--to", "step:30")):
            events = json.loads(read(self.write(self.folder / "fine.mp", *part)[0]))["traceEvents"]
            steps = [event for event in events if event["ph"] == "X" and event["tid"] == 0]
            self.assertGreaterEqual(len(steps), 28)
            for one, next_one in zip(steps, steps[1:]):
                self.assertLessEqual(one["ts"] + one["dur"], next_one["ts"])
                self.assertLess(next_one["ts"] - one["ts"] - one["dur"], 0.0015)

    def test_tensorboard(self):
        folder = self.folder / "logs"
        for _ in range(2):  # into a folder that is there, too
            done = memprof("chrome_trace", self.train, "--tensorboard", folder)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        (name,) = [path.name for path in folder.iterdir()]
        self.assertEqual(PLUGIN.match(name).groups(), ("node7_4711", f".{START}"))
        self.assertTrue(json.loads(read(folder / name))["traceEvents"])
        for arguments in (("--tensorboard", folder, "-o", "x"), ()):
            self.assertEqual(memprof("chrome_trace", self.train, *arguments).returncode, 2)

    @unittest.skipUnless(PLUGIN_SOURCE, "TENSORBOARD_PLUGIN names no folder with torch_tb_profiler")
    def test_in_the_real_plugin(self):
        """TensorBoard's plugin shows the peak and the blocks in its memory view, and the steps in its overview."""
        code = """
import sys; sys.path.insert(0, sys.argv[1])
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
data = RunProfileData.parse("worker", "span", sys.argv[2], None)
profile = RunGenerator("worker", "span", data).generate_run_profile()
curve = profile.get_memory_curve(time_metric="ms", memory_metric="K")["rows"]["GPU0"]
events = profile.get_memory_events(None, None, time_metric="ms", memory_metric="K")["rows"]["GPU0"]
print(max(row[1] for row in curve), max(row[2] for row in curve), len(events), *data.steps_names)"""
        out, _ = self.write(self.train, name="x.pt.trace.json.gz")
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, PLUGIN_SOURCE, out], capture_output=True,
                              text=True,
                              timeout=120, check=True)
        peak = self.ask("peak", self.train)["peak_bytes"]
        self.assertEqual(done.stdout.splitlines()[-1], f"{peak / 1024} {20480.0} 25 1 2 3")

    def made_trace(self, text=None, base=BASE_NS, at=START, **header):
        """A trace of the same time as the made recordings, without memory events."""
        start = (at - base) / 1000
        events = [span("step", start + 9000, 1000, pid=4711), span("kernel", start + 60000, 50, "kernel", pid=0),
                  {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "python"}}]
        path = self.folder / "torch.pt.trace.json"
        top = {"schemaVersion": 1, **({"baseTimeNanoseconds": base} if base else {}), **header, "traceEvents": events,
               "traceName": "x"}
        path.write_text(text(json.dumps(top, indent=1)) if text else json.dumps(top, indent=1))
        return path

    def assert_untouched(self, before, after):
        """Asserts that all bytes stay in order, except for one run of new events after the list's bracket."""
        at = before.index(b'"traceEvents"')
        at = before.index(b"[", at) + 1
        self.assertEqual(after[:at], before[:at])
        self.assertTrue(after.endswith(before[at:]))

    def test_merge(self):
        for base, name in ((BASE_NS, "out.json"), (0, "out.json.gz")):
            path = self.made_trace(base=base)
            out, said = self.write(self.train, "--merge", path, name=name)
            self.assertEqual(said, "")
            self.assert_untouched(read(path), read(out))
            trace = json.loads(read(out))
            events = trace["traceEvents"]
            self.assertEqual(events[-3:], json.loads(path.read_text())["traceEvents"])
            added = events[:-3]
            self.assertEqual({event["ph"] for event in added}, {"C", "i"})  # the GPU's row has a name already
            info = self.ask("info", self.train)
            for track in info["tracks"]:
                points = [event for event in added if event["name"] == track["id"]]
                self.assertEqual({event["pid"] for event in points}, {0 if "cuda" in track["id"] else 4711})
            shift = (START - base) / 1000
            inside = [event for event in added if event["name"] == "cuda:0/torch" and event["ph"] == "C"]
            self.assertAlmostEqual(inside[0]["ts"], shift + 9000, delta=0.6)  # a double holds no more of 10^15
            self.assertTrue(all(shift + 8999 <= event["ts"] <= shift + 60051 for event in added))
            peak = self.ask("peak", self.train, "--from", "9ms", "--to", "60050us", "--track", "cuda:0/torch")
            self.assertEqual(max(event["args"]["allocated"] for event in inside), peak["peak_bytes"])

    def test_merge_into_what_is_there(self):
        if not DATA:
            self.skipTest("$MEMPROF_TEST_DATA is not set")
        for name in REAL:
            path = pathlib.Path(DATA) / name
            recording = self.folder / "same.mp"
            recording.unlink(missing_ok=True)
            self.assertEqual(memprof("import", path, "-o", recording).returncode, 0)
            out, said = self.write(recording, "--merge", path)
            self.assertEqual(said, "")
            self.assert_untouched(read(path), read(out))
            before, after = json.loads(read(path)), json.loads(read(out))
            added = after["traceEvents"][:len(after["traceEvents"]) - len(before["traceEvents"])]
            self.assertEqual({event["ph"] for event in added} - {"M"}, {"C"})
            self.assertEqual(self.facts(out), self.facts(path))
            key = "cuda:1/torch" if "hta" in name else "cuda:0/torch"
            (track,) = [track for track in self.ask("info", recording)["tracks"] if track["id"] == key]
            self.assertEqual(max(event["args"]["allocated"] for event in added if event["name"] == key),
                             track["peak_bytes"])

    def test_merge_into_nothing(self):
        path = self.made_trace()
        data = json.loads(path.read_text())
        for empty in ("[]", "[ \n ]"):
            data["traceEvents"] = []
            path.write_text(json.dumps(data))
            done = memprof("chrome_trace", self.train, "--merge", path, "-o", self.folder / "x")
            self.assertEqual(done.returncode, 2)
            self.assertIn("does not say when", done.stderr)

    def test_merge_of_what_is_no_json(self):
        """Names with quotation marks unescaped, and a cut file: copied as they are."""
        path = self.made_trace(lambda text: text.replace('"kernel"', '"say "hi" kernel"', 1))
        out, said = self.write(self.train, "--merge", path)
        self.assertIn("copied as it is", said)
        self.assertIn("byte", said)
        self.assert_untouched(read(path), read(out))
        path = self.made_trace(lambda text: text[:-30])
        out, said = self.write(self.train, "--merge", path)
        self.assert_untouched(read(path), read(out))
        self.assertIn("is cut", said)

    def test_merge_refused(self):
        def far(at, base=BASE_NS):
            return self.made_trace(base=base, at=at).rename(self.folder / f"{at}.json")

        os.mkfifo(self.folder / "fifo")
        for path, words in ((far(START + 10**11), ("no moment in common", "the recording ends 99.9 s", "same run")),
                            (far(START - 10**11), ("no moment in common", "the trace ends")),
                            (far(0, base=0), ("count from nowhere",)),
                            (self.folder / "absent.json", ("absent.json",)), (self.train, ("train.mp",)),
                            (self.folder / "fifo", ("not a regular file",)), (self.folder, ("is a folder",))):
            done = memprof("chrome_trace", self.train, "--merge", path, "-o", self.folder / "x.json")
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertEqual(done.stdout, "")
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertFalse((self.folder / "x.json").exists())
        cut = self.folder / "cut.json.gz"
        cut.write_bytes(gzip.compress(self.made_trace().read_bytes())[:-60])
        self.assertEqual(memprof("chrome_trace", self.train, "--merge", cut, "-o", self.folder / "x.json").returncode,
                         1)
        self.assertFalse((self.folder / "x.json").exists())

    def test_merge_of_another_process(self):
        path = self.made_trace(lambda text: text.replace("4711", "815"))
        self.assertIn("no event of", self.write(self.train, "--merge", path)[1])

    def test_merge_in_bounded_memory(self):
        """A trace of 50 MB, with room for 16 MB beyond what the program takes for a small one."""
        path = self.made_trace()
        text = path.read_text()
        head, tail = text.split('"traceEvents": [')
        filler = json.dumps(span("x" * 200, (START - BASE_NS) / 1000 + 9000, 1, pid=4711, more="y" * 700)) + ",\n"
        big = self.folder / "big.json"
        with open(big, "w") as file:
            file.write(head + '"traceEvents": [\n')
            for _ in range(50):
                file.write(filler * 1000)
            file.write(tail.lstrip())

        def most(trace):
            pid = os.posix_spawn(BUILD / "memprof", ["memprof", "chrome_trace", str(self.train), "--merge", str(trace),
                                                     "-o", str(self.folder / "big.out.json")], os.environ)
            _, status, usage = os.wait4(pid, 0)
            self.assertEqual(status, 0)
            return usage.ru_maxrss

        small = most(path)
        self.assertLess(most(big), small + 16 * 1024)
        self.assertGreater(os.path.getsize(self.folder / "big.out.json"), os.path.getsize(big))

    def test_hostile_names(self):
        """The recording is the training's with two hostile names, and its trace differs from the training's only in
        these names."""
        said = {"forward": "\033[31mred\033[0m\n", "pt_autograd_0": "caf\ufffd \U0001f600 \"quoted\" \\"}

        def hostile(value):
            if isinstance(value, dict):
                return {key: hostile(item) for key, item in value.items()}
            if isinstance(value, list):
                return [hostile(item) for item in value]
            for plain, odd in said.items() if isinstance(value, str) else ():
                value = value.replace(plain, odd)
            return value

        plain = json.loads(read(self.write(self.train)[0]))
        made = json.loads(read(self.write(self.folder / "odd.mp")[0]))
        self.assertTrue(made == hostile(plain))
        self.assertTrue(all(json.dumps(name)[1:-1] in json.dumps(made) for name in said.values()))
        self.assertTrue(json.loads(read(self.write(self.folder / "nothing.mp")[0]))["traceEvents"])


if __name__ == "__main__":
    asserted.main()
