#!/usr/bin/env python3
"""The commands as a user and as a program see them: text and JSON, files and messages, exit statuses.

Expected texts are in expected/; `check_commands.py --update` writes them again.
"""
import gzip
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

HERE = pathlib.Path(os.path.abspath(__file__)).parent
EXPECTED = HERE / "expected"
BUILD = pathlib.Path(os.getcwd())
MEMPROF = str(BUILD / "memprof")
SOURCE = HERE.parents[2]
KINDS = ("train", "network", "leaking", "held", "used", "cut", "dropped", "nothing", "hostile")

COVERAGE = ["complete", "events", "dropped", "lost_file_bytes", "truncated_stacks", "unattributed_bytes", "sources",
            "notes"]
# Keys promised to other programs; there may be more.
KEYS = {
    "info": {
        "": ["schema", "file", "process", "devices", "tracks", "stacks", "steps", "coverage"],
        "file": ["path", "bytes", "format"],
        "process": ["pid", "command", "host", "start_unix_ns", "duration_ns", "exit", "rank",
                    "local_rank", "world_size", "node", "parent", "role", "job"],
        "devices[]": ["id", "uuid", "name", "total_bytes"],
        "tracks[]": ["id", "size_basis", "events", "allocs", "frees", "base_bytes", "peak_bytes", "peak_ns",
                     "end_bytes", "reserved_peak_bytes"],
        "steps": ["count", "source"],
    },
    "peak": {
        "": ["schema", "track", "peak_bytes", "peak_ns", "step", "regions", "blocks", "sites", "coverage"],
        "sites[]": ["bytes", "blocks", "share", "stack"],
    },
    "leaks": {
        "": ["schema", "verdict", "reason", "steps", "findings", "outstanding", "suppressed", "coverage"],
        "steps": ["count", "source"],
        "outstanding": ["bytes", "blocks", "sites"],
        "outstanding.sites[]": ["bytes", "blocks", "share", "stack"],
        "findings[]": ["track", "class", "confidence", "bytes", "blocks", "bytes_per_step", "first_step",
                       "eta_oom_steps", "stack"],
        "held": ["at_ns", "bytes", "blocks", "sites"],
        "suppressed": ["bytes", "findings"],
    },
    "steps": {
        "": ["schema", "track", "source", "steps", "regions", "coverage"],
        "steps[]": ["step", "start_ns", "end_ns", "allocated_bytes", "freed_bytes", "peak_bytes", "end_bytes"],
        "regions[]": ["name", "count", "mean_peak_bytes", "p95_peak_bytes", "max_peak_bytes", "total_allocated_bytes",
                      "kept_bytes"],
    },
    "frag": {
        "": ["schema", "track", "allocated_bytes", "reserved_bytes", "largest_free_bytes", "unusable_ratio",
             "segments", "pins", "oom", "replay", "coverage"],
        "oom": ["requested_bytes", "cause", "would_fit"],
    },
    "advise": {
        "": ["schema", "track", "peak_bytes", "reserved_peak_bytes", "changes", "fit", "coverage"],
    },
    "report": {
        "": ["schema", "info", "peak", "leaks", "steps", "frag", "advice", "coverage"],
        "frag": ["schema", "track", "allocated_bytes", "reserved_bytes", "largest_free_bytes", "unusable_ratio",
                 "segments", "pins", "oom", "replay", "coverage"],
    },
}
FRAME = ["function", "file", "line", "module", "language"]

# Name of the expected file: the command line that prints it.
TEXTS = {
    "help": "help",
    "help-peak": "help peak",
    "help-snapshot": "help snapshot",
    "compare-three": "compare train.mp network.mp leaking.mp",
    "help-flamegraph": "help flamegraph",
    "info": "info train.mp",
    "info-cut": "info cut.mp",
    "info-nothing": "info nothing.mp",
    "report": "report train.mp",
    "report-nothing": "report nothing.mp",
    "frag": "frag train.mp",
    "advise": "advise train.mp --capacity 4MiB",
    "help-advise": "help advise",
    "peak": "peak train.mp",
    "peak-full-stacks": "peak train.mp --full-stacks -n 1",
    "peak-file": "peak train.mp --group file",
    "peak-library": "peak --group=library train.mp",
    "peak-frames": "peak train.mp --group stack:2",
    "peak-module": "peak network.mp --group module",
    "peak-category": "peak network.mp --group category",
    "peak-network": "peak network.mp -n 2",
    "peak-network-json": "peak network.mp -n 1 --json",
    "report-network": "report network.mp",
    "peak-window": "peak train.mp --from step:1 --to step:1 -n2",
    "peak-filter": "peak train.mp --filter fn~remember,size>=1MiB",
    "peak-color": "peak train.mp --color=always -n 1",
    "peak-hostile": "peak hostile.mp",
    "leaks": "leaks train.mp",
    "leaks-driver": "leaks --track cuda:0/driver train.mp",
    "leaks-found": "leaks leaking.mp",
    "leaks-held": "leaks held.mp",
    "holders": "holders held.mp",
    "peak-used": "peak used.mp",
    "peak-used-json": "peak used.mp --json",
    "report-used": "report used.mp",
    "compare-used": "compare leaking.mp used.mp -n 2",
    "peak-used-idle": "peak used.mp --group idle",
    "peak-used-dtype": "peak used.mp --group dtype",
    "peak-used-shape": "peak used.mp --group shape",
    "peak-used-operator": "peak used.mp --group operator --filter dtype=float32,shape~128,operator!=gelu",
    "leaks-outstanding": "leaks leaking.mp --outstanding --sort bytes -n 2",
    "report-leaking": "report leaking.mp",
    "steps": "steps train.mp",
    "steps-last": "steps train.mp -n 1 --track cpu/torch",
    "peak-json": "peak train.mp --json",
    "leaks-json": "leaks train.mp --json --limit 1",
    "steps-category": "steps network.mp --group category",
    "steps-json": "steps train.mp --json",
    "info-json": "info train.mp --json",
}


