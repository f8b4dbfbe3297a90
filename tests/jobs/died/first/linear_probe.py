"""A classifier on top of a pre-trained BERT that is meant to stay as it is.

https://github.com/huggingface/transformers/issues/24315
"""
import sys

import torch
import torch.nn as nn
from transformers import BertConfig, BertModel

fixed = "--fixed" in sys.argv


class Classifier(nn.Module):
    def __init__(self, labels=20):
        super().__init__()
        self.bert = BertModel(BertConfig(hidden_size=768, num_hidden_layers=8, num_attention_heads=12, intermediate_size=3072))
        self.bert.eval()
        if fixed:
            for p in self.bert.parameters():
                p.requires_grad = False
        self.head = nn.Sequential(nn.Linear(768, 768), nn.Tanh(), nn.Dropout(0.1), nn.Linear(768, labels))

    def forward(self, ids):
        return self.head(self.bert(input_ids=ids).last_hidden_state[:, 0])


model = Classifier().cuda()
optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for step in range(6):
    ids, labels = torch.randint(0, 30000, (32, 128)).cuda(), torch.randint(0, 20, (32,)).cuda()
    model.head.zero_grad()
    loss = criterion(model(ids), labels)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
