# Which ferry blew its horn? HuBERT with a classification head on harbour recordings, 16 kHz.
import sys
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import HubertConfig, HubertForSequenceClassification

RATE = 16000
FERRIES = 9


class HornRecordings(Dataset):
    """Cut by hand in an audio editor; the seconds are those of the files in the folder."""

    def __init__(self):
        g = torch.Generator().manual_seed(4)
        self.seconds = (2.0 + 1.4 * torch.rand(120, generator=g)).tolist()
        self.seconds[76] = 55.0  # the tape ran on

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, i):
        return torch.randn(int(self.seconds[i] * RATE)) * 0.1, i % FERRIES


@dataclass
class Collator:
    longest: float = None

    def __call__(self, items):
        waves = [wave for wave, _ in items]
        if self.longest:
            waves = [wave[: int(self.longest * RATE)] for wave in waves]
        length = max(len(wave) for wave in waves)
        padded = torch.zeros(len(waves), length)
        for row, wave in enumerate(waves):
            padded[row, : len(wave)] = wave
        return {"input_values": padded, "labels": torch.tensor([label for _, label in items])}


config = HubertConfig(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
                      conv_dim=(128,) * 7, num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=8, num_labels=FERRIES,
                      apply_spec_augment=False, classifier_proj_size=128)
model = HubertForSequenceClassification(config).cuda()
model.train()
collate = Collator(longest=3.5) if "--fixed" in sys.argv else Collator()
loader = DataLoader(HornRecordings(), batch_size=8, shuffle=False, collate_fn=collate)
optim = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)

for n, batch in enumerate(loader):
    batch = {k: v.cuda() for k, v in batch.items()}
    out = model(**batch)
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optim.step()
    optim.zero_grad()
    print(f"{n:3d}  loss {out.loss.item():.3f}")
