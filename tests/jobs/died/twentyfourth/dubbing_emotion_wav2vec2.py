"""Finds the emotion of a line for the dubbing studio: a head on top of a pretrained Wav2Vec2, all layers mixed with learned weights."""
import argparse

import torch
from torch import nn
from transformers import Wav2Vec2Config, Wav2Vec2Model

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--batch", type=int, default=20)
parser.add_argument("--seconds", type=float, default=3.0)
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()


class AttentivePooling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, frames):
        weights = torch.softmax(self.score(frames), dim=1)
        mean = (weights * frames).sum(1)
        spread = (weights * (frames - mean[:, None]) ** 2).sum(1)
        return torch.cat([mean, spread.clamp_min(1e-6).sqrt()], dim=-1)


class EmotionHead(nn.Module):
    def __init__(self, dim, layers, emotions=7):
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(layers))
        self.pool, self.out = AttentivePooling(dim), nn.Linear(2 * dim, emotions)

    def forward(self, states):
        frames = sum(w * s for w, s in zip(torch.softmax(self.mix, 0), states))
        return self.out(self.pool(frames))


class EmotionModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = EmotionHead(encoder.config.hidden_size, encoder.config.num_hidden_layers + 1)

    def freeze_encoder(self):
        self.encoder.eval()
        if args.fixed:
            for parameter in self.encoder.parameters():
                parameter.requires_grad = False

    def forward(self, waves):
        return self.head(self.encoder(waves, output_hidden_states=True).hidden_states)


encoder = Wav2Vec2Model(Wav2Vec2Config(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
                                       conv_dim=(256,) * 7, num_conv_pos_embeddings=64))
model = EmotionModel(encoder).cuda()
model.freeze_encoder()
optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
generator = torch.Generator().manual_seed(4)

for step in range(args.steps):
    waves = torch.randn(args.batch, int(args.seconds * 16000), generator=generator).cuda()
    emotions = torch.randint(0, 7, (args.batch,), generator=generator).cuda()
    loss = criterion(model(waves), emotions)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"[{step + 1}/{args.steps}] loss {loss.item():.3f}")
