"""Runs functions, each in a process of its own forked from this one, which has imported torch already."""

import argparse
import gc
import os
import sys
import traceback

import torch


def run(functions, names, *arguments):
    """Runs the named functions, or all. A line for each has its name, its process, and its number of steps if known."""
    unknown = [name for name in names if name not in functions]
    if unknown:
        sys.exit(f"no {unknown[0]}; there are {', '.join(functions)}")
    for name in names or functions:
        child = os.fork()
        if not child:
            status = 1
            try:
                torch.manual_seed(0)
                steps = functions[name](*arguments)
                print(name, os.getpid(), steps if isinstance(steps, int) else "-", flush=True)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{name} failed")


def main(functions, about):
    """A program of leaks: [WHAT...] [--mended] [--steps N]."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("what", nargs="*")
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    gc.freeze()
    run(functions, options.what, options.steps, options.mended)
