"""Finds hateful memes: a pretrained BERT reads the words, a pretrained ViT sees the picture, and only a small fusion head is to be trained."""
import sys

import torch
import torch.nn as nn
from transformers import BertConfig, BertModel, ViTConfig, ViTModel

FIXED = "--fixed" in sys.argv


class MemeClassifier(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.text = BertModel(BertConfig(vocab_size=12000, hidden_size=width, num_hidden_layers=8, num_attention_heads=6,
                                         intermediate_size=4 * width))
        self.image = ViTModel(ViTConfig(hidden_size=width, num_hidden_layers=8, num_attention_heads=6, intermediate_size=4 * width, image_size=160),
                              add_pooling_layer=False)
        self.fusion = nn.TransformerEncoderLayer(width, 6, 2 * width, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(0.2), nn.Linear(width, 2))

    def forward(self, ids, mask, pixels):
        words = self.text(input_ids=ids, attention_mask=mask).last_hidden_state
        patches = self.image(pixel_values=pixels).last_hidden_state
        fused = self.fusion(torch.cat([words[:, :1], patches[:, :1], words[:, 1:17]], 1))
        return self.head(fused[:, 0])


def head_parameters(model):
    return [*model.fusion.parameters(), *model.head.parameters()]


def memes(batch, steps):
    for _ in range(steps):
        ids = torch.randint(5, 12000, (batch, 64))
        yield ids.cuda(), torch.ones_like(ids).cuda(), torch.rand(batch, 3, 160, 160).cuda(), torch.randint(0, 2, (batch,)).cuda()


def main():
    model = MemeClassifier().cuda()
    if FIXED:
        model.text.requires_grad_(False)
        model.image.requires_grad_(False)
    # the encoders stay as they are: the optimizer does not know them
    optimizer = torch.optim.AdamW(head_parameters(model), lr=2e-4)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.7]).cuda())
    model.train()
    for step, (ids, mask, pixels, labels) in enumerate(memes(32, 4)):
        loss = criterion(model(ids, mask, pixels), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(head_parameters(model), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 4))


main()
