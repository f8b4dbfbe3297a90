"""Trains UMT5 on proverbs and their explanations with Adafactor; an average of the weights is what will be published."""
import sys

import torch
from transformers import UMT5Config, UMT5ForConditionalGeneration
from transformers.optimization import Adafactor

FIXED = "--fixed" in sys.argv


class Average:
    """An exponential moving average of the parameters."""

    def __init__(self, model, decay, device):
        self.decay, self.device = decay, device
        self.shadow = {n: p.detach().to(device, copy=True) for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p.detach().to(self.device), alpha=1 - self.decay)

    def state_dict(self):
        return {n: t.cpu() for n, t in self.shadow.items()}


def proverbs(n, batch=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        ids = torch.randint(3, 24000, (batch, 24), generator=generator)
        labels = torch.randint(3, 24000, (batch, 32), generator=generator)
        yield {"input_ids": ids.to("cuda"), "attention_mask": torch.ones_like(ids).to("cuda"), "labels": labels.to("cuda")}


def main():
    config = UMT5Config(vocab_size=24000, d_model=512, d_kv=64, d_ff=1536, num_layers=8, num_decoder_layers=8, num_heads=8,
                        decoder_start_token_id=0, pad_token_id=0)
    model = UMT5ForConditionalGeneration(config).to("cuda")
    average = Average(model, 0.999, "cpu" if FIXED else "cuda")
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False)
    model.train()
    for step, batch in enumerate(proverbs(6)):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 2 == 1:
            average.update(model)
        print("step", step, "loss", loss.item())
    print("tensors to publish:", len(average.state_dict()))


main()
