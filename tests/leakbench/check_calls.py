#!/usr/bin/env python3
"""--step-at: each allocating call of the function is a step, in every way of calling and in every Python here. If calls
cannot be distinguished, the recording says so, and has the steps that it has without --step-at."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

TORCH = harness.python_with_torch()
PROGRAMS = harness.SOURCE / "tests" / "leakbench" / "programs"
IN_DOUBT = "not all calls of the function of --step-at could be told apart"
MAY_BE_MISSING = "calls of the function of --step-at may be missing, perhaps "
# A generator that allocates in only one loop does not show whether it began again.
NOT_TOLD = {"a_generator"}
OF_ANY_PYTHON = ("of_a_module", "one_allocation", "a_loop_inside", "while_true", "recursion", "coroutines", "served")
LOOPS_KNOWN_UNTIL = (3, 11)  # from the interpreter's memory alone; from then on Python tells the shim
IN_DOUBT_WITHOUT = ("of_a_module", "while_true")


def pythons():
    """Every CPython that the recorder knows, once each."""
    folders = [pathlib.Path("/usr/bin"), *pathlib.Path.home().glob(".pyenv/versions/*/bin")]
    for folder in folders:
        for program in sorted(folder.glob("python3.*")):
            minor = program.name.removeprefix("python3.")
            if minor.isdigit() and 9 <= int(minor) <= 14:
                yield program, (3, int(minor))


# The depth, just below Python's limit, at which a function may be called for the first time.
DEEP = """
def down(calls, leaf):
    return down(calls - 1, leaf) if calls else leaf()
deepest = 0
for calls in range(900, 1000):
    space = {}
    exec("def leaf(): return 1", space)
    try:
        down(calls, space["leaf"])
    except RecursionError:
        break
    deepest = calls
print(deepest)
"""


# read() of a package, of the user's file, and of another function that calls the first: 3, 20 and 7 calls.
SAME_NAME = """
import sys
sys.argv = ["", "one_allocation", "0"]
sys.path[:0] = [PROGRAMS, HERE + "/site-packages", HERE]
from calls_of_any_python import Block
import packed, loader
class Reader:
    def read(self):
        Block(100)
        packed.read(Block)
for number in range(20):
    if number < 3:
        packed.read(Block)
    Reader().read()
    if number < 7:
        loader.read(Block)
