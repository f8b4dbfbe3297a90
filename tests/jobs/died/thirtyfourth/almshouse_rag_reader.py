"""A reader that answers from records of almshouses: a frozen BERT encodes retrieved passages, a decoder attends to their tokens."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import BertConfig, BertModel

FIXED = "--fixed" in sys.argv
VOCAB, PASSAGES, LENGTH, DIM = 12000, 40000, 192, 384


class PassageEncoder:
    """Frozen, so a passage that comes again need not be encoded again."""

    def __init__(self):
        config = BertConfig(vocab_size=VOCAB, hidden_size=DIM, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)
        self.bert = BertModel(config, add_pooling_layer=False).to("cuda").eval().requires_grad_(False)
        self.known = {}

    def text(self, number):
        return torch.randint(4, VOCAB, (LENGTH,), generator=torch.Generator().manual_seed(number))

    def __call__(self, numbers):
        missing = [n for n in numbers if n not in self.known]
        if missing:
            with torch.no_grad():
                states = self.bert(input_ids=torch.stack([self.text(n) for n in missing]).cuda()).last_hidden_state
            for n, s in zip(missing, states):
                self.known[n] = s.half().cpu() if FIXED else s.clone()
        return torch.stack([self.known[n].to("cuda").float() for n in numbers])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(DIM, 6, 4 * DIM, dropout=0.1, batch_first=True, norm_first=True)
        self.words = nn.Embedding(VOCAB, DIM)
        self.decoder = nn.TransformerDecoder(layer, 4)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, answer, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(answer.shape[1], device=answer.device)
        return self.head(self.decoder(self.words(answer), memory, tgt_mask=mask, tgt_is_causal=True))


def main():
    encoder, reader = PassageEncoder(), Reader().cuda()
    optimizer = torch.optim.AdamW(reader.parameters(), lr=2e-4)
    g = torch.Generator().manual_seed(1601)
    reader.train()
    for step in range(20):
        retrieved = torch.randint(0, PASSAGES, (8, 10), generator=g)
        memory = encoder(retrieved.flatten().tolist()).view(8, 10 * LENGTH, DIM)
        answer = torch.randint(4, VOCAB, (8, 33), generator=g).cuda()
        logits = reader(answer[:, :-1], memory)
        loss = F.cross_entropy(logits.flatten(0, 1), answer[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            print("step", step, "loss", loss.item(), "passages seen", len(encoder.known))


main()
