#!/usr/bin/env python3
"""`frag --replay SETTINGS` compared with a real run of the program under these settings: the highest reserved bytes of
PyTorch's allocator. Programs that change settings are replayed with their changes; programs on two devices, with the
settings of each."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import check_allocations
import check_fresh
import harness

CONF = "PYTORCH_CUDA_ALLOC_CONF"
# The programs that run on one device, without their own settings.
PROGRAMS = {
    **{name: (program, arguments, variables)
       for name, (program, arguments, variables) in check_allocations.PROGRAMS.items() if "expandable" not in name},
    **{name: (check_fresh.file_of(name), (name,), variables) for name, variables in check_fresh.PROGRAMS.items()
       if "SOFTGPU_DEVICES" not in variables},
    "taken_over": ("daily", ("taken_over",), {}),
}
SETTINGS = ("expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4",
            "garbage_collection_threshold:0.6")
# No two runs are the same: each replay is compared with its own run. In two programs, threads take turns at random:
# PyTorch itself reserves 159.4, 169.9 or 180.4 MB in six runs of "server" under roundup_power2_divisions:4. The others
# request less after an out-of-memory: 77 allocations and 9 failures as they are, 116 and 16 with max_split_size_mb:32.
RACING = ("producers", "server", "moved_limits", "trainer")
# Autograd's thread frees while the main thread goes on: with roundup_power2_divisions:4, PyTorch itself reserves 46.1
# MB in four runs of "per_sample" and 48.2 MB in the fifth. A replay must equal one of several real runs.
VARYING, RUNS = ("per_sample",), 8
# If streams take time, the clock decides how long a freed block stays pending: PyTorch itself reserves 153 MB in one
# run of "paged" and 176 MB in the next. A replay reuses such blocks at once, as PyTorch does in a run without delays.
EVENTS = "SOFTGPU_EVENT_MS"


class Replay(bed.TestCase):
    def row(self, name, settings, delayed=False):
        program, arguments, variables = PROGRAMS[name]
        variables = {key: value for key, value in variables.items() if key != CONF and (delayed or key != EVENTS)}
        return program, arguments, {**variables, CONF: settings} if settings else variables

    @staticmethod
    def reserved(run):
        return run.truth["devices"][0]["stats"]["reserved_bytes.all.peak"]

    def compare(self, name):
        others = ([""] if EVENTS in PROGRAMS[name][2] else []) + ([] if name in RACING else list(SETTINGS))
        run, *runs = self.execute_each(self.row(name, "", delayed=True), *(self.row(name, each) for each in others))
        real = {"": self.reserved(run), **dict(zip(others, map(self.reserved, runs)))}
        found = {}
        for settings in real:
            replay = harness.answer("frag", run.path, "--track", "cuda:0/torch", "--replay", settings)["replay"]
            found[settings] = replay["reserved_peak_bytes"]
            for _ in range(RUNS if settings and name in VARYING else 0):
                if found[settings] != real[settings]:
                    real[settings] = self.reserved(self.execute_each(self.row(name, settings))[0])
        self.assertEqual(found, real)

    def own(self, name):
        program, arguments, variables = OWN[name]
        run = self.execute(program, *arguments, **variables)
        found, real = [], []
        for number, device in enumerate(run.truth["devices"]):
            answer = harness.answer("frag", run.path, "--track", f"cuda:{number}/torch", "--replay", "")
            found.append(answer["replay"]["reserved_peak_bytes"])
            real.append(device["stats"]["reserved_bytes.all.peak"])
        self.assertEqual(found, real)


OWN = {
    **{name: run for name, run in check_allocations.PROGRAMS.items() if CONF in run[2]},
    **{name: (check_fresh.file_of(name), (name,), variables) for name, variables in check_fresh.PROGRAMS.items()
       if CONF in variables or "SOFTGPU_DEVICES" in variables},
}
ALL = harness.asserted.LONG
for name_ in OWN if ALL else ("full_devices", "expandable_graph", "accumulation"):
    setattr(Replay, f"test_own_{name_}", lambda self, name=name_: self.own(name))

# The others run with tools/test --long: each is five runs.
QUICK = ("mempool", "paged", "shared_pools", "stress", "retries", "bisect", "producers", "other_settings", "taken_over")
for name_ in PROGRAMS if ALL else QUICK:
    setattr(Replay, f"test_{name_}", lambda self, name=name_: self.compare(name))

if __name__ == "__main__":
    bed.main()
