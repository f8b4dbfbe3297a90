# %% [markdown]
# # Who wrote in? Classifying letters to the bird ringing office
# Characters -> dilated convolutions -> ten kinds of letter. Letters are short (150 to 420 characters), so padding to the longest is fine.

# %%
import sys
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

FIXED = "--fixed" in sys.argv
torch.manual_seed(0)
dev = torch.device("cuda")

# %% read letters (the scans are confidential, so these are made up)
rng = torch.Generator().manual_seed(23)
lengths = torch.randint(150, 420, (480,), generator=rng).tolist()
lengths[217] = 7300      # somebody sent us his memoirs
letters = [torch.randint(1, 96, (n,), generator=rng) for n in lengths]
kinds = torch.randint(0, 10, (480,), generator=rng).tolist()
longest = 600 if FIXED else None


def collate(rows):
    texts, labels = zip(*rows)
    texts = [t[:longest] for t in texts]
    return pad_sequence(texts, batch_first=True), torch.tensor(labels)


loader = DataLoader(list(zip(letters, kinds)), batch_size=24, collate_fn=collate)


# %%
class Dilated(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.conv = nn.Conv1d(c, 2 * c, 3, padding=d, dilation=d)
        self.norm = nn.GroupNorm(8, c)

    def forward(self, x):
        return x + nn.functional.glu(self.conv(self.norm(x)), 1)


class LetterNet(nn.Module):
    def __init__(self, c=192):
        super().__init__()
        self.emb = nn.Embedding(96, c, padding_idx=0)
        self.body = nn.Sequential(*[Dilated(c, 2 ** (i % 4)) for i in range(8)])
        self.out = nn.Linear(c, 10)

    def forward(self, chars):
        h = self.body(self.emb(chars).transpose(1, 2))
        return self.out(h.amax(-1))


# %%
net = LetterNet().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
crit = nn.CrossEntropyLoss()

# %%
for n, (x, y) in enumerate(loader):
    opt.zero_grad()
    loss = crit(net(x.to(dev)), y.to(dev))
    loss.backward()
    opt.step()
    if n % 5 == 0:
        print(n, tuple(x.shape), loss.item())

# %%
torch.cuda.synchronize()
print("done")
