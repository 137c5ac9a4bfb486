"""A LightningModule with validation, mixed precision and accumulation."""
import sys

import lightning
import torch

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
        self.head = torch.nn.Linear(512, 10)
        self.outputs = []

    def training_step(self, batch, index):
        inputs, labels = batch
        scores = self.head(self.body(inputs))
        if LEAK:
            self.outputs.append(scores)
        return torch.nn.functional.cross_entropy(scores, labels)

    def validation_step(self, batch, index):
        self.log("accuracy", (self.head(self.body(batch[0])).argmax(-1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), fused=True)


data = torch.utils.data.TensorDataset(torch.randn(4096, 256), torch.randint(0, 10, (4096,)))
trainer = lightning.Trainer(max_steps=STEPS, accumulate_grad_batches=2, precision="bf16-mixed", accelerator="gpu",
                            devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False, limit_val_batches=2)
trainer.fit(Classifier(), torch.utils.data.DataLoader(data, 32), torch.utils.data.DataLoader(data, 64))
print("STEPS", trainer.global_step)
print("PEAK", torch.cuda.max_memory_allocated())
