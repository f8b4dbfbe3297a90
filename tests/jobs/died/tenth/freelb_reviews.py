"""FreeLB on reviews of hotels: the embeddings are disturbed some times in each step, and the model learns from all disturbances."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

FIXED = "--fixed" in sys.argv
ASCENTS = 4


class FreeLB:
    def __init__(self, model, optimizer, size=0.05):
        self.model, self.optimizer, self.size = model, optimizer, size

    def loss(self, ids, labels, delta):
        words = self.model.get_input_embeddings()(ids)
        return self.model(inputs_embeds=words + delta, attention_mask=(ids != 1).long(), labels=labels).loss / ASCENTS

    def moved(self, delta, gradient):
        with torch.no_grad():
            length = gradient.flatten(1).norm(dim=1).clamp_min(1e-8).view(-1, 1, 1)
            return (delta + self.size * gradient / length).requires_grad_()

    def step(self, ids, labels):
        width = self.model.config.hidden_size
        delta = torch.zeros(*ids.shape, width, device="cuda").uniform_(-self.size, self.size).requires_grad_()
        total = 0.0
        for _ in range(ASCENTS):
            loss = self.loss(ids, labels, delta)
            if FIXED:
                loss.backward()
                delta, total = self.moved(delta, delta.grad), total + loss.item()
            else:
                gradient, = torch.autograd.grad(loss, delta, retain_graph=True)
                delta, total = self.moved(delta, gradient), total + loss
        if not FIXED:
            total.backward()
            total = total.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


def main():
    config = XLMRobertaConfig(vocab_size=6000, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
                              num_labels=5, max_position_embeddings=130)
    model = XLMRobertaForSequenceClassification(config).to("cuda")
    method = FreeLB(model, torch.optim.AdamW(model.parameters(), lr=1e-5))
    generator = torch.Generator().manual_seed(23)
    reviews = TensorDataset(torch.randint(4, 6000, (40, 96), generator=generator), torch.randint(0, 5, (40,), generator=generator))
    model.train()
    for step, (ids, labels) in enumerate(DataLoader(reviews, batch_size=8)):
        print("step", step, "loss", method.step(ids.to("cuda"), labels.to("cuda")))


main()
