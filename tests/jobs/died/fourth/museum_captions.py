"""Captions for paintings: a ViT that is not to be changed, and a BART decoder over its patches that is trained; both are random here."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import BartConfig, ViTConfig, ViTModel
from transformers.models.bart.modeling_bart import BartDecoder

FREEZE = "--fixed" in sys.argv


class Paintings(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, k):
        return torch.zeros(3, 192, 192), torch.randint(3, 9000, (33,))


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye = ViTModel(ViTConfig(hidden_size=512, num_hidden_layers=10, num_attention_heads=8, intermediate_size=2048, image_size=192,
                                      patch_size=16),
                            add_pooling_layer=False)
        self.mouth = BartDecoder(BartConfig(vocab_size=9000, d_model=256, decoder_layers=3, decoder_attention_heads=4, decoder_ffn_dim=1024,
                                            max_position_embeddings=64, use_cache=False))
        self.bridge, self.head = nn.Linear(512, 256), nn.Linear(256, 9000, bias=False)
        self.head.weight = self.mouth.embed_tokens.weight
        if FREEZE:
            self.eye.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.eye.eval()
        return self

    def forward(self, pixels, tokens):
        patches = self.bridge(self.eye(pixel_values=pixels).last_hidden_state)
        states = self.mouth(input_ids=tokens[:, :-1], encoder_hidden_states=patches).last_hidden_state
        return nn.functional.cross_entropy(self.head(states).flatten(0, 1), tokens[:, 1:].flatten())


def decoder_parameters(model):
    return [p for name, p in model.named_parameters() if not name.startswith("eye.")]


def main():
    torch.manual_seed(4)
    model = Captioner().to("cuda").train()
    optimizer = torch.optim.AdamW(decoder_parameters(model), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda")
    for step, (pixels, tokens) in enumerate(DataLoader(Paintings(), batch_size=16)):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(pixels.to("cuda"), tokens.to("cuda"))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print("step", step, "loss", loss.item())


main()
