"""config.json of public models, from facts on their pages; `python3 models.py NAME FOLDER` writes one.

A plan needs only this: no weights, and no tokenizer.
"""

import json
import os
import sys

LLAMA3_ROPE = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
               "rope_type": "llama3"}
COMMON = {"dtype": "bfloat16", "tie_word_embeddings": False, "use_cache": True}


def model(architecture, kind, vocab, hidden, inner, layers, heads, kv_heads, positions, **more):
    return {"architectures": [architecture], "model_type": kind, "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "max_position_embeddings": positions, **COMMON, **more}


def compressed(kind, form):
    """A checkpoint with 8-bit weights, a scale for each channel, and activations that are scaled at run time."""
    def part(dynamic, strategy):
        return {"dynamic": dynamic, "num_bits": 8, "strategy": strategy, "symmetric": True, "type": kind}
    groups = {"group_0": {"targets": ["Linear"], "weights": part(False, "channel"),
                          "input_activations": part(True, "token")}}
    return {"quantization_config": {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
                                    "quantization_status": "compressed", "config_groups": groups}}


def llama3(hidden, inner, layers, heads, **more):
    return model("LlamaForCausalLM", "llama", 128256, hidden, inner, layers, heads, 8, 131072, hidden_act="silu",
                 rms_norm_eps=1e-5, rope_theta=500000.0, rope_scaling=LLAMA3_ROPE, attention_bias=False,
                 bos_token_id=128000, eos_token_id=128001, **more)


def qwen25(hidden, inner, layers, heads, kv_heads, **more):
    return model("Qwen2ForCausalLM", "qwen2", 152064, hidden, inner, layers, heads, kv_heads, 32768, hidden_act="silu",
                 rms_norm_eps=1e-6, rope_theta=1e6, use_sliding_window=False, bos_token_id=151643, eos_token_id=151645,
                 **more)


def qwen3(hidden, inner, layers, heads, **more):
    facts = {"head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6, "bos_token_id": 151643,
             "eos_token_id": 151645, **more}
    return model("Qwen3ForCausalLM", "qwen3", 151936, hidden, inner, layers, heads, 8, 40960, **facts)


def gemma2(hidden, inner, layers, heads, kv_heads, head_dim, scalar):
    return model("Gemma2ForCausalLM", "gemma2", 256000, hidden, inner, layers, heads, kv_heads, 8192,
                 head_dim=head_dim, query_pre_attn_scalar=scalar, sliding_window=4096, attn_logit_softcapping=50.0,
                 final_logit_softcapping=30.0, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                 rope_theta=10000.0, attention_bias=False, bos_token_id=2, eos_token_id=1, pad_token_id=0,
                 tie_word_embeddings=True)


def qwen3_moe(**more):
    return model("Qwen3MoeForCausalLM", "qwen3_moe", 151936, 2048, 6144, 48, 32, 4, 40960, head_dim=128,
                 hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e6, moe_intermediate_size=768, num_experts=128,
                 num_experts_per_tok=8, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                 bos_token_id=151643, eos_token_id=151645, **more)


FP8_BLOCKS = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
              "modules_to_not_convert": ["lm_head", *[f"model.layers.{layer}.mlp.gate" for layer in range(48)]]}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm",
                               "modules_to_not_convert": None}}
W4A16 = {"quantization_config": {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"], "quantization_status": "compressed",
    "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "weights": {
        "dynamic": False, "group_size": 128, "num_bits": 4, "strategy": "group", "symmetric": True, "type": "int"}}}}}
