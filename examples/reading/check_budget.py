"""A regression check for pytest: the training must not need more memory than its budget, and must keep nothing.

    memprof snapshot -o run.mp -- python3 examples/train.py
    MEMPROF_RUN=run.mp python3 -m pytest examples/reading/check_budget.py
"""

import os

import memprof
import pytest

MIB = 2**20
BUDGET = {"layers.*": 11 * MIB, "head": 2 * MIB}  # at the peak, by the first part of the module's path


@pytest.fixture(scope="module")
def run():
    return memprof.open(os.environ.get("MEMPROF_RUN", "run.mp"))


def test_no_layer_exceeds_its_budget(run):
    peak = run.at_peak()
    used = dict.fromkeys(BUDGET, 0)
    for module, size in zip(peak["module"], peak["bytes"].tolist()):
        name = "layers.*" if (module or "").startswith("layers.") else (module or "").split(".")[0]
        if name in used:
            used[name] += size
    assert {name: size for name, size in used.items() if size > BUDGET[name]} == {}


def test_nothing_leaks(run):
    assert run.leaks()["verdict"] != "leak", run.leaks()["findings"]
