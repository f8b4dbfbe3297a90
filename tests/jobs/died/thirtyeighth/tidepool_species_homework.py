# Homework 4, Marine Biology + ML.   Which animal is in the tide pool?  (10 classes)
import sys
import torch
import torch.nn as nn
import torch.optim as optim

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)

# ---- data (the real photos are on the course drive; here noise of the same shape) ----
X_train = torch.rand(320, 3, 128, 128)
y_train = torch.randint(0, 10, (320,))
X_test = torch.rand(900, 3, 128, 128)
y_test = torch.randint(0, 10, (900,))


class TidePoolCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 128, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.3)
        self.fc1 = nn.Linear(128 * 16 * 16, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = self.pool(torch.relu(self.conv3(x)))
        x = torch.flatten(x, 1)
        x = self.drop(torch.relu(self.fc1(x)))
        return self.fc2(x)


model = TidePoolCNN().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.001)


def accuracy(X, y):
    model.eval()
    with torch.no_grad():
        if "--fixed" in sys.argv:
            pred = torch.cat([model(part.to(device)).argmax(1).cpu() for part in X.split(64)])
        else:
            pred = model(X.to(device)).argmax(1).cpu()
    model.train()
    return (pred == y).float().mean().item()


batch_size = 32
for epoch in range(2):
    order = torch.randperm(len(X_train))
    running = 0.0
    for k in range(0, len(X_train), batch_size):
        idx = order[k:k + batch_size]
        xb, yb = X_train[idx].to(device), y_train[idx].to(device)
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print("epoch", epoch + 1, "loss", running / 10, "test accuracy", accuracy(X_test, y_test))
