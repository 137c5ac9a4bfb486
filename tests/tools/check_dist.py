#!/usr/bin/env python3
"""A release's tarball holds every file of the tree."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

TREE = pathlib.Path(__file__).resolve().parents[2]
# Files that only developers need, and files that make a package of the tarball.
LEFT_OUT = (".ci/", ".github/", ".clang-format", ".editorconfig", ".gitignore", "debian/")


def left_out(tracked, packed):
    """The files of `tracked` that are not among `packed`, files and folders."""
    files, folders = set(packed), tuple(f"{path}/" for path in packed)
    return [path for path in tracked if path not in files and not path.startswith((*folders, *LEFT_OUT))]


def of_tree(path):
    """A path relative to the tree; make prints automake's own files relative to the build folder."""
    return os.path.relpath(path, TREE) if path.startswith(("/", "..")) else path


def main():
    asserted.held(left_out(["a/b.h", "a/c.h", "d/e", ".ci/run"], ["a/b.h", "d"]) == ["a/c.h"])
    if not (TREE / ".git").exists():
        asserted.held((TREE / "configure").is_file())  # this is such a tarball
        return
    tracked = subprocess.run(["git", "-C", TREE, "ls-files", "-z"], check=True, text=True, capture_output=True).stdout
    packed = subprocess.run(["make", "-s", "list-dist"], check=True, text=True, capture_output=True,
                            env={name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}).stdout
    missing = left_out(tracked.split("\0")[:-1], [of_tree(path) for path in packed.split()])
    for path in missing:
        print(f"{path}: in no Makefile.inc, so that no release has it")
    asserted.held(len(packed) > 100)
    sys.exit(1 if missing else 0)


asserted.script(main)
