"""Tags names of places with CamemBERT; after each epoch the state is set aside, to roll back to if the next epoch diverges."""
import copy
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import CamembertConfig, CamembertForTokenClassification

FIXED = "--fixed" in sys.argv
TAGS = 9


def sentences(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randint(4, 16000, (n, 32), generator=generator), torch.randint(0, TAGS, (n, 32), generator=generator))


class Tagger:
    def __init__(self):
        config = CamembertConfig(vocab_size=16000, hidden_size=640, num_hidden_layers=8, num_attention_heads=10, intermediate_size=2560,
                                 num_labels=TAGS, max_position_embeddings=64)
        self.model = CamembertForTokenClassification(config).to("cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9, foreach=False)
        self.good = None

    def set_aside(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if FIXED:
            state = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), state)
        self.good = copy.deepcopy(state)

    def roll_back(self):
        self.model.load_state_dict(self.good["model"])
        self.optimizer.load_state_dict(self.good["optimizer"])

    def epoch(self, loader):
        self.model.train()
        for ids, tags in loader:
            self.optimizer.zero_grad()
            loss = self.model(input_ids=ids.to("cuda"), labels=tags.to("cuda")).loss
            loss.backward()
            self.optimizer.step()
        return loss.item()


def main():
    tagger = Tagger()
    loader = DataLoader(sentences(32, 1), batch_size=8, shuffle=True)
    for epoch in range(4):
        print("epoch", epoch, "loss", tagger.epoch(loader))
        tagger.set_aside()
    tagger.roll_back()


main()
