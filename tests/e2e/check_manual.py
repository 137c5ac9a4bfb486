#!/usr/bin/env python3
"""The command lines of README and manual. Each names an existing command and options of it. Commands in blocks run in
order, and print the shown output, except for numbers."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import harness

DOCUMENTS = [harness.SOURCE / "README.md", *sorted((harness.SOURCE / "docs" / "manual").glob("*.md"))]
COMMENT = re.compile(r"\s+#\s.*|\s{3,}\S.*")  # after a command: "# why", or a gap and what it is for

# Why a line in a block is not run here. Its command and options are checked nevertheless.
NOT_RUN = {
    "memprof plan": "needs PyTorch for CUDA: tests/plan runs plans of it",
    "memprof frag oom.pickle": "a snapshot from a GPU: tests/recordings keeps such an answer",
    "memprof compare before.mp after.mp": "two recordings from a GPU: tests/unit/cli/check_compare.py",
    "memprof steps marked.mp": "needs the marks above it: tests/e2e/check_steps.py records such",
    "memprof peak sidnb13_transformer": "needs the data of $MEMPROF_TEST_DATA",
    "memprof recover run.mp": "needs a run that was cut: tests/faults",
    "memprof snapshot -o run.mp -- bwrap": "needs bwrap and another root: tests/faults/check_rights.py has such roots",
    "sudo memprof attach": "needs root and a program that runs: tests/attach records such",
    "memprof leaks now.mp": "needs the recording of that",
    "memprof leaks host.mp": "needs a program whose heap grows: tests/e2e/check_host.py",
    "memprof top": "needs a program that runs: tests/e2e/check_top.py",
    "srun ": "needs Slurm",
    "nsys ": "needs Nsight Systems",
    "pip install": "tests/tools/check_wheel.py installs the wheel",
    "sqlite3 ": "needs sqlite3: tests/unit/exchange reads the database",
}

TRAIN = """
import torch
layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(3):
    layer(torch.ones(8, 64)).sum().backward()
    optimizer.step()
"""
# PID is replaced by the pid of this program, which keeps running. Its first steps are over when the file "steps"
# exists.
LOOP = "import time" + TRAIN.replace("_ in range(3)", "step in range(1_000_000)") + """\
    time.sleep(0.01 if step < 9 else 0.1)
    if step == 9:
        open("steps", "w").close()
