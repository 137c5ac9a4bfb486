#!/usr/bin/env python3
"""`memprof size` on reserved memory: made-up trainings on a GPU, as PyTorch's snapshots would show them at three small
batches. A second, naive model of its allocator gives the truth at larger ones. It shares no code with memprof's.

    check_reserved.py [--table] [PROGRAMS]      as a test: 6 programs, 24 with tools/test --long; --table prints what came out for each
"""

import json
import os
import pathlib
import pickle
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "unit" / "analysis")]
import asserted
import naive_allocator
from check_torch_replay import snapshot_of

MEMPROF = str(pathlib.Path(os.getcwd()) / "memprof")
PROBES, ASKED = (4, 8, 12), (16, 33, 64, 131, 192)
SCRATCH = 4  # runs of each with scratch memory
MIB = 1 << 20
START = 10**15


class Training:
    """A training of layers with parameters, gradients and two states of an optimizer, which come with its first step."""

    def __init__(self, seed):
        r = random.Random(seed)
        self.layers = [{"sample": r.choice([1, 7, 64, 1000, 40000]) * r.randrange(1, 40) * 4, "fixed": r.randrange(3000000),
                        "kept": r.random() < 0.7, "scratch": r.randrange(1, 9) * 100000,
                        "side": r.random() < 0.15} for _ in range(r.randrange(4, 14))]
        self.parameters = [r.randrange(1000, 4000000) * 4 for _ in range(r.randrange(3, 12))]
        self.settings = r.choice([{}, {}, {"expandable_segments": True}, {"max_split_size": 64 * MIB}, {"roundup": 4}])
        self.accumulates, self.evaluates, self.steps = r.random() < 0.3, r.random() < 0.4, r.randrange(3, 6)

    def run(self, batch, scratch=None):
        """The allocator after the training, the site of each entry of its trace, and where steps begin. `scratch`: the seed
        of a run in which every tenth of the operations takes memory for a moment, as none of the probes has."""
        allocator, sites, marks = naive_allocator.Allocator(1 << 42, 1 << 43, self.settings), {}, []

        def take(site, size, stream=0):
            handle = allocator.malloc(max(1, int(size)), stream)
            sites[len(allocator.trace) - 1] = site
            r = random.Random(f"{scratch} {site} {size}")
            if scratch is not None and site.startswith(("layer_", "backward")) and r.random() < 0.1:
                most = max(min(4 * size, 160 * MIB), size // 4)  # PyTorch's reductions, by their source
                allocator.free(allocator.malloc(int(most ** r.uniform(0.5, 1)) + 1, stream))
            return handle

        def forward(keep):
            held = []
            for at, layer in enumerate(self.layers):
                scratch = take(f"scratch_{at}", layer["scratch"], 7 if layer["side"] else 0)
                held.append(take(f"layer_{at}", layer["sample"] * batch + layer["fixed"]))
                allocator.free(scratch)
                if not (keep and layer["kept"]) and len(held) > 1:
                    allocator.free(held.pop(-2))
            return held

        for at, size in enumerate(self.parameters):
            take(f"parameter_{at}", size)
        states = False
        for step in range(self.steps):
            marks.append(len(allocator.trace))
            gradients = []
            for _ in range(2 if self.accumulates else 1):
                for handle in reversed(forward(True)):
                    back = take("backward", handle[1].requested)
                    allocator.free(handle)
                    allocator.free(back)
                if not gradients:
                    gradients = [take(f"gradient_{at}", size) for at, size in enumerate(self.parameters)]
            if not states:
                states = [take(f"state_{at}", size) for at, size in enumerate(self.parameters * 2)]
            for handle in gradients:
                allocator.free(handle)
            if self.evaluates and step == self.steps - 1:
                for handle in forward(False):
                    allocator.free(handle)
        return allocator, sites, marks

    def snapshot(self, batch):
        allocator, sites, marks = self.run(batch)
        snapshot = snapshot_of(allocator, self.settings)
        for at, entry in enumerate(snapshot["device_traces"][0]):
            if at in sites:
                entry["frames"] = [{"name": sites[at], "filename": "/home/me/train.py", "line": 10}]
        notes = []
        for step, at in enumerate(marks):
            if step:
                notes.append({"stage": "END", "name": f"ProfilerStep#{step - 1}", "device": 0, "time_us": START + at})
            notes.append({"stage": "START", "name": f"ProfilerStep#{step}", "device": 0, "time_us": START + at})
        return {**snapshot, "external_annotations": notes}


def ask(paths, capacity, predict):
    done = subprocess.run([MEMPROF, "size", "--capacity", str(capacity), "--margin", "0", "--json", "--predict",
                           ",".join(map(str, predict)), *(f"{batch}={path}" for batch, path in paths.items())],
                          capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout) if not done.returncode else done.stderr.strip()


def measure(seed, folder):
    """Errors, coverage and wrong answers for one training."""
    training = Training(seed)
    paths = {batch: folder / f"{batch}.pickle" for batch in PROBES}
    for batch, path in paths.items():
        path.write_bytes(pickle.dumps(training.snapshot(batch)))
    truth = {batch: training.run(batch)[0].peak_reserved for batch in ASKED}
    answer = ask(paths, 1 << 41, ASKED)
    row = {"seed": seed, "settings": training.settings, "errors": [], "covered": [], "wrong": 0, "asked": 0, "unsure": 0,
           "ratios": [], "sure": [], "above": 0, "refused": answer if isinstance(answer, str) else None}
    if row["refused"]:
        return row
    for need in answer["predictions"]:
        if need["batch"] in truth:
            row["errors"].append(need["reserved_bytes"] / truth[need["batch"]] - 1)
            row["covered"].append(need["low_bytes"] <= truth[need["batch"]] <= need["high_bytes"])
            for turn in range(SCRATCH):
                row["above"] += training.run(need["batch"], f"{seed} {turn}")[0].peak_reserved > need["high_bytes"]
    for batch in ASKED[1:]:
        capacity = truth[batch]
        answer = ask(paths, capacity, (batch,))
        row["asked"] += 1
        need = next(need for need in answer["predictions"] if need["batch"] == batch)
        row["unsure"] += need["fits"] == "unsure"
        for largest in (answer["max_batch"], answer["about_batch"]):
            row["wrong"] += training.run(largest)[0].peak_reserved > capacity if largest else 0
        row["ratios"].append(answer["about_batch"] / batch)
        row["sure"].append(answer["max_batch"] / batch)
    return row


def main():
    table = "--table" in sys.argv
    programs = next((int(word) for word in sys.argv[1:] if word.isdigit()), 24 if asserted.LONG else 6)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(programs):
            rows.append(measure(seed, pathlib.Path(folder)))
            if table:
                print({key: value for key, value in rows[-1].items() if value is not None})
    answered = [row for row in rows if not row["refused"]]
    errors = [abs(error) for row in answered for error in row["errors"]]
    covered = [inside for row in answered for inside in row["covered"]]
    above = sum(row["above"] for row in answered)
    ratios = [ratio for row in answered for ratio in row["ratios"]]
    sure = [ratio for row in answered for ratio in row["sure"]]
    wrong, asked = sum(row["wrong"] for row in answered), sum(row["asked"] for row in answered)
    print(f"reserved: {len(answered)} of {len(rows)} programs answered, {len(errors)} predictions up to {max(ASKED)}: error "
          f"{100 * max(errors):.3f} % at most, {100 * statistics.median(errors):.3f} % median; intervals cover "
          f"{100 * sum(covered) / len(covered):.1f} %; of {SCRATCH * len(covered)} runs with scratch memory that no probe had, "
          f"{above} reserved more than \"at most\"")
    print(f"largest batch: {asked} capacities, {wrong} of them wrong, {min(ratios):.3f} of the truth at least, "
          f"with room for scratch {statistics.median(sure):.3f} median; "
          f"{sum(row['unsure'] for row in answered)} unsure")
    asserted.held(not wrong and min(ratios) >= 1 and len(answered) == len(rows) and max(errors) <= 0.015 and
                  sum(covered) >= 0.95 * len(covered) and not above, "see above")


if __name__ == "__main__":
    asserted.script(main)
