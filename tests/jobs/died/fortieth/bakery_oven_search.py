"""Random search over transformers that forecast the temperature in each zone of a tunnel oven."""
import itertools
import random
import sys

import torch
import torch.nn as nn

KEEP_ALL = "--fixed" not in sys.argv
ZONES = 14
random.seed(0)


class OvenForecaster(nn.Module):
    def __init__(self, d_model, layers, dropout):
        super().__init__()
        self.src, self.tgt = nn.Linear(ZONES + 3, d_model), nn.Linear(ZONES, d_model)
        self.core = nn.Transformer(d_model, 8, layers, layers, 4 * d_model, dropout, batch_first=True)
        self.head = nn.Linear(d_model, ZONES)

    def forward(self, past, future):
        return self.head(self.core(self.src(past), self.tgt(future)))


def shifts(n, seed, batch=8):
    g = torch.Generator().manual_seed(seed)
    return [(torch.randn(batch, 96, ZONES + 3, generator=g), torch.randn(batch, 24, ZONES, generator=g)) for _ in range(n)]


def fit(trial, train):
    model = OvenForecaster(trial["d_model"], trial["layers"], trial["dropout"]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=trial["lr"])
    for past, future in train:
        past, future = past.cuda(), future.cuda()
        loss = nn.functional.huber_loss(model(past, torch.roll(future, 1, 1)), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer


@torch.no_grad()
def score(model, valid):
    model.eval()
    return sum(nn.functional.l1_loss(model(p.cuda(), torch.roll(f, 1, 1).cuda()), f.cuda()).item() for p, f in valid) / len(valid)


space = list(itertools.product([448, 512, 576], [4, 5], [0.0, 0.1, 0.2], [1e-4, 3e-4]))
train, valid = shifts(5, 1), shifts(2, 2)
results = []
for number, (d_model, layers, dropout, lr) in enumerate(random.sample(space, 8)):
    trial = dict(d_model=d_model, layers=layers, dropout=dropout, lr=lr)
    model, optimizer = fit(trial, train)
    result = {"trial": trial, "error": score(model, valid)}
    if KEEP_ALL:
        result.update(model=model, optimizer=optimizer)
    else:
        result["weights"] = {k: v.cpu() for k, v in model.state_dict().items()}
    results.append(result)
    del model, optimizer
    print(number, trial, result["error"])
results.sort(key=lambda r: r["error"])
print("best:", results[0]["trial"])
