"""Distils a wide ELECTRA for named entities into a narrow one, by the teacher's scores and its last layer.
"""
import contextlib
import sys

import torch
import torch.nn.functional as F
from transformers import ElectraConfig, ElectraForTokenClassification

TAGS = 17
FIXED = "--fixed" in sys.argv


def electra(hidden, layers, heads):
    return ElectraForTokenClassification(ElectraConfig(
        vocab_size=9000, embedding_size=128, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * hidden, num_labels=TAGS))


class Distiller(torch.nn.Module):
    def __init__(self, temperature=3.0, weight=0.5):
        super().__init__()
        self.teacher = electra(640, 12, 10)
        self.student = electra(256, 4, 4)
        self.widen = torch.nn.Linear(256, 640)
        self.temperature, self.weight = temperature, weight

    def trained(self):
        return [*self.student.parameters(), *self.widen.parameters()]

    def teach(self, ids):
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            hidden = self.teacher.electra(ids).last_hidden_state
            return self.teacher.classifier(hidden), hidden

    def forward(self, ids, tags):
        scores, layer = self.teach(ids)
        hidden = self.student.electra(ids).last_hidden_state
        own = self.student.classifier(hidden)
        t = self.temperature
        soft = F.kl_div(F.log_softmax(own / t, -1), F.softmax(scores.detach() / t, -1), reduction="batchmean") * t * t
        hard = F.cross_entropy(own.flatten(0, 1), tags.flatten())
        return self.weight * soft + (1 - self.weight) * hard + F.mse_loss(self.widen(hidden), layer.detach())


def sentences(n, size=16, length=160):
    for _ in range(n):
        yield torch.randint(0, 9000, (size, length)), torch.randint(0, TAGS, (size, length))


def main():
    torch.manual_seed(0)
    distiller = Distiller().cuda()
    distiller.train()
    distiller.teacher.eval()
    optimizer = torch.optim.AdamW(distiller.trained(), lr=3e-4)
    for step, (ids, tags) in enumerate(sentences(4)):
        loss = distiller(ids.cuda(), tags.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
