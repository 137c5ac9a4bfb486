#!/usr/bin/env python3
"""Files of memprof flamegraph, compared with peak and leaks of the same recording. The test itself parses folded
stacks, speedscope, HTML, and protobuf's wire format. `go tool pprof` and flamegraph.pl read them, too, if installed."""
import collections
import glob
import gzip
import json
import os
import pathlib
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
from harness import DATA, make_recording  # noqa: E402

REAL = ("silmont_small.pickle", "niu_fb_200_mixed.pickle", "sidnb13_transformer.pt.trace.json")


def memprof(*arguments, **more):
    return harness.memprof(*arguments, text=False, **more)


def ask(command, path, *options):
    return json.loads(memprof(command, path, "--json", *options).stdout)


def label(frame):
    """The name in folded stacks of a frame in JSON."""
    if frame["function"] is None and frame["language"] is None:
        return "[frames left out]"
    text = frame["function"] or "?"
    if frame["language"] == "python" and frame["file"]:
        text += f" ({short(frame['file'])}:{frame['line']})" if frame["line"] else f" ({short(frame['file'])})"
    return re.sub("[\0-\x1f]", " ", text.replace(";", ":"))


def short(path):
    parts = path.split("/")
    return "/".join(parts[-2:]) if parts[-1] in ("__init__.py", "__main__.py") and len(parts) > 1 else parts[-1]


