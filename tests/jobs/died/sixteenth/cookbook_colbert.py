"""Late interaction (ColBERT) for a collection of recipes: trains the encoder for some steps, then ranks the collection for a batch of questions."""
import sys

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertModel

FIXED = "--fixed" in sys.argv
QUERY_LEN, DOC_LEN, DIM = 32, 120, 64


class ColBERT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = BertModel(BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024),
                              add_pooling_layer=False)
        self.linear = torch.nn.Linear(256, DIM, bias=False)

    def forward(self, ids):
        return F.normalize(self.linear(self.bert(ids).last_hidden_state), dim=-1)


def maxsim(q, d, mask):
    """q: questions, tokens, dim; d: documents, tokens, dim; mask: documents, tokens. Returns questions, documents."""
    scores = torch.einsum("qid,njd->qnij", q, d)
    scores = scores.masked_fill(~mask[None, :, None, :], -1e4)
    return scores.max(-1).values.sum(-1)


def rank(q, d, mask, k=10):
    if FIXED:
        scores = torch.cat([maxsim(q, part, m) for part, m in zip(d.split(100), mask.split(100))], 1)
    else:
        scores = maxsim(q, d, mask)
    return scores.topk(k, dim=1).indices.cpu()


def texts(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(1, 8000, (n, length), generator=g), torch.arange(length) < torch.randint(20, length + 1, (n, 1), generator=g)


model = ColBERT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-6)
for step in range(6):
    (q, _), (d, m) = texts(16, QUERY_LEN, step), texts(16, DOC_LEN, 100 + step)
    scores = maxsim(model(q.cuda()), model(d.cuda()), m.cuda())
    loss = F.cross_entropy(scores, torch.arange(16, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())

model.eval()
with torch.inference_mode():
    ids, mask = texts(1800, DOC_LEN, 7)
    index = torch.cat([model(part.cuda()) for part in ids.split(60)])
    for batch in range(4):
        questions, _ = texts(32, QUERY_LEN, 50 + batch)
        print(batch, rank(model(questions.cuda()), index, mask.cuda()).shape)
