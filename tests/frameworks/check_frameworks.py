#!/usr/bin/env python3
"""Programs of frameworks as users write them, planned and recorded on the stand-in GPU. The peak is PyTorch's own to
the byte. Output and status are the program's, steps the framework's, blocks have the right categories and modules, and
a planted leak is named. The long form makes the environment (6 GB); without it, the test is skipped."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests" / "plan")]
sys.dont_write_bytecode = True
import experts  # noqa: E402
import harness  # noqa: E402

PACKAGES = "transformers accelerate peft trl lightning torchvision timm diffusers torchao bitsandbytes deepspeed".split()
STEPS, LEAKED = 4, 24
MIB = 1 << 20

ADAM = {"parameters", "optimizer state", "activations"}
PROGRAMS = {  # name: words of the command, categories at the peak, a module of it; the line that leaks; or None
    "trainer": (["trainer.py"], ADAM | {"gradients"}, r"lm_head", "kept.append"),
    "generate": (["generate.py"], {"parameters", "kept over calls"}, r"model\.layers", None),
    "accelerated": (["accelerated.py"], ADAM, "2", "model(inputs))"),
    "lora": (["lora.py"], ADAM, r"base_model\.model", "model(input_ids"),
    "qlora": (["qlora.py"], ADAM, r"base_model\.model", "model(input_ids"),
    "sft": (["sft.py"], ADAM, r"self_attn\.q_proj", "kept.append"),
    "dpo": (["sft.py", "dpo"], {"parameters", "optimizer state"}, r"LlamaForCausalLM#2\.", "kept.append"),
    "lightning": (["lightning_fit.py"], ADAM | {"gradients"}, r"body\.2", "self.head(self.body(inputs))"),
    "vision": (["vision.py"], ADAM | {"gradients"}, r"layer", "images.cuda"),
    "timm": (["timm_amp.py"], ADAM, r"blocks", "forward_features"),
    "diffusion": (["diffusion.py"], ADAM, r"blocks", "unet("),
    "quantized": (["quantized.py"], {"parameters", "optimizer state"}, "Sequential#2", "teacher(inputs)"),
    "compiled": (["compiled.py"], ADAM, '"Sequential"', "compiled(torch.randn"),
    "ddp": (["ranks.py"], ADAM | {"communication"}, r"layers", "model(torch.randn"),
    "fsdp": (["ranks.py", "fsdp"], ADAM | {"communication"}, r"layers", "model(torch.randn"),
    "zero1": (["zero.py", "stage1"], {"parameters", "optimizer state"}, '"6"', "engine(torch.randn"),
    "zero2": (["zero.py", "stage2"], {"parameters", "optimizer state"}, '"6"', "engine(torch.randn"),
    "zero3": (["zero.py", "stage3"], {"optimizer state"}, '"6"', "engine(torch.randn"),
    "zero3_offload": (["zero.py", "stage3", "offload"], {"activations", "communication"}, '"6"', "engine(torch.randn"),
}
RANKS = {"ddp", "fsdp"}
# How far a plan that spreads tokens evenly may be off. Without dropped tokens, all experts get as much as the fullest one.
EXPERTS = {"mixtral": 0.01, "qwen3_moe": 0.01, "deepspeed_top1": 0.01, "deepspeed_top2": 0.01, "deepspeed_no_drop": 0.05}


def in_environment():
    """Continues in the environment of tools/cuda-torch."""
    os.environ.setdefault("MEMPROF_BUILD", os.getcwd())
    os.environ.pop("PYTHON3", None)
    tool = [str(SOURCE / "tools" / "cuda-torch")]
    for package in PACKAGES:
        tool += ["--with", package]
    caches = os.environ.get("MEMPROF_ENVIRONMENTS") or os.path.expanduser("~/.cache/memprof")
    made = pathlib.Path(caches, "torch+" + "+".join(PACKAGES), "made")
    if not made.exists() and not os.environ.get("MEMPROF_TEST_LONG"):
        print("the short form leaves this out: the environment with the frameworks (6 GB) is not there")
        sys.exit(77)
    if subprocess.run([*tool, "true"], env={**os.environ, "DS_BUILD_OPS": "0"}).returncode:
        print("tools/cuda-torch could not make its environment")
        sys.exit(77)
    os.environ["MEMPROF_IN_FRAMEWORKS"] = "1"
    os.execv(tool[0], [*tool, "python3", *sys.argv])


class Frameworks(harness.TestCase):
    inductor = pathlib.Path(tempfile.mkdtemp(prefix="memprof-test-"))  # what was compiled once is taken again

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.inductor, ignore_errors=True)

    def execute(self, name, count, leak=False, how="plan", options=()):
        """The program's output, and the recordings of processes that allocated on a device."""
        words = PROGRAMS[name][0]
        command = ["python3", HERE / "programs" / words[0], str(count), *words[1:], *(["leak"] if leak else [])]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTORCH")}
        environment.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false",
                           TORCHINDUCTOR_CACHE_DIR=str(self.inductor))
        if name in RANKS:
            command = ["torchrun", "--nproc-per-node", "2", *command[1:]]
            options = [*options, *(["--devices", "2"] if how == "plan" else [])]
            environment.update(SOFTGPU_DEVICES="2")
        elif "zero" in name:
            environment.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
        folder = self.folder / f"{how}-{count}"
        recorder = [harness.MEMPROF, how, *options, "-o", f"{folder}/", "--"] if how else []
        result = subprocess.run([*recorder, *map(str, command)], text=True, capture_output=True, timeout=600,
                                env=environment, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr[-4000:])
        answers = [(path, harness.answer("info", path, status=(0, 4))) for path in sorted(folder.glob("*.mp"))]
        return result.stdout, [(path, info) for path, info in answers if any(
            re.fullmatch(r"cuda:\d/torch", track["id"]) for track in info["tracks"])]

    def assert_peaks(self, output, recordings):
        """PyTorch's own, to the byte."""
        said = sorted(map(int, re.findall(r"^PEAK (\d+)$", output, re.M)))
        found = sorted(track["peak_bytes"] for _, info in recordings for track in info["tracks"]
                       if re.fullmatch(r"cuda:\d/torch", track["id"]))
        self.assertTrue(said)
        self.assertEqual(found, said)

    def planned(self, name):
        output, recordings = self.execute(name, STEPS)
        self.assert_peaks(output, recordings)
        _, categories, module, _ = PROGRAMS[name]
        steps = re.findall(r"^STEPS (\d+)$", output, re.M)
        for path, info in recordings:
            if steps:
                self.assertEqual([(info["steps"]["count"], info["steps"]["source"])], [(int(steps[0]), "torch")])
            peak = harness.answer("peak", path, "--limit", "1000", status=(0, 4))
            self.assertLessEqual(categories, {(one["category"] or "other").replace("_", " ") for one in peak["categories"]})
            if module:
                self.assertRegex(json.dumps(peak["sites"]), module)

    def leaks(self, name):
        """The first leak names the program's line that allocates or holds."""
        line = PROGRAMS[name][3]
        if line is None:
            return
        # Outside of a plan, DDP notices that the stand-in of NCCL sends no values, and refuses.
        how = {} if name == "ddp" else {"how": "snapshot", "options": ["--holders"]}
        output, recordings = self.execute(name, LEAKED, leak=True, **how)
        if how:
            alone, _ = self.execute(name, LEAKED, leak=True, how=None)
            # Times differ, and peaks by blocks that autograd's threads still hold.
            self.assertEqual(*(re.sub(r"\d+\.\d+|PEAK \d+", "", text) for text in (output, alone)))
        self.assert_peaks(output, recordings)
        source = HERE / "programs" / PROGRAMS[name][0][0]
        number = next(n for n, text in enumerate(source.read_text().splitlines(), 1) if line in text)
        texts = [harness.memprof("leaks", path).stdout for path, _ in recordings]
        self.assertTrue(any(text.startswith("leak: ") and f"{source.name}:{number}" in text for text in texts), texts)


    @unittest.skipUnless(os.environ.get("MEMPROF_TEST_LONG"), "the short form leaves this out: five experts, a minute each")
    def test_experts(self):
        for library, off in EXPERTS.items():
            with self.subTest(library):
                experts.assert_near(self, library, off, {**os.environ, "OMP_NUM_THREADS": "1"})


def add(name):
    def test(self):
        self.planned(name)
        if os.environ.get("MEMPROF_TEST_LONG"):
            self.leaks(name)

    setattr(Frameworks, f"test_{name}", test)


for each in PROGRAMS:
    add(each)

if __name__ == "__main__":
    if "MEMPROF_IN_FRAMEWORKS" not in os.environ:
        in_environment()
    harness.main()
