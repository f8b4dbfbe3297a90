"""Writes first answers to tickets about wallboxes, in batches over night. Greedy decoding in a loop of its own, with a stop per ticket."""
import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCAB, STOP = 100_000, 2


class Writer:
    def __init__(self):
        config = Qwen3Config(vocab_size=VOCAB, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=2, head_dim=64, max_position_embeddings=4096, tie_word_embeddings=True)
        with torch.device("cuda"):
            self.model = Qwen3ForCausalLM(config).to(torch.bfloat16).eval()

    def prefill(self, prompts):
        if "--fixed" in sys.argv:
            return self.model(input_ids=prompts, use_cache=True, logits_to_keep=1)
        return self.model(input_ids=prompts, use_cache=True)

    @torch.inference_mode()
    def write(self, prompts, new_tokens=40):
        prompts = prompts.cuda()
        out = self.prefill(prompts)
        past, token = out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)
        del out
        written = [token.cpu()]
        for _ in range(new_tokens - 1):
            out = self.model(input_ids=token, past_key_values=past, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            written.append(token.cpu())
        return torch.cat(written, 1)


def tickets(batches, size=16, length=1300):
    g = torch.Generator().manual_seed(6)
    for _ in range(batches):
        yield torch.randint(3, VOCAB, (size, length), generator=g)


def main():
    writer = Writer()
    for number, prompts in enumerate(tickets(3)):
        start = time.time()
        answers = writer.write(prompts)
        stops = (answers == STOP).any(1).sum().item()
        print(f"batch {number}: {tuple(answers.shape)} in {time.time() - start:.1f} s, {stops} stopped early")


if __name__ == "__main__":
    main()
