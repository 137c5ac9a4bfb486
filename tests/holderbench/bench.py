#!/usr/bin/env python3
"""Finds the holders of labelled leaks (programs/*.py), and prints how often the result was right.

    bench.py [-v] [NAME...]      exit status 1: fewer than 97 % were right, or one was wrong that claimed to be sure
"""
import gc
import linecache
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]

import torch  # noqa: E402

import labelled  # noqa: E402
from libmemprof_torch import holders, holders_graphs, holders_names  # noqa: E402

LEAST = 0.97
holders.WALL = 10_000  # a look here ends by the thread's own time alone: a busy machine is no wrong answer


def address_of(tensor):
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def plain(path):
    """The comparison ignores which entry of a container holds the tensor, and whether it is one of several."""
    return re.sub(r"\[[^\]]*\]", "[*]", path)


def run(case, saved, budget_ns):
    """(holders found, leaked storages) in the look that the program requested, or in the one at its end."""
    accused, found, later = [], [], []

    def accuse(tensor):
        accused.append(address_of(tensor))
        return tensor

    def look():
        looked = holders.Look(torch, accused, budget_ns, saved)
        found[:] = [looked.run(), looked]

    module = types.ModuleType("__main__")
    module.__dict__.update(torch=torch, accuse=accuse, look=look, cleanup=later.append)
    before, sys.modules["__main__"] = sys.modules["__main__"], module
    name = f"{case.file}:{case.name}"
    # The lines of the source, for code that reads them.
    linecache.cache[name] = (len(case.text), None, case.text.splitlines(True), name)
    module.__file__ = os.path.join(HERE, "programs", case.file)
    try:
        exec(compile(case.text, name, "exec"), module.__dict__)
        if not found:
            look()
    finally:
        sys.modules["__main__"] = before
        for undo in later:
            undo()
        module.__dict__.clear()
        sys.modules.pop("telemetry", None)
        sys.last_traceback = None
        saved.used = saved.blind = False  # what one program packed is nothing to the next
        gc.enable()
        gc.collect()
    return found[0], found[1], accused


def begins(path, wanted):
    return path.startswith(wanted) and not (path[len(wanted):len(wanted) + 1] or ".").isalnum()


def joined(found):
    """All entries of one container are one holder, as in reports about one place."""
    holders_by_path = {}
    for holder in found:
        first = holders_by_path.setdefault((plain(holder.path), holder.kind), holder)
        if first is not holder:
            first.addresses = [*first.addresses, *holder.addresses]
    return sorted(holders_by_path.values(), key=lambda holder: -len(holder.addresses))


def untold(found, looked, accused):
    """Words of reports for blocks without a holder (src/analysis/holders)."""
    left = set(accused).difference(*(holder.addresses for holder in found))
    path, kind = ("native code", "native") if looked.complete else ("not found", "unknown")
    rest = holders_names.Holder(path, kind, False, None, 0, None)
    rest.addresses = sorted(left)
    return [rest] if left else []


def is_right(case, holder):
    path = plain(holder.path)
    if not any(begins(path, plain(each)) for each in case.labels["holder"].split(" | ")):
        return False
    at = 0
    for part in case.labels.get("through", "").split(", "):
        at = holder.path.find(part, at)
        if at < 0:
            return False
    return holder.kind in case.labels["kind"].split(" | ")


def main():
    verbose = "-v" in sys.argv
    named = [name for name in sys.argv[1:] if not name.startswith("-")]
    right = wrong = sure_and_wrong = 0
    saved = holders_graphs.SavedHooks(torch)
    for case in labelled.cases():
        if named and case.name not in named:
            continue
        found, looked, accused = run(case, saved, 2_000_000_000)
        found = joined([*found, *untold(found, looked, accused)])
        best = found[0] if found else None
        good = best is not None and is_right(case, best) and 2 * len(best.addresses) >= len(set(accused)) - 1
        right, wrong = right + good, wrong + (not good)
        sure_and_wrong += not good and best is not None and best.certain
        if verbose or not good:
            print(f"{'right' if good else 'WRONG'} {case.name}: wanted {case.labels['holder']} "
                  f"({case.labels['kind']}){' through ' + case.labels['through'] if 'through' in case.labels else ''}, "
                  f"{len(set(accused))} blocks; {looked.seconds * 1000:.0f} ms, {looked.looked_at} objects {looked.notes}")
            for holder in found[:4]:
                print(f"      {len(holder.addresses)} x {holder.path} ({holder.kind}"
                      f"{', sure' if holder.certain else ''}) {holder.file or ''}:{holder.line}")
    share = right / max(right + wrong, 1)
    print(f"{right} of {right + wrong} right ({share:.0%}), {sure_and_wrong} wrong and sure; torch {torch.__version__}, "
          f"Python {sys.version.split()[0]}")
    return 0 if share >= LEAST and not sure_and_wrong and right else 1


if __name__ == "__main__":
    sys.exit(main())
