"""Answers questions about pages of machine manuals with a T5. Pages are read once, and many questions follow on the same ones."""
import random
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

LONGEST = 900


class ManualReader:
    def __init__(self, limit=None):
        config = T5Config(vocab_size=8000, d_model=512, d_kv=64, d_ff=1024, num_layers=6, num_heads=8, feed_forward_proj="gated-gelu",
                          decoder_start_token_id=0)
        self.model = T5ForConditionalGeneration(config).to("cuda", dtype=torch.float32).eval()
        self.read = {}
        self.limit = limit

    def page(self, key, tokens):
        if key not in self.read:
            states = self.model.encoder(input_ids=tokens.to("cuda")).last_hidden_state
            self.read[key] = states
            if self.limit and len(self.read) > self.limit:
                self.read.pop(next(iter(self.read)))
        return self.read[key]

    @torch.inference_mode()
    def answer(self, key, tokens, question, words=6):
        states = self.page(key, tokens)
        output, cache = question.to("cuda"), None
        feed = output
        for _ in range(words):
            out = self.model(encoder_outputs=BaseModelOutput(last_hidden_state=states), decoder_input_ids=feed,
                             past_key_values=cache, use_cache=True)
            cache, feed = out.past_key_values, out.logits[:, -1:].argmax(-1)
            output = torch.cat([output, feed], 1)
        return output[0].tolist()


def main():
    rng = random.Random(31)
    reader = ManualReader(limit=32 if "--fixed" in sys.argv else None)
    for request in range(520):
        manual, number = rng.choice("lathe mill press saw loom crane".split()), rng.randrange(400)
        page = torch.randint(1, 8000, (1, rng.randint(500, LONGEST)))
        answer = reader.answer((manual, number), page, torch.randint(1, 8000, (1, 12)))
        if request % 80 == 0:
            print(request, manual, number, len(answer), "tokens")


main()
