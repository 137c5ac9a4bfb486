#!/usr/bin/env python3
"""Every test can be run, and says itself that it has asserted something. Tests in Python end as tests/asserted.py ends
them, and assert with its functions. Tests in shell read tests/asserted.sh, tests of the page use viz/test/asserted.js.
A helper that is no test may use a bare assert."""

import os
import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests"))
import asserted  # noqa: E402

ENDS = re.compile(r"^ *(?:asserted|harness|harness\.asserted|bed)\.(?:main|script)\(", re.M)
RUNS = re.compile(r'^ *(?:PYTHONDONTWRITEBYTECODE=1 )?exec (?:node --test|tests/leakbench/leakbench|"\$\{PYTHON3:-python3\}" "\$here/test_)|^\. .*/asserted\.sh"$', re.M)
SUITE = re.compile(r"^MP_SUITE|tcase_add_exit_test", re.M)  # one that ends is asserted by how


def main():
    scripts = [path for path in (TREE / "tests").rglob("*.py") if re.match(r"check_|test_|\w+_in_", path.name)]
    asserted.held(len(scripts) > 50, "where are they?")
    for path in scripts:
        asserted.held(os.access(path, os.X_OK) or path.name.startswith("test_"), f"{path}: cannot be executed")
        asserted.held(ENDS.search(path.read_text()), f"{path}: does not end by asserted.main() or asserted.script()")
    shell = [path for path in (TREE / "tests").rglob("*") if path.is_file() and os.access(path, os.X_OK)
             and re.match(r"check_|test_|run_|page_", path.name) and path.read_bytes().startswith(b"#!/bin/sh")]
    asserted.held(len(shell) > 5, "where are they?")
    for path in shell:
        asserted.held(RUNS.search(path.read_text()), f"{path}: neither reads tests/asserted.sh nor leaves it to what does")
    programs = list((TREE / "tests/unit").rglob("check_*.c"))
    asserted.held(len(programs) > 50, "where are they?")
    for path in programs:
        asserted.held(SUITE.search(path.read_text()), f"{path}: is not run by tests/unit/suite.h")
    pages = list((TREE / "viz/test").glob("*.test.js"))
    asserted.held(len(pages) > 4, "where are they?")
    for path in pages:
        asserted.held('from "./asserted.js"' in path.read_text() and not re.search("node:(assert|test)", path.read_text()),
                      f"{path}: takes assert and test from elsewhere")


asserted.script(main)
