# Predicts the 28-day strength of cement mixes (kaggle-like table with eight ingredients)
import sys
import numpy as np
import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv
rng = np.random.default_rng(0)
X = rng.normal(size=(90_000, 8)).astype("float32")
y = (X @ rng.normal(size=8).astype("float32")) + 35
X_train, y_train, X_test, y_test = X[:72_000], y[:72_000], X[72_000:], y[72_000:]
X_train, y_train = torch.tensor(X_train), torch.tensor(y_train)
X_test, y_test = torch.tensor(X_test), torch.tensor(y_test)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 128)
        self.fc2 = nn.Linear(128, 128)
        self.fc3 = nn.Linear(128, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.drop(torch.relu(self.fc1(x)))
        x = torch.relu(self.fc2(x))
        x = self.fc3(x)
        if fixed:
            return x.squeeze(1)
        return x


def rmse(pred, target):
    return ((pred - target) ** 2).mean().sqrt()


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
batch_size = 18_000
for epoch in range(5):
    model.train()
    perm = torch.randperm(len(X_train))
    for i in range(0, len(X_train), batch_size):
        idx = perm[i:i + batch_size]
        xb, yb = X_train[idx].cuda(), y_train[idx].cuda()
        optimizer.zero_grad()
        loss = rmse(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        test = rmse(model(X_test.cuda()), y_test.cuda())
    print("epoch %d train %.3f test %.3f" % (epoch, loss.item(), test.item()))
