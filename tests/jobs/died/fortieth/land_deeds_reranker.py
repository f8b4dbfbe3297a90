"""Second stage of the search in the land registry: a Qwen3 says yes or no to (question, deed), and we sort by P(yes)."""
import sys
import time
from collections import namedtuple

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

YES, NO = 9454, 2753
Hit = namedtuple("Hit", "deed score")


class Reranker:
    def __init__(self, device="cuda", dtype=torch.bfloat16):
        config = Qwen3Config(vocab_size=151936, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=4, head_dim=64, max_position_embeddings=4096, tie_word_embeddings=True)
        self.device = device
        self.model = Qwen3ForCausalLM(config).to(device, dtype).eval()
        self.options = {"use_cache": False}
        if "--fixed" in sys.argv:
            self.options["logits_to_keep"] = 1

    def pack(self, question, deeds, length=640):
        """question <sep> deed, padded on the left"""
        ids = torch.zeros(len(deeds), length, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, deed in enumerate(deeds):
            line = torch.cat([question, deed])[-length:]
            ids[row, length - len(line):] = line
            mask[row, length - len(line):] = 1
        return ids.to(self.device), mask.to(self.device)

    @torch.inference_mode()
    def score(self, question, deeds):
        ids, mask = self.pack(question, deeds)
        logits = self.model(input_ids=ids, attention_mask=mask, **self.options).logits
        last = logits[:, -1, [NO, YES]].float()
        return last.log_softmax(-1)[:, 1].exp().tolist()

    def rank(self, question, deeds, batch=12, top=5):
        hits = []
        for k in range(0, len(deeds), batch):
            part = deeds[k:k + batch]
            hits += [Hit(k + j, s) for j, s in enumerate(self.score(question, part))]
        return sorted(hits, key=lambda h: -h.score)[:top]


def tokens(gen, low, high):
    n = int(torch.randint(low, high, (1,), generator=gen))
    return torch.randint(10, 150000, (n,), generator=gen)


if __name__ == "__main__":
    gen = torch.Generator().manual_seed(1871)
    deeds = [tokens(gen, 300, 620) for _ in range(48)]
    reranker = Reranker()
    for request in range(6):
        began = time.time()
        best = reranker.rank(tokens(gen, 8, 30), deeds)
        print("request", request, "best deed", best[0].deed, "in", round(time.time() - began, 2), "s")
