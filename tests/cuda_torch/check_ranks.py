#!/usr/bin/env python3
"""DDP and FSDP 1 and 2 on two devices of the stand-in GPU: each rank's recording against that rank's own statistics."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness


class Ranks(bed.TestCase):
    def compare(self, kind):
        command = [harness.MEMPROF, "snapshot", "--force", "-o", self.folder / "run.mp", "--", "python3",
                   bed.HERE / "programs" / "ranks.py", kind]
        result = subprocess.run(command, capture_output=True, text=True, timeout=harness.TIMEOUT,
                                env=bed.settings(SOFTGPU_DEVICES=2), cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        told = {rank.pop("pid"): rank for rank in map(json.loads, result.stdout.splitlines())}
        self.assertEqual(len(told), 2)
        found = {}
        for path in self.folder.glob("run*.mp"):
            info = harness.answer("info", path, status=(0, 4))
            for track in info["tracks"]:
                name, _, layer = track["id"].partition("/")
                if layer == "torch" and name.startswith("cuda:"):
                    self.assertNotIn(info["process"]["pid"], found)
                    found[info["process"]["pid"]] = {"device": int(name[5:]),
                                                     **{key: track[key] for key in
                                                        ("allocs", "peak_bytes", "reserved_peak_bytes")}}
        self.assertEqual(found, told)


for kind_ in ("ddp", "fsdp1", "fsdp2"):
    setattr(Ranks, f"test_{kind_}", lambda self, kind=kind_: self.compare(kind))

if __name__ == "__main__":
    bed.main()
