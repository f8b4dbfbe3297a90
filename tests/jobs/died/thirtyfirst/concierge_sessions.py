"""Hotel concierge: small chat service that keeps the prefix of each guest's session so that later turns are quick."""
import sys
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM


@dataclass
class Session:
    guest: int
    cache: DynamicCache = field(default_factory=DynamicCache)
    turns: int = 0
    open: bool = True


class SessionStore:
    def __init__(self):
        self._sessions = {}

    def get(self, guest):
        if guest not in self._sessions:
            self._sessions[guest] = Session(guest)
        return self._sessions[guest]

    def close(self, guest):
        self._sessions[guest].open = False
        if "--fixed" in sys.argv:
            del self._sessions[guest]

    def active(self):
        return sum(s.open for s in self._sessions.values())


class ConciergeService:
    def __init__(self, vocab=5000):
        torch.manual_seed(0)
        self.vocab = vocab
        self.model = Qwen3ForCausalLM(Qwen3Config(
            vocab_size=vocab, hidden_size=384, intermediate_size=1024, num_hidden_layers=10, num_attention_heads=8, num_key_value_heads=8,
            head_dim=64, max_position_embeddings=8192)).to("cuda", torch.bfloat16).eval()
        self.store = SessionStore()

    @torch.inference_mode()
    def reply(self, guest, message, max_new_tokens=5):
        session = self.store.get(guest)
        ids, answer = message.to("cuda"), []
        for _ in range(max_new_tokens):
            out = self.model(input_ids=ids, past_key_values=session.cache, use_cache=True, logits_to_keep=1)
            ids = out.logits[:, -1:].argmax(-1)
            answer.append(ids)
        session.turns += 1
        return torch.cat(answer, 1).cpu()


def main(guests=36):
    service = ConciergeService()
    g = torch.Generator().manual_seed(21)
    for guest in range(guests):
        # system prompt with the hotel's handbook, then two questions
        service.reply(guest, torch.randint(0, 5000, (1, 1600), generator=g))
        service.reply(guest, torch.randint(0, 5000, (1, 40), generator=g))
        service.store.close(guest)
        if guest % 6 == 0:
            print("guest", guest, "active sessions", service.store.active())


main()
