"""Contrastive fine-tuning of a CLIP on photographs of bread and the names that bakers give to it."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPConfig, CLIPModel

DEVICE = torch.device("cuda")
FIXED = "--fixed" in sys.argv


class BreadPairs(Dataset):
    """Reads everything once; decoding JPEGs in each epoch was too slow."""

    def __init__(self, pairs=2600, side=224):
        g = torch.Generator().manual_seed(6)
        self.pixels = torch.randint(0, 256, (pairs, 3, side, side), dtype=torch.uint8, generator=g)
        self.names = torch.randint(1, 2000, (pairs, 16), generator=g)
        if not FIXED:
            self.pixels = self.normalise(self.pixels.to(DEVICE))
            self.names = self.names.to(DEVICE)

    @staticmethod
    def normalise(pixels):
        return pixels.float().div_(255).sub_(0.45).div_(0.27)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        return self.pixels[i], self.names[i]


def make_model():
    return CLIPModel(CLIPConfig(
        text_config=dict(vocab_size=2000, hidden_size=128, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
                         max_position_embeddings=16, bos_token_id=0, eos_token_id=1, pad_token_id=1),
        vision_config=dict(hidden_size=192, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4, image_size=224, patch_size=32),
        projection_dim=128))


def run(epochs=1, most=25):
    loader = DataLoader(BreadPairs(), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(1))
    model = make_model().to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.1)
    for epoch in range(epochs):
        for i, (pixels, names) in enumerate(loader):
            if FIXED:
                pixels, names = BreadPairs.normalise(pixels.to(DEVICE)), names.to(DEVICE)
            loss = model(input_ids=names, pixel_values=pixels, return_loss=True).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 8 == 0:
                print(epoch, i, loss.item())
            if i == most:
                break


if __name__ == "__main__":
    run()
