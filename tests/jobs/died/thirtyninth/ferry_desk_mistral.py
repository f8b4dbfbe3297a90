"""Answers of a ferry company's help desk, batches of 16 requests, with a cache of fixed shape (for CUDA graphs later on)."""
import sys
from dataclasses import dataclass, field

import torch
from transformers import MistralConfig, MistralForCausalLM, StaticCache

FIXED = "--fixed" in sys.argv


@dataclass
class ServerOptions:
    max_batch: int = 16
    max_prompt: int = 960
    max_new_tokens: int = 48
    max_model_len: int = 1024 if FIXED else 12288


@dataclass
class Answer:
    request: int
    tokens: list = field(default_factory=list)


class Desk:
    def __init__(self, options: ServerOptions):
        self.options = options
        config = MistralConfig(vocab_size=6000, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                               num_key_value_heads=8, sliding_window=None, max_position_embeddings=16384)
        self.model = MistralForCausalLM(config).to("cuda", torch.bfloat16).eval()
        self.cache = StaticCache(config=config, max_cache_len=options.max_model_len)

    @torch.inference_mode()
    def serve(self, prompts):
        self.cache.reset()
        n = prompts.shape[1]
        place = torch.arange(n)[None].cuda()
        out = self.model(input_ids=prompts.cuda(), position_ids=place, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        columns = []
        for k in range(self.options.max_new_tokens):
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            columns.append(token)
            place = torch.tensor([[n + k]]).cuda()
            out = self.model(input_ids=token, position_ids=place, past_key_values=self.cache, use_cache=True)
        return torch.cat(columns, 1).cpu()


def requests(count, options):
    gen = torch.Generator().manual_seed(1)
    for i in range(count):
        length = int(torch.randint(300, options.max_prompt, (1,), generator=gen))
        yield i, torch.randint(0, 6000, (options.max_batch, length), generator=gen)


def main():
    options = ServerOptions()
    desk, log = Desk(options), []
    for i, prompts in requests(4, options):
        rows = desk.serve(prompts)
        log.extend(Answer(i * options.max_batch + j, row.tolist()) for j, row in enumerate(rows))
        print(f"batch {i}: prompts of {prompts.shape[1]} tokens, {len(log)} answers so far")


main()
