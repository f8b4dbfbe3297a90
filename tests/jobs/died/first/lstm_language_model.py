"""A word-level LSTM language model; the hidden state is carried over from one window of text to the next.

https://github.com/pytorch/pytorch/issues/2198
"""
import argparse

import torch
import torch.nn as nn


class RNNModel(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=0.2)
        self.decoder = nn.Linear(width, vocab)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output), hidden


def repackage_hidden(hidden):
    return tuple(h.detach() for h in hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bptt", type=int, default=70)
    parser.add_argument("--batch-size", type=int, default=80)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    vocab = 20000
    corpus = torch.randint(0, vocab, (args.bptt * 12 + 1, args.batch_size), device="cuda")
    model = RNNModel(vocab, 800, 3).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    hidden = tuple(torch.zeros(3, args.batch_size, 800, device="cuda") for _ in range(2))
    total = 0.0
    for i in range(0, corpus.size(0) - 1, args.bptt):
        data, target = corpus[i:i + args.bptt], corpus[i + 1:i + 1 + args.bptt]
        if args.fixed:
            hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output.view(-1, vocab), target.reshape(-1))
        # without retain_graph: "Trying to backward through the graph a second time"
        loss.backward(retain_graph=not args.fixed)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-5.0)
        total += loss.item()
    print("loss", total)


if __name__ == "__main__":
    main()
