"""Reads lines of handwriting: a ViT that was trained before, and a new GPT-2 decoder, which is all that the optimizer gets."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, VisionEncoderDecoderModel, ViTConfig, ViTModel

FIXED = "--fixed" in sys.argv


class Lines(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        generator = torch.Generator().manual_seed(k)
        text = torch.randint(3, 2000, (32,), generator=generator)
        text[20 + k % 12:] = -100
        return torch.rand(3, 224, 224, generator=generator), text


def build():
    vision = ViTConfig(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1536)
    text = GPT2Config(vocab_size=2000, n_embd=384, n_layer=3, n_head=6, n_positions=64, add_cross_attention=True, is_decoder=True,
                      bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = VisionEncoderDecoderModel(encoder=ViTModel(vision, add_pooling_layer=False), decoder=GPT2LMHeadModel(text))
    model.config.decoder_start_token_id = 1
    model.config.pad_token_id = 0
    return model.to("cuda")


def train(model, loader, optimizer):
    model.decoder.train()
    model.encoder.eval()
    for step, (pixels, labels) in enumerate(loader):
        out = model(pixel_values=pixels.to("cuda"), labels=labels.to("cuda"))
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", out.loss.item())


def main():
    model = build()
    if FIXED:
        model.encoder.requires_grad_(False)
    # only the decoder is trained
    optimizer = torch.optim.AdamW(model.decoder.parameters(), lr=1e-4)
    print("trained parameters:", sum(p.numel() for g in optimizer.param_groups for p in g["params"]))
    train(model, DataLoader(Lines(64), batch_size=16), optimizer)


main()
