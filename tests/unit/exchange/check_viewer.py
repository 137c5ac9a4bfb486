#!/usr/bin/env python3
"""PyTorch's own viewer, its scripts under node: it takes what memprof exports, and draws the same totals of it as of the
file that PyTorch wrote; also of one at protocol 5, which it does not take itself.

MEMPROF_MEMORY_VIZ names folders with its scripts (torch/utils/viz of some versions of PyTorch), with colons between; where
it is not set they are those of the torch that this Python has (pip's has them, Debian's does not). They are not part of
memprof: without any the test is skipped."""
import glob
import importlib.util
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

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


FOLDERS = scripts()


class Viewer(Case):
    def drawn(self, folder, paths):
        run = subprocess.run(["node", pathlib.Path(__file__).with_name("viewer_totals.cjs"), folder, *paths], check=True,
                             stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def exported(self, path):
        out = self.folder / "exported" / pathlib.Path(path).name
        out.parent.mkdir(exist_ok=True)
        run = self.memprof("export", path, "-o", out, "--force", "--format", "pytorch")
        self.assertEqual(run.returncode, 0, run.stderr)
        return out

    def test_same_totals(self):
        every_key = Values().snapshot()
        every_key.pop("categories")  # the viewer has names of its own there
        originals = [*sorted(glob.glob(f"{DATA}/*.pickle") if DATA else ()), self.dump(Made(8, devices=3).snapshot),
                     self.put("every_key.pickle", pickle.dumps(every_key, 4)),
                     self.put("metadata.pickle", pickle.dumps(Trace(4).snapshot, 4))]
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
        """What memprof made itself, in every form that its format has had: peaks are those that it tells."""
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
    if not FOLDERS or not shutil.which("node"):
        print("no scripts of PyTorch's viewer are here (MEMPROF_MEMORY_VIZ names none, nor has this Python a torch with "
              "them), or there is no node")
        sys.exit(77)
    asserted.main()
