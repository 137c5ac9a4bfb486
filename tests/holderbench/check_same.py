#!/usr/bin/env python3
"""Programs of many kinds compute the same with looks at their holders. Objects die at the same time, and the collector
stays as it was. Compares the program alone, recorded, and recorded with --holders."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("list-of-a-global", "slots", "lru-cache", "weak-key-dictionary", "loss-with-its-graph",
            "function-context-attribute", "forward-hook-closure", "backward-hook-closure", "optimizer-state-of-a-dropped-parameter", "exception-in-a-list",
            "generator", "coroutine", "threading-local", "cycle-not-collected", "object-with-del-in-a-list",
            "finalizer-arguments", "objects-in-an-array", "sparse-values", "storages", "context-variable-that-is-named",
            "resurrected", "cycle-through-a-generator", "local-of-a-running-function", "tasks-that-wait")


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Same(harness.TestCase):
    def run_recorded(self, name, *options):
        """The programs' output, and the number of programs that looked for holders while they ran."""
        folder = self.folder / name
        folder.mkdir()
        result = harness.memprof("snapshot", *options, "-o", folder / "run.mp", "--", PYTHON, HERE / "same.py", *PROGRAMS)
        self.assertEqual(result.returncode, 0, result.stderr)
        looks = [harness.answer("holders", path)["looked"] for path in folder.glob("*.mp")]
        return result.stdout, sum(looks)

    def test_with_looks_and_without(self):
        alone = subprocess.run([PYTHON, HERE / "same.py", *PROGRAMS], capture_output=True, text=True,
                               timeout=harness.TIMEOUT, env={**os.environ, "PYTHONPATH": str(harness.SOURCE / "python")})
        said = alone.stdout.splitlines()
        self.assertEqual([line for line in said if line.endswith(" 0") and len(line.split()) == 2],
                         [f"{name} 0" for name in PROGRAMS], alone.stderr)
        ran = [line for line in said if line.startswith("ran ")]
        self.assertEqual(len(ran), len(PROGRAMS))
        self.assertGreater(sum("[True" in line for line in ran), len(PROGRAMS) // 2, "nothing died")
        for name, options in (("recorded", ()), ("looked", ("--holders",))):
            recorded, looks = self.run_recorded(name, *options)
            self.assertEqual(recorded.splitlines(), said, name)
        self.assertGreaterEqual(looks, len(PROGRAMS))  # each program is forked, and looks only with --holders


if __name__ == "__main__":
    harness.main()
