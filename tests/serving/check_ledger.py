#!/usr/bin/env python3
"""The ledger of a server: the engine's own figures and the recorded bytes add up to the device."""

import json
import os
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent)]
import asserted  # noqa: E402,F401
import harness  # noqa: E402

MIB = 1 << 20
PYTHON = harness.python_with_torch()


class Marks(unittest.TestCase):
    def test_numbers_and_engines_that_are_read_are_told(self):
        top = HERE.parent.parent
        reader = (top / "src/analysis/device/server.c").read_text()
        teller = (top / "python/libmemprof_torch/servers.py").read_text()
        numbers = re.findall(r'^    \{"(\w+)", "(\w+)", NUMBER', reader, re.MULTILINE)
        engines = re.findall(r'\.name = "(\w+)"', reader)
        self.assertGreater(len(numbers), 10)
        for kind, key in numbers:
            self.assertIn(f'mark("{kind}"', teller)
            self.assertRegex(teller, rf"\b{key}=")
        self.assertEqual(set(engines), set(re.findall(r'mark\("engine", name="(\w+)"', teller)))


@unittest.skipUnless(PYTHON, "no Python with PyTorch")
class Ledger(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.path, self.model = self.folder / "server.mp", self.folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text("{}")

    def record(self, length):
        result = harness.memprof("snapshot", "-o", self.path, "--stacks", "python", "--", PYTHON,
                                 HERE / "programs/serve.py", self.model, length)
        return result

    def test_a_server_that_fits(self):
        self.assertEqual(self.record(1000).returncode, 0)
        report = harness.answer("report", self.path)
        server = report["server"]
        weights = [{"module": "layers.*", "type": "float32", "bytes": 8 * MIB},
                   {"module": "head", "type": "float16", "bytes": MIB}]
        room, batch, sizes = "--gpu-memory-utilization 0.9", "--max-num-batched-tokens 64", "--max-cudagraph-capture-size 8"
        parts = [{"name": name, "detail": detail, "setting": setting, "bytes": size * MIB, "estimated": False}
                 for name, detail, setting, size in (
                     ("weights", "", "", 9), ("KV cache", "", room, 40),
                     ("activations", "of the profile run; free until a batch runs", batch, 7),
                     ("graphs", "pools", sizes, 4), ("libraries", "context, kernels, NCCL", "", 8),
                     ("free", "of it, by the utilisation, for others", room, 12))]
        graphs = [{"tokens": tokens, "pool_bytes": pool * MIB, "driver_bytes": driver * MIB}
                  for tokens, pool, driver in ((8, 4, 0), (4, 0, 1), (1, 0, 1))]
        self.assertEqual({**server, "settings": None}, {
            "engine": "vLLM", "version": "0.19.0", "settings": None, "ready": True, "tokens": 81913, "requests": 81,
            "concurrency": 81.92,
            "length": 1000, "blocks": 5120, "block_tokens": 16, "token_bytes": 512, "layers": 2, "cache_type": "int8",
            "weights_bytes": 9 * MIB, "activation_bytes": 7 * MIB, "cache_bytes": 40 * MIB, "total_bytes": 80 * MIB,
            "asleep_bytes": 0, "parts": parts, "weights": weights, "graphs": graphs})
        self.assertIn("max_num_batched_tokens=64", server["settings"])
        text = harness.memprof("report", self.path).stdout
        self.assertIn("SERVER  81 913 tokens of KV cache: 81.92 requests of 1 000\n", text)
        self.assertEqual(report["leaks"]["steps"]["count"], 4, "warm-up's end, and three batches")
        self.assertNotEqual(report["leaks"]["verdict"], "leak")

    def test_a_newer_engine(self):
        harness.memprof("snapshot", "-o", self.path, "--", PYTHON, HERE / "programs/serve.py", self.model, 1000,
                        env=dict(os.environ, NEWER="1"))
        self.assertEqual(harness.answer("report", self.path)["server"]["tokens"], 81911)

    def test_the_cache_is_no_parameter(self):
        self.record(1000)
        groups = {site["group"]: site["bytes"] for site in
                  harness.answer("peak", self.path, "--group", "category")["sites"]}
        self.assertEqual(groups["KV cache"], 40 * MIB)
        self.assertLess(groups.get("parameters", 0), 10 * MIB)

    def test_a_server_that_does_not_fit(self):
        self.assertNotEqual(self.record(100_000).returncode, 0)
        server = harness.answer("report", self.path)["server"]
        self.assertEqual(server["short"], {"needed_bytes": 51_200_000, "available_bytes": 40 * MIB, "longest": 81920,
                                           "least_utilization": 0.0, "least_tensor_parallel_size": 2,
                                           "would": ["--kv-cache-dtype fp8", "--max-num-seqs 1"]})
        self.assertFalse(server["ready"])
        self.assertIn("does not fit: one request of 100 000 tokens needs 48.8 MiB of KV cache, and 40.0 MiB is left; "
                      "what would: --max-model-len 81920, --kv-cache-dtype fp8, --max-num-seqs 1\n",
                      harness.memprof("report", self.path).stdout)

    def test_a_worker_that_multiprocessing_began(self):
        """The first line of such a worker's stacks is not the user's."""
        program = self.folder / "spawns.py"
        program.write_text("""import multiprocessing, torch
if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=torch.zeros, args=(1 << 20,))
    worker.start()
    worker.join()
""")
        harness.memprof("snapshot", "-o", f"{self.folder}/run/", "--", PYTHON, program)
        path, = (self.folder / "run").glob("*.mp")
        first = harness.memprof("report", path).stdout.partition("  1.  ")[2].partition("\n")[0]
        self.assertRegex(first, r"4\.00 MiB .* process\.py:\d+ BaseProcess\.run")

    def plan(self, *options):
        return harness.memprof("plan", *options, "--", PYTHON, HERE / "programs/serve.py", self.model, 1000)

    def test_settings_that_are_tried(self):
        result = self.plan("--json", "--try", "max_model_len=100000,load_format=fast")
        self.assertEqual(result.returncode, 0, result.stderr)
        trial = {"fits": "yes", "tokens": 81913, "requests": 81, "longest": 0, "weights_bytes": 9 * MIB,
                 "activation_bytes": 7 * MIB, "cache_bytes": 40 * MIB}
        longer = {**trial, "fits": "no", "tokens": 0, "requests": 0, "longest": 81920}
        self.assertEqual(json.loads(result.stdout)["trials"], [
            {"settings": "", **trial}, {"settings": "max_model_len=100000", **longer},
            {"settings": "load_format=fast", **trial}, {"settings": "max_model_len=100000,load_format=fast", **longer}])
        text = self.plan("--try", "max_model_len=2000").stdout
        self.assertRegex(text, r"81 913 +40 +9\.00 MiB +7\.00 MiB +40\.0 MiB  max_model_len=2000\n")

    def test_a_version_that_was_never_tried(self):
        metadata = self.folder / "vllm-9.9.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.9\n")
        result = harness.memprof("plan", "-o", self.path, "--", PYTHON, HERE / "programs/serve.py", self.model, 1000,
                                 env=dict(os.environ, PYTHONPATH=str(self.folder)))
        self.assertIn("memprof: vllm 9.9 was never tried under plan; 0.10.x, 0.19.x, 0.33.x were\n", result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_more_gpus_than_are_planned(self):
        result = harness.memprof("plan", "-o", self.path, "--", PYTHON, HERE / "programs/serve.py", self.model, 1000,
                                 env=dict(os.environ, MEMPROF_TRY="tensor_parallel_size=16"))
        self.assertIn("memprof: the server wants 16 GPUs: memprof plan --devices 16 plays as many, up to 8\n", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_a_model_that_is_not_there(self):
        result = harness.memprof("plan", "-o", self.path, "--", PYTHON, HERE / "programs/serve.py", "meta/nosuch", 1000)
        self.assertIn("memprof: the model is no folder here, and huggingface.co is out of reach: ", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_settings_that_are_not_there(self):
        for wanted, said in (("nosuch=1", "--try nosuch: vllm has no such setting"),):
            result = self.plan("--try", wanted)
            self.assertIn(said, result.stderr)
        self.assertEqual(self.plan("--try", "nosuch").returncode, 2)

    def test_equal_ranks(self):
        """One of them answers; stages of a pipeline are not equal."""
        said = [harness.memprof("plan", "--force", "-o", self.path, "--", PYTHON, HERE / "programs/one_rank.py", *sizes).stdout
                for sizes in ((4, 1), (1, 1), (2, 2))]
        self.assertEqual(said, ["OneRankExecutor\nrank 0\n[40, 40, 40, 40] 40 [True, True, True, True]\n",
                                "MultiprocExecutor\n", "MultiprocExecutor\n"])

    def test_the_last_line(self):
        """The last line says what is missing. The device's user is a child, and its file gets the name; a helper has
        none."""
        program = """import ctypes, subprocess, sys, libmemprof
if len(sys.argv) == 1:
    sys.exit(subprocess.run([sys.executable, __file__, "child"]).returncode)
cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context) and not cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 22))
for mark in sys.argv[1].split("; "):
    libmemprof.mark(f"server: {mark}")
sys.exit(1)
"""
        for facts, said in (("short checked=1 needed=9437184 available=4194304 longest=500 length=1000 try_max_num_seqs=8",
                             "one request of 1 000 tokens needs 9.00 MiB of KV cache, and 4.00 MiB is left; what would: "
                             "--max-model-len 500, --max-num-seqs 8"),
                            ("short checked=1 what=weights needed=9437184 available=4194304 try_tensor_parallel=4",
                             "the weights take 9.00 MiB, and 4.00 MiB is left; what would: --tensor-parallel-size 4"),
                            ("short checked=1 what=batch length=64 try_max_num_batched_tokens=16",
                             "memory ran out in the profile run of 64 tokens; what would: --max-num-batched-tokens 16"),
                            ("engine name=Other version=2; short checked=1 needed=9437184 available=4194304 longest=500 "
                             "length=1000", "one request of 1 000 tokens needs 9.00 MiB of KV cache, and 4.00 MiB is left; "
                             "what would: requests of at most 500")):
            source = self.folder / "server.py"
            source.write_text(program.replace('"child"', repr(facts)))
            result = harness.memprof("plan", "--force", "-o", self.path, "--", PYTHON, source)
            self.assertEqual(result.stderr.splitlines()[-1], f"memprof: does not fit: {said}")
            self.assertNotIn("failed", result.stderr)
            self.assertEqual(list(self.folder.glob("*.mp")), [self.path])
            report = harness.memprof("report", self.path).stdout
            self.assertNotIn("LEAKS", report)
            self.assertIn("\n  Other 2\n" if "Other" in facts else "\n  vLLM", report)

    def test_stand_ins_in_the_place_of_libraries_by_path(self):
        program = "import torch, ctypes; print(*[ctypes.CDLL(f'/nowhere/{name}')._name for name in %s])"
        names = ["libcudart.so.12", "libcudart.so.12.8.90", "libcudart.0a1b2c3d.so.12", "libcudart-0a1b2c3d.so.12"]
        result = harness.memprof("plan", "-o", self.path, "--", PYTHON, "-c", program % names, cwd=self.folder)
        paths = result.stdout.split()
        self.assertEqual(len(paths), 4, result.stderr)
        for path in paths:
            self.assertTrue(path.endswith("/softgpu/cuda/libcudart.so.12"), path)

    def test_weights_and_tokenizers_are_left_out(self):
        said = self.plan("-o", self.path).stdout
        self.assertIn("loads dummy, no tokenizer", said)
        (self.model / "tokenizer.json").write_text("{}")
        self.assertIn("loads dummy, a tokenizer", self.plan("-o", self.folder / "second.mp").stdout)
        for kind, said in (("Nosuch", "the engine does not know the architecture that the model's config.json names"),
                           ("Images", "copy them beside config.json, or plan it without images: --language-model-only")):
            (self.model / "config.json").write_text('{"architectures": ["%sForCausalLM"]}' % kind)
            result = self.plan("-o", self.folder / f"{kind}.mp")
            self.assertIn(said, result.stderr)
            self.assertNotIn("Traceback", result.stderr)
            self.assertEqual(result.returncode, 1)
        (self.model / "config.json").unlink()
        result = self.plan("-o", self.folder / "third.mp")
        self.assertIn("has no config.json: copy the model's own there", result.stderr)
        self.assertEqual(result.returncode, 1)


@unittest.skipUnless(PYTHON, "no Python with PyTorch")
class OfSGLang(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "server.mp"
        (self.folder / "config.json").write_text("{}")

    def run_it(self, command, length, tokens=65535):
        return harness.memprof(command, "-o", self.path, "--", PYTHON, HERE / "programs/serve_sglang.py", self.folder,
                               length, tokens)

    def test_a_server_that_fits(self):
        result = self.run_it("snapshot", 1000)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = harness.answer("report", self.path)
        server = report["server"]
        parts = [{"name": name, "detail": detail, "setting": setting, "bytes": size * MIB, "estimated": False}
                 for name, detail, setting, size in (
            ("weights", "", "", 8), ("KV cache", "", "--mem-fraction-static 0.75", 32),
            ("activations", "of the largest batch that was captured; free until one runs", "--chunked-prefill-size 64",
             4),
            ("graphs", "pools", "--cuda-graph-max-bs-prefill 32", 3), ("libraries", "context, kernels, NCCL", "", 6),
            ("free", "for batches", "--mem-fraction-static 0.75", 27))]
        self.assertEqual(server, {
            "engine": "SGLang", "version": "0.5.23", "ready": True, "tokens": 65535, "requests": 65, "concurrency": 65.53,
            "length": 1000,
            "settings": "utilization=0.75 chunked_prefill_size=64 tp_size=1 max_running_requests=16",
            "blocks": 65535, "block_tokens": 1, "token_bytes": 512, "layers": 2, "cache_type": "int8",
            "weights_bytes": 8 * MIB, "activation_bytes": 4 * MIB, "cache_bytes": 32 * MIB, "total_bytes": 80 * MIB,
            "asleep_bytes": 0, "parts": parts, "graphs": [],
            "weights": [{"module": "layers.*", "type": "float32", "bytes": 8 * MIB}]})
        self.assertEqual(report["leaks"]["steps"]["count"], 4, "start's end, and three batches")
        groups = {site["group"]: site["bytes"] for site in
                  harness.answer("peak", self.path, "--group", "category")["sites"]}
        self.assertEqual(groups["KV cache"], 32 * MIB)

    def test_a_server_that_does_not_fit(self):
        self.assertEqual(self.run_it("snapshot", 100_000).returncode, 0, "SGLang serves shorter requests")
        self.assertIn("does not fit: one request of 100 000 tokens needs 48.8 MiB of KV cache, and 32.0 MiB is left; "
                      "what would: --context-length 65535, --mem-fraction-static 0.961, --tp-size 2",
                      harness.memprof("report", self.path).stdout)

    def test_settings_of_a_plan(self):
        result = self.run_it("plan", 1000)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("loads dummy, no tokenizer, no request to itself", result.stdout)
        self.assertNotIn("is not as known", result.stderr)

    def test_a_server_that_does_not_start(self):
        result = self.run_it("plan", 1000, -1)
        self.assertEqual(result.returncode, 1)
        self.assertIn("memprof: SGLang did not start: Cannot find model module. 'OddModel' is not known\n", result.stderr)

    def test_kernels_that_nvcc_would_compile(self):
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import torch, device; "
                   "from sglang.kernels.jit.utils.compile.loader import load_jit; "
                   "device.take(1); torch.zeros = lambda *_, **__: device.torch.ones(1); "
                   "import deep_gemm; from flashinfer.jit.core import JitSpec; attention = JitSpec().build_and_load(); "
                   "assert attention.plan(5) is not None, 'FlashInfer runs only what it has a plan for'; "
                   "assert attention.plan.default(5) is not None; print(attention.run.default(6), load_jit('norm').forward(1, eps=2), load_jit('norm')['forward'](3), deep_gemm.fp8_gemm_nt(4))")
        result = harness.memprof("plan", "-o", self.path, "--", PYTHON, "-c", program, HERE / "programs",
                                 cwd=self.folder)
        self.assertEqual(result.stdout, "None None None None\n", result.stderr)


@unittest.skipUnless(PYTHON, "no Python with PyTorch")
class OfLmdeploy(harness.TestCase):
    def test_a_server_that_fits(self):
        path, program = self.folder / "server.mp", self.folder / "program.py"
        program.write_text(f"import sys; sys.path.insert(0, '{HERE}/programs'); import torch; "
                           f"from lmdeploy.pytorch.engine.engine import Engine; kept = Engine('{self.folder}', 1000)")
        result = harness.memprof("plan", "-o", path, "--", PYTHON, program)
        self.assertNotIn("is not as known", result.stderr)
        report = harness.answer("report", path)["server"]
        self.assertEqual((report["engine"], report["version"], report["ready"]), ("lmdeploy", "0.18.0", True))
        self.assertEqual({key: report[key] for key in ("tokens", "concurrency", "blocks", "block_tokens", "layers",
                                                       "weights_bytes", "activation_bytes", "cache_bytes")},
                         {"tokens": 65536, "concurrency": 65.54, "blocks": 1024, "block_tokens": 64, "layers": 2,
                          "weights_bytes": 8 * MIB, "activation_bytes": 4 * MIB, "cache_bytes": 32 * MIB})
        self.assertEqual(sum(part["bytes"] for part in report["parts"]), report["total_bytes"])


harness.main()
