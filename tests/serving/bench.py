#!/usr/bin/env python3
"""Compares plans of servers with engines' logs from real GPUs: a row for each public log whose model is in models.py.

    tests/serving/bench.py LOGS.tsv [-o results.tsv] [ROW...]     plans rows (all that results.tsv lacks)
    tests/serving/bench.py --table results.tsv LOGS.tsv           the table of misses

LOGS.tsv is `vllm-h100-v0.19.0.tsv` in $MEMPROF_TEST_DATA: numbers that llm-d-incubation/llm-d-planner read from its
runs with vLLM 0.19.0 on H100s, --gpu-memory-utilization 0.95. It may also be others.tsv or sglang.tsv next to this
file, whose rows name engine, device, model and settings. If a row says `compiled`, the real server found its compiled
code in vLLM's cache, and the row is planned twice: compiling takes memory during the profile run. A row takes 40 to 120 seconds of a core. memprof is found on
PATH, and python3 must have that engine: `tools/cuda-torch --engine vllm==0.19.0 tests/serving/bench.py ...`.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import models  # noqa: E402

# The beginning of a row's name -> the model, and its settings.
ROWS = [
    ("fp8dyn-llama-3-3-70b", "llama-3.3-70b-fp8", {}),
    ("redhatai-llama-3-3-70b-i", "llama-3.3-70b-fp8", {}),
    ("fp8dyn-redhatai-qwen2-5", "qwen2.5-7b-fp8", {}),
    ("google-gemma-2-27b", "gemma-2-27b", {}),
    ("google-gemma-2-2b", "gemma-2-2b", {}),
    ("google-gemma-7b", "gemma-7b", {}),
    ("ibm-granite-granite-3-3", "granite-3.3-8b", {}),
    ("meta-llama-llama-3--", "llama-3.1-8b", {}),
    ("meta-llama-llama-3---", "llama-3.1-8b", {}),
    ("meta-llama-llama-3-1-8b", "llama-3.1-8b", {}),
    ("meta-llama-llama--", "llama-3.1-8b", {}),
    ("meta-llama---", "llama-3.1-8b", {}),
    ("microsoft-phi-2", "phi-2", {}),
    ("moonshotai-kimi-dev-72b", "qwen2.5-72b", {}),
    ("qwen-qwen1-5-moe", "qwen1.5-moe-a2.7b", {}),
    ("qwen-qwen2-5-72b", "qwen2.5-72b", {}),
    ("qwen-qwen2-5-7b", "qwen2.5-7b", {}),
    ("qwen-qwen2---", "qwen2.5-7b", {}),
    ("qwen-qwen3-30b-a3b", "qwen3-30b-a3b", {}),
    ("w8a8-redhatai-llam", "llama-3.1-8b-w8a8", {}),
    ("w8a8-redhatai-qwen2-5-7b", "qwen2.5-7b-w8a8", {}),
]
# The error of the planner's KV cache in percent, by its own report: accuracy_report.md next to those logs.
PLANNER = {
    "google-gemma-2-27b": "-4.6", "google-gemma-2-2b": "-1.4", "ibm-granite-granite-3-3": "-6.0",
    "meta-llama---h100-80gb--tp1pp1dp1--8192-dtbf16-kvfp8": "-51.7", "meta-llama-llama-3---h100-80gb--tp1pp1dp1--8192-qfp8":
    "-13.2", "meta-llama-llama-3--h100-80gb--tp1pp1dp1--8192-dtf32": "+31.1", "meta-llama-llama-3-1-8b---h100-80gb--tp2": "+2.8",
    "meta-llama-llama-3-1-8b---h100-80gb--tp4": "+4.5", "meta-llama-llama": "-3.5",
    "qwen-qwen2---h100-80gb--tp1pp1dp1--8192-dtbf16-kvfp8": "-52.1", "qwen-qwen2-5-7b-instruct--h100-80gb--tp2": "+2.6",
    "qwen-qwen2-5-7b": "-4.2", "qwen-qwen3-30b-a3b": "-28.7",
}
MEASURES = ["weights_gib", "activations_gib", "non_torch_gib", "kv_gib", "kv_tokens", "graphs_gib"]
SAYS = {
    "vllm": {"weights_gib": r"Model loading took ([\d.]+) GiB", "kv_tokens": r"GPU KV cache size: ([\d,]+) tokens",
             "kv_gib": r"Available KV cache memory: ([\d.]+) GiB", "graphs_gib": r"CUDA graph pool memory: ([\d.]+) GiB",
             "activations_gib": r"torch_peak_increase=(\d+)|torch peak memory increase: ([\d.]+)GiB",
             "non_torch_gib": r"non-torch forward increase memory: ([\d.]+)GiB"},
    "sglang": {"weights_gib": r"Load weight end.*mem usage=([\d.]+) GB", "kv_tokens": r"max_total_num_tokens=(\d+)",
               "kv_gib": r"K size: ([\d.]+) GB", "graphs_gib": r"prefill CUDA graph end.*mem usage=([\d.]+) GB"},
}


def settings_of(log):
    """Engine, model and settings: from the row, or from its name."""
    row = log.get("run", "")
    if log.get("model"):
        return log["engine"], log["model"], json.loads(log["settings"])
    found = [(name, more) for start, name, more in ROWS if row.startswith(start)]
    shape = re.search(r"--tp(\d+)pp(\d+)dp(\d+)--(\d+)((?:-\w+)*)", row)
    if not found or not shape or row.endswith("FAILED"):
        return None
    name, more = found[0]
    settings = {"tensor_parallel_size": int(shape[1]), "pipeline_parallel_size": int(shape[2]),
                "max_model_len": int(shape[4]), **more}
    for word in shape[5].split("-"):
        if word == "kvfp8":
            settings["kv_cache_dtype"] = "fp8"
        elif word == "qfp8":
            settings["quantization"] = "fp8"
        elif word.startswith("dt"):
            settings["dtype"] = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[word[2:]]
    return "vllm", name, settings


def device_of(wanted, folder):
    """A name, or "NAME total=BYTES ..." for another card of its kind, or if a log has its own total."""
    name, *changes = wanted.split()
    if not changes:
        return name
    with open(os.path.join(HERE, "..", "..", "src", "softgpu", "devices")) as file:
        section = file.read().partition(f"\n[{name}]\n")[2].partition("\n[")[0]
    path = os.path.join(folder, "device")
    with open(path, "w") as file:
        for key, value in (change.split("=") for change in changes):
            section = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", section)
        file.write(f"[{name}]\n{section}\n")
    return path


def plan(log, folder):
    engine, name, settings = settings_of(log)
    path = models.write(name, folder)
    said = os.path.join(folder, "log")
    devices = settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1)
    device = device_of(log.get("device") or "h100-80gb", folder)
    command = ["memprof", "plan", "--device", device, "--devices", str(devices), "--stacks", "none", "--no-symbols", "-o",
               folder + "/run.mp", "--force", "--", "python3", os.path.join(HERE, "engine.py"), engine, path,
               json.dumps(settings)]
    begun = time.time()
    for _ in range(2 if log.get("compiled") else 1):
        with open(said, "w") as file:
            status = subprocess.run(command, stdout=file, stderr=file, timeout=3600, env=dict(
                os.environ, VLLM_LOGGING_LEVEL="DEBUG", VLLM_CACHE_ROOT=folder + "/cache",
                TORCHINDUCTOR_CACHE_DIR=folder + "/cache/inductor")).returncode
    text = open(said).read()
    result = {"row": log["run"], "status": status, "seconds": round(time.time() - begun, 1)}
    for measure, pattern in SAYS[engine].items():
        found = re.search(pattern, text)
        if found:
            number = next(group for group in found.groups() if group).replace(",", "")
            result[measure] = int(number) / 2**30 if "_increase=" in found[0] else float(number)
    return result, text


def read(path):
    with open(path) as file:
        return {row["run" if "run" in row else "row"]: row for row in csv.DictReader(file, delimiter="\t")}


def number(row, measure):
    try:
        return float(row[measure])
    except (KeyError, TypeError, ValueError):
        return None


def share_within(misses, bound):
    return f"{sum(abs(miss) <= bound + 1e-9 for miss in misses)} of {len(misses)}"


def table(results, logs):
    print("| run | weights GiB | activations GiB | KV tokens | planned | off | planner |\n|---|---|---|---|---|---|---|")
    misses, parts = [], {"weights": [], "activations": []}
    for name, planned in sorted(results.items()):
        real = logs[name]
        pairs = [(number(real, m), number(planned, m)) for m in ("weights_gib", "activations_gib", "kv_tokens")]
        if None in pairs[2]:
            print(f"| {name} | no plan |")
            continue
        off = 100 * (pairs[2][1] / pairs[2][0] - 1)
        misses.append((abs(off), name))
        for part, pair in zip(parts, pairs):
            if None not in pair:
                parts[part].append(pair[1] - pair[0])
        shown = ["–" if None in pair else f"{pair[0]:.2f} {pair[1] - pair[0]:+.2f}" for pair in pairs[:2]]
        planner = next((off for start, off in PLANNER.items() if name.startswith(start)), "")
        print(f"| {name.replace('--h100-80gb', '')} | {shown[0]} | {shown[1]} | {pairs[2][0]:.0f} | {pairs[2][1]:.0f} | "
              f"{off:+.3f} % | {planner}{planner and ' %'} |")
    misses.sort()
    if misses:
        several = [miss for miss, name in misses if re.search(r"tp[2-9]|pp[2-9]", name)]
        alone = [miss for miss, name in misses if not re.search(r"tp[2-9]|pp[2-9]", name)]
        print(f"\n{len(misses)} rows. Weights within 0.02 GiB: {share_within(parts['weights'], 0.02)}; activations within "
              f"0.03 GiB: {share_within(parts['activations'], 0.03)}; KV tokens on one GPU within 0.1 %: "
              f"{share_within(alone, 0.1)}, on several within 0.5 %: {share_within(several, 0.5)}; median "
              f"{misses[len(misses) // 2][0]:.3f} %, worst {misses[-1][0]:.3f} % ({misses[-1][1]})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("logs")
    parser.add_argument("rows", nargs="*")
    parser.add_argument("-o", default="serving.tsv")
    parser.add_argument("--table")
    given = parser.parse_intermixed_args()
    logs = read(given.logs)
    if given.table:
        return table(read(given.table), logs)
    done = read(given.o) if os.path.exists(given.o) else {}
    rows = given.rows or [row for row in logs if row not in done]
    for row in rows:
        if not settings_of(logs[row]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            result, text = plan(logs[row], folder)
        if result["status"] or "kv_tokens" not in result:
            print(text[-3000:], file=sys.stderr)
        fresh = not os.path.exists(given.o)
        with open(given.o, "a") as file:
            writer = csv.DictWriter(file, ["row", "status", "seconds", *MEASURES], delimiter="\t")
            if fresh:
                writer.writeheader()
            writer.writerow(result)
        print(result, flush=True)


if __name__ == "__main__":
    main()
