"""Chat server of an allotment society: the keys and values of a conversation stay, so that the next turn need not read it all again."""
import sys
import uuid

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

CLOSE_AFTER = 2 if "--fixed" in sys.argv else None


class ChatServer:
    def __init__(self, config):
        self.model = LlamaForCausalLM(config).cuda().eval()
        self.sessions = {}
        self.turns = {}

    def open(self):
        key = uuid.uuid4().hex
        self.sessions[key], self.turns[key] = DynamicCache(), 0
        return key

    @torch.inference_mode()
    def say(self, key, prompt, length=12):
        cache = self.sessions[key]
        tokens, answer = prompt.cuda(), []
        for _ in range(length):
            out = self.model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            tokens = out.logits[:, -1:].argmax(-1).clamp(0, 3999)
            answer.append(tokens)
        self.turns[key] += 1
        if CLOSE_AFTER and self.turns[key] >= CLOSE_AFTER:
            del self.sessions[key]
        return torch.cat(answer, 1).tolist()[0]


def main():
    torch.manual_seed(15)
    server = ChatServer(LlamaConfig(vocab_size=4000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                                    num_key_value_heads=8, max_position_embeddings=4096))
    g = torch.Generator().manual_seed(16)
    for visitor in range(36):
        key = server.open()
        rules = torch.randint(0, 4000, (1, 1400), generator=g)  # the statutes of the society come first
        server.say(key, rules)
        answer = server.say(key, torch.randint(0, 4000, (1, 40), generator=g))
        if visitor % 6 == 0:
            print("visitor", visitor, "answer of", len(answer), "tokens", len(server.sessions), "open")


main()
