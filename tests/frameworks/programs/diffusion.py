"""A diffusion model of images, trained and then sampled, by diffusers."""
import sys

import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
unet = UNet2DModel(sample_size=32, block_out_channels=(32, 64), layers_per_block=1,
                   down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                   up_block_types=("AttnUpBlock2D", "UpBlock2D")).cuda()
ema, noises = EMAModel(unet.parameters()), DDPMScheduler(1000)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
kept = []
for step in range(STEPS):
    images = torch.randn(4, 3, 32, 32, device="cuda")
    noise, times = torch.randn_like(images), torch.randint(0, 1000, (4,), device="cuda")
    predicted = unet(noises.add_noise(images, noise, times), times).sample
    torch.nn.functional.mse_loss(predicted, noise).backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    ema.step(unet.parameters())
    if LEAK:
        kept.append(predicted)
pipeline = DDPMPipeline(unet, noises)
pipeline.set_progress_bar_config(disable=True)
pipeline(batch_size=2, num_inference_steps=4, output_type="pt")
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
