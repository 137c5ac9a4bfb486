#!/usr/bin/env python3
"""A collector that does not answer in time is asked again, and events in between are counted."""

import os
import signal
import subprocess
import sys

import harness

# Counts its marks in a file. The first mark comes when the file `go` exists.
PROGRAM = """
import os, sys, time
import libmemprof as mp
folder = sys.argv[1]
open(folder + "/begun", "w").close()
while not os.path.exists(folder + "/go"):
    time.sleep(0.01)
marks = 0
while not os.path.exists(folder + "/end"):
    mp.mark("now")
    marks += 1
    with open(folder + "/count.new", "w") as count:
        count.write(str(marks))
    os.rename(folder + "/count.new", folder + "/count")
    time.sleep(0.001)
"""


class StoppedCollector(harness.TestCase):
    def test_the_program_asks_again(self):
        script, file = self.folder / "program.py", self.folder / "run.mp"
        script.write_text(PROGRAM)
        running = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", file, "--", sys.executable, script, self.folder],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.kill)
        self.addCleanup((self.folder / "end").touch)
        self.wait_for((self.folder / "begun").exists)
        os.kill(running.pid, signal.SIGSTOP)
        (self.folder / "go").touch()
        self.wait_for((self.folder / "count").exists)  # the first attempt is over
        self.assertFalse(file.exists())
        os.kill(running.pid, signal.SIGCONT)
        self.wait_for(file.exists)
        marks = lambda: int((self.folder / "count").read_text())
        before = marks()
        self.wait_for(lambda: marks() > before + 1)  # at least one began after the file existed
        (self.folder / "end").touch()
        said = running.communicate(timeout=60)[1]
        self.assertEqual(running.returncode, 0, said)
        coverage = harness.answer("info", file, status=4)["coverage"]
        self.assertEqual(coverage["events"] + coverage["dropped"], int((self.folder / "count").read_text()))
        self.assertGreater(coverage["events"], 0)
        self.assertGreater(coverage["dropped"], 0)
        self.assertIn("did not answer in time", " ".join(coverage["notes"]))
        self.assertNotIn("could not be recorded", said)


if __name__ == "__main__":
    harness.main()
