"""Names 60 mosses in photographs through a hand lens: ConvNeXt V2 under accelerate, validated after each epoch."""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import ConvNextV2Config, ConvNextV2ForImageClassification, get_cosine_schedule_with_warmup

FIXED = "--fixed" in sys.argv
SPECIES = 60


class Mosses(Dataset):
    """Photographs of 160 pixels a side, made up from their number."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(self.first + i)
        return {"pixel_values": torch.rand(3, 160, 160, generator=generator), "labels": (self.first + i) % SPECIES}


def validate(model, loader, accelerator):
    model.eval()
    total, right, seen = 0, 0, 0
    for batch in loader:
        if FIXED:
            with torch.no_grad():
                out = model(**batch)
        else:
            out = model(**batch)
        total += out.loss * len(batch["labels"])
        guesses, labels = accelerator.gather_for_metrics((out.logits.argmax(-1), batch["labels"]))
        right += (guesses == labels).sum().item()
        seen += len(labels)
    model.train()
    return total.item() / seen, right / seen


def main():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    set_seed(12)
    model = ConvNextV2ForImageClassification(ConvNextV2Config(
        depths=[2, 2, 6, 2], hidden_sizes=[64, 128, 256, 512], num_labels=SPECIES, drop_path_rate=0.1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.05)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 40)
    train = DataLoader(Mosses(0, 96), batch_size=12, shuffle=True, drop_last=True)
    valid = DataLoader(Mosses(10000, 120), batch_size=12)
    model, optimizer, schedule, train, valid = accelerator.prepare(model, optimizer, schedule, train, valid)
    for epoch in range(2):
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        loss, accuracy = validate(model, valid, accelerator)
        accelerator.print(f"epoch {epoch}: validation loss {loss:.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
