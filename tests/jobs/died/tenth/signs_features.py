"""Describes traffic signs: features of the pictures, made beforehand by a vision model, go through a projector into a small Phi."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import PhiConfig, PhiForCausalLM

FIXED = "--fixed" in sys.argv
PATCHES, WIDTH = 144, 512


class Signs(Dataset):
    """Features and descriptions of all signs."""

    def __init__(self, n, device):
        generator = torch.Generator().manual_seed(12)
        self.features = torch.zeros(n, PATCHES, WIDTH).to(device)
        self.texts = torch.randint(3, 4000, (n, 32), generator=generator).to(device)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, k):
        return self.features[k], self.texts[k]


class Describer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = PhiForCausalLM(PhiConfig(vocab_size=4000, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
                                           max_position_embeddings=256, use_cache=False))
        self.projector = torch.nn.Sequential(torch.nn.Linear(WIDTH, 256), torch.nn.GELU(), torch.nn.Linear(256, 256))

    def forward(self, features, texts):
        picture = self.projector(features)
        words = self.lm.get_input_embeddings()(texts)
        labels = torch.cat([torch.full(picture.shape[:2], -100, device=texts.device), texts], 1)
        return self.lm(inputs_embeds=torch.cat([picture, words], 1), labels=labels).loss


def main():
    signs = Signs(2400, "cpu" if FIXED else "cuda")
    model = Describer().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    loader = DataLoader(signs, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
    model.train()
    for step, (features, texts) in enumerate(loader):
        loss = model(features.to("cuda"), texts.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())
        if step == 5:
            break


main()
