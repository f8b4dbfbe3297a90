"""Dense passage retrieval over a parish library: two BERT encoders, in-batch negatives, recall at 20 on the questions of the dev set."""
import argparse

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertModel

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

VOCAB, Q_LEN, P_LEN = 10000, 32, 200
gen = torch.Generator().manual_seed(11)


def encoder():
    return BertModel(BertConfig(vocab_size=VOCAB, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
                                max_position_embeddings=256), add_pooling_layer=False).cuda()


class DPR:
    def __init__(self):
        self.questions, self.passages = encoder(), encoder()
        params = list(self.questions.parameters()) + list(self.passages.parameters())
        self.opt = torch.optim.AdamW(params, lr=2e-5)

    @staticmethod
    def cls(model, ids):
        return model(input_ids=ids.cuda()).last_hidden_state[:, 0]

    def step(self, q_ids, p_ids):
        self.questions.train(), self.passages.train()
        scores = self.cls(self.questions, q_ids) @ self.cls(self.passages, p_ids).T
        loss = F.cross_entropy(scores, torch.arange(len(q_ids), device="cuda"))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def recall(self, q_ids, gold, collection, k=20):
        self.questions.eval(), self.passages.eval()
        if args.fixed:
            index = torch.cat([self.cls(self.passages, part) for part in collection.split(64)])
        else:
            index = self.cls(self.passages, collection)
        best = (self.cls(self.questions, q_ids) @ index.T).topk(k).indices.cpu()
        return (best == gold[:, None]).any(1).float().mean().item()


collection = torch.randint(5, VOCAB, (1400, P_LEN), generator=gen)
dev_questions = torch.randint(5, VOCAB, (60, Q_LEN), generator=gen)
dev_gold = torch.randint(0, len(collection), (60,), generator=gen)

dpr = DPR()
for epoch in range(args.epochs):
    for _ in range(5):
        pick = torch.randint(0, len(collection), (12,), generator=gen)
        loss = dpr.step(torch.randint(5, VOCAB, (12, Q_LEN), generator=gen), collection[pick])
    print("epoch", epoch, "loss", loss, "R@20", dpr.recall(dev_questions, dev_gold, collection))
