#!/usr/bin/env python3
"""Options of `memprof snapshot` change its exit status, or the name of its file."""

import json

import harness


class Options(harness.TestCase):
    def record(self, *arguments, status=0):
        """programs/held ends with 0 and has memory; "false" and "true" have none."""
        result = harness.memprof("snapshot", "--force", "-o", self.folder / "run.mp", *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def test_strict(self):
        held = [harness.program("held"), self.folder / "told", "3", "0", "0", "0"]
        self.record("--strict", "--", "timeout", "2", *held, status=124)  # the command's own status comes first
        self.assertTrue((self.folder / "run.mp").exists())
        self.assertIn("nothing was recorded", self.record("--", "true").stderr)
        self.assertIn("nothing was recorded", self.record("--strict", "--", "true", status=4).stderr)
        self.record("--strict", "--", "false", status=1)
        self.record("--strict", "--", harness.program("cycles"))

    def test_no_command(self):
        for options, kept in (((), True), (("--no-command",), False)):
            self.record(*options, "--", harness.program("cycles"), "a-word-of-mine")
            command = harness.answer("info", self.folder / "run.mp")["process"]["command"]
            self.assertEqual(bool(command), kept, command)
            self.assertEqual("a-word-of-mine" in json.dumps(harness.answer("info", self.folder / "run.mp")), kept)


if __name__ == "__main__":
    harness.main()
