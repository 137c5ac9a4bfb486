#!/usr/bin/env python3
"""memprof compare, and the documents of report and compare. Sites and groups equal the difference of two peak --json
and of two tables of all blocks. Also limits, Markdown and HTML read back, hostile names, and the example for CI."""
import collections
import csv
import html.parser
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness  # noqa: E402

SOURCE = pathlib.Path(os.path.abspath(__file__)).parents[3]
PAIRS = (("ctx128_inference.pickle", "ctx256_inference.pickle"), ("silmont_small.pickle", "niu_fb_200_mixed.pickle"))


PROGRAM = """import torch
def batches():
    while True:
        rows = torch.randn(512, 64)
        yield rows[::2].contiguous()
def main(steps):
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    optimizer = torch.optim.Adam(net.parameters())
    source = batches()
    for _ in range(2):
        next(source)
    for step in range(steps):
        batch = next(source)
        made = net(batch)
        loss = (made - batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
import sys
main(int(sys.argv[1]))
"""


def short(path):
    parts = path.split("/")
    return "/".join(parts[-2:]) if parts[-1] in ("__init__.py", "__main__.py") and len(parts) > 1 else parts[-1]


def key(stack, lines=True):
    """The key by which a user would call two sites the same; in code that moved, line numbers are ignored."""
    return tuple((frame["function"], (short(frame["file"]), lines and frame["line"]) if frame["file"] and
                  frame["language"] == "python" else None) for frame in stack)


