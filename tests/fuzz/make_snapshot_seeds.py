#!/usr/bin/env python3
"""Writes small snapshots, pickles and JSON, as seeds for fuzz_snapshot: make_snapshot_seeds.py FOLDER"""
import json
import pathlib
import pickle
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit" / "exchange"))
from snapshots import START, Made  # noqa: E402

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for seed in range(6):
    made = Made(seed, devices=1 + seed % 2, before=seed, length=12, host=seed == 3).snapshot
    for segment in made["segments"]:
        del segment["blocks"][8:]
    made["external_annotations"] = [
        {"stage": stage, "name": name, "device": 0, "time_us": START + at}
        for stage, name, at in (("START", "ProfilerStep#1", 0), ("START", "a", 5), ("END", "a", 9))]
    made["device_traces"][0].append({"action": "oom", "device_free": 5, "size": 9, "time_us": START})
    made["device_traces"][0].append({"action": "segment_unmap", "addr": 0x7f0000000000, "size": 2 << 20})
    made["device_traces"][0].append({"action": "annotate", "addr": 0x7f0000000000, "size": 9, "time_us": START,
                                     "user_metadata": {"a": [seed]}, "internal_metadata": "b"})
    made["device_traces"][0].append({"action": "alloc", "addr": 5, "size": 9, "user_metadata": "c", "frames": [],
                                     "forward_frames": ['File "a.py", line 3, in f\n', "none"]})
    for protocol in (2, 4, 5):
        (folder / f"{seed}-{protocol}.pickle").write_bytes(pickle.dumps(made, protocol))
    (folder / f"{seed}.json").write_text(json.dumps(made))
