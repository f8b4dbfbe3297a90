"""Writes advertising copy for a shop: twelve candidates for each product, from which an editor picks one. Sampling by hand with a Llama."""
import sys

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB = 4000


class CopyWriter:
    def __init__(self, temperature=0.8, top_k=40):
        config = LlamaConfig(vocab_size=VOCAB, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=8, max_position_embeddings=512)
        self.model = LlamaForCausalLM(config).to("cuda").eval()
        self.temperature, self.top_k = temperature, top_k

    def _choose(self, logits):
        best, index = (logits / self.temperature).topk(self.top_k, dim=-1)
        picked = torch.multinomial(best.softmax(-1), 1)
        return index.gather(-1, picked)

    @torch.inference_mode()
    def candidates(self, prompts, each=12, length=80):
        """For each prompt, `each` texts of `length` tokens."""
        ids = prompts.repeat_interleave(each, dim=0).to("cuda")
        cache = DynamicCache(config=self.model.config)
        logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        texts = []
        for _ in range(length):
            token = self._choose(logits)
            texts.append(token.cpu())
            logits = self.model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1]
        return torch.cat(texts, dim=1).view(len(prompts), each, length)


class Catalogue:
    def __init__(self, products=48, words=144):
        generator = torch.Generator().manual_seed(19)
        self.prompts = torch.randint(2, VOCAB, (products, words), generator=generator)

    def pages(self, size):
        return self.prompts.split(size)


def nightly_run():
    writer, catalogue = CopyWriter(), Catalogue(products=24)
    for page, prompts in enumerate(catalogue.pages(6 if FIXED else 24)):
        drafts = writer.candidates(prompts)
        print("page", page, "drafts", tuple(drafts.shape))


nightly_run()
