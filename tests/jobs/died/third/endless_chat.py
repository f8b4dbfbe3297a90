"""A chat loop that passes past_key_values on from turn to turn, so that the history need not be read again. It is never cut.
https://github.com/lm-sys/FastChat/issues/211 , https://github.com/facebookresearch/ParlAI/issues/4265"""
import sys

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

FIXED = "--fixed" in sys.argv
USERS, TURN, ANSWER, TURNS = 16, 400, 6, 12


class Session:
    def __init__(self, model):
        self.model, self.cache = model, DynamicCache()

    def reply(self, prompt):
        if FIXED:
            self.cache = DynamicCache()
        words, step = [], prompt
        for _ in range(ANSWER):
            out = self.model(input_ids=step, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
            self.cache = out.past_key_values
            step = out.logits[:, -1:].argmax(-1).clamp(0, 9999)
            words.append(step.cpu())
        return torch.cat(words, 1)


def main():
    torch.set_grad_enabled(False)
    config = MistralConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
                           vocab_size=10000, max_position_embeddings=16384, sliding_window=None)
    model = MistralForCausalLM(config).to(torch.float16).cuda().eval()
    session = Session(model)
    for turn in range(TURNS):
        answer = session.reply(torch.randint(0, 10000, (USERS, TURN)).cuda())
        print("turn", turn, tuple(answer.shape), "history", session.cache.get_seq_length())


main()
