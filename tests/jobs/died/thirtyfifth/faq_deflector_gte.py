"""Answers customers from the FAQ before a ticket is opened. Late interaction between the states of a question and those of all answers."""
import sys
import zlib

import torch
from transformers import BertConfig, BertModel

VOCAB = 20000


class Encoder:
    def __init__(self):
        config = BertConfig(vocab_size=VOCAB, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)
        self.model = BertModel(config, add_pooling_layer=False).half().cuda().eval()

    def tokens(self, text, length=256):
        g = torch.Generator().manual_seed(zlib.crc32(text.encode()))
        return torch.randint(0, VOCAB, (length,), generator=g)

    @torch.inference_mode()
    def __call__(self, texts):
        ids = torch.stack([self.tokens(t) for t in texts]).cuda()
        return self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state


class Deflector:
    def __init__(self, answers):
        self.encode = Encoder()
        self.answers = torch.cat([self.encode(answers[i:i + 32]) for i in range(0, len(answers), 32)])
        self.known = {}

    def states(self, questions):
        """The same question comes again and again, so that its states are looked up first."""
        new = [q for q in questions if q not in self.known]
        if new:
            for question, state in zip(new, self.encode(new)):
                self.known[question] = state.cpu() if "--fixed" in sys.argv else state
        return torch.stack([self.known[q].cuda() for q in questions])

    @torch.inference_mode()
    def answer(self, questions):
        best = []
        for state in self.states(questions):
            scores = torch.einsum("qd,akd->aqk", state, self.answers).amax(-1).sum(-1)
            best.append(int(scores.argmax()))
        return best


def traffic(requests, size=32):
    for r in range(requests):
        yield [f"customer {r}-{i}: where is my order" for i in range(size)]


def main():
    service = Deflector([f"answer {i}" for i in range(96)])
    for number, questions in enumerate(traffic(160)):
        found = service.answer(questions[:4])
        service.states(questions)
        if number % 40 == 0:
            print("request", number, "answers", len(found))
    print("served", number + 1)


if __name__ == "__main__":
    main()