def run(line, cwd, stdin=None, env=None, **more):
    words = line.split() if isinstance(line, str) else line
    asserted.skip_without_command(*words[:1])
    surroundings = {k: v for k, v in os.environ.items() if k not in ("MEMPROF_CONF", "NO_COLOR")}
    surroundings.update(env or {})
    return subprocess.run([MEMPROF, *words], cwd=cwd, env=surroundings, stdin=stdin, capture_output=not more,
                          timeout=60, check=False, **more)


def make_recordings(folder):
    for kind in KINDS:
        subprocess.run([str(BUILD / "tests/unit/cli/make_recording"), str(folder / f"{kind}.mp"), kind], check=True)
    (folder / "empty.mp").write_bytes(b"")
    (folder / "foreign.mp").write_bytes(b"\x7fELF" + bytes(4000))
    (folder / "folder.mp").mkdir()


def without_size(text):
    """The text without the recording's size, which depends on the compression library."""
    text = re.sub(r"^(\w+\.mp   )[\d.]+ \w+,", r"\1SIZE,", text)
    return re.sub(r'("path": "\w+\.mp",\n +"bytes": )\d+', r"\1SIZE", text)


def lookup(value, path):
    """All values at a path such as outstanding.sites[]."""
    values = [value]
    for part in filter(None, path.split(".")):
        values = [v[part.removesuffix("[]")] for v in values]
        if part.endswith("[]"):
            values = [item for v in values for item in v]
    return values


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keep = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.keep.name)
        make_recordings(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.keep.cleanup()

    def run_in(self, line, **more):
        return run(line, self.folder, **more)

    def json_of(self, line, status=0):
        done = self.run_in(line)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def check_fails(self, line, status, *words, **more):
        done = self.run_in(line, **more)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, status, (line, said))
        self.assertEqual(done.stdout, b"", line)
        self.assertTrue(said.startswith("memprof: ") and said.endswith("\n"), (line, said))
        for word in words:
            self.assertIn(word, said, line)
        return done

    def test_expected_texts(self):
        for name, line in TEXTS.items():
            if asserted.left_out() and line.startswith("help"):
                continue  # the texts list every part's commands
            with self.subTest(line):
                want = (EXPECTED / f"{name}.txt").read_text()
                self.assertEqual(without_size(self.run_in(line).stdout.decode()), want)

    def test_promised_keys(self):
        for command, paths in KEYS.items():
            value = self.json_of(f"{command} {'leaking' if command == 'leaks' else 'train'}.mp --json")
            self.assertEqual(value["schema"], f"memprof.{command}/1")
            for path, keys in paths.items():
                found = lookup(value, path)
                self.assertTrue(found, (command, path))
                for item in found:
                    self.assertLessEqual(set(keys), set(item), (command, path))
            self.assertLessEqual(set(COVERAGE), set(value["coverage"]))

    def test_a_file_alone_is_reported(self):
        self.assertEqual(self.run_in("train.mp").stdout, self.run_in("report train.mp").stdout)
        report = self.json_of("report train.mp --json")
        self.assertEqual(self.json_of("train.mp --json"), report)
        shutil.copy(self.folder / "train.mp", self.folder / "plain")
        self.addCleanup((self.folder / "plain").unlink)
        self.assertEqual(self.json_of("plain --json")["peak"], report["peak"])
        self.check_fails("nosuch.mp", 1, "nosuch.mp", "No such file")

    def test_files_of_one_command_are_named(self):
        """The note appears for a process, and not for the processes that it started."""
        for name in ("apart/a.mp", "apart/a.4711.mp", "apart/a.old.mp", "apart/ab.12.mp", "apart/b.mp"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(self.folder / "train.mp", self.folder / name)
        for command in ("leaks", "report"):
            said = self.run_in(f"{command} apart/a.mp").stderr.decode()
            self.assertIn(f"a recording of another process lies beside it; for all: memprof {command} apart/a.mp apart/a.*.mp", said)
            for name in ("apart/b.mp", "apart/a.4711.mp"):
                self.assertNotIn("beside it", self.run_in(f"{command} {name}").stderr.decode())

    def test_report_holds_the_others(self):
        report = self.json_of("report train.mp --json")
        for part in ("info", "peak", "leaks", "steps", "frag"):
            self.assertEqual(report[part], self.json_of(f"{part} train.mp --json"), part)

    def test_numbers_agree(self):
        peak = self.json_of("peak train.mp --json")
        self.assertEqual(sum(site["bytes"] for site in peak["sites"]), peak["peak_bytes"])
        self.assertEqual(sum(site["blocks"] for site in peak["sites"]), peak["blocks"])
        self.assertAlmostEqual(sum(site["share"] for site in peak["sites"]), 1, places=4)
        for track in self.json_of("info train.mp --json")["tracks"]:
            one = self.json_of(["peak", "train.mp", "--json", "--track", track["id"]])
            self.assertEqual((one["peak_bytes"], one["peak_ns"]), (track["peak_bytes"], track["peak_ns"]))
            left = self.json_of(["leaks", "train.mp", "--json", "--track", track["id"]])["outstanding"]
            self.assertEqual(left["bytes"], track["end_bytes"])
        for site in peak["sites"]:
            for frame in site["stack"]:
                self.assertLessEqual(set(FRAME), set(frame))
                self.assertIn(frame["language"], ("native", "python", None))

    def test_groups_replace_stacks(self):
        for group in ("stack:1", "function", "file", "library", "region", "thread", "pool", "stream", "module",
                      "category"):
            value = self.json_of(["peak", "train.mp", "--json", "--group", group])
            self.assertEqual(sum(site["bytes"] for site in value["sites"]), value["peak_bytes"])
            for site in value["sites"]:
                self.assertNotIn("stack", site)
                self.assertIsInstance(site["group"], (str, type(None)))
            self.assertIn(None, [site["group"] for site in value["sites"]])  # the base block: no stack, unknown

    def test_filters_by_category_and_module(self):
        groups = {site["group"]: site["bytes"] for site in
                  self.json_of("peak network.mp --json --group category")["sites"]}
        for group in ("parameters", "activations", "buffers"):
            peak = self.json_of(["peak", "network.mp", "--json", "--filter", f"category={group}"])
            self.assertEqual(peak["picked_bytes"], groups[group])
        peak = self.json_of(["peak", "network.mp", "--json", "--filter", "module~^blocks[.]1"])
        self.assertEqual(peak["picked_bytes"], 9 << 20)
        (self.folder / "mine").write_text("mine = model[.]py\n")
        peak = self.json_of("peak network.mp --json --rules mine --filter category=mine")
        self.assertEqual(peak["picked_bytes"], (43 << 20) + 6 * 512)

    def test_rules_name_categories(self):
        (self.folder / "rules").write_text("# mine\nmodel = model\\.py\nparameters = train[.]py\n")
        groups = {site["group"]: site["bytes"] - site["guessed_bytes"] for site in
                  self.json_of("peak train.mp --json --group category --rules rules")["sites"]}
        files = {site["group"]: site["bytes"] for site in self.json_of("peak train.mp --json --group file")["sites"]}
        self.assertEqual(groups["model"], files["/home/ada/model.py"])
        self.assertEqual(groups["parameters"], files["/home/ada/train.py"])
        self.check_fails("peak train.mp --group category --rules nowhere", 1, "nowhere")
        (self.folder / "wrong").write_text("a = b\n\nc = [\n")
        self.check_fails("peak train.mp --group category --rules wrong", 2, "wrong, line 3")

    def test_growing_site_comes_first(self):
        sites = self.json_of("leaks train.mp --json")["outstanding"]["sites"]
        self.assertEqual(sites[0]["birth_periods"], 3)
        self.assertIn("remember", [frame["function"] for frame in sites[0]["stack"]])
        biggest = self.json_of("leaks train.mp --json --sort bytes")["outstanding"]["sites"][0]
        self.assertGreater(biggest["bytes"], sites[0]["bytes"])

    def test_leaks_are_judged(self):
        self.assertEqual(self.json_of("leaks train.mp --json")["verdict"], "unknown")  # three steps are nothing
        self.assertIn("too few steps", self.json_of("leaks train.mp --json")["reason"])
        self.assertIn("no steps", self.json_of("leaks nothing.mp --json")["reason"])
        self.assertEqual(self.run_in("leaks train.mp --fail").returncode, 0)
        long = self.json_of("leaks leaking.mp --json")
        self.assertEqual(long["verdict"], "leak")
        first, = long["findings"]
        self.assertEqual((first["class"], first["confidence"], first["track"]), ("retention", "probable", "cuda:0/torch"))
        self.assertEqual((first["bytes_per_step"], first["first_step"]), (1024 * 1024, 1))
        self.assertEqual((first["bytes"], first["blocks"]), (39 * 1024 * 1024, 39))  # at the beginning of the last step
        self.assertIn("remember", [frame["function"] for frame in first["stack"]])
        self.assertEqual(self.run_in("leaks leaking.mp --fail").returncode, 3)
        self.assertEqual(self.run_in("leaks leaking.mp").returncode, 0)
        # Twelve steps are enough. Eleven are not, although eight of them left blocks.
        self.assertEqual(self.json_of("leaks leaking.mp --to step:12 --json")["verdict"], "leak")
        self.assertEqual(self.json_of("leaks leaking.mp --to step:10 --json")["verdict"], "unknown")

    def test_suppressions(self):
        subprocess.run([str(BUILD / "tests/unit/cli/make_recording"), str(self.folder / "grows.mp"), "big", "300000"],
                       check=True)
        self.assertEqual(self.json_of("leaks grows.mp --json")["verdict"], "leak")
        for patterns, left in (("leak:remember\n", 0), ("# ours\n\nleak:^/home/*/train.py$\n", 0), ("leak:rem*er$", 0),
                               ("leak:^ember", 1), ("leak:nothing", 1)):
            (self.folder / "known.txt").write_text(patterns)
            result = self.run_in("leaks leaking.mp --fail --json --suppressions known.txt")
            self.assertEqual(result.returncode, 3 if left else 0, patterns)
            value = json.loads(result.stdout)
            self.assertEqual(value["verdict"], "leak" if left else "clean")
            self.assertEqual(len(value["findings"]), left)
            self.assertEqual(value["suppressed"], {"bytes": (1 - left) * 39 * 1024 * 1024, "findings": 1 - left})
            self.assertIn(f"suppressed {1 - left} finding".encode(), result.stderr)
        (self.folder / "known.txt").write_text("leak:this\nrace:that\n")
        result = self.run_in("leaks leaking.mp --suppressions known.txt")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"known.txt: line 2", result.stderr)
        self.assertEqual(self.run_in("leaks leaking.mp --suppressions none.txt").returncode, 1)

    def test_texts_that_nobody_wrote(self):
        """Rules, suppressions and settings are small files of text; other files are not read to their end."""
        (self.folder / "huge").write_bytes(b"# one line\n" * 100_000)
        (self.folder / "zeros").write_bytes(b"# none\n\0")
        for option in ("--rules", "--suppressions", "--config"):
            for path, status, said in (("huge", 2, "1 MiB"), ("/dev/zero", 2, "not a file"),
                                       ("zeros", 2, "zeros, line 2: the line holds a byte 0"), (".", 1, "directory"),
                                       ("", 1, "cannot read")):
                self.check_fails(["leaks", "train.mp", option, path], status, said)

    def test_damage_in_the_first_bytes(self):
        whole = (self.folder / "train.mp").read_bytes()
        for at in (1, 3, 9, 13):
            (self.folder / "hit.mp").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertEqual(self.json_of("peak hit.mp --json", 4)["sites"],
                             self.json_of("peak train.mp --json")["sites"])

    def test_compressed_recording(self):
        """A compressed recording is read like any other. A compressed file that is none, or would fill the memory, is
        refused."""
        packed, whole = self.folder / "packed.mp.gz", (self.folder / "train.mp").read_bytes()
        packed.write_bytes(gzip.compress(whole))
        self.assertEqual(self.json_of("peak packed.mp.gz --json"), self.json_of("peak train.mp --json"))
        packed.write_bytes(gzip.compress(bytes(32 << 20), 1))
        small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
                 "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.check_fails("peak packed.mp.gz", 1, "not a memprof recording", **small)
        packed.write_bytes(gzip.compress(whole + bytes(96 << 20), 1))
        for command in ("info", "peak", "leaks"):
            self.check_fails([command, "packed.mp.gz"], 1, "far more contents than usual")

    def test_unknown_is_null(self):
        tracks = {track["id"]: track for track in self.json_of("info train.mp --json")["tracks"]}
        self.assertIsNone(tracks["cpu/torch"]["base_bytes"])
        self.assertIsNone(tracks["cpu/torch"]["reserved_peak_bytes"])
        self.assertEqual(tracks["cuda:0/torch"]["base_bytes"], 512 * 1024)

    def test_wrong_usage(self):
        for line, word in {
            "peek train.mp": '"peak"',
            "frobnicate": "memprof --help",
            "record -- true": 'did you mean "snapshot"?',
            "diff train.mp cut.mp": 'did you mean "compare"?',
            "frag train.mp cut.mp": "memprof compare train.mp cut.mp",
            "--json peak train.mp": "command comes before options",
            **{f"snapshot --operators step:{steps} -- true": "steps such as step:3..4"
               for steps in ("0", "4..3", "3..", "3x", "3..4x", "", "-1")},
            "peak": "peak needs FILE",
            "frag train.mp other.mp": '"other.mp"',
            "peak train.mp --jsno": "--json",
            "peak train.mp --what": "no option --what",
            "peak train.mp -x": "no option -x",
            "peak train.mp -jx": "no option -j",
            "peak train.mp --json=yes": "takes no value",
            "peak train.mp --limit": "--limit needs N",
            "peak train.mp -n -1": "not a number of rows",
            "peak train.mp --track cuda:7/torch": "cuda:0/torch",
            "peak train.mp --from soon": "not a time",
            "peak train.mp --from step:4": "steps 1 to 3",
            "peak train.mp --from 1h": "lies after the end",
            "peak train.mp --from 50% --to 20%": "lies after --to",
            "peak train.mp --group modules": "cannot group",
            "peak train.mp --sort name": "cannot sort",
            "peak train.mp --filter sise>1": "size>1MiB",
            "peak train.mp --filter fn~(": "regular expression",
            "peak train.mp --color mauve": "mauve",
            "peak train.mp --progress sometimes": "auto or never",
            "chrome_trace train.mp": "-o FILE",
            "trace_plot train.mp": "-o FILE",
            "segment_plot train.mp": "-o FILE",
            "help frobnicate": "no command",
            "snapshot -o run.%c.mp -- true": "one file has all cycles",
        }.items():
            with self.subTest(line):
                self.check_fails(line, 2, word)

    @asserted.needs()
    def test_what_is_gone_names_what_to_use_instead(self):
        table = (SOURCE / "src/cli/gone.c").read_text()
        rows = re.findall(r'^ +\{"(\w*)", *"([\w-]*)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\},$', table, re.M)
        self.assertEqual(len(rows), table.count("\n    {"), "a row that this test does not read")
        for name, option, instead in rows:
            instead = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', instead)).replace('\\"', '"')
            line = f"{name or 'snapshot'} --{option}" if option else name
            with self.subTest(line):
                said = self.check_fails(line, 2, "any more: " + instead).stderr.decode()
                self.assertEqual(said.count("\n"), 1, said)
                self.assertNotRegex(instead, r"^[A-Z]|\.$")
                if not option:
                    self.assertNotRegex(self.run_in("help").stdout.decode(), rf"(?m)^  {name} ")
                else:
                    self.check_fails(line + "=1", 2, "any more: " + instead)
                    helped = self.run_in(f"help {line.split()[0]}").stdout.decode()
                    self.assertNotRegex(helped, rf"(?m)^ .*--{option}\b")
                if not name:
                    self.check_fails("peak train.mp", 2, "any more: " + instead, env={"MEMPROF_CONF": f"{option}=1"})

    def test_wrong_files(self):
        self.check_fails("peak nosuch.mp", 1, "nosuch.mp", "No such file")
        self.check_fails("peak folder.mp", 1, "is a folder")
        self.check_fails("peak empty.mp", 1, "empty")
        self.check_fails("peak foreign.mp", 1, "foreign.mp", "recording")
        self.check_fails("peak nothing.mp", 1, "no track")
        self.check_fails("steps nothing.mp --json", 1, "no track")
        whole = (self.folder / "train.mp").read_bytes()
        # The first object says which reader it needs; its last value is a checksum of what comes before.
        future = bytearray((self.folder / "train.mp").read_bytes())
        future[future.index(b"min_reader") + len(b"min_reader")] = 99
        checksum = future.index(b"checksum") + len(b"checksum")
        future[checksum + 1:checksum + 5] = zlib.crc32(future[:checksum]).to_bytes(4, "big")
        (self.folder / "future.mp").write_bytes(future)
        self.check_fails("info future.mp", 1, "future.mp", "version")

    def test_usage_comes_before_reading(self):
        self.check_fails("peak nosuch.mp --sort name", 2, "cannot sort")

    @asserted.needs("jobs")
    def test_a_terminal_gets_no_page(self):
        for words in (["report", "train.mp"], ["report", "train.mp", "cut.mp"], ["compare", "train.mp", "train.mp"]):
            ours, terminal = os.openpty()
            done = subprocess.run([MEMPROF, *words, "--format", "html"], cwd=self.folder, stdout=terminal,
                                  stderr=subprocess.PIPE, text=True)
            os.close(terminal)
            os.close(ours)
            self.assertEqual(done.returncode, 2)
            self.assertIn("a file with -o FILE.html", done.stderr)

    def test_incomplete_recordings(self):
        for name, word in {"cut": "the file is cut", "dropped": "17 events were dropped"}.items():
            for command in KEYS:
                done = self.run_in(f"{command} {name}.mp --json")
                self.assertEqual(done.returncode, 4)
                self.assertIn(word, done.stderr.decode())
                coverage = json.loads(done.stdout)["coverage"]
                self.assertFalse(coverage["complete"])
                self.assertTrue(any(word in note for note in coverage["notes"]), coverage)
        self.assertTrue(self.json_of("info train.mp --json")["coverage"]["complete"])
        for name, begin in {"train": "48.5 MiB", "cut": "at least ", "dropped": "about "}.items():
            self.assertTrue(self.run_in(f"peak {name}.mp").stdout.decode().startswith(begin), name)
            self.assertIn("PEAK  " + begin, self.run_in(f"report {name}.mp").stdout.decode())

    def test_nothing_found_is_said(self):
        for line, word in {"peak train.mp --filter fn~nosuch": "picks none of the 29 blocks",
                           "leaks train.mp --filter size>1TiB": "picks none of the 29 blocks",
                           "peak train.mp --from 0s --to 0s --filter fn~nosuch":
                               "blocks that were live between --from and --to",
                           "flamegraph train.mp -o none.html --filter fn~nosuch --of outstanding":
                               "nothing was outstanding at the end on cuda:0/torch: the flame graph is empty",
                           }.items():
            with self.subTest(line):
                done = self.run_in(line)
                self.assertEqual(done.returncode, 0)
                self.assertIn(word, done.stderr.decode())
        self.assertEqual(self.run_in("peak train.mp --filter fn~remember").stderr, b"")

    def test_cut_anywhere(self):
        whole = (self.folder / "train.mp").read_bytes()
        cut = self.folder / "anywhere.mp"
        for length in range(0, len(whole), 37):
            cut.write_bytes(whole[:length])
            done = self.run_in("report anywhere.mp --json")
            self.assertIn(done.returncode, (1, 4), length)
            self.assertTrue(done.stderr.startswith(b"memprof: "), length)
            if done.returncode == 4:
                self.assertFalse(json.loads(done.stdout)["coverage"]["complete"])
            else:
                self.assertEqual(done.stdout, b"")

    def test_damage_anywhere(self):
        whole = (self.folder / "train.mp").read_bytes()
        broken = self.folder / "broken.mp"
        for at in range(0, len(whole), 41):
            broken.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
            done = self.run_in("report broken.mp --json")
            self.assertIn(done.returncode, (1, 4), at)
            if done.returncode == 4:
                self.assertFalse(json.loads(done.stdout)["coverage"]["complete"])
            else:
                self.assertEqual(done.stdout, b"")

    def test_hostile_names(self):
        for command in KEYS:
            text = self.run_in(f"{command} hostile.mp").stdout
            self.assertNotRegex(text, rb"[\x00-\x09\x0b-\x1f\x7f]")
            text.decode()
            self.json_of(f"{command} hostile.mp --json")
        functions = {f["function"] for s in self.json_of("peak hostile.mp --json")["sites"] for f in s["stack"]}
        self.assertIn("\033[31mred\033[0m\n", functions)

    def test_option_forms(self):
        want = self.run_in("peak --limit 2 --group file train.mp").stdout
        self.assertTrue(want)
        for line in ("peak train.mp --limit=2 --group=file", "peak -n2 train.mp --group file",
                     "peak --group file -n 2 -- train.mp", "peak --lim 2 train.mp --gr file"):
            self.assertEqual(self.run_in(line).stdout, want, line)

    def test_settings(self):
        (self.folder / "conf").write_text("# rows\nlimit = 2\n\n  group=file\nforce = no\n")
        want = self.run_in("peak train.mp -n 2 --group file").stdout
        one = self.run_in("peak train.mp -n 1 --group file").stdout
        self.assertNotEqual(want, one)
        self.assertEqual(self.run_in("peak train.mp --config conf").stdout, want)
        self.assertEqual(self.run_in("peak train.mp --config conf -n 1").stdout, one)
        self.assertEqual(self.run_in("peak train.mp", env={"MEMPROF_CONF": "limit=1,group=file"}).stdout, one)
        self.assertEqual(self.run_in("peak train.mp --config conf", env={"MEMPROF_CONF": "limit=1"}).stdout, want)
        filtered = {"MEMPROF_CONF": "filter=size>1MiB,size<9MiB,json=yes"}  # a setting that holds a comma
        self.assertEqual(json.loads(self.run_in("peak train.mp", env=filtered).stdout),
                         self.json_of(["peak", "train.mp", "--json", "--filter", "size>1MiB,size<9MiB"]))
        self.run_in("info train.mp --config conf").check_returncode()  # knows neither limit nor group
        (self.folder / "bad").write_text("limit = 2\nbogus = 3\n")
        self.check_fails("peak train.mp --config bad", 2, "bad, line 2", "bogus")
        self.check_fails("peak train.mp --config nosuch", 1, "nosuch")
        self.check_fails("peak train.mp", 2, "MEMPROF_CONF", env={"MEMPROF_CONF": "limit"})
        self.check_fails("peak train.mp", 2, "yes or no", env={"MEMPROF_CONF": "json=perhaps"})
        self.check_fails("peak train.mp", 2, "limti", '"limit"', env={"MEMPROF_CONF": "limti=1"})
        self.check_fails("peak train.mp", 2, "--limit", "comes from MEMPROF_CONF", env={"MEMPROF_CONF": "limit=x"})
        (self.folder / "bad").write_text("\n\nlimit = x\n")
        self.check_fails("peak train.mp --config bad", 2, "--limit", "comes from bad, line 3")

    def test_sizes(self):
        info = self.json_of(["info", "train.mp", "--json", "--sizes"])
        sizes = {row["kind"]: row for row in info["sizes"]["chunks"]}
        self.assertEqual(sum(row["bytes"] for row in sizes.values()) + info["sizes"]["other_bytes"],
                         os.path.getsize(self.folder / "train.mp"))
        self.assertEqual(sizes["events"]["entries"], info["coverage"]["events"])
        self.assertGreater(sizes["events"]["bytes"], sizes["exit"]["bytes"])
        text = self.run_in("info train.mp --sizes").stdout.decode()
        self.assertIn("bytes an event", text)
        self.assertNotIn("bytes an event", self.run_in("info train.mp").stdout.decode())

    def test_output_files(self):
        before = set(os.listdir(self.folder))
        want = self.run_in("peak train.mp").stdout
        out = self.folder / "out.txt"
        out.write_text("old")
        (self.folder / "link.txt").symlink_to("out.txt")
        for name in ("out.txt", "link.txt"):
            done = self.run_in(f"peak train.mp -o {name}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
            self.assertEqual(out.read_bytes(), want)
        self.assertTrue((self.folder / "link.txt").is_symlink())
        self.assertEqual(self.run_in("peak train.mp -o -").stdout, want)
        self.assertEqual(set(os.listdir(self.folder)), before | {"out.txt", "link.txt"})  # and no temporary file

    def test_unwritable_outputs(self):
        recording = (self.folder / "cut.mp").read_bytes()
        before = set(os.listdir(self.folder))
        self.check_fails("peak train.mp -o nosuch/out", 1, "nosuch/out")
        self.check_fails("peak train.mp -o folder.mp", 1, "folder")
        self.check_fails("peak train.mp -o cut.mp", 1, "recording", "--force")
        self.check_fails("chrome_trace train.mp -o cut.mp", 1, "recording")
        self.check_fails("peak train.mp -o /dev/full", 1, "No space left")
        self.check_fails("chrome_trace train.mp -o /dev/full", 1, "No space left")
        self.check_fails("trace_plot train.mp -o /dev/full", 1, "No space left")
        self.assertEqual((self.folder / "cut.mp").read_bytes(), recording)
        self.assertEqual(set(os.listdir(self.folder)), before)
        for line in ("peak train.mp", "help", "help --man", "--version"):
            with open("/dev/full", "w") as full:
                done = run(line, self.folder, stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 1, line)
            self.assertIn(b"No space left", done.stderr)
            closed = subprocess.run(f"{MEMPROF} {line} >&-", shell=True, cwd=self.folder, stderr=subprocess.PIPE)
            self.assertEqual(closed.returncode, 1, line)

    @asserted.needs()
    def test_the_version_names_its_commit(self):
        said = run("--version", self.folder).stdout.decode()
        head = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short=12", "HEAD"], capture_output=True,
                              text=True).stdout.strip()
        self.assertEqual(said, f"memprof 0.1.0 ({head})\n" if head else said)
        self.assertRegex(said, r"^memprof \d+\.\d+\.\d+( \([0-9a-f]{12}\))?\n$")

    def test_force_overwrites(self):
        (self.folder / "old.mp").write_bytes((self.folder / "cut.mp").read_bytes())
        self.run_in("peak train.mp -o old.mp --force").check_returncode()
        self.assertEqual((self.folder / "old.mp").read_bytes(), self.run_in("peak train.mp").stdout)

    def test_chrome_trace(self):
        self.run_in("chrome_trace train.mp -o trace.json").check_returncode()
        self.run_in("chrome_trace train.mp -o trace.json.gz").check_returncode()
        text = (self.folder / "trace.json").read_text()
        self.assertEqual(gzip.decompress((self.folder / "trace.json.gz").read_bytes()).decode(), text)
        trace = json.loads(text)
        info = self.json_of("info train.mp --json")
        self.assertEqual(trace["baseTimeNanoseconds"], info["process"]["start_unix_ns"])
        self.assertTrue(all(re.fullmatch(r"\d+\.\d{3}", ts) for ts in re.findall(r'"ts": ([^,]+)', text)))
        events = trace["traceEvents"]
        for track in info["tracks"]:
            points = [e for e in events if e["ph"] == "C" and e["name"] == track["id"]]
            highest = max(points, key=lambda e: e["args"]["allocated"])
            self.assertEqual(highest["args"]["allocated"], track["peak_bytes"])
            self.assertEqual(round(highest["ts"] * 1000), track["peak_ns"])
            self.assertEqual(points[-1]["args"]["allocated"], track["end_bytes"])
        slices = [e["name"] for e in events if e["ph"] == "X"]
        self.assertEqual(sorted(slices), ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"] + ["backward"] * 3 +
                         ["forward"] * 3 + ["memprof (0)"])
        names = {e["args"].get("name") for e in events if e["ph"] == "M"}
        self.assertLessEqual({"python3 train.py --batch-size 32", "pt_autograd_0", "steps"}, names)
        self.assertEqual(max(e["args"]["bytes"] for e in events if e["name"] == "cpu/resident"), 260 << 20)
        self.assertEqual([e["args"]["reserved"] >> 20 for e in events if e["name"] == "cuda:0/torch reserved"],
                         [20, 48])

    def test_long_trace_is_thinned(self):
        subprocess.run([str(BUILD / "tests/unit/cli/make_recording"), str(self.folder / "long.mp"), "big", "1100000"],
                       check=True)
        self.run_in("chrome_trace long.mp -o long.json").check_returncode()
        track = {t["id"]: t for t in self.json_of("info long.mp --json")["tracks"]}["cuda:0/torch"]
        self.assertGreater(track["events"], 1000000)
        points = [e for e in json.loads((self.folder / "long.json").read_text())["traceEvents"]
                  if e["ph"] == "C" and e["name"] == "cuda:0/torch"]
        self.assertLess(len(points), 500000)
        self.assertEqual([e["ts"] for e in points], sorted(e["ts"] for e in points))
        highest = max(points, key=lambda e: e["args"]["allocated"])
        self.assertEqual(highest["args"]["allocated"], track["peak_bytes"])
        self.assertEqual(round(highest["ts"] * 1000), track["peak_ns"])
        self.assertEqual(points[-1]["args"]["allocated"], track["end_bytes"])

    def test_every_format_has_its_page(self):
        page = (SOURCE / "src/cli/memprof-formats.7").read_text()
        for line in ("export train.mp -o x --format none", "flamegraph train.mp -o x --format none"):
            message = self.run_in(line).stderr.decode()
            names = re.search(r"there are (.*)", message).group(1).replace(" and ", ", ").split(", ")
            self.assertGreaterEqual(len(names), 4)
            for name in names:
                self.assertRegex(page, rf"(?i){name}", name)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_manual_pages_are_set_without_a_complaint(self):
        pages = sorted((SOURCE / "src").glob("*/*.[17]"))
        self.assertEqual(len(pages), 3)
        for page in pages:
            done = subprocess.run(["groff", "-t", "-man", "-ww", "-z", "-Tutf8", str(page)], capture_output=True, text=True)
            self.assertEqual(done.stderr, "", page.name)

    def test_trace_plot(self):
        self.run_in("trace_plot train.mp -o page.html").check_returncode()
        page = (self.folder / "page.html").read_text()
        self.assertTrue(page.lower().startswith("<!doctype html>"))
        self.assertNotIn('"view": "segments"', page)
        self.assertEqual(self.run_in("trace_plot cut.mp -o page.html").returncode, 4)

    def test_segment_plot_opens_on_its_view(self):
        self.run_in("segment_plot train.mp -o segments.html").check_returncode()
        self.assertIn('"view": "segments"', (self.folder / "segments.html").read_text())

    def option_help(self, command, option):
        """The line of --help about an option."""
        said = self.run_in(f"{command} --help").stdout.decode()
        found = re.search(rf"^ .{{5}}--{option}\b.*(?:\n {{26}}.*)*", said, re.M)
        self.assertIsNotNone(found, f"{command} --{option}")
        return " ".join(found.group(0).split())

    @asserted.needs()
    def test_help_lists_the_values_of_options(self):
        """Help and the message about a wrong value both list the values."""
        for line, values in {
                "peak train.mp --group": "stack stack:N function file library module region category metadata size "
                                         "stream pool thread",
                "peak train.mp --sort": "bytes blocks peak growth", "top --once --sort": "bytes blocks growth",
                "leaks train.mp --color": "auto always never", "peak train.mp --progress": "auto never",
                "peak train.mp --filter": "size step fn file module region label category role layer kind",
                "peak train.mp --filter kind=": "device pinned managed array pool vmm graph host handle",
                "peak train.mp --filter layer=": "app torch driver",
                "peak train.mp --filter role=": "parameter gradient optimizer_state buffer input kv_cache none",
                "report train.mp --format": "text markdown html csv", "peak train.mp --format": "text markdown html csv",
                "export train.mp -o x --format": "pytorch sqlite csv jsonl",
                "flamegraph train.mp -o x --format": "html folded speedscope pprof",
                "flamegraph train.mp -o x --of": "peak outstanding allocated at:TIME",
                "compare train.mp train.mp --of": "peak outstanding allocated",
                "advise train.mp --kind": "allocator checkpoint lifetime",
                "snapshot --stacks": "native,python native python none", "snapshot --capture": "auto cupti hooks torch cpu",
                "snapshot --on-full": "wait drop", "snapshot --on-oom": "snapshot none", "snapshot --follow": "yes no all",
                "snapshot --at-signal": "USR1 USR2", "snapshot --schedule": "wait= warmup= active= repeat= every= unit=",
                "snapshot --depth": "8 4096", "plan --values": "zeros ones host random"}.items():
            words = line.split()
            end = [] if words[0] not in ("snapshot", "plan") else ["--", "true"]
            wrong = words[:-1] + [words[-1] + "nosuch"] if line.endswith("=") else [*words, "nosuch"]
            done = self.run_in([*wrong, *end])
            self.assertEqual(done.returncode, 2, line)
            option = [word for word in words if word.startswith("--")][-1][2:]
            for said in (self.option_help(words[0], option), done.stderr.decode()):
                for value in values.split():
                    self.assertRegex(said, rf"(?<![\w-]){re.escape(value)}(?![\w-])" if value[-1] != "=" else value, line)

    def test_help_says_how_many_rows_a_report_shows(self):
        def rows(*limit):
            report = self.run_in(["report", "train.mp", *limit]).stdout.decode()
            return len(re.findall(r"^ +\d+\. ", report.split("LEAKS")[0], re.M))
        said, = re.findall(r"text: (\d+)", self.option_help("report", "limit"))
        self.assertGreater(rows("-n", "0"), int(said))
        self.assertEqual(rows(), int(said))

    def test_help_fits_a_terminal(self):
        commands = re.findall(r"^  (\w+)  ", self.run_in("help").stdout.decode(), re.M)
        for command in ("", *commands):
            for row in self.run_in(f"{command} --help").stdout.decode().splitlines():
                if not row.startswith("example: "):  # one line that can be copied
                    self.assertLessEqual(len(row), 80, command)
                self.assertEqual(row, row.rstrip(), command)

    def test_every_command_helps(self):
        listed = re.findall(r"^  (\w+) {2}", self.run_in("help").stdout.decode(), re.M)
        missing = {command for command, part in asserted.commands_of_parts().items() if part in asserted.left_out()}
        self.assertGreaterEqual(set(listed), (set(KEYS) | {"trace_plot", "chrome_trace"}) - missing)
        self.assertEqual(self.run_in("").stdout, self.run_in("help").stdout)
        self.assertEqual(self.run_in("--help").stdout, self.run_in("help").stdout)
        for command in listed:
            said = self.run_in(f"{command} --help").stdout.decode()
            self.assertIn("usage: memprof " + command, said)
            self.assertIn("example: memprof " + command, said)
            self.assertIn("--config", said)
            self.assertEqual(self.run_in(f"help {command}").stdout.decode(), said)

    @asserted.needs()
    def test_kept_texts_are_new(self):
        for line, path in {"help --man": "src/cli/memprof.1", "completion bash": "src/cli/completion/memprof"}.items():
            self.assertEqual(self.run_in(line).stdout, (SOURCE / path).read_bytes(), f"{path} is old: make texts")

    def test_every_shell_and_page_has_what_help_has(self):
        """The completion of each shell has the commands and options of --help; a page also has its words."""
        def answer(line):
            return self.run_in(line).stdout.decode()

        def words(text):
            return re.sub(r"[\\'\s]+", " ", text.replace("\\-", "-").replace("\\&", ""))

        shells = {shell: answer(f"completion {shell}") for shell in ("bash", "zsh", "fish")}
        for command in re.findall(r"^  ([a-z_]+)  ", answer("help"), re.M):
            said, page = answer(f"{command} --help"), words(answer(f"help --man {command}"))
            bash = re.search(rf"^    {command}\) options='(.*)' ;;", shells["bash"], re.M)[1].split()
            zsh = re.search(rf"^    {command}\) rows=\(\n(.*?)^        \) ;;", shells["zsh"], re.M | re.S)[1]
            options = re.findall(r"^ +(?:-\w, )?--([a-z-]+)", said, re.M)
            self.assertGreater(len(options), 1, command)
            for option in options:
                self.assertIn("--" + option, bash)
                self.assertIn(f"'--{option}:", zsh)
                self.assertIn(f"'__fish_seen_subcommand_from {command}' -l {option} ", shells["fish"])
                self.assertIn(f"fB--{option} fR", page)
            for sentence in words(said[said.index("\n\n", said.index("--config")):said.rindex("example: ")]).split(". "):
                self.assertIn(sentence.strip(" ."), re.sub(r" \.(TP|PP|br)", "", page), command)
        self.check_fails("completion ksh", 2, "bash, zsh and fish")

    def test_shells_take_their_completion(self):
        for shell, line in {"bash": "source FILE; complete -p memprof",
                            "zsh": "autoload -U compinit; compinit -D; source FILE; print $_comps[memprof]",
                            "fish": "source FILE; complete -C 'memprof peak --fil'; complete -C 'memprof he'"}.items():
            script = self.folder / f"completion.{shell}"
            script.write_bytes(self.run_in(f"completion {shell}").stdout)
            if shutil.which(shell):
                done = subprocess.run([shell, "-c", line.replace("FILE", str(script))], capture_output=True, text=True,
                                      env=os.environ | {"HOME": str(self.folder)})
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)
                self.assertRegex(done.stdout, {"fish": r"(?s)--filter\t.*help\t"}.get(shell, "_memprof"))

    def test_completion(self):
        def complete(*words):
            script = (f". {SOURCE}/src/cli/completion/memprof; COMP_WORDS=({' '.join(words)}); "
                      f"COMP_CWORD={len(words) - 1}; [[ ${{COMP_WORDS[COMP_CWORD]}} == EMPTY ]] && "
                      "COMP_WORDS[COMP_CWORD]=; _memprof; echo ${COMPREPLY[@]}")
            return subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split()

        self.assertEqual(complete("memprof", "pe"), ["peak"])
        self.assertEqual(complete("memprof", "peak", "--fil"), ["--filter"])
        self.assertEqual(complete("memprof", "info", "--fil"), [])
        self.assertEqual(complete("memprof", "peak", "EMPTY"), [])


def update():
    EXPECTED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_recordings(folder)
        for path, line in TEXTS.items():
            (EXPECTED / f"{path}.txt").write_text(without_size(run(line, folder).stdout.decode()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        asserted.main()
