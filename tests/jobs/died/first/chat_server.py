"""A small chat server: each conversation goes on from the keys and values of its last turn.

https://github.com/lm-sys/FastChat/issues/3223
"""
import argparse

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM


class Session:
    def __init__(self):
        self.cache = DynamicCache()
        self.tokens = None


class Server:
    def __init__(self, close_sessions):
        config = Qwen2Config(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
                             num_key_value_heads=12)
        with torch.device("cuda"):
            self.model = Qwen2ForCausalLM(config).half().eval()
        self.sessions = {}
        self.close_sessions = close_sessions

    @torch.inference_mode()
    def chat(self, user, prompt, new_tokens=6):
        session = self.sessions.setdefault(user, Session())
        ids, answer = prompt, []
        for _ in range(new_tokens):
            out = self.model(input_ids=ids, past_key_values=session.cache, use_cache=True, logits_to_keep=1)
            ids = out.logits[:, -1:].argmax(-1)
            answer.append(ids)
        return torch.cat(answer, 1).tolist()

    def close(self, user):
        if self.close_sessions:
            del self.sessions[user]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    server = Server(close_sessions=parser.parse_args().fixed)
    for user in range(14):
        for turn in range(2):
            server.chat(user, torch.randint(0, 32000, (1, 1024), device="cuda"))
        server.close(user)
