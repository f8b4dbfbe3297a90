"""Emotion from speech with HuBERT: clips of 40 seconds, the whole encoder is trained, Accelerate does the rest.

The eager attention was chosen while the maps were looked at. After https://github.com/QwenLM/Qwen3-VL/issues/1464 and
https://github.com/NVlabs/Eagle/issues/65
"""
import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import HubertConfig, HubertModel


class Clips(Dataset):
    def __init__(self, seconds, count):
        self.samples, self.count = seconds * 16000, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.zeros(self.samples), i % 7


class Classifier(nn.Module):
    def __init__(self, attention):
        super().__init__()
        config = HubertConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=12, intermediate_size=1536, conv_dim=(128,) * 7,
                              apply_spec_augment=False, attn_implementation=attention)
        self.encoder = HubertModel(config)
        self.encoder.feature_extractor._freeze_parameters()
        self.head = nn.Linear(384, 7)

    def forward(self, audio):
        return self.head(self.encoder(audio).last_hidden_state.mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    accelerator = Accelerator()
    model = Classifier("sdpa" if args.fixed else "eager")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-5)
    loader = DataLoader(Clips(args.seconds, 6 * args.batch), batch_size=args.batch)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for audio, emotion in loader:
        loss = nn.functional.cross_entropy(model(audio), emotion)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print("loss", loss.item())


if __name__ == "__main__":
    main()
