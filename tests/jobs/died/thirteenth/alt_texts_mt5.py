"""Fine-tunes a small mT5 to write alt texts for screen readers; eight small batches make one update."""
import sys

import torch
from transformers import MT5Config, MT5ForConditionalGeneration, get_linear_schedule_with_warmup

ACCUMULATE = 8


def make():
    config = MT5Config(vocab_size=5000, d_model=320, d_kv=64, d_ff=768, num_layers=4, num_heads=5, decoder_start_token_id=0)
    return MT5ForConditionalGeneration(config).to("cuda")


def batches(n):
    generator = torch.Generator().manual_seed(9)
    for _ in range(n):
        ids = torch.randint(1, 5000, (4, 160), generator=generator)
        labels = torch.randint(1, 5000, (4, 40), generator=generator)
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


class Updates:
    """Groups micro-batches, and makes an update of each group."""

    def __init__(self, model, fixed):
        self.model, self.fixed = model, fixed
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, 1, 10)

    def group(self, batches):
        losses = []
        for batch in batches:
            batch = {k: v.to("cuda") for k, v in batch.items()}
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.model(**batch).loss / ACCUMULATE
            if self.fixed:
                loss.backward()
                loss = loss.detach()
            losses.append(loss)
        total = torch.stack(losses).sum()
        if not self.fixed:
            total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return total.item()


def main():
    model = make()
    model.train()
    updates = Updates(model, "--fixed" in sys.argv)
    waiting = []
    for batch in batches(3 * ACCUMULATE):
        waiting.append(batch)
        if len(waiting) == ACCUMULATE:
            print("update", updates.group(waiting))
            waiting = []


main()
