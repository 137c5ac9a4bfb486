#!/usr/bin/env python3
"""Plans against recordings from real GPUs, by others: peaks, sequences, segments.

    tests/plan/compare.py [CASE...]

Runs recorded_lm.py's cases under `memprof plan`, in the Debian of tools/cuda-torch, and holds PyTorch's own history of each
against the recording of the same name in $MEMPROF_TEST_DATA, both replayed the same way. Prints a line a case. Exit status:
1 where a peak of requested bytes differs, or reserved by more than 0.6 %; 77 where Debian's root or the data are not here.
"""
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
# The recording, a device that has its capability (the size of cuBLAS's workspace tells it), and the allocator's settings.
CASES = {
    "ctx128_inference": ("a100-80gb", ""),
    "ctx256_inference": ("a100-80gb", ""),
    "ctx512_inference": ("a100-80gb", ""),
    "ctx1024_inference": ("a100-80gb", ""),
    "bolong_cl128": ("a100-80gb", "expandable_segments:True"),
    "sidsoc_train": ("h100-80gb", ""),  # its workspace of 32 MiB is that of capability 9.0
    "silmont_small": ("rtx4090", ""),
    "silmont_fwd_bf16": ("rtx4090", ""),
}
RESERVED_WITHIN = 0.006


def replay(snapshot):
    """Peaks of requested and reserved bytes, with what lived before the history began, and the sequence of calls."""
    trace = next(trace for trace in snapshot["device_traces"] if trace)
    live = {block["address"]: block["requested_size"] for segment in snapshot["segments"]
            for block in segment["blocks"] if block["state"] == "active_allocated"}
    segments = sum(segment["total_size"] for segment in snapshot["segments"])
    for entry in reversed(trace):  # back to the beginning
        if entry["action"] == "alloc":
            live.pop(entry["addr"], None)
        elif entry["action"] == "free_completed":
            live[entry["addr"]] = entry["size"]
        elif entry["action"] in ("segment_alloc", "segment_map"):
            segments -= entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            segments += entry["size"]
    requested, peak, reserved_peak, calls = sum(live.values()), 0, segments, []
    peak = requested
    for entry in trace:
        action, size = entry["action"], entry["size"]
        if action == "alloc":
            live[entry["addr"]] = size
            requested += size
        elif action == "free_completed":
            requested -= live.pop(entry["addr"], 0)
        elif action in ("segment_alloc", "segment_map"):
            segments += size
        elif action in ("segment_free", "segment_unmap"):
            segments -= size
        peak, reserved_peak = max(peak, requested), max(reserved_peak, segments)
        if action in ("alloc", "free_completed"):
            calls.append((action, size))
    return {"requested": peak, "reserved": reserved_peak, "allocs": [size for action, size in calls if action == "alloc"],
            "calls": calls, "segments": sorted(segment["total_size"] for segment in snapshot["segments"])}


def plan(case, device, settings, folder):
    output = folder / f"{case}.pickle"
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=settings)
    runner = os.environ.get("MEMPROF_PLAN_RUNNER")
    command = [*([runner] if runner else [SOURCE / "tools" / "cuda-torch", "--there"]), "memprof", "plan", "--force",
               "--device", device, "--on-oom", "none", "--stacks", "none", "--quiet", "-o", folder / f"{case}.mp", "--",
               "python3", HERE / "recorded_lm.py", case, output]
    began = time.monotonic()
    result = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    if result.returncode == 77:
        print(result.stderr, end="", file=sys.stderr)
        sys.exit(77)
    if not output.exists():
        sys.exit(f"{case}: {result.stderr[-2000:]}")
    return pickle.loads(output.read_bytes()), time.monotonic() - began


def first_difference(mine, theirs):
    return next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), min(len(mine), len(theirs)))


def main():
    data = pathlib.Path(os.environ.get("MEMPROF_TEST_DATA", ""))
    wanted = sys.argv[1:] or list(CASES)
    if not any((data / f"{case}.pickle").exists() for case in wanted):
        print("compare.py: $MEMPROF_TEST_DATA has none of these recordings", file=sys.stderr)
        return 77
    worst = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for case in wanted:
            device, settings = CASES[case]
            snapshot, seconds = plan(case, device, settings, pathlib.Path(folder))
            mine, theirs = replay(snapshot), replay(pickle.loads((data / f"{case}.pickle").read_bytes()))
            reserved = (mine["reserved"] - theirs["reserved"]) / theirs["reserved"]
            exact = mine["requested"] == theirs["requested"]
            print(json.dumps({
                "case": case, "device": device, "requested": mine["requested"],
                "requested_difference": mine["requested"] - theirs["requested"], "reserved": mine["reserved"],
                "reserved_difference": mine["reserved"] - theirs["reserved"], "reserved_part": round(reserved, 6),
                "allocations": len(mine["allocs"]), "of": len(theirs["allocs"]),
                "allocations_equal": mine["allocs"] == theirs["allocs"],
                "first_different": first_difference(mine["allocs"], theirs["allocs"]),
                "calls_equal": mine["calls"] == theirs["calls"], "segments_equal": mine["segments"] == theirs["segments"],
                "seconds": round(seconds, 1)}), flush=True)
            worst |= not exact or abs(reserved) > RESERVED_WITHIN
    return worst


if __name__ == "__main__":
    sys.exit(main())
