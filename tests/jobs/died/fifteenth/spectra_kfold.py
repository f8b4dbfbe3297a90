# Soil carbon from near-infrared spectra, eight-fold cross-validation
import sys
import torch
from torch import nn

FOLDS, BANDS = 8, 2151
keep_small = "--fixed" in sys.argv

g = torch.Generator().manual_seed(31)
spectra = torch.rand(1600, BANDS, generator=g)
carbon = torch.rand(1600, 1, generator=g) * 12
fold_of = torch.arange(1600) % FOLDS


def make_model():
    return nn.Sequential(nn.Linear(BANDS, 3072), nn.BatchNorm1d(3072), nn.ELU(), nn.Dropout(0.3),
                         nn.Linear(3072, 3072), nn.BatchNorm1d(3072), nn.ELU(), nn.Dropout(0.3), nn.Linear(3072, 1)).cuda()


def fit(model, optimizer, x, y, epochs=2, batch=350):
    for _ in range(epochs):
        model.train()
        order = torch.randperm(len(x), generator=g)
        for part in order.split(batch):
            loss = (model(x[part].cuda()) - y[part].cuda()).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


@torch.no_grad()
def rmse(model, x, y):
    model.eval()
    return (model(x.cuda()) - y.cuda()).square().mean().sqrt().item()


def cross_validate():
    folds = []
    for k in range(FOLDS):
        train, test = fold_of != k, fold_of == k
        model = make_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
        loss = fit(model, optimizer, spectra[train], carbon[train])
        error = rmse(model, spectra[test], carbon[test])
        print("fold", k, "loss", loss, "error", error)
        if keep_small:
            weights = {name: value.cpu() for name, value in model.state_dict().items()}
            folds.append({"error": error, "weights": weights})
        else:
            folds.append({"error": error, "model": model, "optimizer": optimizer})
    return folds


folds = cross_validate()
errors = torch.tensor([f["error"] for f in folds])
best = min(range(FOLDS), key=lambda k: folds[k]["error"])
print("mean error", errors.mean().item(), "+-", errors.std().item(), "best fold", best)
