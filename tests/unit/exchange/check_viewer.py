#!/usr/bin/env python3
"""PyTorch's own viewers read memprof's exports, and show the same as for PyTorch's own file. Tested are the viewer in
Python (torch/cuda/_memory_viz.py) of every installed PyTorch, and the page's scripts under node. For a file at protocol
5, which these scripts cannot read, they read the export.

MEMPROF_MEMORY_VIZ names folders with its scripts (torch/utils/viz of some versions of PyTorch), separated by colons.
The default are those of this Python's torch (pip's has them, Debian's does not). The scripts must not be added to
memprof; without them that part is skipped."""
import base64
import glob
import importlib.util
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

import torch_sources
from check_export import as_lists
from check_metadata import Trace
from check_told import Values
from snapshots import Case, Made

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from harness import DATA, make_recording  # noqa: E402


def scripts():
    """Folders with the viewer's scripts."""
    if "MEMPROF_MEMORY_VIZ" in os.environ:
        return os.environ["MEMPROF_MEMORY_VIZ"].split(":")
    torch = importlib.util.find_spec("torch")
    folder = torch and os.path.join(os.path.dirname(torch.origin), "utils", "viz")
    return [folder] if folder and os.path.exists(os.path.join(folder, "MemoryViz.js")) else []


FOLDERS = scripts() if shutil.which("node") else []
PYTHONS = [folder for folder in torch_sources.folders() if torch_sources.text_of(folder, "cuda/_memory_viz.py")]


def in_order(value, seen):
    """The texts with each dictionary's keys in one order; shared objects stay shared."""
    if isinstance(value, (dict, list)) and id(value) not in seen:
        seen[id(value)] = ({key: in_order(value[key], seen) for key in sorted(value)} if isinstance(value, dict) else
                           [in_order(item, seen) for item in value])
    return seen.get(id(value), value)


class Exported(Case):
    def exported(self, path):
        out = self.folder / "exported" / pathlib.Path(path).name
        out.parent.mkdir(exist_ok=True)
        run = self.memprof("export", path, "-o", out, "--force", "--format", "pytorch")
        self.assertEqual(run.returncode, 0, run.stderr)
        return out

    def originals(self):
        every_key = Values().snapshot()
        every_key.pop("categories")  # the viewer has names of its own there, and ends where none is "unknown"
        every_key["device_traces"][0][0]["category"] = "unknown"
        return [*sorted(glob.glob(f"{DATA}/*.pickle") if DATA else ()), self.dump(Made(8, devices=3).snapshot),
                self.put("every_key.pickle", pickle.dumps(every_key, 4)),
                self.put("metadata.pickle", pickle.dumps(Trace(4).snapshot, 4))]


@unittest.skipUnless(PYTHONS, "no PyTorch is here")
class InPython(Exported):
    def said(self, viewer, path):
        """The viewer's texts, or the error that it threw."""
        said = {}
        for name in ("segsum", "trace", "segments", "memory", "segment_plot", "trace_plot"):
            made = getattr(viewer, name, None)
            if made is None:
                continue
            with open(path, "rb") as file:
                snapshot = in_order(pickle.load(file), {})
            snapshot = snapshot if isinstance(snapshot, dict) else {"segments": snapshot, "device_traces": []}
            more = {"format_flamegraph": str} if name in ("segments", "memory") else {}
            try:
                text = made(snapshot, **more)
            except Exception as error:  # of its own: an older one does not know what a newer PyTorch wrote
                text = repr(error)
            found = re.search(r'"base64": "([^"]*)"', text)
            if found:  # the page has the snapshot in it
                text = json.dumps(as_lists(pickle.loads(base64.b64decode(found[1]))))
            said[name] = "\n".join(sorted(text.splitlines())) if more else text
        return said

    def test_same_texts(self):
        for path in self.originals():
            with open(path, "rb") as file:
                size = len(file.read())
            if size > 1 << 20:  # the texts of the others say as much, sooner
                continue
            exported = self.exported(path)
            for folder in PYTHONS:
                viewer = torch_sources.viewer(folder)
                self.assertEqual(self.said(viewer, path), self.said(viewer, exported), (folder, path))

    def test_recordings_of_our_own(self):
        """Its counts are memprof's counts."""
        made = self.folder / "train.mp"
        make_recording(made, "train")
        with open(self.exported(made), "rb") as file:
            snapshot = pickle.load(file)
        tracks = {track["id"]: track for track in self.answer("info", made)["tracks"]}
        held = sum(track["end_bytes"] for name, track in tracks.items() if name.startswith("cuda:") and name.endswith("/torch"))
        newest = torch_sources.viewer(max(PYTHONS, key=torch_sources.version_of))
        if not hasattr(newest, "segsum"):
            self.skipTest("this PyTorch's viewer counts nothing")
        self.assertIn(f"total_allocated: {newest.Bytes(held)}", newest.segsum(snapshot))
        events = newest.trace(snapshot)
        self.assertEqual(events.count("free completed for"),
                         sum(track["frees"] for name, track in tracks.items() if re.fullmatch(r"cuda:\d+/torch", name)))


