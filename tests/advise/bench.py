"""A training of tests/advise/programs.py, unchanged and with a real change. memprof predicts from a recording of the
unchanged program alone; another counter measures."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True
import harness
import advice_text

PYTHON = harness.python_with_torch()
PROGRAMS = harness.SOURCE / "tests" / "advise" / "programs.py"
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
MADE = {"late_zero_grad": "zero_grad", "gradients_kept": "zero_grad", "gradients_idle": "no_idle",
        "held_variables": "del", "idle_variable": "del", "one_by_one": "one_by_one", "fused": "fused",
        "no_grad": "no_grad", "backward_sooner": "backward_sooner", "eight_bit": "eight_bit", "sparse": "sparse", "chunked_loss": "chunked", "evaluation_batch": "half"}
WITHIN = 0.02
OPTIONS = []  # of snapshot


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


def change_of(advice):
    """The change in programs.py that an advice describes."""
    if advice["pattern"] == "checkpoint":
        return f"checkpoint:{advice['module']}:{advice['modules']}"
    return MADE[advice["pattern"]]


def measure(folder, name, habits, changes=""):
    """The peak by that counter."""
    out = folder / "counts.json"
    subprocess.run([PYTHON, PROGRAMS, name, habits, changes], check=True, timeout=harness.TIMEOUT, cwd=folder,
                   env=environment(LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(out)))
    return max(device["peak_bytes"] for device in json.loads(out.read_text())["devices"])


def record(folder, name, habits):
    path = folder / "run.mp"
    result = subprocess.run([harness.MEMPROF, "snapshot", "--force", "--quiet", *OPTIONS, "-o", path, "--", PYTHON, PROGRAMS, name,
                             habits], capture_output=True, text=True, timeout=harness.TIMEOUT, cwd=folder,
                            env=environment())
    assert not result.returncode, result.stderr
    return path


def answer(path, *options):
    """The advice as JSON, with which the text is compared."""
    found = harness.answer("advise", path, *options)
    wrong = advice_text.differences(found, harness.memprof("advise", path, *options).stdout)
    assert not wrong, wrong
    return found


def compare(folder, name, habits, *options):
    """For each advised change: the change, its predicted and its real saving, and the peak without it."""
    before = measure(folder, name, habits)
    found = answer(record(folder, name, habits), *options)
    assert found["peak_bytes"] == before, (name, habits, found["peak_bytes"], before)
    rows = []
    for advice in found["changes"]:
        change = change_of(advice)
        after = measure(folder, name, habits, change)
        rows.append((change, advice["saved_bytes"], before - after, before))
    return rows


def is_within(said, real, within=WITHIN):
    return real > 0 and abs(said - real) <= within * real
