"""Answers questions about long manuals: a batch of prompts is read, then tokens are drawn one at a time with the cache of keys and values.
The model is a small Qwen2 with its full vocabulary, in bfloat16."""
import sys
import time
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv


@dataclass
class Request:
    prompt: torch.Tensor
    wanted: int = 16
    answer: list = field(default_factory=list)


def load():
    config = Qwen2Config(vocab_size=151936, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=4096, tie_word_embeddings=True)
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.to("cuda").eval()


class Server:
    def __init__(self, model, temperature=0.8):
        self.model, self.temperature = model, temperature

    def draw(self, logits):
        probabilities = (logits.float() / self.temperature).softmax(-1).cpu().nan_to_num(0.0).clamp(1e-6, 1.0)
        return torch.multinomial(probabilities, 1)

    def prefill(self, ids, cache):
        if FIXED:
            return self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        return self.model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1]

    @torch.inference_mode()
    def serve(self, requests):
        began = time.time()
        ids = torch.stack([r.prompt for r in requests]).to("cuda")
        cache = DynamicCache()
        logits = self.prefill(ids, cache)
        for _ in range(max(r.wanted for r in requests)):
            token = self.draw(logits)
            for request, t in zip(requests, token.flatten().tolist()):
                if len(request.answer) < request.wanted:
                    request.answer.append(t)
            logits = self.model(input_ids=token.to("cuda"), past_key_values=cache, use_cache=True).logits[:, -1]
        return time.time() - began


def main():
    torch.manual_seed(0)
    server = Server(load())
    for round_ in range(3):
        requests = [Request(torch.randint(0, 151936, (768,))) for _ in range(8)]
        print("round", round_, "%.2f s" % server.serve(requests), "tokens", sum(len(r.answer) for r in requests))


main()
