"""The transfer learning tutorial, grown: a residual network as a fixed feature extractor for orchids, only the last layer is trained."""
import sys
import time

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

FIXED = "--fixed" in sys.argv


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                                  nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Conv2d(cin, cout, 1, stride) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    """Stands for the network with the weights of a large image collection."""

    def __init__(self, widths=(64, 128, 256, 384), classes=1000):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        layers, cin = [], 64
        for k, width in enumerate(widths):
            layers += [Residual(cin, width, 1 if k == 0 else 2), Residual(width, width, 1)]
            cin = width
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


def train_model(model, criterion, optimizer, scheduler, num_epochs=2):
    since = time.time()
    for epoch in range(num_epochs):
        for phase in ("train", "val"):
            model.train(phase == "train")
            running_loss, running_corrects, seen = 0.0, 0, 0
            for _ in range(4):
                inputs, labels = torch.zeros(32, 3, 224, 224).cuda(), torch.randint(0, 17, (32,)).cuda()
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * len(inputs)
                running_corrects += (outputs.argmax(1) == labels).sum().item()
                seen += len(inputs)
            if phase == "train":
                scheduler.step()
            print("epoch", epoch, phase, "loss", running_loss / seen, "accuracy", running_corrects / seen)
    print("took %.0f s" % (time.time() - since))


model_conv = ResNet()
if FIXED:
    for param in model_conv.parameters():
        param.requires_grad = False
model_conv.fc = nn.Linear(model_conv.fc.in_features, 17)
model_conv = model_conv.cuda()
optimizer_conv = optim.SGD(model_conv.fc.parameters(), lr=0.001, momentum=0.9)
train_model(model_conv, nn.CrossEntropyLoss(), optimizer_conv, lr_scheduler.StepLR(optimizer_conv, step_size=7, gamma=0.1))
