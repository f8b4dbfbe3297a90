"""A help desk's chat service with a small Qwen2: each caller has a session, whose cache spares the prefill of the next turn."""
import sys

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv


class Session:
    def __init__(self, caller):
        self.caller = caller
        self.cache = DynamicCache()
        self.tokens = []


class Desk:
    def __init__(self):
        config = Qwen2Config(vocab_size=4000, hidden_size=768, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=12,
                             num_key_value_heads=12, max_position_embeddings=4096)
        self.model = Qwen2ForCausalLM(config).to("cuda", torch.bfloat16).eval()
        self.sessions = {}

    @torch.inference_mode()
    def turn(self, caller, text, reply=2):
        session = self.sessions.setdefault(caller, Session(caller))
        ids = torch.tensor([text], device="cuda")
        answer = []
        for _ in range(reply):
            out = self.model(input_ids=ids, past_key_values=session.cache, use_cache=True, logits_to_keep=1)
            ids = out.logits[:, -1:].argmax(-1)
            answer.append(ids)
        answer = torch.cat(answer, dim=1)[0].tolist()
        session.tokens += text + answer
        return answer

    def hang_up(self, caller):
        """The caller has gone: keeps the transcript for the statistics."""
        session = self.sessions[caller]
        if FIXED:
            del self.sessions[caller]
        return len(session.tokens)


def main():
    desk = Desk()
    generator = torch.Generator().manual_seed(1)
    for caller in range(16):
        for _ in range(2):
            length = int(torch.randint(400, 700, (1,), generator=generator))
            desk.turn(caller, torch.randint(1, 4000, (length,), generator=generator).tolist())
        print("caller", caller, "used", desk.hang_up(caller), "tokens")


main()
