import dataclasses


@dataclasses.dataclass
class EngineArgs:
    model: str
    max_model_len: int
    load_format: str = "auto"
    skip_tokenizer_init: bool = False

    def __post_init__(self):
        print(f"loads {self.load_format}, {'no tokenizer' if self.skip_tokenizer_init else 'a tokenizer'}", flush=True)
