#!/usr/bin/env python3
"""Leaks of real PyTorch programs. The guilty line is the first finding, and the mended programs are clean. Trainings
that only look like leaks are clean, too. Steps are inferred as the programs made them. MEMPROF_LEAK_STEPS sets the
number of steps of these (120)."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
PROGRAMS = harness.SOURCE / "tests" / "leakbench" / "programs"
STEPS = os.environ.get("MEMPROF_LEAK_STEPS", "120")

CENSUS = """
import torch
class Spec:
    pass
def main():
    net, ids, seen, specs, window = torch.nn.Linear(4, 4), [], {}, [], list(range(5000))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(40):
        ids.extend(range(20000))
        seen.update(dict.fromkeys(range(3000 * step, 3000 * step + 3000)))
        specs.extend(Spec() for _ in range(500))
        window = window[1:] + [step]
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
main()
"""


# Again and again, another layer trains for the first time, or the same one with a new optimizer.
STATES = """
import sys, torch
layers = [torch.nn.Linear(256, 256) for _ in range(20)]
model, optimizers = torch.nn.Sequential(*layers).requires_grad_(False), []
every, last = (8, 48) if sys.argv[1] == "unfrozen" else (4, 64)
for step in range(64):
    if step % every == 0 and step < last:
        layer = layers[step // every if sys.argv[1] == "unfrozen" else 0].requires_grad_(True)
        optimizers.append(torch.optim.Adam(layer.parameters()))
    for optimizer in optimizers: optimizer.zero_grad(set_to_none=True)
    model(torch.randn(8, 256)).square().mean().backward()
    for optimizer in optimizers if sys.argv[1] == "unfrozen" else optimizers[-1:]: optimizer.step()
"""


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Programs(harness.TestCase):
    def record(self, program, *arguments, options=()):
        return harness.record_whole(self.folder / "%p.mp", (PYTHON, PROGRAMS / program, *arguments), *options)

    def leaks(self, program, *arguments, options=()):
        """For each part of a program: its name, its output, the answer of `memprof leaks`. None is missing."""
        said = subprocess.run([PYTHON, PROGRAMS / program, "nosuch"], capture_output=True, text=True).stderr
        parts = said.strip().removeprefix("no nosuch; there are ").split(", ")
        lines = [line.split() for line in self.record(program, *arguments, options=options).splitlines()]
        self.assertEqual([name for name, _, _ in lines], parts)
        self.assertGreater(len(parts), 1)
        for name, pid, said in lines:
            yield name, said, harness.answer("leaks", self.folder / f"{pid}.mp")

    def test_the_guilty_line_comes_first(self):
        for program in ("classic.py", "reports.py"):
            source = (PROGRAMS / program).read_text().splitlines()
            for what, _, leaks in self.leaks(program):
                with self.subTest(what=what):
                    self.assertEqual(leaks["verdict"], "leak", leaks["steps"])
                    guilty = {number for number, line in enumerate(source, 1) if line.endswith(f"# LEAK {what}")}
                    lines = {frame["line"] for frame in leaks["findings"][0]["stack"]
                             if (frame["file"] or "").endswith(program)}
                    self.assertTrue(guilty & lines, (guilty, lines))

    def test_the_rate_is_what_the_program_kept(self):
        for steps in ("12", "60"):
            for what, kept, leaks in self.leaks("rates.py", "--steps", steps):
                with self.subTest(what=what, steps=steps):
                    self.assertEqual(leaks["verdict"], "leak", leaks["steps"])
                    rate = sum(finding["bytes_per_step"] for finding in leaks["findings"])
                    self.assertLess(abs(rate - int(kept)), int(kept) / 100, (rate, kept))

    def test_the_heap_that_nobody_records(self):
        for what, kept, leaks in self.leaks("heaps.py"):
            with self.subTest(what=what):
                classes = [(finding["class"], round(finding["bytes_per_step"] / 2**20)) for finding in leaks["findings"]]
                self.assertEqual((leaks["verdict"], classes),
                                 ("leak", [("hidden", int(kept) >> 20)]) if int(kept) else ("clean", []))

    def test_python_s_own_heap_by_its_containers(self):
        program = self.folder / "census.py"
        program.write_text(CENSUS)
        harness.record_whole(self.folder / "census.mp", (PYTHON, program), "--holders", "--budget", "2s")
        rows = {row["name"]: row for row in harness.answer("leaks", self.folder / "census.mp")["census"]}
        for name, what, each in (("main().ids", "entries", 20000), ("main().seen", "entries", 3000), ("Spec", "objects", 500)):
            row = rows[name]
            self.assertEqual(row["what"], what)
            # A look comes amid a step.
            self.assertLessEqual(abs(row["last"] - row["first"] - row["steps"] * each), each)
            self.assertGreater(row["steps"], 20)
        self.assertNotIn("main().window", rows)

    def test_what_fills_up_is_no_leak(self):
        for fill in ("80", "97"):
            for what, _, leaks in self.leaks("buffers.py", "--fill", fill, "--steps", "400"):
                with self.subTest(what=what, fill=fill):
                    self.assertEqual((leaks["verdict"], leaks["findings"]), ("clean", []))

    def test_bounds_in_code(self):
        verdicts = {"bounded": "clean", "unsure": "unknown", "leak": "leak"}
        parts = re.findall("^def ((?:bounded|unsure|leak)_[a-z]*)", (PROGRAMS / "bounds.py").read_text(), re.M)
        self.assertGreater(len(parts), 9)
        for part in parts:
            recording, right = self.folder / f"{part}.mp", part.split("_")[0]
            with self.subTest(part=part):
                harness.record_whole(recording, (PYTHON, PROGRAMS / "bounds.py", part), "--holders")
                leaks = harness.answer("leaks", recording)
                finding = leaks["findings"][0]
                self.assertEqual(leaks["verdict"], verdicts[right])
                self.assertEqual(finding["class"], "retention" if right == "leak" else "bounded")
                self.assertEqual(finding["confidence"], {"bounded": "certain" if part == "bounded_deque" else "probable",
                                                         "unsure": "possible", "leak": "certain"}[right])

    def test_lists_that_are_wanted(self):
        answers = {"wanted": ("clean", "kept", "probable"), "doubt": ("leak", "retention", "probable"),
                   "leak": ("leak", "retention", "certain")}
        parts = re.findall("^def ((?:wanted|doubt|leak)_[a-z_]*)", (PROGRAMS / "wanted.py").read_text(), re.M)
        self.assertGreater(len(parts), 18)
        for part in parts:
            recording = self.folder / f"{part}.mp"
            with self.subTest(part=part):
                harness.record_whole(recording, (PYTHON, PROGRAMS / "wanted.py", part), "--holders")
                leaks = harness.answer("leaks", recording)
                finding = leaks["findings"][0]
                self.assertEqual((leaks["verdict"], finding["class"], finding["confidence"]), answers[part.split("_")[0]])
        harness.record_whole(self.folder / "large.mp", (PYTHON, PROGRAMS / "wanted.py", "wanted_stacked", "500000"), "--holders")
        self.assertEqual(harness.answer("leaks", self.folder / "large.mp")["verdict"], "unknown")

    def test_mended_twins_are_clean(self):
        for program in ("classic.py", "reports.py"):
            for what, _, leaks in self.leaks(program, "--mended"):
                with self.subTest(what=what):
                    self.assertEqual(leaks["verdict"], "clean", leaks["findings"])

    def test_clean_programs_are_clean(self):
        for what, _, leaks in self.leaks("clean.py", "--steps", STEPS):
            with self.subTest(what=what):
                self.assertEqual(leaks["verdict"], "clean", leaks["findings"])

    def test_state_of_ever_more_parameters(self):
        program = self.folder / "states.py"
        program.write_text(STATES)
        for what, verdict in (("unfrozen", "clean"), ("anew", "leak")):
            harness.record_whole(self.folder / f"{what}.mp", (PYTHON, program, what))
            self.assertEqual(harness.answer("leaks", self.folder / f"{what}.mp")["verdict"], verdict, what)

    def test_modules_tell_layers_from_rounds(self):
        _, pid, made = self.record("loops.py", "one_line").split()
        leaks = harness.answer("leaks", self.folder / f"{pid}.mp")
        self.assertEqual((leaks["steps"], leaks["verdict"]), ({"count": int(made), "source": "inferred"}, "clean"))

    def test_steps_are_inferred(self):
        # PyTorch's shim would report the ends of optimizers' steps.
        for what, made, leaks in self.leaks("loops.py", options=["--no-shim"]):
            with self.subTest(what=what):
                if what == "one_line":  # without modules' names its layers could be rounds as well
                    self.assertEqual((leaks["verdict"], leaks["steps"]["count"]), ("unknown", 0))
                    continue
                self.assertEqual((leaks["steps"]["count"], leaks["steps"]["source"]), (int(made), "inferred"))
                if what == "one_request":  # its cache grows, as it should; another request would tell
                    self.assertNotEqual(leaks["verdict"], "leak", leaks["findings"])
                    continue
                self.assertEqual(leaks["verdict"], "clean", leaks["findings"])


if __name__ == "__main__":
    harness.main()
