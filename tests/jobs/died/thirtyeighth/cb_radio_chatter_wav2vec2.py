"""Topic of truckers' CB radio chatter (weather, police, load, small talk, other), on a wav2vec2 encoder that is trained from scratch."""
import random
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2Model

RATE = 16000
TOPICS = ["weather", "police", "load", "smalltalk", "other"]
MAX_SECONDS = 30 if "--fixed" not in sys.argv else 8


class Chatter(Dataset):
    def __init__(self, n=48):
        rng = random.Random(19)
        self.seconds = [rng.uniform(31, 60) for _ in range(n)]
        self.topics = [rng.randrange(len(TOPICS)) for _ in range(n)]

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(int(self.seconds[i] * RATE), generator=g) * 0.1, self.topics[i]


def collate(items):
    wanted = MAX_SECONDS * RATE
    waves = []
    for wave, _ in items:
        start = random.randint(0, max(0, len(wave) - wanted))
        waves.append(wave[start:start + wanted])
    waves = nn.utils.rnn.pad_sequence(waves, batch_first=True)
    return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True), torch.tensor([t for _, t in items])


class TopicNet(nn.Module):
    def __init__(self):
        super().__init__()
        config = Wav2Vec2Config(hidden_size=256, num_hidden_layers=5, num_attention_heads=4, intermediate_size=768, conv_dim=(192,) * 7,
                                num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=16, layerdrop=0.0, apply_spec_augment=False)
        self.encoder = Wav2Vec2Model(config)
        self.pool = nn.Linear(256, 1)
        self.head = nn.Linear(256, len(TOPICS))

    def forward(self, waves):
        states = self.encoder(waves).last_hidden_state
        weights = torch.softmax(self.pool(states), 1)
        return self.head((weights * states).sum(1))


def main():
    device = torch.device("cuda:0")
    net = TopicNet().to(device)
    loader = DataLoader(Chatter(), batch_size=6, shuffle=True, collate_fn=collate, drop_last=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01)
    net.train()
    for step, (waves, topics) in enumerate(loader):
        logits = net(waves.to(device))
        loss = nn.functional.cross_entropy(logits, topics.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", float(loss))


main()
