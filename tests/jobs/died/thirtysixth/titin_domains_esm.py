"""Domain boundaries in stretches of titin and other giant muscle proteins: ESM-2 architecture with a classifier for each residue."""
import sys

import torch
from torch import nn
from transformers import EsmConfig, EsmModel

AMINO = 20
STRETCH = 1200
ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"


class BoundaryModel(nn.Module):
    def __init__(self):
        super().__init__()
        config = EsmConfig(vocab_size=33, hidden_size=320, num_hidden_layers=6, num_attention_heads=20, intermediate_size=1280, pad_token_id=1,
                           mask_token_id=32, max_position_embeddings=STRETCH + 2, position_embedding_type="rotary", token_dropout=False,
                           attn_implementation=ATTENTION)
        self.esm = EsmModel(config, add_pooling_layer=False)
        self.context = nn.Conv1d(320, 128, 15, padding=7)
        self.boundary = nn.Linear(128, 3)       # inside, start or end of a domain

    def forward(self, tokens, mask):
        h = self.esm(input_ids=tokens, attention_mask=mask).last_hidden_state
        return self.boundary(torch.relu(self.context(h.transpose(1, 2))).transpose(1, 2))


def stretches(batches, n=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        tokens = torch.randint(4, 4 + AMINO, (n, STRETCH), generator=g)
        labels = (torch.rand(n, STRETCH, generator=g) > 0.98).long() * torch.randint(1, 3, (n, STRETCH), generator=g)
        yield tokens, torch.ones_like(tokens), labels


model = BoundaryModel().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.1, 1.0, 1.0]).cuda())

for epoch in range(2):
    model.train()
    for tokens, mask, labels in stretches(4, seed=epoch):
        logits = model(tokens.cuda(), mask.cuda())
        loss = criterion(logits.transpose(1, 2), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("train", epoch, loss.item())
    model.eval()
    with torch.no_grad():
        val = [criterion(model(t.cuda(), m.cuda()).transpose(1, 2), y.cuda()).item() for t, m, y in stretches(2, seed=50)]
    print("valid", epoch, sum(val) / len(val))
