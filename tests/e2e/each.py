"""Runs programs one after the other, each in a child of one process that has imported PyTorch: each.py PROGRAMS MODULE...

PROGRAMS is a file of JSON: a list of "argv", "variables", and "folder", where the child runs and leaves its `output` and
`said` (stderr). The process imports each MODULE, and prints the pid and the exit status of each child.
"""
import gc
import importlib
import json
import os
import runpy
import sys

with open(sys.argv[1]) as file:
    programs = json.load(file)
for module in sys.argv[2:]:
    importlib.import_module(module)
gc.freeze()
for program in programs:
    child = os.fork()
    if not child:
        break
    print(child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(program["folder"])
for name, number in (("output", 1), ("said", 2)):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
os.environ.update(program["variables"])
sys.argv = program["argv"]
runpy.run_path(sys.argv[0], run_name="__main__")
