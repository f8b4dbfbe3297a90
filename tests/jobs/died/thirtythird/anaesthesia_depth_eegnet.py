"""Depth of anaesthesia from frontal EEG. First the network learns to tell stages, then to regress the index, with a smaller step."""
import sys

import torch
import torch.nn as nn


class EEGTransformer(nn.Module):
    def __init__(self, d=896, depth=7):
        super().__init__()
        self.patch = nn.Conv1d(2, d, 64, stride=64)
        layer = nn.TransformerEncoderLayer(d, 14, 4 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.stage, self.index = nn.Linear(d, 5), nn.Linear(d, 1)

    def forward(self, eeg):
        z = self.encoder(self.patch(eeg).transpose(1, 2)).mean(1)
        return self.stage(z), self.index(z).squeeze(-1)


class Training:
    def __init__(self):
        self.model = EEGTransformer().cuda()
        self.gen = torch.Generator().manual_seed(60)
        self.tools = {}

    def windows(self, n=4):
        return (torch.randn(n, 2, 2560, generator=self.gen).cuda(), torch.randint(0, 5, (n,), generator=self.gen).cuda(),
                torch.rand(n, generator=self.gen).cuda())

    def phase(self, name, lr, steps, objective):
        if "--fixed" in sys.argv:
            self.tools.clear()
        self.tools[name] = torch.optim.AdamW(self.model.parameters(), lr=lr, foreach=False)
        for step in range(steps):
            eeg, stage, index = self.windows()
            loss = objective(*self.model(eeg), stage, index)
            loss.backward()
            self.tools[name].step()
            self.model.zero_grad()
            print(name, step, "loss", loss.item())


training = Training()
training.phase("stages", 3e-4, 5, lambda s, i, stage, index: nn.functional.cross_entropy(s, stage))
training.phase("index", 3e-5, 5, lambda s, i, stage, index: nn.functional.smooth_l1_loss(i, index) + 0.01 * nn.functional.cross_entropy(s, stage))
