"""vLLM's engine with requests whose answers are retained: generate.py MODEL ROUNDS"""

import sys

if __name__ == "__main__":
    from vllm import LLM, SamplingParams
    engine = LLM(sys.argv[1], load_format="dummy", skip_tokenizer_init=True, max_model_len=2048)
    sampling = SamplingParams(max_tokens=8, min_tokens=8, ignore_eos=True, detokenize=False)
    answers = []
    for number in range(int(sys.argv[2])):
        requests = [{"prompt_token_ids": [1 + (7 * number + i) % 100 for i in range(64)]} for _ in range(4)]
        answers += engine.generate(requests, sampling, use_tqdm=False)
    print(len(answers), "answers")
