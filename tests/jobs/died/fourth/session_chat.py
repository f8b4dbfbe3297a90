"""A tutor for school maths: many pupils talk to one small Llama, each in a session of its own that goes on where it stopped."""
import sys
from collections import OrderedDict

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


class Sessions:
    """The caches of the pupils; with a limit, the session that was idle longest is forgotten (its text is read anew if the pupil comes back)."""

    def __init__(self, limit=None):
        self.caches, self.limit = OrderedDict(), limit

    def of(self, pupil):
        if pupil not in self.caches:
            self.caches[pupil] = DynamicCache()
        self.caches.move_to_end(pupil)
        while self.limit and len(self.caches) > self.limit:
            self.caches.popitem(last=False)
        return self.caches[pupil]


class Tutor:
    def __init__(self, sessions):
        torch.manual_seed(1)
        config = LlamaConfig(vocab_size=16000, hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8,
                             num_key_value_heads=8,
                             max_position_embeddings=4096)
        self.model = LlamaForCausalLM(config).to("cuda", torch.float16).eval()
        self.sessions = sessions

    @torch.no_grad()
    def reply(self, pupil, question, tokens=4):
        cache = self.sessions.of(pupil)
        ids, answer = question[None].to("cuda"), []
        for _ in range(tokens):
            logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            ids = logits[:, -1].argmax(-1, keepdim=True)
            answer.append(ids)
        return torch.cat(answer, 1)[0].tolist()


def school_day(pupils):
    """Each pupil asks once, with the exercise in front of the question; some ask again."""
    generator = torch.Generator().manual_seed(2)
    for k in range(pupils):
        yield k, torch.randint(3, 16000, (900,), generator=generator)
        if k % 5 == 4:
            yield k - 1, torch.randint(3, 16000, (60,), generator=generator)


def main():
    tutor = Tutor(Sessions(limit=8 if "--fixed" in sys.argv else None))
    told = 0
    for pupil, question in school_day(40):
        told += len(tutor.reply(pupil, question))
        if pupil % 10 == 0:
            print("pupil", pupil, "tokens told", told)


if __name__ == "__main__":
    main()
