#!/usr/bin/env python3
"""The newest vLLM of tools/cuda-torch --engine, whole, with a small model: the server comes up under plan, ends, and its
ledger adds up. tools/test --long."""

import glob
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent), str(HERE)]
import asserted  # noqa: E402
import harness  # noqa: E402
import models  # noqa: E402

ENVIRONMENTS = os.environ.get("MEMPROF_ENVIRONMENTS", os.path.expanduser("~/.cache/memprof"))
ENGINES = sorted(glob.glob(f"{ENVIRONMENTS}/vllm*/bin/vllm"))
MIB = 1 << 20


@unittest.skipUnless(asserted.LONG and ENGINES, "tools/test --long, where tools/cuda-torch --engine vllm was run")
class Server(harness.TestCase):
    def test_a_small_model(self):
        model = models.write("small", self.folder)
        path = f"{os.path.dirname(ENGINES[-1])}:{os.path.dirname(harness.MEMPROF)}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as cache:
            result = harness.memprof("plan", "-o", self.folder / "server.mp", "--device", "h100-80gb", "--", "vllm",
                                     "serve", model, "--max-model-len", "2048", timeout=1800,
                                     env=dict(os.environ, PATH=path, VLLM_CACHE_ROOT=cache))
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        self.assertIn("the server is ready: the plan ends here", result.stderr)
        self.assertRegex(result.stderr, r"memprof: [\d ]+ tokens of KV cache: [\d ]+ requests of 2 048\n")
        servers = [harness.answer("report", one).get("server") for one in self.folder.glob("*.mp")]
        server, = [one for one in servers if one and one["ready"]]
        self.assertEqual(sum(part["bytes"] for part in server["parts"]), server["total_bytes"])
        self.assertEqual(server["tokens"] * server["token_bytes"], server["cache_bytes"])
        self.assertEqual(server["token_bytes"], 2 * 2 * 4 * 128 * 2, "layers, keys and values, heads, elements, bytes")
        rows = {row["module"]: row["bytes"] for row in server["weights"]}
        self.assertEqual(rows["model.layers.*.mlp.gate_up_proj"], 2 * 2 * 1024 * 2816 * 2)
        unattributed = sum(part["bytes"] for part in server["parts"] if part["name"] == "unattributed")
        self.assertLess(unattributed, server["total_bytes"] // 100)


harness.main()
