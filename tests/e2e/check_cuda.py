#!/usr/bin/env python3
"""CUDA without a GPU: programs on the stand-ins of tests/softgpu under `memprof snapshot`, by each way in, against the
stand-in driver's own ledger, block for block."""

import harness
import cuda_stand_in as stand_in

WAYS = ("dlopen", "lookup", "lookup_v1", "threads")


class EveryKind(stand_in.TestCase):
    """The same ledger, whatever the way to the driver and the way of looking at it."""

    def check(self, variables=True, **how):
        for way in WAYS:
            with self.subTest(way=way):
                self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), way, **how), variables)
        with self.subTest(way="linked"):
            self.assert_same_ledger(self.run_program(stand_in.program("every_kind_linked"), "linked", **how), variables)

    def test_hooks(self):
        self.check(options=("--capture", "hooks"), variables=False)

    def test_hooks_by_addresses_that_are_not_exported(self):
        self.check(options=("--capture", "hooks"), variables=False, SOFTGPU_INNER=1)

    def test_cupti(self):
        self.check(options=("--capture", "cupti"), cupti="13.0")

    def test_every_version_of_cupti(self):
        for version in stand_in.CUPTI:
            with self.subTest(version=version):
                cuda = stand_in.CUDA_OF.get(version, 13000)
                self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "lookup", cuda,
                                                         options=("--capture", "cupti"), cupti=version))

    def test_calls_that_an_old_cupti_does_not_know(self):
        """The hooks see them."""
        for version in ("11.2", "11.6"):
            with self.subTest(version=version):
                self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "lookup", cupti=version))

    def test_auto(self):
        self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "dlopen", cupti="13.0"))
        self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "dlopen"), variables=False)

    def test_runtime(self):
        for program in ("runtime_kinds", "runtime_kinds_static"):
            for how in ({"options": ("--capture", "hooks")}, {"options": ("--capture", "cupti"), "cupti": "12.6"}):
                with self.subTest(program=program, how=how):
                    self.assert_same_ledger(self.run_program(stand_in.program(program), **how))


if __name__ == "__main__":
    harness.main()
