"""Tags allergens in recipes with an ELECTRA; the weights of several moments of the training are averaged at the end ("model soup")."""
import copy
import sys

import torch
from transformers import ElectraConfig, ElectraForTokenClassification

FIXED = "--fixed" in sys.argv


class Soup:
    def __init__(self):
        self.ingredients = []

    def taste(self, model, score):
        state = model.state_dict()
        state = {k: v.cpu() for k, v in state.items()} if FIXED else copy.deepcopy(state)
        self.ingredients.append((score, state))

    def serve(self, best=5):
        chosen = [state for _, state in sorted(self.ingredients, key=lambda pair: -pair[0])[:best]]
        return {k: sum(s[k] for s in chosen) / len(chosen) if v.is_floating_point() else v for k, v in chosen[0].items()}


def recipes(seed, n=8, length=128):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(5, 10000, (n, length), generator=g), torch.randint(0, 15, (n, length), generator=g)


def evaluate(model):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for seed in range(1000, 1002):
            ids, tags = recipes(seed)
            guess = model(input_ids=ids.cuda()).logits.argmax(-1).cpu()
            right, total = right + (guess == tags).sum().item(), total + tags.numel()
    model.train()
    return right / total


def main():
    torch.manual_seed(8)
    model = ElectraForTokenClassification(ElectraConfig(
        vocab_size=10000, embedding_size=512, hidden_size=512, num_hidden_layers=10, num_attention_heads=8, intermediate_size=2048, num_labels=15))
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    soup = Soup()
    for step in range(28):
        ids, tags = recipes(step)
        loss = model(input_ids=ids.cuda(), labels=tags.cuda()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 1:
            score = evaluate(model)
            soup.taste(model, score)
            print("step", step, "loss", loss.item(), "accuracy", score)
    model.load_state_dict(soup.serve())
    print("soup", evaluate(model))


main()
