#!/usr/bin/env python3
"""The tests for a real GPU (tests/gpu), on the stand-in one: what fails here would fail there by the test's own mistake.
Those that only measure time run in the long form (tools/test --long); those whose programs need nvcc say so and are skipped."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed

sys.path.insert(0, str(bed.SOURCE / "tests" / "gpu"))
os.environ.update(bed.settings())
from check_gpu import History, Known, Training  # noqa: E402, F401

if not bed.harness.asserted.LONG:
    for case, names in ((Known, ("test_costs",)), (Training, ("test_slow_down",)), (History, ("test_cost",))):
        for name in names:
            setattr(case, name, unittest.skip("measures times; tools/test --long")(getattr(case, name)))

if __name__ == "__main__":
    bed.main()
