import dataclasses
import os


@dataclasses.dataclass
class EngineArgs:
    model: str
    max_model_len: int
    load_format: str = "auto"
    skip_tokenizer_init: bool = False
    tensor_parallel_size: int = 1

    def __post_init__(self):
        print(f"loads {self.load_format}, {'no tokenizer' if self.skip_tokenizer_init else 'a tokenizer'}", flush=True)

    def create_engine_config(self):
        if not os.path.isdir(self.model):
            raise OSError("We couldn't connect to 'https://huggingface.co' to load the files.")
        with open(os.path.join(self.model, "config.json")) as file:
            config = file.read()
        if "Nosuch" in config:
            raise ValueError("the engine does not recognize this architecture")
        if "Images" in config:
            raise ValueError("OddMultiModalProcessor requires a tokenizer and cannot be initialized")
        if self.tensor_parallel_size > 1:
            raise ValueError("World size (16) is larger than the number of available GPUs (1) in this node.")
        return self.max_model_len