"""
SERVE = "import os, runpy\nif os.fork():\n    os.wait()\nrunpy.run_path('train.py')\n"
# Files that the pages expect on the reader's machine.
TOOLS = {
    "memprof": 'exec "$MEMPROF" "$@"',
    "python3": 'exec "$PYTHON" "$@"',
    "torchrun": 'shift 2; for RANK in 0 1; do RANK=$RANK python3 "$@" || exit; done',
    "mpirun": 'shift 2; exec "$@"',
}


def blocks(document):
    """(line, command, output shown below the command) of the indented lines."""
    lines, found, shown = document.read_text().splitlines(), [], None
    for number, line in enumerate(lines, 1):
        if not line.startswith("    "):
            shown = shown if not line and shown is not None and found else None
            continue
        text = line[4:]
        if re.match(r"(\$ |(memprof|torchrun|python3) )", text):
            shown = [] if text.startswith("$ ") else None
            command = text.removeprefix("$ ")
            found.append((number, COMMENT.sub("", command), shown or []))
            shown = found[-1][2] if shown is not None else None
        elif shown is not None:
            shown.append(text)
    return found


def mentions(document):
    """`memprof ...` in sentences, also across a line break."""
    text = re.sub(r"^    .*$", "", document.read_text(), flags=re.MULTILINE)
    return [" ".join(span.split()) for span in re.findall(r"`((?:[^`]|\n)+)`", text) if span.startswith("memprof ")]


def skeleton(line):
    """A line without numbers, bars and gaps."""
    line = re.sub(r"[▇▁-█]+", "", line)
    line = re.sub(r"\d[\d .]*(\s?([KMGT]i)?B\b|\s?%|\s?(ms|s|min)\b)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def missing(shown, printed):
    """Shown lines that were not printed in that order; "..." matches any lines."""
    printed, at, lacking = [skeleton(line) for line in printed.splitlines()], 0, []
    for line in shown:
        wanted = skeleton(line)
        if not wanted or wanted == "...":
            continue
        begins = wanted.endswith("...")
        if begins:
            wanted = wanted.removesuffix("...").rstrip(" ,")
        found = next((i for i in range(at, len(printed))
                      if (printed[i].startswith(wanted) if begins else printed[i] == wanted)), None)
        if found is None:
            lacking.append(line)
        else:
            at = found + 1
    return lacking


def said_of_holders(line):
    return "held by " in line or re.match(r" *(graph|default|cache|hook|traceback|local): ", line)


class Words(unittest.TestCase):
    """Every command line names an existing command, and options of that command."""

    def setUp(self):
        self.options = {}

    def options_of(self, command):
        if command not in self.options:
            result = harness.memprof(command, "--help")
            self.assertEqual(result.returncode, 0, f"there is no command {command}")
            self.options[command] = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", result.stdout))
        return self.options[command]

    @harness.needs()
    def test_commands_and_options(self):
        looked = 0
        for document in DOCUMENTS:
            for line in [command for _, command, _ in blocks(document)] + mentions(document):
                words = shlex.split(line.replace("'", "") if line.count("'") % 2 else line, comments=True)
                if words[0] != "memprof" or len(words) < 2 or words[1].startswith("-") or not words[1].islower() \
                        or "." in words[1] or "|" in words[1]:
                    continue
                own = words[2:words.index("--")] if "--" in words else words[2:]
                with self.subTest(document=document.name, line=line):
                    known = self.options_of(words[1])
                    used = {word.split("=")[0] for word in own if re.match(r"--?[a-z]", word)}
                    self.assertEqual(used - known, set())
                    looked += 1
        self.assertGreater(looked, 50)


class Runs(unittest.TestCase):
    def setUp(self):
        python = harness.python_with_torch()
        if not python:
            self.skipTest("no Python with PyTorch")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("bin", "run"):  # documents say mkdir before they use it
            (self.folder / name).mkdir()
        for name, text in {**TOOLS, "simulation": "exec python3 train.py"}.items():
            path = self.folder / ("simulation" if name == "simulation" else f"bin/{name}")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        (self.folder / "train.py").write_text(TRAIN)
        (self.folder / "serve.py").write_text(SERVE)
        (self.folder / "test_it.py").write_text("def test_it():\n    import train\n")
        shutil.copytree(harness.SOURCE / "examples", self.folder / "examples")
        self.environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", MEMPROF=harness.MEMPROF,
                                PYTHON=python, COLUMNS="160")
        self.used, self.process, self.done = set(), None, {}

    def running(self):
        """The process of a recorded program that runs to the end of the test."""
        if not self.process:
            (self.folder / "loop.py").write_text(LOOP)
            command = [harness.MEMPROF, "snapshot", "-o", "loop/", "--", self.environment["PYTHON"], "-c",
                       "import os; open('pid', 'w').write(str(os.getpid())); import runpy; runpy.run_path('loop.py')"]
            recorder = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(recorder.wait)
            deadline = time.monotonic() + harness.TIMEOUT
            while not (self.folder / "steps").exists():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            self.process = int((self.folder / "pid").read_text())
            self.addCleanup(os.kill, self.process, signal.SIGTERM)
        return self.process

    def run_command(self, command):
        """Its status and output. Recordings of examples are made once, and found again where documents repeat the line."""
        if command not in self.done:
            result = subprocess.run(["bash", "-c", command.replace("{batch}", "'{batch}'")], cwd=self.folder, text=True,
                                    env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, timeout=harness.TIMEOUT)
            file = re.search(r"-o (\S+\.mp) -- python3 examples/", command)
            if not file and not command.startswith("memprof size"):
                return result.returncode, result.stdout
            self.done[command] = (result.returncode, result.stdout, file and file[1], file and (self.folder / file[1]).read_bytes())
        status, printed, file, content = self.done[command]
        if file:
            (self.folder / file).write_bytes(content)
        return status, printed

    def run_document(self, document):
        count = 0
        for number, command, shown in blocks(document):
            reason = next((key for key in NOT_RUN if command.startswith(key)), None)
            self.used.add(reason)
            if reason:
                continue
            with self.subTest(document=document.name, line=number, command=command):
                for old in self.folder.glob("*.mp"):
                    if re.search(rf"-o {re.escape(old.name)}\b", command):
                        old.unlink()
                if re.search(r"--pid PID\b", command):
                    command = command.replace("PID", str(self.running()))
                status, printed = self.run_command(command)
                self.assertIn(status, (0, 4), printed)
                printed = printed.replace(self.environment["PYTHON"], "python3").replace(os.uname().nodename, "vm")
                if "holder not found: the look was out of time" in printed:  # a busy machine, and it says so
                    shown = [line for line in shown if not said_of_holders(line)]
                self.assertEqual(missing(shown, printed), [], printed)
                count += 1
        return count

    def test_documents(self):
        counts = {document: self.run_document(document) for document in DOCUMENTS}
        self.assertGreater(sum(counts.values()), 22, counts)
        self.assertEqual(set(NOT_RUN) - self.used, set(), "named as not run, and in no document")


if __name__ == "__main__":
    harness.main()
