#!/usr/bin/env python3
"""Runs labelled leaks (programs/*.py), each in a forked child. Prints each one's result, the objects that died with its
names and in its cycles, and the collector's state. check_same.py runs it with memprof and without.

    same.py NAME...
"""
import gc
import hashlib
import multiprocessing
import os
import random
import sys
import types
import weakref

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch

import labelled

STEPS = 8  # after which a recording with --holders looks for the first time


def steps():
    try:
        import libmemprof
    except ImportError:
        return
    for _ in range(STEPS):
        libmemprof.step()
    torch.ones(1)


def digest_of(tensor):
    values = (tensor._values() if tensor.is_sparse else tensor).detach().double()
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16]


def run(case):
    torch.manual_seed(1)
    random.seed(1)
    accused, digests, later = [], [], []

    def accuse(tensor):
        accused.append(weakref.ref(tensor))
        digests.append(digest_of(tensor))
        return tensor

    module = types.ModuleType("__main__")
    module.__dict__.update(torch=torch, accuse=accuse, look=steps, cleanup=later.append, __file__=case.file)
    sys.modules["__main__"] = module
    gc.collect()
    exec(compile(case.text, case.name, "exec"), module.__dict__)
    steps()
    collector = gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_freeze_count(), gc.get_debug(), len(gc.garbage)
    drawn = torch.randn(50), random.random()
    for undo in later:
        undo()
    was_on = gc.isenabled()
    gc.disable()
    later.clear()
    module.__dict__.clear()
    dead_by_names = [each() is None for each in accused]
    gc.collect()
    dead_by_cycles = [each() is None for each in accused]
    print("ran", case.name, was_on, collector, digest_of(drawn[0]), drawn[1], digests, sum(dead_by_names), dead_by_names,
          dead_by_cycles, flush=True)


def main():
    cases = {case.name: case for case in labelled.cases()}
    fork = multiprocessing.get_context("fork")
    for name in sys.argv[1:]:
        child = fork.Process(target=run, args=(cases[name],))
        child.start()
        child.join()
        print(name, child.exitcode, flush=True)


if __name__ == "__main__":
    main()
