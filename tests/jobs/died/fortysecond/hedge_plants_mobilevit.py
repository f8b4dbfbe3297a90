"""Fine-tunes MobileViTV2 on photographs of hedge plants. Two epochs, a validation after each.

    python hedge_plants_mobilevit.py
"""
import sys
from contextlib import nullcontext

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import MobileViTV2Config, MobileViTV2ForImageClassification, get_cosine_schedule_with_warmup

PLANTS = ["hawthorn", "blackthorn", "hazel", "holly", "elder", "dog rose", "field maple", "spindle", "bramble", "ivy", "privet", "dogwood"]
without_graph = torch.no_grad if "--fixed" in sys.argv else nullcontext


def photographs(n, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.rand(n, 3, 256, 256, generator=g), torch.randint(0, len(PLANTS), (n,), generator=g))


def train_one_epoch(model, loader, optimizer, scheduler):
    model.train()
    for pixels, labels in loader:
        out = model(pixel_values=pixels.cuda(non_blocking=True), labels=labels.cuda(non_blocking=True))
        out.loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return out.loss.item()


def validate(model, loader):
    model.eval()
    losses, hits, n = [], 0, 0
    with without_graph():
        for pixels, labels in loader:
            labels = labels.cuda()
            out = model(pixel_values=pixels.cuda(), labels=labels)
            losses.append(out.loss)
            hits += (out.logits.argmax(-1) == labels).sum().item()
            n += len(labels)
    return torch.stack(losses).mean().item(), hits / n


def main():
    torch.manual_seed(5)
    config = MobileViTV2Config(num_labels=len(PLANTS), width_multiplier=1.0, image_size=256,
                               id2label=dict(enumerate(PLANTS)), label2id={p: i for i, p in enumerate(PLANTS)})
    model = MobileViTV2ForImageClassification(config).to("cuda")
    train = DataLoader(photographs(72, 1), batch_size=12, shuffle=True, pin_memory=True)
    valid = DataLoader(photographs(60, 2), batch_size=12, pin_memory=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 2, 2 * len(train))
    for epoch in range(2):
        loss = train_one_epoch(model, train, optimizer, scheduler)
        valid_loss, accuracy = validate(model, valid)
        print(f"epoch {epoch}: loss {loss:.3f}, validation loss {valid_loss:.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
