"""Node classification on a whole graph; attention over all pairs of nodes with a mask from the adjacency matrix.

https://github.com/Xuanmeng-Zhang/gnn-re-ranking/issues/2
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SPARSE = "--fixed" in sys.argv
NODES, EDGES, DIM = 12000, 80000, 256


class DenseGAT(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin, self.src, self.dst = nn.Linear(cin, cout), nn.Linear(cout, 1), nn.Linear(cout, 1)

    def forward(self, x, adj):
        h = self.lin(x)
        e = F.leaky_relu(self.src(h) + self.dst(h).t(), 0.2)
        e = e.masked_fill(adj == 0, float("-inf"))
        return F.elu(torch.softmax(e, dim=1) @ h)


class SparseGAT(DenseGAT):
    def forward(self, x, edge_index):
        h = self.lin(x)
        row, col = edge_index
        e = F.leaky_relu(self.src(h)[row] + self.dst(h)[col], 0.2).clamp(max=30).exp()
        norm = torch.zeros(len(h), 1, device=h.device).index_add(0, row, e)
        return F.elu(torch.zeros_like(h).index_add(0, row, e * h[col]) / (norm[:, :1] + 1e-9))


layer = SparseGAT if SPARSE else DenseGAT
layers = nn.ModuleList([layer(DIM, DIM), layer(DIM, DIM), layer(DIM, 40)]).cuda()
features = torch.randn(NODES, DIM, device="cuda")
labels = torch.randint(0, 40, (NODES,), device="cuda")
edge_index = torch.randint(0, NODES, (2, EDGES)).cuda()
graph = edge_index
if not SPARSE:
    graph = torch.zeros(NODES, NODES, device="cuda")
    graph[edge_index[0], edge_index[1]] = 1
optimizer = torch.optim.Adam(layers.parameters(), lr=5e-3, weight_decay=5e-4)
for epoch in range(6):
    x = features
    for gat in layers:
        x = gat(x, graph)
    loss = F.cross_entropy(x, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
