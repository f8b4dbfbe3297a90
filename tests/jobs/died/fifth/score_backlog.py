"""Scores a backlog of chest X-rays over night with a DenseNet written by hand and writes a table of findings."""
import csv
import io
import sys

import torch
import torch.nn as nn

FINDINGS = ["effusion", "nodule", "oedema", "fracture", "pneumonia", "cardiomegaly"]


class Dense(nn.Module):
    def __init__(self, inner, growth):
        super().__init__()
        self.net = nn.Sequential(nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, 4 * growth, 1, bias=False),
                                 nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.net(x)], 1)


class DenseNet(nn.Module):
    def __init__(self, growth=16, blocks=(4, 6, 8, 6), classes=len(FINDINGS)):
        super().__init__()
        width = 2 * growth
        layers = [nn.Conv2d(1, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for k, n in enumerate(blocks):
            for _ in range(n):
                layers.append(Dense(width, growth))
                width += growth
            if k < len(blocks) - 1:
                layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class Backlog(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return "image%05d" % k, torch.zeros(1, 256, 256)


def load_model():
    model = DenseNet()
    weights = io.BytesIO()
    torch.save(model.state_dict(), weights)
    weights.seek(0)
    model.load_state_dict(torch.load(weights, map_location="cpu"))
    return model.cuda().eval()


def score(model, images):
    if "--fixed" in sys.argv:
        with torch.inference_mode():
            return torch.sigmoid(model(images)).cpu()
    return torch.sigmoid(model(images)).detach().cpu()


model, table = load_model(), io.StringIO()
writer = csv.writer(table)
writer.writerow(["image", *FINDINGS])
for names, images in torch.utils.data.DataLoader(Backlog(160), batch_size=32):
    for name, row in zip(names, score(model, images.cuda())):
        writer.writerow([name, *("%.3f" % value for value in row.tolist())])
print(table.getvalue().count("\n"), "lines")