MXFP4 = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096}
FP8, INT8 = compressed("float", "float-quantized"), compressed("int", "int-quantized")
MODELS = {
    "llama-3.1-8b": llama3(4096, 14336, 32, 32),
    "llama-3.1-8b-w8a8": llama3(4096, 14336, 32, 32, **INT8),
    "llama-3.3-70b-fp8": llama3(8192, 28672, 80, 64, **FP8),
    "qwen2.5-7b": qwen25(3584, 18944, 28, 28, 4),
    "qwen2.5-7b-fp8": qwen25(3584, 18944, 28, 28, 4, **FP8),
    "qwen2.5-7b-w8a8": qwen25(3584, 18944, 28, 28, 4, **INT8),
    "qwen2.5-72b": qwen25(8192, 29568, 80, 64, 8),
    "qwen3-8b": qwen3(4096, 12288, 36, 32),
    "qwen3-8b-fp8": qwen3(4096, 12288, 36, 32, quantization_config=dict(FP8_BLOCKS, modules_to_not_convert=["lm_head"])),
    "qwen3-8b-w4a16": qwen3(4096, 12288, 36, 32, **W4A16),
    "qwen3-8b-awq": qwen3(4096, 12288, 36, 32, dtype="float16", **AWQ),
    "qwen3-0.6b": qwen3(1024, 3072, 28, 16, tie_word_embeddings=True),
    "qwen3-4b": model("Qwen3ForCausalLM", "qwen3", 151936, 2560, 9728, 36, 32, 8, 40960, head_dim=128,
                      hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True,
                      bos_token_id=151643, eos_token_id=151645),
    "qwen3-30b-a3b": qwen3_moe(),
    "qwen3-30b-a3b-fp8": qwen3_moe(quantization_config=FP8_BLOCKS),
    "qwen1.5-moe-a2.7b": model("Qwen2MoeForCausalLM", "qwen2_moe", 151936, 2048, 5632, 24, 16, 16, 8192,
                               hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e6, moe_intermediate_size=1408,
                               shared_expert_intermediate_size=5632, num_experts=60, num_experts_per_tok=4,
                               norm_topk_prob=False, decoder_sparse_step=1, bos_token_id=151643, eos_token_id=151643),
    "gemma-7b": model("GemmaForCausalLM", "gemma", 256000, 3072, 24576, 28, 16, 16, 8192, head_dim=256,
                      hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                      rope_theta=10000.0, bos_token_id=2, eos_token_id=1, pad_token_id=0, tie_word_embeddings=True),
    "gemma-2-2b": gemma2(2304, 9216, 26, 8, 4, 256, 256),
    "gemma-2-9b": gemma2(3584, 14336, 42, 16, 8, 256, 256),
    "gemma-2-27b": gemma2(4608, 36864, 46, 32, 16, 128, 144),
    "gpt-oss-20b": model("GptOssForCausalLM", "gpt_oss", 201088, 2880, 2880, 24, 64, 8, 131072, head_dim=64,
                         num_local_experts=32, num_experts_per_tok=4, sliding_window=128, initial_context_length=4096,
                         layer_types=["sliding_attention", "full_attention"] * 12, rope_theta=150000, rope_scaling=YARN,
                         rms_norm_eps=1e-5, attention_bias=True, swiglu_limit=7.0, hidden_act="silu",
                         eos_token_id=200002, pad_token_id=199999, **MXFP4),
    "granite-3.3-8b": model("GraniteForCausalLM", "granite", 49159, 4096, 12800, 40, 32, 8, 131072, hidden_act="silu",
                            rms_norm_eps=1e-5, rope_theta=1e7, attention_bias=False, mlp_bias=False,
                            attention_multiplier=0.0078125, embedding_multiplier=12.0, logits_scaling=16.0,
                            residual_multiplier=0.22, bos_token_id=0, eos_token_id=0, tie_word_embeddings=True),
    "phi-2": model("PhiForCausalLM", "phi", 51200, 2560, 10240, 32, 32, 32, 2048, hidden_act="gelu_new",
                   layer_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.4, qk_layernorm=False,
                   bos_token_id=50256, eos_token_id=50256, dtype="float16"),
    "small-hybrid": model("Gemma3ForCausalLM", "gemma3_text", 32000, 1024, 2816, 7, 4, 1, 32768, head_dim=256,
                          sliding_window=512, sliding_window_pattern=6, query_pre_attn_scalar=256, rms_norm_eps=1e-6,
                          rope_theta=1e6, rope_local_base_freq=10000.0, hidden_activation="gelu_pytorch_tanh",
                          tie_word_embeddings=True, bos_token_id=2, eos_token_id=1, pad_token_id=0),
    "small": model("LlamaForCausalLM", "llama", 32000, 1024, 2816, 2, 8, 4, 4096, head_dim=128, hidden_act="silu",
                   rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False, bos_token_id=1, eos_token_id=2),
}


def write(name, folder):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump(MODELS[name], file, indent=1)
    with open(os.path.join(path, "generation_config.json"), "w") as file:
        file.write("{}\n")
    return path


if __name__ == "__main__":
    print(write(*sys.argv[1:]))
