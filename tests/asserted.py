"""unittest for the tests here: a test that passes without having asserted anything fails, and where all were skipped the
exit status says so. Tests that are plain scripts assert with held(), and end as script() ends them."""

import functools
import sys
import unittest


def counting(method):
    @functools.wraps(method)
    def counted(self, *arguments, **named):
        self.asserted = getattr(self, "asserted", 0) + 1
        return method(self, *arguments, **named)
    return counted


for name in [name for name in dir(unittest.TestCase) if name.startswith("assert")]:
    setattr(unittest.TestCase, name, counting(getattr(unittest.TestCase, name)))


class Result(unittest.TextTestResult):
    def addSuccess(self, test):
        if getattr(test, "asserted", 0):
            super().addSuccess(test)
        else:
            nothing = AssertionError("this test has asserted nothing")
            self.addFailure(test, (AssertionError, nothing, None))


held_so_far = 0


def held(condition, said="this does not hold"):
    """What a plain script asserts."""
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
    result = unittest.main(module="__main__", exit=False, testRunner=runner).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
