"""Compares a plan of a mixture of experts (programs/experts.py), whose routers it guesses, with one that is given what
the routers chose in the same run on the CPU."""
import pathlib
import re
import subprocess
import sys

import harness

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "experts.py"


def assert_near(test, library, off, environment):
    def run(*words, command=()):
        result = subprocess.run([*command, sys.executable, PROGRAM, library, *map(str, words)], capture_output=True, text=True,
                                cwd=test.folder, env=environment, timeout=900)
        test.assertEqual(result.returncode, 0, result.stderr[-4000:])
        return result.stdout

    choices, plan = test.folder / "choices", [harness.MEMPROF, "plan", "--force", "-o", "plan.mp", "--"]
    run("cpu", "write", choices)
    guessed, real = (int(re.search(r"^PEAK (\d+)$", run("cuda", *way, command=plan), re.M)[1])
                     for way in ((), ("read", choices)))
    print(f"{library}: guessed {guessed}, with the routers' choices {real}, {100 * (guessed / real - 1):+.2f} %", flush=True)
    test.assertLessEqual(abs(guessed / real - 1), off)
