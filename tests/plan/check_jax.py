#!/usr/bin/env python3
"""`memprof plan` of JAX: XLA's compiler and allocator run on the stand-in GPU, and its report has XLA's own numbers. The
long form alone."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
sys.dont_write_bytecode = True
import harness  # noqa: E402

PROGRAM = """import json, sys, jax, jax.numpy as jnp
def program(function, *shapes):
    arguments = [jnp.zeros(shape) for shape in shapes]
    compiled = jax.jit(function).lower(*arguments).compile()
    results = compiled(*arguments)
    jax.block_until_ready(results)
    needs = compiled.memory_analysis()
    print(json.dumps({"peak": needs.peak_memory_in_bytes, "argument": needs.argument_size_in_bytes,
                      "output": needs.output_size_in_bytes, "temporary": needs.temp_size_in_bytes}))
    device = jax.devices()[0]
    print(device.platform, device.memory_stats()["peak_bytes_in_use"], device.memory_stats()["bytes_limit"])

def layers(weights, x):
    for _ in range(8):
        x = jnp.tanh(x @ weights)
    return (x ** 2).sum()

def attention(x):
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", x, x))
    return jnp.einsum("bhqk,bkhd->bqhd", scores, x).sum()
"""
PROGRAMS = {
    "gradients": "program(jax.grad(layers), (2048, 2048), (512, 2048))",
    "attention": "program(jax.grad(attention), (2, 1024, 16, 64))",
    "convolution": "program(jax.grad(lambda k, x: jax.lax.conv(x, k, (1, 1), 'SAME').sum()), (64, 32, 3, 3), "
                   "(16, 32, 128, 128))",
}


class Jax(harness.TestCase):
    def plan(self, text, status=0):
        program = self.folder / "train.py"
        program.write_text(PROGRAM + text)
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("SOFTGPU", "XLA", "JAX"))}
        result = subprocess.run(
            [SOURCE / "tools" / "cuda-torch", "--engine", "jax[cuda13]", "memprof", "plan", "--force", "-o", "plan.mp", "--",
             "python3", program], capture_output=True, text=True, cwd=self.folder, timeout=4 * harness.TIMEOUT,
            env=dict(variables, MEMPROF_BUILD=str(harness.BUILD)))
        self.assertEqual(result.returncode, status, result.stderr[-4000:])
        self.assertNotIn("does not imitate", result.stderr)
        self.assertNotIn("PyTorch", result.stderr)
        return result, harness.answer("info", self.folder / "plan.mp")["plan"]["xla"]

    def test_programs_need_what_xla_says(self):
        for name, text in PROGRAMS.items():
            with self.subTest(name):
                result, xla = self.plan(text)
                needs, device = result.stdout.splitlines()
                self.assertEqual({key: xla[f"{key}_bytes"] for key in json.loads(needs)}, json.loads(needs))
                self.assertEqual(f"gpu {xla['held_bytes']} {xla['limit_bytes']}", device)
                self.assertIn("fits, with", result.stderr)

    def test_what_does_not_fit(self):
        result, xla = self.plan("program(lambda x: x.sum(), (1 << 20, 16 << 10))", status=1)
        self.assertIn("does not fit: memory ran out; XLA's allocator held", result.stderr)


if __name__ == "__main__":
    if not os.environ.get("MEMPROF_TEST_LONG"):
        print("the short form leaves this out: it installs JAX for CUDA, 5 GB")
        sys.exit(77)
    harness.main()
