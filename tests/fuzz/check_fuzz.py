#!/usr/bin/env python3
"""A short run of each fuzzing target over seeds, corpus/NAME (finds of longer runs, and cases that are hard to reach),
and damaged copies of both. There are 20 copies of each, with tools/test --long 1000.

    check_fuzz.py --seconds N [NAME...]     libFuzzer instead, built by `make fuzz`: N seconds each, one after another;
                                            what it finds is left in fuzz-NAME/found
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

BUILD = pathlib.Path(os.environ.get("MEMPROF_BUILD", os.getcwd())).resolve()
HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = "1000" if asserted.LONG else "20"
PARTS = {"attach": "attach", "export": "export", "merge": "export", "reader": "jobs"}  # by fuzzer
NAMES = sorted({path.stem[len("fuzz_"):] for path in HERE.glob("fuzz_*.c")} -
               {name for name, part in PARTS.items() if part in asserted.left_out()})


def make_seeds(folder):
    def python(script, *arguments):
        subprocess.run([sys.executable, HERE / script, *arguments], check=True)

    recording = folder / "seed.mp"
    made = subprocess.run([BUILD / "tests/unit/format/write_mp", recording, "2"], stdout=subprocess.DEVNULL, check=False)
    if made.returncode == 0:
        python("make_seeds.py", recording, folder / "reader", "made-")
    ranks = [folder / f"rank{rank}.mp" for rank in range(3)]
    for rank, path in enumerate(ranks):
        words = (path, rank, 8, 12, 262144 if rank == 1 else 0, 4, "loader worker" if rank == 2 else "")
        subprocess.run([BUILD / "tests/unit/cli/make_rank", *map(str, words)], check=True)
    (folder / "broken.mp").write_text("no recording")
    if "jobs" not in asserted.left_out():
        subprocess.run([BUILD / "memprof", "merge", *ranks, ranks[0], folder / "broken.mp", "-o", folder / "job.mp"],
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # 4: one is broken
        python("make_seeds.py", folder / "job.mp", folder / "reader", "job-")
    for real in (HERE.parent / "recordings" / "formats").glob("*.mp"):
        python("make_seeds.py", real, folder / "reader", real.stem + "-")
    python("make_snapshot_seeds.py", folder / "snapshot")
    python("make_log_seeds.py", folder / "snapshot")
    python("make_kineto_seeds.py", folder / "export")
    python("make_kineto_seeds.py", folder / "merge")
    python("make_text_seeds.py", folder)
    (folder / "attach").mkdir()
    for name, options in (("plain", []), ("stripped", ["-s"]), ("pointers", ["-fno-asynchronous-unwind-tables"])):
        subprocess.run([*os.environ.get("CC", "cc").split(), "-O1", "-shared", "-fPIC", *options, "-o",
                        folder / "attach" / name, HERE.parent / "attach" / "c10.c"], check=True)


def inputs_of(folder, target):
    return [*sorted((folder / target).glob("*")), *sorted((HERE / "corpus" / target).glob("*"))]


def replay(folder, target):
    files = inputs_of(folder, target)
    result = subprocess.run([BUILD / "tests/fuzz" / f"replay_{target}", ROUNDS, *files], check=False)
    print(f"{target}: {len(files)} inputs, {ROUNDS} damaged copies of each: {result.returncode or 'right'}")
    if result.returncode:
        print(f"    the input is in crash-replay_{target}; MEMPROF_FUZZ_LOUD=1 shows what the target says")
    return bool(files) and not result.returncode


def fuzz(folder, target, seconds):
    """Goes on with what runs before have reached (fuzz-NAME/reached)."""
    work = pathlib.Path(f"fuzz-{target}")
    (work / "reached").mkdir(parents=True, exist_ok=True)
    (work / "found").mkdir(exist_ok=True)
    for i, path in enumerate(inputs_of(folder, target)):
        shutil.copy(path, work / "reached" / f"{i}-{path.name}")
    with open(work / "log", "wb") as log:
        result = subprocess.run(
            ["nice", BUILD / "tests/fuzz" / f"fuzz_{target}", f"-max_total_time={seconds}", "-timeout=30",
             "-rss_limit_mb=3000", "-max_len=65536", "-print_final_stats=1", f"-artifact_prefix={work}/found/",
             work / "reached"], stdout=log, stderr=log, check=False)
    runs = re.findall(rb"number_of_executed_units: (\d+)", (work / "log").read_bytes())
    print(f"{target}: {seconds} s, {int(runs[-1]) if runs else 0} runs: "
          f"{'something was found: ' + str(work) if result.returncode else 'nothing found'}", flush=True)
    return not result.returncode


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=int)
    options.add_argument("names", nargs="*", default=NAMES)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="memprof-fuzz-") as name:
        folder = pathlib.Path(name)
        make_seeds(folder)
        run = (lambda target: fuzz(folder, target, given.seconds)) if given.seconds else lambda target: replay(folder, target)
        right = [run(target) for target in given.names]
    asserted.held(right and all(right), "see above")


if __name__ == "__main__":
    asserted.script(main)
