"""Which of the eight church modes is it? Wav2Vec2 over 40 seconds of a chant."""
import os
import sys

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import AutoModelForAudioClassification, Wav2Vec2Config

ATTENTION = os.environ.get("ATTENTION", "sdpa" if "--fixed" in sys.argv else "eager")


class Chants(IterableDataset):
    def __init__(self, count, seconds=40, rate=16000):
        self.count, self.samples = count, seconds * rate

    def __iter__(self):
        rng = torch.Generator().manual_seed(590)
        for _ in range(self.count):
            mode = int(torch.randint(8, (1,), generator=rng))
            t = torch.arange(self.samples) / 16000
            yield {"input_values": torch.sin(6.28 * (220 + 20 * mode) * t) + 0.01 * torch.randn(self.samples, generator=rng), "labels": mode}


def model_for_modes():
    config = Wav2Vec2Config(
        hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
        conv_dim=(64, 64, 96, 96, 128, 128, 128), num_conv_pos_embedding_groups=8, num_labels=8, classifier_proj_size=64,
        attention_dropout=0.1, mask_time_prob=0.0, layerdrop=0.0)
    return AutoModelForAudioClassification.from_config(config, attn_implementation=ATTENTION)


def main(epochs=1):
    model = model_for_modes().to("cuda")
    model.freeze_feature_encoder()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=5e-5)
    for epoch in range(epochs):
        model.train()
        for i, batch in enumerate(DataLoader(Chants(16), batch_size=2)):
            batch = {k: v.to("cuda") for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(f"[{epoch}:{i}] {loss.item():.4f}")


if __name__ == "__main__":
    main()
