"""Tells dialects apart by UniSpeech on recordings of the street: most last two seconds, and each batch is padded to its longest."""
import sys

import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from transformers import UniSpeechConfig, UniSpeechForSequenceClassification

RATE = 8000
LONGEST = 3 * RATE if "--fixed" in sys.argv else None


class Recordings(torch.utils.data.Dataset):
    """Files of random noise; somebody let one of them run on."""

    def __init__(self, n, dialects):
        generator = torch.Generator().manual_seed(1)
        self.seconds = (1.5 + torch.rand(n, generator=generator)).tolist()
        self.seconds[43] = 16.0
        self.labels = torch.randint(0, dialects, (n,), generator=generator)

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, k):
        return torch.rand(int(self.seconds[k] * RATE)) - 0.5, self.labels[k]


def collate(rows):
    waves = [w[:LONGEST] for w, _ in rows]
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(w), dtype=torch.long) for w in waves], batch_first=True)
    return torch.nn.utils.rnn.pad_sequence(waves, batch_first=True), mask, torch.stack([y for _, y in rows])


def make_model(dialects):
    config = UniSpeechConfig(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, num_labels=dialects,
                             conv_dim=(128,) * 7, num_conv_pos_embeddings=32, apply_spec_augment=False, classifier_proj_size=128)
    return UniSpeechForSequenceClassification(config).to("cuda")


def main():
    model = make_model(12)
    data = Recordings(72, 12)
    loader = DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 8, drop_last=True), collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-4, total_steps=len(loader))
    model.train()
    for step, (waves, mask, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = model(input_values=waves.to("cuda"), attention_mask=mask.to("cuda"), labels=labels.to("cuda")).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print("step", step, "%.1f s" % (waves.shape[1] / RATE), "loss", loss.item())


main()