def snapshot(path, calls):
    """Writes a snapshot of PyTorch with blocks that stay: (bytes, lines as "FILE:LINE FUNCTION", innermost first)."""
    trace = []
    for i, (size, *lines) in enumerate(calls):
        frames = [{"filename": f"/src/{line.split(':')[0]}", "line": int(line.split(":")[1].split()[0]),
                   "name": line.split()[1]} for line in lines]
        trace.append({"action": "alloc", "addr": 0x7f0000000000 + (i << 24), "size": size, "stream": 0,
                      "time_us": 1000 + i, "frames": frames})
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.rows = [], collections.Counter(), []

    def handle_starttag(self, tag, attributes):
        self.seen[tag] += 1
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-compare-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for kind, *size in (("train",), ("network",), ("leaking",), ("hostile",), ("nothing",), ("cut",), ("big", "20000")):
            harness.make_recording(self.folder / f"{kind}.mp", kind, *size)

    def memprof(self, *arguments, **more):
        return harness.memprof(*arguments, cwd=self.folder, **more)

    def json(self, *arguments):
        done = self.memprof(*arguments, "--json")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return json.loads(done.stdout)

    def by_site(self, path, lines):
        sizes = collections.Counter()
        for site in self.json("peak", path)["sites"]:
            sizes[key(site["stack"], lines)] += site["bytes"] or 0
        return sizes

    def test_sites_are_the_difference(self):
        pairs = [("train.mp", "leaking.mp"), ("leaking.mp", "train.mp")]
        pairs += [tuple(os.path.join(harness.DATA, name) for name in pair) for pair in PAIRS if harness.DATA]
        for before, after in pairs:
            with self.subTest(before=before):
                answer = self.json("compare", before, after)
                peaks = [self.json("peak", path) for path in (before, after)]
                self.assertEqual(answer["schema"], "memprof.compare/1")
                self.assertEqual(answer["track"], peaks[1]["track"])
                self.assertEqual([answer["peak"][name] for name in ("before_bytes", "after_bytes")],
                                 [peak["peak_bytes"] for peak in peaks])
                ends = [track["end_bytes"] for path in (before, after) for track in self.json("info", path)["tracks"]
                        if track["id"] == answer["track"]]
                self.assertEqual([answer["outstanding"][name] for name in ("before_bytes", "after_bytes")], ends)
                lines = not answer["moved_functions"]
                old, new = self.by_site(before, lines), self.by_site(after, lines)
                expected = {site: new[site] - old[site] for site in {*old, *new} if site and new[site] != old[site]}
                told = collections.Counter()
                for site in answer["sites"]:
                    self.assertEqual(site["delta_bytes"], site["after_bytes"] - site["before_bytes"])
                    if site["stack"]:
                        told[key(site["stack"], lines)] += site["delta_bytes"]
                self.assertEqual({site: delta for site, delta in told.items() if delta}, expected)
                self.assertEqual(sum(site["delta_bytes"] for site in answer["sites"]),
                                 answer["peak"]["after_bytes"] - answer["peak"]["before_bytes"])

    def moved(self, calls, edit):
        """The answer of compare for a program and its edited version. `edit` maps (file, line) to the line after the
        edit."""
        for name, move in (("before", lambda file, line: line), ("after", edit)):
            told = []
            for size, *lines in calls:
                places = [(line.split(":")[0], int(line.split(":")[1].split()[0]), line.split()[1]) for line in lines]
                told.append((size, *(f"{file}:{move(file, line)} {function}" for file, line, function in places)))
            snapshot(self.folder / f"{name}.pickle", told)
        return self.json("compare", "before.pickle", "after.pickle")

    def test_code_that_moved_is_the_same(self):
        layers = [(1 << 20, f"net.py:{30 + i} forward", "net.py:60 forward", "use.py:12 step", "use.py:90 <module>")
                  for i in range(20)]
        parts = [(4096 * (i + 1), f"data.py:{7 + 3 * i} load_{i % 3}", f"use.py:{20 + i} main", "use.py:90 <module>")
                 for i in range(12)]
        recursive = [(512 * (i + 1), *(f"tree.py:{5 + 2 * (k % 2)} grow" for k in range(i + 1)), "use.py:4 <module>")
                     for i in range(6)]
        edits = {"a remark on top": lambda file, line: line + 1,
                 "in one file": lambda file, line: line + 40 * (file == "net.py"),
                 "in the middle": lambda file, line: line + 3 * (line > 35),
                 "lines taken out": lambda file, line: line - 4 * (line > 58)}
        for calls in (layers, parts, recursive):
            for name, edit in edits.items():
                with self.subTest(edit=name, calls=calls[0]):
                    answer = self.moved(calls, edit)
                    self.assertEqual(answer["sites"], [])
                    lines = {(place.split(":")[0], int(place.split(":")[1].split()[0])) for _, *places in calls
                             for place in places}
                    self.assertEqual(bool(answer["moved_functions"]), any(edit(*at) != at[1] for at in lines))
                    told = self.memprof("compare", "before.pickle", "after.pickle").stdout
                    self.assertEqual(told.count("moved: "), bool(answer["moved_functions"]))

    def test_what_changed_among_what_moved(self):
        """Code moved by two lines: one allocating line is new, one is gone, and one allocates more."""
        before = [(1000 * (i + 1), f"a.py:{10 + i} kernel_{i}", f"use.py:{20 + i} main") for i in range(8)]
        after = [(size, inner, f"use.py:{int(outer.split(':')[1].split()[0]) + 2} main")
                 for size, inner, outer in before]
        after[3] = (after[3][0] + 5000, *after[3][1:])
        del after[6]
        after.insert(5, (77777, "a.py:50 added", "use.py:27 main"))
        after[6:] = [(size, inner, f"use.py:{int(outer.split(':')[1].split()[0]) + 1} main")
                     for size, inner, outer in after[6:]]
        snapshot(self.folder / "before.pickle", before)
        snapshot(self.folder / "after.pickle", after)
        sites = self.json("compare", "before.pickle", "after.pickle")["sites"]
        self.assertEqual([(site["delta_bytes"], site["stack"][0]["function"]) for site in sites],
                         [(77777, "added"), (-7000, "kernel_6"), (5000, "kernel_3")])

    def test_lines_that_were_edited(self):
        """Lines with one call more or less than before, moved, among lines that are new."""
        for lines in range(1, 6):
            calls = [(1000 * (4 * line + call + 1), f"ops.py:{5 + 4 * line + call} op_{line}_{call}",
                      f"use.py:{20 + line} main") for line in range(lines) for call in range(4)]
            edited = [(size, inner, f"use.py:{2 * int(outer.split(':')[1].split()[0]) - 13} main")
                      for size, inner, outer in calls]
            for line in range(lines):
                edited.append((50 + line, f"ops.py:{90 + line} more_{line}", f"use.py:{2 * (20 + line) - 13} main"))
                edited.append((70 + line, f"new.py:{7 + line} new_{line}", f"use.py:{2 * (20 + line) - 14} main"))
            with self.subTest(lines=lines):
                snapshot(self.folder / "before.pickle", calls)
                snapshot(self.folder / "after.pickle", edited)
                sites = self.json("compare", "before.pickle", "after.pickle")["sites"]
                self.assertEqual({site["stack"][0]["function"]: site["delta_bytes"] for site in sites},
                                 {f"{kind}_{line}": size + line for line in range(lines)
                                  for kind, size in (("more", 50), ("new", 70))})

    def test_a_line_that_moved_beside_lines_that_were_edited(self):
        """An unchanged line that moved past others stays the same line, even if any number of them share half of its
        calls."""
        for others in (1, 2, 3, 8, 40):
            same = (999, "ops.py:3 same")
            part = [[(1000 * (line + 1) + call, f"ops.py:{100 + 9 * line + call} part_{line}_{call}")
                     for call in range(3)] for line in range(others)]
            before = [(*same, "use.py:10 main")] + \
                [(*call, f"use.py:{20 + line} main") for line in range(others) for call in part[line][:2]]
            after = [(*call, f"use.py:{20 + line} main") for line in range(others) for call in part[line]] + \
                [(*same, f"use.py:{90 + others} main")]
            with self.subTest(others=others):
                snapshot(self.folder / "before.pickle", before)
                snapshot(self.folder / "after.pickle", after)
                sites = self.json("compare", "before.pickle", "after.pickle")["sites"]
                self.assertNotIn("same", [site["stack"][0]["function"] for site in sites])

    @unittest.skipUnless(harness.torch_of("/usr/bin/python3"), "no PyTorch")
    def test_an_edited_program(self):
        """One line is new, one was edited, all moved. Python has also specialised the later steps, so their frames
        differ from the first ones'."""
        edits = (("import torch\n", '"""Edited."""\nimport sys\n\nimport torch\n'),
                 ("        loss = ", "        extra = torch.cat([made, batch])\n        loss = extra.sum() * 0 + "))
        for name, text, steps in (("before", PROGRAM, 2), ("longer", PROGRAM, 60),
                                  ("edited", PROGRAM.replace(*edits[0]).replace(*edits[1]), 60)):
            folder = self.folder / name
            folder.mkdir()
            (folder / "train.py").write_text(text)
            done = self.memprof("snapshot", "-o", f"{name}.mp", "--", "/usr/bin/python3", folder / "train.py", steps)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.json("compare", "before.mp", "longer.mp")["sites"], [])
        sites = self.json("compare", "before.mp", "edited.mp")["sites"]
        large = [(site["delta_bytes"], next(frame["line"] for frame in site["stack"] if frame["language"] == "python"))
                 for site in sites if abs(site["delta_bytes"]) >= 4096]
        self.assertEqual(large, [(2 * 256 * 64 * 4, 3 + 15)])

    def by_group(self, group, path, *options):
        """Bytes and blocks of each group at the peak, without what differs from run to run."""
        held = collections.Counter()
        for site in self.json("peak", path, "--group", group, *options)["sites"]:
            name = site["group"]
            if name and group in ("file", "library"):
                name = short(name)
            if name and group == "thread":
                name = re.sub(r" \d+$", "", name)
            held[name] += complex(site["bytes"] or 0, site["blocks"])
        return held

    def difference(self, old, new):
        """The differences that `memprof compare` shows."""
        return {name: (old[name], new[name]) for name in {*old, *new} if old[name] != new[name]}

    def told(self, answer):
        found = {site["group"]: (complex(site["before_bytes"], site["before_blocks"]),
                                 complex(site["after_bytes"], site["after_blocks"])) for site in answer["sites"]}
        self.assertEqual(len(found), len(answer["sites"]))
        return found

    def test_groups_are_the_difference(self):
        pairs = [("train.mp", "leaking.mp"), ("leaking.mp", "network.mp"), ("network.mp", "train.mp")]
        pairs += [tuple(os.path.join(harness.DATA, name) for name in pair) for pair in PAIRS if harness.DATA]
        (self.folder / "rules").write_text("mine = remember\n")
        rows = collections.Counter()
        for before, after in pairs:
            for group, *options in (("category",), ("category", "--rules", "rules"), ("module",), ("region",), ("size",),
                                    ("thread",), ("stream",), ("pool",), ("function",), ("file",), ("library",),
                                    ("stack:2",), ("size", "--filter", "size>=1MiB"), ("region", "--to", "60%")):
                with self.subTest(before=before, after=after, group=group, options=options):
                    answer = self.json("compare", before, after, "--group", group, *options)
                    told = self.told(answer)
                    self.assertEqual(told, self.difference(self.by_group(group, before, *options),
                                                           self.by_group(group, after, *options)))
                    rows[group] += len(told)
                    changes = [abs(site["delta_bytes"]) for site in answer["sites"]]
                    self.assertEqual(changes, sorted(changes, reverse=True))
        self.assertTrue(all(rows.values()), rows)

    def of_export(self, path, column, of):
        """The same sums of outstanding or of allocated blocks, from the table of all blocks."""
        done = self.memprof("export", path, "--format", "csv", "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        held = collections.Counter()
        for row in csv.DictReader(done.stdout.splitlines()):
            if row["track"] == "cuda:0/torch" and (row["alloc_ns"] if of == "allocated" else not row["free_ns"]):
                held[row[column] or None] += complex(int(row["bytes"]), 1)
        return held

    def test_groups_of_the_end_and_of_all(self):
        for of in ("outstanding", "allocated"):
            for group, column in (("module", "module"), ("region", "region"), ("size", "bytes")):
                with self.subTest(of=of, group=group):
                    told = self.told(self.json("compare", "train.mp", "big.mp", "--of", of, "--group", group))
                    self.assertEqual(told, self.difference(self.of_export("train.mp", column, of),
                                                           self.of_export("big.mp", column, of)))
                    self.assertTrue(told)

    def test_groups_for_people(self):
        lines = self.memprof("compare", "train.mp", "network.mp", "--group", "category").stdout.splitlines()
        self.assertIn("BY category, at the peak", lines)
        self.assertIn("  +512 KiB       0 B   512 KiB      +1  buffers", lines)
        self.assertIn("no region differs outstanding", self.memprof("compare", "train.mp", "network.mp", "--group", "region",
                                                                    "--of", "outstanding").stdout)
        text = self.memprof("compare", "train.mp", "leaking.mp", "--group", "size", "--format", "markdown").stdout
        self.assertIn("### BY size, at the peak\n\n|change|before|after|blocks|size|\n", text)
        self.assertIn("|\\+37|1.00 MiB (1 048 576)|", text)
        self.assertEqual(self.memprof("compare", "train.mp", "train.mp", "--group", "colour").returncode, 2)

    def test_order(self):
        for group in ("stack", "size"):
            deltas = [site["delta_bytes"] for site in self.json("compare", "train.mp", "big.mp", "--sort", "growth",
                                                                "--group", group)["sites"]]
            self.assertEqual(deltas, sorted(deltas, reverse=True))
            self.assertLess(min(deltas), 0)
            blocks = [abs(site["after_blocks"] - site["before_blocks"]) for site in
                      self.json("compare", "train.mp", "big.mp", "--sort", "blocks", "--group", group)["sites"]]
            self.assertEqual(blocks, sorted(blocks, reverse=True))
            self.assertGreater(len(blocks), 4)

    def test_limits(self):
        for options, before, after, status in (
                ((), "train.mp", "leaking.mp", 0), (("--fail",), "train.mp", "leaking.mp", 3),
                (("--fail",), "leaking.mp", "train.mp", 0), (("--fail",), "train.mp", "train.mp", 0),
                (("--fail", "--max-growth", "190%"), "train.mp", "leaking.mp", 0),  # +76.3 %, +189.7 %
                (("--fail", "--max-growth", "189%"), "train.mp", "leaking.mp", 3),
                (("--fail", "--max-growth", "37MiB"), "train.mp", "leaking.mp", 0),
                (("--fail", "--max-growth", "36MiB"), "train.mp", "leaking.mp", 3),
                (("--fail", "--filter", "fn~forward"), "train.mp", "leaking.mp", 0),
                (("--fail", "--max-growth", "much"), "train.mp", "leaking.mp", 2),
                (("--of", "at:1s"), "train.mp", "train.mp", 2), (("--format", "rtf"), "train.mp", "train.mp", 2),
                (("--json", "--format", "html"), "train.mp", "train.mp", 2),
                ((), "train.mp", "absent.mp", 1), ((), "absent.mp", "train.mp", 1), ((), "train.mp", "nothing.mp", 1),
                ((), "nothing.mp", "train.mp", 1), (("--track", "cuda:7/torch"), "train.mp", "train.mp", 2)):
            done = self.memprof("compare", before, after, *options)
            self.assertEqual(done.returncode, status, (options, done.stderr))
            if status in (1, 2):
                self.assertEqual(done.stdout, "")
        self.assertEqual(self.memprof("compare", "train.mp").returncode, 2)
        self.assertEqual(self.memprof("compare", "train.mp", "cut.mp").returncode, 4)

    def test_several(self):
        answer = self.json("compare", "train.mp", "leaking.mp", "train.mp", "--of", "outstanding")
        self.assertEqual([file["peak_bytes"] for file in answer["files"]],
                         [self.json("peak", name)["peak_bytes"] for name in ("train.mp", "leaking.mp", "train.mp")])
        self.assertEqual((answer["sites"], answer["of"]), ([], "outstanding"))
        self.assertIn("leaking.mp", self.memprof("compare", "train.mp", "leaking.mp", "train.mp").stdout)

    def test_a_recording_with_limits_is_not_complete(self):
        recordings = [SOURCE / "tests" / "recordings" / "formats" / name for name in ("2-folded.mp", "1-first.mp")]
        answer = self.json("compare", *recordings)
        self.assertEqual([file["complete"] for file in answer["files"]],
                         [self.json("info", recording)["coverage"]["complete"] for recording in recordings])
        self.assertEqual([file["complete"] for file in answer["files"]], [False, True])

    def test_markdown(self):
        text = self.memprof("compare", "train.mp", "leaking.mp", "--format", "markdown").stdout
        tables = [block for block in text.split("\n\n") if block.startswith("|")]
        for table in tables:
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            self.assertEqual(len(widths), 1, table)
        self.assertIn("train.py:27 remember", tables[1])
        text = self.memprof("report", "hostile.mp", "--format", "markdown").stdout
        self.assertNotRegex(text, r"(?<!\\)<|[\x00-\x09\x0b-\x1f\x7f]")
        self.assertIn("### PEAK  ", text)
        self.assertNotIn("### PEAK", self.memprof("report", "nothing.mp", "--format", "markdown").stdout)

    def test_html(self):
        for name in ("leaking.mp", "hostile.mp"):
            for arguments in (("report", name), ("compare", "train.mp", name)):
                text = self.memprof(*arguments, "--format", "html").stdout
                page = Page()
                page.feed(text)
                page.close()
                self.assertEqual(page.open, [])
                self.assertLessEqual(set(page.seen), {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p",
                                                      "table", "thead", "tr", "th", "td",
                                                      "svg", "line", "text", "path", "circle"})
                self.assertTrue(page.rows)
        page = Page()
        page.feed(self.memprof("report", "leaking.mp", "--format", "html").stdout)
        peak = [row for row in page.rows if row[-1].startswith("train.py:27")]
        self.assertEqual(peak[0][:3], ["46.8 %", "40.0 MiB", "40"])

    def test_the_page_of_a_comparison_draws_both_curves(self):
        """On one scale: the heights of both peaks, of 178 units, and the bar of the largest change."""
        page = self.folder / "compared.html"
        self.memprof("compare", "train.mp", "leaking.mp", "-o", page)
        text = page.read_text()
        peaks = [self.json("peak", name)["peak_bytes"] for name in ("train.mp", "leaking.mp")]
        for name, peak in zip(("earlier", "curve"), peaks):
            (path,) = re.findall(rf'class="{name}" d="M([^"]*)"', text)
            top = min(float(word) for word in path.split()[1::2])
            self.assertAlmostEqual(206 - top, 178 * peak / max(peaks), delta=0.06)
        self.assertIn(">before, at most 48.5 MiB<", text)
        self.assertIn(">after, at most 85.5 MiB<", text)
        self.assertIn('style="--part:100.0%">+37.0 MiB<', text)
        self.assertTrue(self.memprof("compare", "train.mp", "leaking.mp", "-o", "-").stdout.startswith("train.mp → "))

    @unittest.skipUnless(harness.torch_of("/usr/bin/python3"), "no PyTorch")
    def test_example_for_ci(self):
        program = "import sys, torch; kept = [torch.zeros(250_000) for _ in range(int(sys.argv[1]))]"
        script = [SOURCE / "examples/ci/check_memory.sh", self.folder / "base.mp", "/usr/bin/python3", "-c", program]
        environment = {**os.environ, "MEMPROF": str(harness.BUILD / "memprof")}
        environment.pop("GITHUB_STEP_SUMMARY", None)

        def check(blocks, **more):
            return subprocess.run([*script, str(blocks)], capture_output=True, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL, env={**environment, **more})
        first = check(10)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("### PEAK  9.54 MiB", first.stdout)
        self.assertEqual(check(10).returncode, 0)
        worse = check(12)
        self.assertEqual(worse.returncode, 3, worse.stderr)
        self.assertIn(r"\+1.91 MiB|\+20.0 %", worse.stdout)
        self.assertEqual(check(12, MAX_GROWTH="25%").returncode, 0)
        self.assertEqual(check("none").returncode, 1)  # the program's own

    @unittest.skipUnless(harness.torch_of("/usr/bin/python3"), "no PyTorch")
    @unittest.skipUnless(shutil.which("git"), "no git")
    def test_example_of_a_bisection(self):
        """Ten commits: the fourth needs a little more, the fifth and ninth do not run, the seventh needs a third more."""
        tree = self.folder / "tree"
        tree.mkdir()

        def git(*arguments):
            return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.org", *arguments], cwd=tree,
                                  check=True, capture_output=True, text=True,
                                  env={**os.environ, "MEMPROF": str(harness.BUILD / "memprof")}).stdout.strip()
        git("init", "-q")
        commits = []
        for number, blocks in enumerate((60, 60, 60, 61, "oops", 61, 80, 80, "oops", 80), 1):
            (tree / "train.py").write_text(f"import torch  # {number}\n"
                                           f"kept = [torch.zeros(25_000) for _ in range({blocks})]\n")
            git("add", "train.py")
            git("commit", "-qm", f"commit {number}")
            commits.append(git("rev-parse", "HEAD"))
        good = self.folder / "good.mp"
        git("checkout", "-q", commits[0])
        self.memprof("snapshot", "-o", good, "--", "/usr/bin/python3", tree / "train.py")
        git("bisect", "start", commits[-1], commits[0])
        script = SOURCE / "examples/ci/bisect_memory.sh"
        for program, recording in (("/nowhere/memprof", good), (harness.BUILD / "memprof", "nowhere.mp")):
            missing = subprocess.run([script, recording, "true"], env={**os.environ, "MEMPROF": str(program)}, text=True,
                                     capture_output=True)
            self.assertGreaterEqual(missing.returncode, 128, missing.stderr)  # no commit is skipped or judged
            self.assertIn("there is no", missing.stderr)
        said = git("bisect", "run", script, good, "/usr/bin/python3", "train.py")
        self.assertIn(f"{commits[6]} is the first bad commit", said)


if __name__ == "__main__":
    asserted.main()
