"""Trains a model with one operation on each line, of sizes that differ; the second backward pass uses the graph of the first."""
import torch
from torch import nn
from torch.nn import functional

WIDTHS = 512, 1024, 1536, 2048, 2560


class Lines(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(a, b) for a, b in zip(WIDTHS, WIDTHS[1:]))

    def forward(self, x):
        first, second, third, fourth = self.parts
        x = first(x)
        x = torch.sin(x)
        x = second(x)
        x = torch.sin(x)
        x = third(x)
        x = torch.sin(x)
        x = fourth(x)
        x = torch.sin(x)
        return x


model = Lines().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    output = model(torch.randn(1024, WIDTHS[0], device="cuda"))
    kept = functional.softplus(output)
    loss = kept.pow(2).mean()
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
