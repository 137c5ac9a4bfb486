#!/usr/bin/env python3
"""A short run of each fuzzing target: over seeds, over corpus/NAME (what longer runs found, and what was hard to reach),
and over damaged copies of both. $MEMPROF_FUZZ_ROUNDS sets how many copies of each (20)."""
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("MEMPROF_BUILD", os.getcwd())).resolve()
HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = os.environ.get("MEMPROF_FUZZ_ROUNDS", "20")
NAMES = sorted(path.stem[len("fuzz_"):] for path in HERE.glob("fuzz_*.c"))


def make_seeds(folder):
    def python(script, *arguments):
        subprocess.run([sys.executable, HERE / script, *arguments], check=True)

    recording = folder / "seed.mp"
    made = subprocess.run([BUILD / "tests/unit/format/write_mp", recording, "2"], stdout=subprocess.DEVNULL, check=False)
    if made.returncode == 0:
        python("make_seeds.py", recording, folder / "reader")
    python("make_snapshot_seeds.py", folder / "snapshot")
    python("make_log_seeds.py", folder / "snapshot")
    python("make_kineto_seeds.py", folder / "export")
    python("make_kineto_seeds.py", folder / "merge")
    python("make_text_seeds.py", folder)


def main():
    failed = False
    with tempfile.TemporaryDirectory(prefix="memprof-fuzz-") as name:
        folder = pathlib.Path(name)
        make_seeds(folder)
        for target in NAMES:
            files = [*sorted((folder / target).glob("*")), *sorted((HERE / "corpus" / target).glob("*"))]
            if not files:
                print(f"{target}: no seeds")
                failed = True
                continue
            result = subprocess.run([BUILD / "tests/fuzz" / f"replay_{target}", ROUNDS, *files], check=False)
            print(f"{target}: {len(files)} inputs, {ROUNDS} damaged copies of each: {result.returncode or 'right'}")
            if result.returncode:
                print(f"    the input is in crash-replay_{target}; MEMPROF_FUZZ_LOUD=1 shows what the target says")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
