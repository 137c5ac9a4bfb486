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
        originals = [*sorted(glob.glob(f"{DATA}/*.pickle") if DATA else ()), self.dump(Made(8, devices=3).snapshot)]
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

    def test_a_recording_of_our_own(self):
        path = self.folder / "train.mp"
        make_recording(path, "train")
        tracks = [track for track in self.answer("info", path)["tracks"] if track["id"].endswith("/torch")]
        (self.folder / "train.pickle").write_bytes(self.exported(path).read_bytes())
        for folder in FOLDERS:
            (drawn,) = self.drawn(folder, [self.folder / "train.pickle"])
            self.assertNotIn("error", drawn)
            peaks = {f"cuda:{plot['device']}/torch": plot["max"] for plot in drawn["plots"] if not plot["segments"]}
            self.assertEqual({track["id"]: track["peak_bytes"] for track in tracks if track["id"] in peaks}, peaks)


if __name__ == "__main__":
    if not FOLDERS or not shutil.which("node"):
        print("no scripts of PyTorch's viewer are here (MEMPROF_MEMORY_VIZ names none, nor has this Python a torch with "
              "them), or there is no node")
        sys.exit(77)
    asserted.main()
