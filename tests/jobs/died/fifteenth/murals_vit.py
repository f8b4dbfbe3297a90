"""Tells the workshop that painted a mural; a ViT with fine patches, since brush strokes matter."""
import sys

import torch
from transformers import ViTConfig, ViTForImageClassification

WORKSHOPS = 17


def build():
    config = ViTConfig(image_size=384, patch_size=8, hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768,
                       num_labels=WORKSHOPS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "sdpa" if "--fixed" in sys.argv else "eager"  # eager: so that attention maps could be drawn
    return ViTForImageClassification(config)


def augment(photo, generator):
    if torch.rand(1, generator=generator) < 0.5:
        photo = photo.flip(-1)
    shift = int(torch.randint(-16, 17, (1,), generator=generator))
    return photo.roll(shift, dims=-2)


def photographs(batches, size=4):
    generator = torch.Generator().manual_seed(1503)
    for _ in range(batches):
        photos = torch.rand(size, 3, 384, 384, generator=generator)
        photos = torch.stack([augment(photo, generator) for photo in photos])
        yield {"pixel_values": photos, "labels": torch.randint(0, WORKSHOPS, (size,), generator=generator)}


def run():
    model = build().to("cuda")
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    other = [p for n, p in model.named_parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": other, "weight_decay": 0.0}], lr=2e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
    model.train()
    for number, batch in enumerate(photographs(8)):
        batch = {key: value.to("cuda") for key, value in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        optimizer.zero_grad()
        print("batch", number, "loss", loss.item())


run()
