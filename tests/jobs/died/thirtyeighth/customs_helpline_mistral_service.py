"""Answers questions to the customs helpline in batches. Own decoding loop, because we need the scores of each answer's tokens."""
import sys
import time
from dataclasses import dataclass, field

import torch
from transformers import MistralConfig, MistralForCausalLM

VOCAB = 32768


@dataclass
class Answer:
    tokens: list = field(default_factory=list)
    scores: list = field(default_factory=list)


class Helpline:
    def __init__(self):
        config = MistralConfig(vocab_size=VOCAB, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                               num_key_value_heads=2, max_position_embeddings=4096, sliding_window=None)
        self.model = MistralForCausalLM(config).to("cuda", torch.bfloat16).eval()

    def prefill(self, prompts):
        extra = {"logits_to_keep": 1} if "--fixed" in sys.argv else {}
        out = self.model(input_ids=prompts, use_cache=True, **extra)
        return out.logits[:, -1].float(), out.past_key_values

    @torch.inference_mode()
    def answer(self, prompts, max_new=24):
        answers = [Answer() for _ in prompts]
        logits, past = self.prefill(prompts.to("cuda"))
        for _ in range(max_new):
            logprobs = torch.log_softmax(logits, -1)
            best, token = logprobs.max(-1)
            for answer, t, s in zip(answers, token.tolist(), best.tolist()):
                answer.tokens.append(t)
                answer.scores.append(s)
            out = self.model(input_ids=token.clamp(0, VOCAB - 1)[:, None], past_key_values=past, use_cache=True)
            logits, past = out.logits[:, -1].float(), out.past_key_values
        return answers


def queue(requests=4, size=16):
    gen = torch.Generator().manual_seed(50)
    for k in range(requests):
        # the tariff sections found by the search stand before each question
        yield torch.randint(3, VOCAB, (size, 1400 + 100 * k), generator=gen)


if __name__ == "__main__":
    service = Helpline()
    for number, prompts in enumerate(queue()):
        begin = time.time()
        replies = service.answer(prompts)
        print("batch", number, "answers", len(replies), "tokens", len(replies[0].tokens), f"{time.time() - begin:.2f} s")
