"""unittest for the tests here: a test that passes without having asserted anything fails, and where all were skipped the
exit status says so. Tests that are plain scripts assert with held(), and end as script() ends them."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import unittest

LONG = bool(os.environ.get("MEMPROF_TEST_LONG"))  # tools/test --long: the whole of each bench
TIMES = bool(os.environ.get("MEMPROF_TEST_TIMES"))  # prints the processor time of each test
HERE = pathlib.Path(__file__).resolve().parent


def counting(method):
    @functools.wraps(method)
    def counted(self, *arguments, **named):
        self.asserted = getattr(self, "asserted", 0) + 1
        return method(self, *arguments, **named)
    return counted


for name in [name for name in dir(unittest.TestCase) if name.startswith("assert")]:
    setattr(unittest.TestCase, name, counting(getattr(unittest.TestCase, name)))


class Result(unittest.TextTestResult):
    def startTest(self, test):
        self.before = sum(os.times()[:4])
        super().startTest(test)

    def stopTest(self, test):
        if TIMES:
            print(f"processor {sum(os.times()[:4]) - self.before:.1f} s: {test}", file=sys.stderr)
        super().stopTest(test)

    def addSuccess(self, test):
        if getattr(test, "asserted", 0):
            super().addSuccess(test)
        else:
            nothing = AssertionError("this test has asserted nothing")
            self.addFailure(test, (AssertionError, nothing, None))


class Loader(unittest.TestLoader):
    """Loads the short form of a bench that tests/short_form lists: the tests named there, or all but those named with a -."""

    def __init__(self, file):
        super().__init__()
        self.named, self.loaded, self.chosen = [] if LONG else short_form(file), set(), set()

    def getTestCaseNames(self, case):
        names = super().getTestCaseNames(case)
        self.loaded.update(names)
        if self.named:
            without = self.named[0].startswith("-")
            names = [name for name in names if (("-" + name not in self.named) if without else (name in self.named))]
        self.chosen.update(names)
        return names

    def say_what_is_left_out(self):
        gone = {name.lstrip("-") for name in self.named} - self.loaded
        assert not gone, f"tests/short_form names what is not here: {sorted(gone)}"
        if self.chosen != self.loaded:
            print(f"short form: {len(self.chosen)} of {len(self.loaded)} tests; tools/test --long runs all", file=sys.stderr)


def short_form(file):
    """The names that tests/short_form has of FILE's tests; none where it is run whole."""
    for line in (HERE / "short_form").read_text().splitlines():
        path, *names = line.split()
        if HERE.parent / path == pathlib.Path(file).resolve():
            return names
    return []


@functools.cache
def left_out():
    """The parts that configure left out of this build."""
    memprof = os.environ.get("MEMPROF", os.path.join(os.environ.get("MEMPROF_BUILD", os.getcwd()), "memprof"))
    said = subprocess.run([memprof, "--version"], capture_output=True, text=True).stdout
    return said.partition("\nbuilt without ")[2].strip().split(", ") if "\nbuilt without " in said else []


def needs(*parts):
    """Decorates a test, or a class of tests, that needs these parts; none named: all."""
    missing = [part for part in left_out() if part in parts or not parts]
    return unittest.skipIf(missing, f"built without {', '.join(missing)}")


@functools.cache
def commands_of_parts():
    """The part of each command that is one's, as the Makefile.inc of the parts list them."""
    lists = "".join(path.read_text() for path in HERE.parent.glob("src/*/Makefile.inc"))
    rows = " ".join(re.findall(r"^PART_COMMANDS \+= (.*)$", lists, re.MULTILINE)).split()
    return {row.split(":")[1]: row.split(":")[0] for row in rows}


def skip_without_command(command=None):
    """Skips the test that runs this command if configure left its part out."""
    if commands_of_parts().get(command) in left_out():
        raise unittest.SkipTest(f"built without {command}")


held_so_far = 0


def held(condition, said="this does not hold"):
    """The assertion of a plain script."""
    global held_so_far
    held_so_far += 1
    if not condition:
        raise AssertionError(said)


def script(run):
    """Runs a plain script; one that would pass without having held anything fails."""
    try:
        status = run()
    except SystemExit as ended:
        status = ended.code
    sys.exit(status or (0 if held_so_far else "this test has asserted nothing"))


def main(verbosity=1):
    """Runs the tests of the calling file; exit status 77 where all were skipped."""
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=verbosity)
    loader = Loader(sys.modules["__main__"].__file__)
    result = unittest.main(module="__main__", exit=False, testRunner=runner, testLoader=loader).result
    if len(sys.argv) == 1:
        loader.say_what_is_left_out()
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
