"""Which doorbell, alarm or kettle rang: an Audio Spectrogram Transformer on clips of a home, at most three seconds long."""
import sys

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from transformers import ASTConfig, ASTForAudioClassification

FIXED = "--fixed" in sys.argv
FRAMES = 304 if FIXED else 1024  # frames of 10 ms that a clip is padded to
BELLS = 14


class Clips(Dataset):
    """Log-mel frames of one to three seconds."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(14)
        self.lengths = torch.randint(100, 300, (n,), generator=g).tolist()
        self.bells = torch.randint(0, BELLS, (n,), generator=g).tolist()

    def __len__(self):
        return len(self.bells)

    def __getitem__(self, i):
        return torch.randn(self.lengths[i], 128, generator=torch.Generator().manual_seed(i)), self.bells[i]


def collate(rows):
    frames = pad_sequence([f for f, _ in rows], batch_first=True)
    missing = FRAMES - frames.shape[1]
    return {"input_values": torch.nn.functional.pad(frames, (0, 0, 0, missing)), "labels": torch.tensor([b for _, b in rows])}


def main():
    torch.manual_seed(0)
    config = ASTConfig(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1536, max_length=FRAMES, num_mel_bins=128,
                       num_labels=BELLS)
    model = ASTForAudioClassification(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    loader = DataLoader(Clips(96), batch_size=16, shuffle=True, collate_fn=collate)
    for step, batch in enumerate(loader):
        loss = model(**{k: v.cuda() for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {tuple(batch['input_values'].shape)}, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
