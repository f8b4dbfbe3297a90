"""Sorts photos of household waste into twelve bins with a ResNet written after the transfer learning tutorial."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = ["battery", "bio", "brown glass", "cardboard", "clothes", "green glass", "metal", "paper", "plastic", "shoes", "trash", "white glass"]


class WastePhotos(Dataset):
    """Stands for an ImageFolder with RandomResizedCrop(224)."""

    def __init__(self, n):
        self.n = n
        self.photo = torch.rand(3, 224, 224)

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        photo = self.photo.flip(-1) if index % 2 else self.photo
        return photo, index % len(CLASSES)


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride=1):
        super().__init__()
        cout = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, cout, 1, bias=False), nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, depths=(2, 2, 3, 2), classes=len(CLASSES)):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        stages, cin = [], 64
        for n, depth in enumerate(depths):
            for k in range(depth):
                stages.append(Bottleneck(cin, 64 << n, stride=2 if n and not k else 1))
                cin = 4 * (64 << n)
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        return self.fc(self.stages(self.stem(x)).mean((2, 3)))


def train_model(model, loader, criterion, optimizer, scheduler, device, epochs=1):
    for epoch in range(epochs):
        model.train()
        running, seen = 0.0, 0
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running += loss.item() * inputs.size(0)
            seen += inputs.size(0)
        scheduler.step()
        print("epoch %d loss %.4f" % (epoch, running / seen))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    batch_size = 16 if args.fixed else 48
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(WastePhotos(batch_size * 4), batch_size=batch_size, shuffle=True)
    model = ResNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    train_model(model, loader, nn.CrossEntropyLoss(), optimizer, scheduler, device)


if __name__ == "__main__":
    main()
