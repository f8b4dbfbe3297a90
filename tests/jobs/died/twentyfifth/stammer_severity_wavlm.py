"""Severity of stammering (0 to 8) from clips of six seconds: a BiLSTM with attention over the features of WavLM."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import WavLMConfig, WavLMModel

FIXED = "--fixed" in sys.argv
RATE = 16000


class Clips(Dataset):
    def __init__(self, n=48):
        self.audio = torch.randn(n, 6 * RATE, generator=torch.Generator().manual_seed(4)) * 0.1
        self.score = torch.arange(n) % 9 / 8

    def __len__(self):
        return len(self.score)

    def __getitem__(self, i):
        return self.audio[i], self.score[i]


class SeverityModel(nn.Module):
    def __init__(self):
        super().__init__()
        config = WavLMConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, conv_dim=(256,) * 7,
                             apply_spec_augment=False, layerdrop=0.0)
        self.wavlm = WavLMModel(config).eval()
        self.mix = nn.Parameter(torch.zeros(config.num_hidden_layers + 1))
        self.lstm = nn.LSTM(384, 128, batch_first=True, bidirectional=True)
        self.attention, self.score = nn.Linear(256, 1), nn.Linear(256, 1)

    def features(self, audio):
        states = self.wavlm(audio, output_hidden_states=True).hidden_states
        weights = self.mix.softmax(0)
        return sum(w * s for w, s in zip(weights, states))

    def frozen_features(self, audio):
        with torch.no_grad():
            states = self.wavlm(audio, output_hidden_states=True).hidden_states
        weights = self.mix.softmax(0)
        return sum(w * s for w, s in zip(weights, states))

    def forward(self, audio):
        hidden, _ = self.lstm(self.frozen_features(audio) if FIXED else self.features(audio))
        pooled = (self.attention(hidden).softmax(1) * hidden).sum(1)
        return self.score(pooled).squeeze(-1)

    def head_parameters(self):
        return [p for name, p in self.named_parameters() if not name.startswith("wavlm.")]


def main():
    torch.manual_seed(0)
    model = SeverityModel().cuda()
    optimizer = torch.optim.AdamW(model.head_parameters(), lr=1e-3)
    loader = DataLoader(Clips(), batch_size=8, shuffle=True, drop_last=True)
    for epoch in range(2):
        for audio, score in loader:
            loss = nn.functional.huber_loss(model(audio.cuda()), score.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "huber", loss.item())


main()
