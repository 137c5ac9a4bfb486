"""TorchTitan's own trainer of Llama 3.1, as its benchmarks run it, on random tokens.
The arguments are TorchTitan's. `--compiled-loss` keeps the compiled loss of TorchTitan 0.1.0: the trainer of December 2024
had none."""
import sys
from unittest import mock

# TorchTitan imports these only for data sets and logs, which this program does not have.
for name in ("datasets", "datasets.distributed", "tiktoken", "tiktoken.load", "torch.utils.tensorboard", "torchdata",
             "torchdata.stateful_dataloader"):
    sys.modules[name] = mock.MagicMock()
sys.modules["torchdata.stateful_dataloader"].StatefulDataLoader = type("Base", (), {})

import torch  # noqa: E402
import torchtitan.models.llama3  # noqa: E402, F401
import torchtitan.train  # noqa: E402
from torchtitan.components.loss import cross_entropy_loss  # noqa: E402
from torchtitan.config_manager import ConfigManager  # noqa: E402
from torchtitan.protocols.train_spec import get_train_spec  # noqa: E402

VOCABULARY = 128256


class Tokenizer:
    n_words, eos_id = VOCABULARY, VOCABULARY - 1


class Batches:
    def __init__(self, dp_world_size, dp_rank, tokenizer, job_config):
        self.shape = job_config.training.local_batch_size, job_config.training.seq_len + 1

    def __iter__(self):
        while True:
            tokens = torch.randint(0, VOCABULARY, self.shape)
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


arguments = sys.argv[1:]
specification = get_train_spec("llama3")
specification.build_tokenizer_fn = lambda job_config: Tokenizer()
specification.build_dataloader_fn = Batches
if "--compiled-loss" in arguments:
    arguments.remove("--compiled-loss")
else:
    specification.build_loss_fn = lambda job_config: cross_entropy_loss
trainer = torchtitan.train.Trainer(ConfigManager().parse_args(arguments))
trainer.train()
