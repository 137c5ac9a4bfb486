#!/usr/bin/env python3
"""PyTorch's own viewer, its scripts under node: it takes what memprof exports, and draws the same totals of it as of the
file that PyTorch wrote; also of one at protocol 5, which it does not take itself.

MEMPROF_MEMORY_VIZ names folders with its scripts (torch/utils/viz of some versions of PyTorch), with colons between.
They are not part of memprof."""
import glob
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import Case, Made

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from harness import DATA, make_recording  # noqa: E402


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
        originals = [*sorted(glob.glob(f"{DATA}/*.pickle") if DATA else ()), self.dump(Made(8, devices=3).snapshot)]
        exported = [self.exported(path) for path in originals]
        for folder in os.environ["MEMPROF_MEMORY_VIZ"].split(":"):
            for before, after in zip(self.drawn(folder, originals), self.drawn(folder, exported)):
                self.assertNotIn("error", before)
                self.assertEqual(before, after, folder)

    def test_protocol_5(self):
        four, five = (self.put(f"{protocol}.pickle", pickle.dumps(Made(9).snapshot, protocol)) for protocol in (4, 5))
        for folder in os.environ["MEMPROF_MEMORY_VIZ"].split(":"):
            before, after = self.drawn(folder, [four, self.exported(five)])
            self.assertEqual(before["plots"], after["plots"])
            self.assertTrue(after["plots"])

    def test_a_recording_of_our_own(self):
        path = self.folder / "train.mp"
        make_recording(path, "train")
        tracks = [track for track in self.answer("info", path)["tracks"] if track["id"].endswith("/torch")]
        (self.folder / "train.pickle").write_bytes(self.exported(path).read_bytes())
        for folder in os.environ["MEMPROF_MEMORY_VIZ"].split(":"):
            (drawn,) = self.drawn(folder, [self.folder / "train.pickle"])
            self.assertNotIn("error", drawn)
            peaks = {f"cuda:{plot['device']}/torch": plot["max"] for plot in drawn["plots"] if not plot["segments"]}
            self.assertEqual({track["id"]: track["peak_bytes"] for track in tracks if track["id"] in peaks}, peaks)


if __name__ == "__main__":
    if "MEMPROF_MEMORY_VIZ" not in os.environ or not shutil.which("node"):
        print("MEMPROF_MEMORY_VIZ is not set, or there is no node")
        sys.exit(77)
    asserted.main()