@unittest.skipUnless(FOLDERS, "no scripts of PyTorch's viewer are here (MEMPROF_MEMORY_VIZ names none, nor has this Python "
                     "a torch with them), or there is no node")
class UnderNode(Exported):
    def drawn(self, folder, paths):
        run = subprocess.run(["node", pathlib.Path(__file__).with_name("viewer_totals.cjs"), folder, *paths], check=True,
                             stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def test_same_totals(self):
        originals = self.originals()
        exported = [self.exported(path) for path in originals]
        for folder in FOLDERS:
            for before, after in zip(self.drawn(folder, originals), self.drawn(folder, exported)):
                self.assertNotIn("error", before)
                self.assertEqual(before, after, folder)

    def test_protocol_5(self):
        four, five = (self.put(f"{protocol}.pickle", pickle.dumps(Made(9).snapshot, protocol)) for protocol in (4, 5))
        for folder in FOLDERS:
            before, after = self.drawn(folder, [four, self.exported(five)])
            self.assertEqual(before["plots"], after["plots"])
            self.assertTrue(after["plots"])

    def test_recordings_of_our_own(self):
        """Snapshots of memprof's own, in every form that its format has had, have the peaks that memprof reports."""
        made = self.folder / "train.mp"
        make_recording(made, "train")
        formats = pathlib.Path(__file__).resolve().parents[2] / "recordings" / "formats"
        drawn_of = {}
        for path in (made, *sorted(formats.glob("*.mp"))):
            out = self.folder / f"{path.stem}.pickle"
            run = self.memprof("export", path, "-o", out, "--format", "pytorch")
            if run.returncode:  # a sample: it has no snapshot
                self.assertIn("has a sample of its blocks", run.stderr)
                continue
            info = self.answer("info", path)
            if info["coverage"]["folded_events"]:  # its peak may lie before the events that it keeps
                continue
            tracks = {track["id"]: track["peak_bytes"] for track in info["tracks"]}
            for folder in FOLDERS:
                (drawn,) = self.drawn(folder, [out])
                self.assertNotIn("error", drawn, path)
                for plot in drawn["plots"]:
                    track = f"cuda:{plot['device']}/torch"
                    if not any(name.startswith("cuda:") for name in tracks):
                        track = "cpu/torch"  # without a GPU it stands there as device 0
                    if plot["segments"] or plot["pools"] or track not in tracks:
                        continue
                    drawn_of.setdefault(path.stem, []).append((plot["max"], tracks[track]))
        self.assertGreater(len(drawn_of), 3)
        self.assertEqual({name: [most for most, _ in peaks] for name, peaks in drawn_of.items()},
                         {name: [most for _, most in peaks] for name, peaks in drawn_of.items()})


if __name__ == "__main__":
    asserted.main()
