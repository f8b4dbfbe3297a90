"""Fine-tunes an Audio Spectrogram Transformer that tells dry, wet and whooping coughs apart; clips of at most two seconds."""
import sys

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import ASTConfig, ASTForAudioClassification

# frames of 10 ms
MAX_FRAMES = 208 if "--fixed" in sys.argv else 1024
g = torch.Generator().manual_seed(4)


def load_clips(n=160):
    clips = []
    for _ in range(n):
        frames = int(torch.randint(40, 200, (1,), generator=g))
        clips.append((torch.randn(frames, 128, generator=g), int(torch.randint(0, 3, (1,), generator=g))))
    return clips


def collate(items):
    fbanks = pad_sequence([f for f, _ in items], batch_first=True)
    fbanks = torch.nn.functional.pad(fbanks, (0, 0, 0, MAX_FRAMES - fbanks.shape[1]))
    fbanks = (fbanks + 4.27) / (2 * 4.57)
    return fbanks, torch.tensor([y for _, y in items])


config = ASTConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, max_length=MAX_FRAMES, num_labels=3)
model = ASTForAudioClassification(config).to("cuda")
no_decay = [p for n, p in model.named_parameters() if p.ndim < 2]
decay = [p for n, p in model.named_parameters() if p.ndim >= 2]
optim = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}], lr=5e-5)
loader = torch.utils.data.DataLoader(load_clips(), batch_size=16, shuffle=True, collate_fn=collate, generator=g)

model.train()
for epoch in range(1):
    for step, (fbanks, labels) in enumerate(loader):
        out = model(input_values=fbanks.to("cuda"), labels=labels.to("cuda"))
        out.loss.backward()
        optim.step()
        optim.zero_grad()
        if step % 4 == 0:
            print(f"epoch {epoch} step {step} loss {out.loss.item():.4f}")
