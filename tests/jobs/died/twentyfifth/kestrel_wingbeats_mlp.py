import sys
import numpy as np
import torch
import torch.nn as nn

fixed = '--fixed' in sys.argv

# radar echoes of kestrels: 40 features per track -> wingbeat frequency (Hz)
rs = np.random.RandomState(7)
X = rs.randn(18000, 40).astype('float32')
y = (4 + X[:, 0] - 0.5 * X[:, 3] + 0.1 * rs.randn(18000)).astype('float32')
X_train, X_test = torch.from_numpy(X[:15000]), torch.from_numpy(X[15000:])
y_train, y_test = torch.from_numpy(y[:15000]), torch.from_numpy(y[15000:])

mean, std = X_train.mean(0), X_train.std(0)
X_train, X_test = (X_train - mean) / std, (X_test - mean) / std


class Wingbeat(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(40, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 64)
        self.out = nn.Linear(64, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.drop(torch.tanh(self.fc1(x)))
        x = self.drop(torch.tanh(self.fc2(x)))
        x = torch.tanh(self.fc3(x))
        x = self.out(x)
        if fixed:
            x = x.squeeze(-1)
        return x


def rmsle(pred, target, eps=1e-3):
    pred = torch.clamp(pred, min=eps)
    return torch.sqrt(torch.mean((torch.log(pred) - torch.log(target.clamp(min=eps))) ** 2))


device = torch.device('cuda')
net = Wingbeat().to(device)
optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
xb, yb = X_train.to(device), y_train.to(device)

# the data are few: whole-batch training
for epoch in range(20):
    net.train()
    optimiser.zero_grad()
    loss = rmsle(net(xb), yb)
    loss.backward()
    optimiser.step()
    if epoch % 5 == 4:
        net.eval()
        with torch.no_grad():
            test = rmsle(net(X_test.to(device)), y_test.to(device))
        print('epoch', epoch + 1, 'train', loss.item(), 'test', test.item())
