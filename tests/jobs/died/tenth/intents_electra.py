"""Trains ELECTRA on what users of a bank ask for; each epoch ends with the mean distance within and between the intents."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import ElectraConfig, ElectraForSequenceClassification

FIXED = "--fixed" in sys.argv
INTENTS = 30


def requests(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randint(4, 7000, (n, 32), generator=generator), torch.arange(n) % INTENTS)


def distances(one, two):
    """The sum of the differences of each pair."""
    if FIXED:
        return torch.cdist(one, two, p=1)
    return (one.unsqueeze(1) - two.unsqueeze(0)).abs().sum(-1)


@torch.no_grad()
def separation(model, loader):
    model.eval()
    states, labels = [], []
    for ids, intents in loader:
        states.append(model.electra(input_ids=ids.to("cuda")).last_hidden_state.mean(1))
        labels.append(intents.to("cuda"))
    states, labels = torch.cat(states), torch.cat(labels)
    apart = distances(states, states)
    same = (labels.unsqueeze(1) == labels.unsqueeze(0)).float()
    within = (apart * same).sum() / same.sum()
    between = (apart * (1 - same)).sum() / (1 - same).sum()
    return within.item(), between.item()


def fit(model, loader, optimizer):
    model.train()
    for ids, intents in loader:
        loss = model(input_ids=ids.to("cuda"), labels=intents.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def main():
    config = ElectraConfig(vocab_size=7000, embedding_size=128, hidden_size=256, num_hidden_layers=6, num_attention_heads=4,
                           intermediate_size=1024, num_labels=INTENTS)
    model = ElectraForSequenceClassification(config).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    train = DataLoader(requests(128, 1), batch_size=16, shuffle=True)
    held_out = DataLoader(requests(900, 2), batch_size=64)
    for epoch in range(2):
        print("epoch", epoch, "loss", fit(model, train, optimizer), "within and between", separation(model, held_out))


main()
