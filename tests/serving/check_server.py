#!/usr/bin/env python3
"""The newest vLLM and SGLang of tools/cuda-torch --engine, with a small model: the server starts under plan, ends, and
its ledger adds up. A recorded engine on the stand-in GPU has the same ledger. tools/test --long."""

import glob
import os
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent), str(HERE)]
import asserted  # noqa: E402
import harness  # noqa: E402
import models  # noqa: E402

ENVIRONMENTS = os.environ.get("MEMPROF_ENVIRONMENTS", os.path.expanduser("~/.cache/memprof"))
SERVERS = {  # the command of each engine's newest environment, and the setting of its length
    "vllm": (["vllm", "serve"], "--max-model-len"),
    "sglang": (["python3", "-m", "sglang.launch_server", "--model-path"], "--context-length"),
}


def newest(engine):
    return max(glob.glob(f"{ENVIRONMENTS}/{engine}*/bin/{engine}"), default=None)


@unittest.skipUnless(asserted.LONG, "tools/test --long")
class Server(harness.TestCase):
    def test_a_small_model_in_vllm(self):
        self.check_small_model("vllm")

    def test_a_small_model_in_sglang(self):
        self.check_small_model("sglang")

    def test_a_hybrid_cache_in_vllm(self):
        """A layer in six sees all tokens, so tokens and requests are not blocks by their size: the engine's own line
        says them."""
        result = self.plan_small_model("vllm", "small-hybrid", 32768)
        logged = re.search(r"KV cache size: ([\d,]+) tokens.*?per request: ([\d.]+)x", result.stdout + result.stderr, re.DOTALL)
        tokens, requests = logged[1].replace(",", " "), logged[2]
        self.assertIn(f"memprof: {tokens} tokens of KV cache: {requests} requests of 32 768\n", result.stderr)

    def test_a_recorded_engine(self):
        """Steps are the engine's; captured graphs and retained answers are no leak."""
        if not newest("vllm"):
            self.skipTest("tools/cuda-torch --engine vllm was not run")
        softgpu = pathlib.Path("src/softgpu").resolve()
        libraries = [f"lib/{name}" for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
        libraries += [f"cuda/{name}" for name in ("libnccl.so.2", "libcudnn.so.9", "libcupti.so.12", "libcupti.so.13")]
        libraries += [f"cuda/{name}.so.{major}" for name in ("libcudart", "libcublas", "libcublasLt") for major in (12, 13)]
        path = f"{os.path.dirname(newest('vllm'))}:{os.path.dirname(harness.MEMPROF)}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as cache:
            result = harness.memprof("snapshot", "-o", f"{self.folder}/run/", "--", "python3", HERE / "generate.py",
                                     models.write("small", self.folder), 12, timeout=1800, env=dict(
                                         os.environ, PATH=path, VLLM_CACHE_ROOT=cache, SOFTGPU_ON="1",
                                         LD_PRELOAD=":".join(str(softgpu / name) for name in libraries),
                                         SOFTGPU_MEMORY=str(40 << 30), SOFTGPU_VALUES="ones",
                                         SOFTGPU_PROFILE="name=NVIDIA H100 80GB HBM3;cc=90;sms=132",
                                         TRITON_LIBCUDA_PATH=str(softgpu / "lib"), VLLM_USE_FLASHINFER_SAMPLER="0"))
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        self.assertIn("48 answers", result.stdout)
        answers = [harness.answer("report", one) for one in (self.folder / "run").glob("*.mp")]
        worker, = [answer for answer in answers if answer.get("server")]
        self.assertEqual(sum(part["bytes"] for part in worker["server"]["parts"]), worker["server"]["total_bytes"])
        self.assertGreaterEqual(worker["leaks"]["steps"]["count"], 12 * 8)
        self.assertEqual(worker["leaks"]["verdict"], "clean")

    def plan_small_model(self, engine, name, length):
        if not newest(engine):
            self.skipTest(f"tools/cuda-torch --engine {engine} was not run")
        (command, option), model = SERVERS[engine], models.write(name, self.folder)
        path = f"{os.path.dirname(newest(engine))}:{os.path.dirname(harness.MEMPROF)}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as cache:
            # In build/, `python3 -m` would take libmemprof.so for the module of that name.
            result = harness.memprof("plan", "-o", "server.mp", "--device", "h100-80gb", "--", *command,
                                     model, option, length, timeout=1800, cwd=self.folder,
                                     env=dict(os.environ, PATH=path, VLLM_CACHE_ROOT=cache))
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        self.assertIn("the server is ready: the plan ends here", result.stderr)
        return result

    def check_small_model(self, engine):
        result = self.plan_small_model(engine, "small", 2048)
        self.assertRegex(result.stderr, r"memprof: [\d ]+ tokens of KV cache: [\d ]+ requests of 2 048\n")
        servers = [harness.answer("report", one).get("server") for one in self.folder.glob("*.mp")]
        server, = [one for one in servers if one and one["ready"]]
        self.assertEqual(sum(part["bytes"] for part in server["parts"]), server["total_bytes"])
        spare = server["cache_bytes"] - server["tokens"] * server["token_bytes"]
        self.assertIn(spare, [0, server["token_bytes"]], "SGLang has a row that no request has")
        self.assertEqual(server["token_bytes"], 2 * 2 * 4 * 128 * 2, "layers, keys and values, heads, elements, bytes")
        rows = {row["module"]: row["bytes"] for row in server["weights"]}
        self.assertEqual(rows["model.layers.*.mlp.gate_up_proj"], 2 * 2 * 1024 * 2816 * 2)
        unattributed = sum(part["bytes"] for part in server["parts"] if part["name"] == "unattributed")
        self.assertLess(unattributed, server["total_bytes"] // 100)


harness.main()
