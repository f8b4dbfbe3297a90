"""Adam in its three forms on 20 linear layers, one after another in one process."""
import gc

import torch
from said import forget_peaks, peak

# The publisher's variables live to the end: each network is replaced only when the next one exists.
kept = {}
for form in ({"foreach": False, "fused": False}, {"foreach": True, "fused": False}, {"foreach": False, "fused": True}):
    kept["net"] = torch.nn.ModuleList(torch.nn.Linear(200, 200) for _ in range(20)).to("cuda:0")
    name = {(False, False): "loop", (True, False): "foreach", (False, True): "fused"}[form["foreach"], form["fused"]]
    kept[name] = optimizer = torch.optim.Adam(kept["net"].parameters(), lr=0.01, **form)
    gc.collect()
    forget_peaks()

    def train():
        data, target = torch.randn(64, 200, device="cuda:0"), torch.randint(0, 1, (64,), device="cuda:0")
        criterion = torch.nn.CrossEntropyLoss()
        for _ in range(5):
            optimizer.zero_grad()
            x = data
            for layer in kept["net"]:
                x = torch.relu(layer(x))
            loss = criterion(x, target)
            loss.backward()
            optimizer.step()

    train()
    peak(name)