def fields(data):
    """(number, value) of each field of a protobuf message; value an int or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            length = varint()
            assert at + length <= len(data)
            yield key >> 3, data[at:at + length]
            at += length


def packed(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    return values


def read_pprof(path):
    """By the field numbers of profile.proto: sample types, and samples as (values, frames innermost first, labels)."""
    whole = collections.defaultdict(list)
    for number, value in fields(gzip.open(path).read()):
        whole[number].append(value)
    texts = [text.decode("utf-8") for text in whole[6]]
    assert texts[0] == ""
    message = lambda data: collections.defaultdict(int, fields(data))
    functions = {f[1]: (texts[f[2]], texts[f[4]]) for f in map(message, whole[5])}
    locations = {}
    for data in whole[4]:
        location = message(data)
        line = message(location[4])
        locations[location[1]] = (*functions[line[1]], line[2])
    types = [(texts[t[1]], texts[t[2]]) for t in map(message, whole[1])]
    samples = []
    for data in whole[2]:
        parts = list(fields(data))
        (ids,) = [packed(value) for number, value in parts if number == 1]
        (values,) = [packed(value) for number, value in parts if number == 2]
        labels = {}
        for found in (message(value) for number, value in parts if number == 3):
            labels[texts[found[1]]] = texts[found[2]] if found[2] else found[3]
        samples.append((dict(zip((name for name, _ in types), values)), [locations[i] for i in ids], labels))
    return types, samples, texts[whole[14][0]]


class Flames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-flames-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for kind in ("train", "leaking", "hostile", "nothing"):
            make_recording(self.folder / f"{kind}.mp", kind)
        self.train, self.leaking = self.folder / "train.mp", self.folder / "leaking.mp"

    def draw(self, name, *arguments):
        out = self.folder / name
        done = memprof("flamegraph", *arguments, "-o", out)
        self.assertIn((done.returncode, done.stdout), ((0, b""), (4, b"")), done.stderr)
        return out

    def folded(self, *arguments):
        sums = {}
        for line in self.draw("x.folded", *arguments).read_text(errors="replace").splitlines():
            stack, size = line.rsplit(" ", 1)
            self.assertNotIn(stack, sums)
            sums[stack] = int(size)
        return sums

    def in_sites(self, answer):
        sums = collections.Counter()
        for site in answer["sites"]:
            stack = ";".join(label(frame) for frame in reversed(site["stack"]))
            sums[stack] += site["bytes"] or 0
        return sums

    def test_folded(self):
        paths = [self.train, self.leaking, *(pathlib.Path(DATA) / name for name in REAL if DATA)]
        for path in paths:
            with self.subTest(path=path.name):
                peak, drawn = ask("peak", path), self.folded(path)
                self.assertEqual(sum(drawn.values()), peak["peak_bytes"])
                known = {stack: size for stack, size in self.in_sites(peak).items() if stack and "?" not in stack}
                self.assertTrue(known)
                self.assertEqual({stack: drawn.get(stack) for stack in known}, known)
                track = peak["track"]
                outstanding = ask("leaks", path, "--track", track)["outstanding"]
                self.assertEqual(sum(self.folded(path, "--of", "outstanding").values()), outstanding["bytes"])

    def test_a_part_and_a_moment(self):
        peak = ask("peak", self.leaking, "--from", "step:3", "--to", "step:5")
        part = ("--from", "step:3", "--to", "step:5")
        self.assertEqual(sum(self.folded(self.leaking, *part).values()), peak["peak_bytes"])
        filtered = ask("peak", self.leaking, "--filter", "fn~remember")
        self.assertEqual(sum(self.folded(self.leaking, "--filter", "fn~remember").values()), filtered["picked_bytes"])
        steps = ask("steps", self.leaking)
        self.assertEqual(sum(self.folded(self.leaking, "--of", "at:step:7").values()),
                         steps["steps"][7 - 1]["end_bytes"])
        inside = sum(row["allocated_bytes"] for row in steps["steps"][2:5])
        self.assertEqual(sum(self.folded(self.leaking, "--of", "allocated", *part).values()), inside)

    def test_difference(self):
        before, after = self.folded(self.train), self.folded(self.leaking)
        both = {}
        for line in self.draw("d.folded", self.train, self.leaking).read_text().splitlines():
            stack, first, second = line.rsplit(" ", 2)
            both[stack] = (int(first), int(second))
        self.assertEqual(both, {stack: (before.get(stack, 0), after.get(stack, 0)) for stack in {*before, *after}})
        speedscope = json.loads(self.draw("d.json", self.train, self.leaking).read_text())
        came, went, *_ = [profile["endValue"] for profile in speedscope["profiles"]]
        self.assertEqual(came, sum(max(0, new - old) for old, new in both.values()))
        self.assertEqual(went, sum(max(0, old - new) for old, new in both.values()))
        _, samples, _ = read_pprof(self.draw("d.pb.gz", self.train, self.leaking))
        self.assertEqual(sum(values["peak_space"] for values, _, _ in samples), sum(b - a for a, b in both.values()))
        self.assertEqual(-sum(values["peak_space"] for values, _, labels in samples if "pprof::base" in labels),
                         sum(before.values()))
        self.assertTrue(all(value <= 0 for values, _, labels in samples if "pprof::base" in labels
                            for value in values.values()))

    def test_pprof(self):
        paths = [self.train, self.folder / "hostile.mp", *(pathlib.Path(DATA) / name for name in REAL if DATA)]
        for path in paths:
            with self.subTest(path=path.name):
                types, samples, first = read_pprof(self.draw("x.pb.gz", path, "--of", "outstanding"))
                self.assertEqual(types, [(f"{sense}_{what}", unit) for sense in ("peak", "inuse", "alloc")
                                         for what, unit in (("objects", "count"), ("space", "bytes"))])
                self.assertEqual(first, "inuse_space")
                sums = collections.Counter()
                for values, _, _ in samples:
                    sums.update(values)
                peak = ask("peak", path)
                (track,) = [track for track in ask("info", path)["tracks"] if track["id"] == peak["track"]]
                outstanding = ask("leaks", path, "--track", track["id"])["outstanding"]
                self.assertEqual([sums[name] for name, _ in types[:5]],
                                 [peak["blocks"], peak["peak_bytes"], outstanding["blocks"], outstanding["bytes"],
                                  track["allocs"]])
                self.assertEqual({(labels["track"], labels["device"], labels["layer"]) for _, _, labels in samples},
                                 {(track["id"], *track["id"].split("/")[:2])})
        _, samples, _ = read_pprof(self.draw("x.pb.gz", self.train))
        steps = ask("steps", self.train)
        for row in steps["steps"]:
            self.assertEqual(sum(values["alloc_space"] for values, _, labels in samples
                                 if labels.get("step") == row["step"]), row["allocated_bytes"])
        for region in steps["regions"]:
            self.assertEqual(sum(values["alloc_space"] for values, _, labels in samples
                                 if labels.get("region") == region["name"]), region["total_allocated_bytes"])
        frames = {frame for _, stack, _ in samples for frame in stack}
        self.assertIn(("forward", "/home/ada/model.py", 31), frames)
        _, samples, first = read_pprof(self.draw("at.pb.gz", self.train, "--of", "at:step:2"))
        self.assertEqual(first, "at_space")
        self.assertEqual(sum(values["at_space"] for values, _, _ in samples), steps["steps"][1]["end_bytes"])

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_pprof_by_pprof(self):
        out = self.draw("x.pb.gz", self.train)
        environment = {**os.environ, "PPROF_TMPDIR": str(self.folder), "HOME": str(self.folder)}
        done = subprocess.run(["go", "tool", "pprof", "-sample_index=peak_space", "-unit=B", "-top", out],
                              capture_output=True, text=True, timeout=120, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"of {ask('peak', self.train)['peak_bytes']}B total", done.stdout)

    @unittest.skipUnless(glob.glob("/usr/share/perl5/Devel/NYTProf/flamegraph.pl"), "no flamegraph.pl")
    def test_folded_by_flamegraph(self):
        for arguments in ((self.train,), (self.train, self.leaking)):
            out = self.draw("x.folded", *arguments)
            done = subprocess.run(["perl", "/usr/share/perl5/Devel/NYTProf/flamegraph.pl", out], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"all ({ask('peak', arguments[-1])['peak_bytes']:,} samples", done.stdout)

    def test_speedscope(self):
        for path in (self.train, self.folder / "hostile.mp"):
            text = self.draw("x.speedscope.json", path, "--of", "outstanding").read_text(encoding="utf-8")
            file = json.loads(text)
            self.assertEqual(file["$schema"], "https://www.speedscope.app/file-format-schema.json")
            frames = file["shared"]["frames"]
            self.assertTrue(all(set(frame) <= {"name", "file", "line"} for frame in frames))
            outstanding = ask("leaks", path, "--track", ask("peak", path)["track"])["outstanding"]
            for profile, key, unit in zip(file["profiles"], ("bytes", "blocks"), ("bytes", "none")):
                self.assertEqual((profile["type"], profile["unit"], profile["startValue"]), ("sampled", unit, 0))
                self.assertEqual(len(profile["samples"]), len(profile["weights"]))
                self.assertEqual(sum(profile["weights"]), profile["endValue"])
                self.assertEqual(profile["endValue"], outstanding[key])
                self.assertTrue(all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack))
        packed_file = self.draw("x.json.gz", self.train)
        self.assertIn("profiles", json.loads(gzip.open(packed_file).read()))

    def test_html(self):
        for path in (self.train, self.folder / "hostile.mp"):
            page = self.draw("x.html", path).read_text(encoding="utf-8")
            (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
            self.assertNotIn("<", data)
            data = json.loads(data)
            self.assertEqual(sum(data["after"]), ask("peak", path)["peak_bytes"])
            self.assertEqual(sum(data["blocks"]), ask("peak", path)["blocks"])
            self.assertEqual(len(data["stacks"]), len(data["after"]))
            self.assertNotIn("http", re.sub("http-equiv", "", page))

    def test_what_cannot_be_drawn(self):
        for arguments, status, word in (((self.train, "--of", "now", "-o", "x"), 2, b"at:TIME"),
                                        ((self.train, "--of", "at:9h9", "-o", "x"), 2, b"is not a time"),
                                        ((self.train, "--format", "svg", "-o", "x"), 2, b"speedscope"),
                                        ((self.train,), 2, b"-o FILE"),
                                        ((self.folder / "nothing.mp", "-o", self.folder / "x"), 1, b"no track"),
                                        ((self.folder / "nothing.mp", self.train, "-o", self.folder / "x"), 1,
                                         b"no track"),
                                        ((self.folder / "absent.mp", self.train, "-o", self.folder / "x"), 1,
                                         b"absent.mp")):
            done = memprof("flamegraph", *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, b""), done.stderr)
            self.assertIn(word, done.stderr)
            self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    asserted.main()
