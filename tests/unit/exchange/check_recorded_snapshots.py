#!/usr/bin/env python3
"""Snapshots that PyTorch wrote on real GPUs, against truths found by brute force."""
import json
import os
import pathlib
import pickle
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import Case


class Recorded(Case):
    def test_manifest(self):
        folder = pathlib.Path(os.environ["MEMPROF_TEST_DATA"])
        count = 0
        for file in json.loads((folder / "manifest.json").read_text())["files"]:
            if file["kind"] != "torch-snapshot":
                continue
            info = self.answer("info", folder / file["name"])
            tracks = {track["id"]: track for track in info["tracks"]}
            for device, facts in (file.get("devices") or file["facts"]["devices"]).items():
                truth, track = facts["with_full_base"], tracks[f"cuda:{device}/torch"]
                reserved = truth.get("reserved") or file["facts"]["reserved_bytes_per_device"][device]
                self.assertEqual(
                    [track["allocs"], track["frees"], track["base_bytes"], track["peak_bytes"], track["end_bytes"],
                     tracks[f"cuda:{device}/driver"]["end_bytes"]],
                    [truth.get("allocs", facts.get("alloc")), truth.get("frees", facts.get("free_completed")),
                     truth.get("base_bytes", truth.get("base")), truth["peak_live_bytes"], truth["final_live_bytes"],
                     reserved], file["name"])
                count += 1
            said = "\n".join(info["coverage"]["notes"])
            for name, word in (("drisspg_mini", "disagree"), ("docubox_notrace", "no trace"), ("yiyi_oom_v1", "no times"),
                               ("sidsoc_train", "does not reach back")):
                if file["name"].startswith(name):
                    self.assertIn(word, said)
        self.assertGreater(count, 8)

    def test_an_export_has_the_settings(self):
        """Also a dictionary of roundup_power2_divisions in which each is 0."""
        count, out = 0, self.folder / "out.pickle"
        for path in sorted(pathlib.Path(os.environ["MEMPROF_TEST_DATA"]).glob("*.pickle")):
            settings = pickle.loads(path.read_bytes()).get("allocator_settings")
            if not settings:
                continue
            self.memprof("export", "--force", "--format", "pytorch", "-o", out, path)
            self.assertEqual(pickle.loads(out.read_bytes())["allocator_settings"], settings, path.name)
            count += 1
        self.assertGreater(count, 8)


if __name__ == "__main__":
    if "MEMPROF_TEST_DATA" not in os.environ:
        print("MEMPROF_TEST_DATA is not set")
        sys.exit(77)
    asserted.main()
