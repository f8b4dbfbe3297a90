# %% [markdown]
# Continue from last week's run, on ferry manifests only
# %%
import os
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

device = "cuda"
config = GPT2Config(vocab_size=8000, n_positions=256, n_embd=640, n_layer=7, n_head=10, use_cache=False)
path = os.path.join(tempfile.mkdtemp(), "last_week.pt")


# %% what the cluster job left behind (here: a stand-in of the same shape)
def stand_in(path):
    net = GPT2LMHeadModel(config)
    names = [n for n, _ in net.named_parameters()]
    states = {i: {"step": torch.tensor(4000.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
              for i, p in enumerate(net.parameters())}
    torch.save({"model": net.state_dict(), "ema": {k: v.clone() for k, v in net.state_dict().items()},
                "optimizer": {"state": states, "param_groups": [{"lr": 3e-4, "params": list(range(len(names)))}]},
                "step": 4000, "args": {"lr": 3e-4, "tokens": "2.1B"}}, path)


stand_in(path)

# %%
model = GPT2LMHeadModel(config).to(device)
checkpoint = torch.load(path, map_location="cpu" if "--fixed" in sys.argv else device)
print(model.load_state_dict(checkpoint["model"]))
print("from step", checkpoint["step"], checkpoint["args"])
os.remove(path)

# %%
# new data, so a fresh optimizer with a smaller rate
opt = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.05)
g = torch.Generator().manual_seed(6)
manifests = torch.randint(0, 8000, (64, 192), generator=g)

# %%
model.train()
t = time.time()
for step in range(8):
    x = manifests[torch.randint(0, 64, (4,), generator=g)].to(device)
    logits = model(x[:, :-1]).logits
    loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    print(step, loss.item(), f"{time.time() - t:.1f}s")
