"""Writes titles for second-hand listings: many candidates are sampled for each product, a ranker chooses later."""
import argparse

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

VOCAB = 12000


class TitleWriter:
    def __init__(self, candidates=16, new_tokens=24, temperature=0.8):
        config = Qwen2Config(vocab_size=VOCAB, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=4, max_position_embeddings=2048)
        self.model = Qwen2ForCausalLM(config).to("cuda").eval()
        self.candidates, self.new_tokens, self.temperature = candidates, new_tokens, temperature

    def pick(self, logits):
        return torch.multinomial(torch.softmax(logits / self.temperature, -1), 1)

    @torch.inference_mode()
    def write(self, prompts):
        """prompts: (products, tokens). Returns the tokens of the titles, products x candidates x new_tokens."""
        cache = DynamicCache(config=self.model.config)
        out = self.model(input_ids=prompts.to("cuda"), past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.batch_repeat_interleave(self.candidates)
        token = self.pick(out.logits[:, -1].repeat_interleave(self.candidates, 0))
        titles = [token]
        for _ in range(self.new_tokens - 1):
            out = self.model(input_ids=token, past_key_values=cache, use_cache=True)
            token = self.pick(out.logits[:, -1])
            titles.append(token)
        return torch.cat(titles, 1).view(len(prompts), self.candidates, -1).cpu()


def listings(count, tokens=448):
    generator = torch.Generator().manual_seed(12)
    return torch.randint(0, VOCAB, (count, tokens), generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--products-per-call", type=int, default=20)
    options = parser.parse_args()
    per_call = 4 if options.fixed else options.products_per_call
    writer = TitleWriter()
    done = []
    for group in listings(40).split(per_call):
        done.append(writer.write(group))
        print("titles for", sum(len(d) for d in done), "products")
    print(torch.cat(done).shape)


main()
