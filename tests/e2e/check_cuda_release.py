#!/usr/bin/env python3
"""CUPTI is released when the program asks for that: another tool in the process gets CUPTI, and the hooks go on
recording."""

import harness
import cuda_stand_in as stand_in


class Release(stand_in.TestCase):
    def run_with(self, cupti, *options):
        library = stand_in.SOFTGPU / f"cupti-{cupti}" / stand_in.CUPTI[cupti]
        return self.run_program(stand_in.program("releases_cupti"), "dlopen", library, options=options, cupti=cupti)

    def test_another_tool_gets_it_and_nothing_is_lost(self):
        for version in ("12.6", "13.0"):
            with self.subTest(version=version):
                result = self.run_with(version)
                self.assertEqual(result.stdout, "released 0 -1, subscribed 39 0\n")
                self.assert_same_ledger(result, variables=None)
                self.assertIn("released on request; from then on: the CUDA driver's calls were recorded by hooks",
                              self.notes(result))

    def test_there_is_nothing_to_release(self):
        result = self.run_with("13.0", "--capture", "hooks")
        self.assertEqual(result.stdout, "released -1 -1, subscribed 0 39\n")
        self.assert_same_ledger(result, variables=None)


if __name__ == "__main__":
    harness.main()
