#!/usr/bin/env python3
"""Compares plans with recordings that others made on real GPUs: peaks, sequences, segments.

    tests/plan/compare.py [CASE...]
    tests/plan/compare.py [--device NAME] [--settings TEXT] --recording THEIRS.pickle --dumps OURS.pickle -- COMMAND...

Runs the cases of the programs next to this one under `memprof plan`, in the environment of tools/cuda-torch. Compares
PyTorch's own history of each with the recording of the same name in $MEMPROF_TEST_DATA, both replayed in the same way.
The other form takes any recording and its program, which must dump its history to OURS.pickle itself. Prints a line for
each case, then a summary. Exit status 1: a peak of requested bytes differs, or reserved bytes differ by more than 0.6
%. 77: the data are missing.
"""
import argparse
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
# Each recording's device, program and allocator settings. The device has its capability, which decides the size of
# cuBLAS's workspace.
CASES = {
    "ctx128_inference": ("a100-80gb", "recorded_lm.py", ""),
    "ctx256_inference": ("a100-80gb", "recorded_lm.py", ""),
    "ctx512_inference": ("a100-80gb", "recorded_lm.py", ""),
    "ctx1024_inference": ("a100-80gb", "recorded_lm.py", ""),
    "bolong_cl128": ("a100-80gb", "recorded_lm.py", "expandable_segments:True"),
    "sidsoc_train": ("h100-80gb", "recorded_lm.py", ""),  # its workspace of 32 MiB is that of capability 9.0
    "silmont_small": ("rtx4090", "recorded_lm.py", ""),
    "silmont_fwd_bf16": ("rtx4090", "recorded_lm.py", ""),
    "niu_fb_200_mixed": ("rtx4090", "recorded_small_lm.py", ""),
}
RESERVED_WITHIN = 0.006


def replay(snapshot):
    """Peaks of requested and reserved bytes, including older blocks, and the sequence of calls."""
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


def runner():
    """The prefix for this machine's environment, or none if this already runs inside."""
    return [] if os.environ.get("MEMPROF_IN_CUDA_TORCH") else [SOURCE / "tools" / "cuda-torch", "--torch", "2.6.0"]


def plan(command, output, device, settings, folder):
    """PyTorch's history of the command, which it writes to `output`, and its time."""
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=settings)
    whole = [*runner(), "memprof", "plan", "--force", "--device", device, "--on-oom", "none", "--stacks", "none", "--quiet",
             "-o", folder / "plan.mp", "--", *command]
    began = time.monotonic()
    result = subprocess.run(list(map(str, whole)), env=environment, capture_output=True, text=True)
    if result.returncode == 77:
        print(result.stderr, end="", file=sys.stderr)
        sys.exit(77)
    if not output.exists():
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr[-2000:]}")
    return pickle.loads(output.read_bytes()), time.monotonic() - began


def plan_case(case, folder):
    device, program, settings = CASES[case]
    output = folder / f"{case}.pickle"
    return plan(["python3", HERE / program, case, output], output, device, settings, folder)


def first_difference(mine, theirs):
    return next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), min(len(mine), len(theirs)))


def difference(case, snapshot, recorded):
    """Differences between a plan and a recording of the same program."""
    mine, theirs = replay(snapshot), replay(recorded)
    result = {"case": case}
    for key in ("requested", "reserved"):
        result[key] = mine[key]
        result[f"{key}_difference"] = mine[key] - theirs[key]
    result["reserved_part"] = round(result["reserved_difference"] / theirs["reserved"], 6)
    result["allocations"], result["of"] = len(mine["allocs"]), len(theirs["allocs"])
    result["first_different"] = first_difference(mine["allocs"], theirs["allocs"])
    for key in ("allocs", "calls", "segments"):
        result[f"{key}_equal"] = mine[key] == theirs[key]
    result["holds"] = not result["requested_difference"] and abs(result["reserved_part"]) <= RESERVED_WITHIN
    return result


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", type=pathlib.Path)
    parser.add_argument("--dumps", type=pathlib.Path)
    parser.add_argument("--device", default="a100-80gb")
    parser.add_argument("--settings", default="")
    parser.add_argument("words", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    if bool(arguments.recording) != bool(arguments.dumps) or (not arguments.recording and set(arguments.words) - set(CASES)):
        parser.error(f"a recording with what the command dumps, or cases: {', '.join(CASES)}")
    return arguments


def plans(arguments, data, folder):
    """(name, planned, recorded, seconds) for each."""
    if arguments.recording:
        arguments.dumps.unlink(missing_ok=True)
        yield arguments.recording.stem, *plan(arguments.words, arguments.dumps, arguments.device, arguments.settings,
                                              folder), arguments.recording
        return
    for case in arguments.words or CASES:
        yield case, *plan_case(case, folder), data / f"{case}.pickle"


def main():
    arguments = read_arguments()
    data = pathlib.Path(os.environ.get("MEMPROF_TEST_DATA", ""))
    wanted = [] if arguments.recording else [case for case in arguments.words or CASES if not (data / f"{case}.pickle").exists()]
    if wanted:
        print(f"compare.py: $MEMPROF_TEST_DATA has no {', '.join(wanted)}", file=sys.stderr)
        return 77
    results = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for case, planned, seconds, recorded in plans(arguments, data, pathlib.Path(folder)):
            results.append(difference(case, planned, pickle.loads(recorded.read_bytes())))
            print(json.dumps({**results[-1], "seconds": round(seconds, 1)}), flush=True)
    exact = sum(not result["requested_difference"] for result in results)
    print(f"{exact} of {len(results)} equal in requested bytes; reserved within "
          f"{100 * max(abs(result['reserved_part']) for result in results):.3f} %")
    return int(not all(result["holds"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