"""
READ = "def read(Block):\n    Block(300)\n"


class Calls(harness.TestCase):
    def steps(self, recording):
        answer = harness.answer("leaks", recording)
        return answer["steps"], any(note.startswith(IN_DOUBT) for note in answer["coverage"]["notes"])

    def missing(self):
        """How many calls may be missing, by the last recording of any Python."""
        notes = harness.answer("leaks", self.folder / "calls.mp")["coverage"]["notes"]
        return sum(int(note.removeprefix(MAY_BE_MISSING).split(":")[0]) for note in notes if note.startswith(MAY_BE_MISSING))

    @harness.unittest.skipUnless(TORCH, "no Python here has torch")
    def test_of_pytorch(self):
        said = harness.memprof("snapshot", "--step-at", "work", "-o", self.folder / "%p.mp", "--", TORCH,
                               PROGRAMS / "calls.py").stdout.splitlines()
        self.assertGreater(len(said), 15)
        for line in said:
            name, pid, calls = line.split()
            steps, in_doubt = self.steps(self.folder / f"{pid}.mp")
            with self.subTest(name):
                if name in NOT_TOLD:
                    self.assertTrue(in_doubt)
                    self.assertEqual((steps["source"], steps["count"] >= int(calls)), ("inferred", True))
                else:
                    self.assertEqual((steps, in_doubt), ({"count": int(calls), "source": "function"}, False))

    def of_any_python(self, program, what, *options):
        recording = self.folder / "calls.mp"
        calls = harness.memprof("snapshot", "--force", *options, "--step-at", "work", "-o", recording, "--", program,
                                PROGRAMS / "calls_of_any_python.py", what, "60").stdout
        return int(calls), *self.steps(recording)

    def test_of_any_python(self):
        found = list(pythons())
        self.assertTrue(found)
        for program, version in found:
            for what in OF_ANY_PYTHON:
                with self.subTest(program=program, what=what):
                    calls, steps, in_doubt = self.of_any_python(program, what)
                    self.assertEqual((steps, in_doubt), ({"count": calls, "source": "function"}, False))
                    self.assertEqual(self.missing(), 0)

    def test_several_functions_of_one_name(self):
        """The user's first function counts, and the recording names the others. FILE.py:FUNCTION chooses."""
        (self.folder / "site-packages").mkdir()
        for name in "site-packages/packed.py", "loader.py":
            (self.folder / name).write_text(READ)
        program = self.folder / "many.py"
        program.write_text(f"PROGRAMS, HERE = {str(PROGRAMS)!r}, {str(self.folder)!r}\n{SAME_NAME}")
        said = f"steps are the 20 calls of {self.folder.name}/many.py:"
        for python, version in pythons():
            reader = "Reader.read" if version >= (3, 11) else "read"
            for asked, calls in (("read", 20), ("loader.py:read", 7), ("site-packages/packed.py:read", 23), ("ad.py:read", 0)):
                if asked != "read" and version not in ((3, 11), (3, 13)):
                    continue  # only the recorder's way and Python's own
                with self.subTest(python=python, asked=asked):
                    recording = self.folder / "many.mp"
                    stderr = harness.memprof("snapshot", "--force", "--step-at", asked, "-o", recording, "--", python,
                                             program).stderr
                    answer = harness.answer("leaks", recording)
                    self.assertEqual(answer["steps"] if calls else calls,
                                     {"count": calls, "source": "function"} if calls else 0)
                    note = [note for note in answer["coverage"]["notes"] if "several functions" in note]
                    self.assertEqual(note, [
                        f"--step-at read means several functions (FILE.py:FUNCTION chooses): {said}{reader}, not the 3 of "
                        f"site-packages/packed.py:read, not the 7 of {self.folder.name}/loader.py:read"] if asked == "read" else [])
                    self.assertEqual("several functions" in stderr, asked == "read")

    def test_a_forecast_follows_the_rate(self):
        """A rate that rises by the same amount is forecast. A rate that changes in another way has no forecast."""
        self.of_any_python(sys.executable, "rising")
        leak = harness.answer("leaks", self.folder / "calls.mp")["findings"][0]
        self.assertLess(abs(leak["at_twice_bytes"] / sum(1000 + 64 * number for number in range(120)) - 1), 0.1)
        said = harness.memprof("leaks", self.folder / "calls.mp").stdout
        self.assertIn("; each step keeps 64 B more, ", said)
        self.of_any_python(sys.executable, "changing")
        leak = harness.answer("leaks", self.folder / "calls.mp")["findings"][0]
        self.assertEqual((leak["at_twice_bytes"], leak["eta_oom_steps"]), (None, None))
        said = harness.memprof("leaks", self.folder / "calls.mp").stdout
        self.assertIn("; a mean of these steps: the rate changes, so there is no forecast", said)

    def test_the_limit_of_recursion_is_the_programs(self):
        """One call more if Python reports calls: the callback is a call, too."""
        program = self.folder / "deep.py"
        program.write_text(DEEP)
        for python, version in pythons():
            with self.subTest(program=python):
                alone = int(subprocess.run([python, program], capture_output=True, text=True, check=True).stdout)
                recorded = int(harness.memprof("snapshot", "--step-at", "work", "-o", self.folder / "deep.mp", "--", python,
                                               program).stdout)
                self.assertGreater(alone, 900)
                self.assertLessEqual(alone - recorded, 1 if version > LOOPS_KNOWN_UNTIL else 0)

    def test_where_python_does_not_tell(self):
        self.assertIn("calls of coroutines and generators are not distinguished", harness.memprof(
            "snapshot", "--no-shim", "--step-at", "work", "-o", self.folder / "said.mp", "--", sys.executable,
            PROGRAMS / "calls_of_any_python.py", "coroutines", "60").stderr)
        for program, version in pythons():
            for what in IN_DOUBT_WITHOUT if version > LOOPS_KNOWN_UNTIL else ():
                with self.subTest(program=program, what=what):
                    self.assertTrue(self.of_any_python(program, what, "--no-shim")[2])
            for what in OF_ANY_PYTHON:
                with self.subTest(program=program, what=what):
                    calls, steps, in_doubt = self.of_any_python(program, what, "--no-shim")
                    if not in_doubt:
                        self.assertEqual(steps["source"], "function")
                        self.assertLessEqual(steps["count"], calls)
                        self.assertGreaterEqual(steps["count"] + self.missing(), calls)


if __name__ == "__main__":
    harness.main()
