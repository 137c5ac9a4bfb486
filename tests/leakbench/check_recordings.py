#!/usr/bin/env python3
"""Recordings by others, of a few steps each: none shows a leak, each says why it is not known, and none takes the
layers of a network for steps."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

DATA = os.environ.get("MEMPROF_TEST_DATA")
# What their programs make, by their source: loops of one round, three steps of training, marked steps.
STEPS = {"niu_fb_200_mixed": 3, "sidsoc_train": 0, "silmont_fwd_bf16": 0, "bolong_cl128": 0, "ctx128_inference": 0,
         "ctx256_inference": 0, "ctx512_inference": 0, "ctx1024_inference": 0, "yiyi_oom_v1": 0, "docubox_notrace": 0,
         "hta_df_index_resolver": 5, "kineto_resnet50_w0": 6, "sidnb13_transformer": 3}


@harness.unittest.skipUnless(DATA and pathlib.Path(DATA).is_dir(), "$MEMPROF_TEST_DATA names no folder")
class Recordings(harness.TestCase):
    def test_none_leaks(self):
        read = set()
        for path in sorted(pathlib.Path(DATA).glob("*")):
            name = path.name.split(".")[0]
            result = harness.memprof("leaks", "--json", path)
            if path.suffix not in (".pickle", ".gz", ".json") or result.returncode not in (0, 4):
                continue  # not a recording of memory
            with self.subTest(path=path.name):
                leaks = json.loads(result.stdout)
                self.assertEqual((leaks["verdict"], leaks["findings"]), ("unknown", []))
                self.assertTrue(leaks["reason"])
                if name in STEPS:
                    self.assertEqual(leaks["steps"]["count"], STEPS[name])
            read.add(name)
        self.assertLessEqual(STEPS.keys(), read)


if __name__ == "__main__":
    harness.main()
