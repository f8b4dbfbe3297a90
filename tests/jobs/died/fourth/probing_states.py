"""Collects the hidden states of a Qwen3 while it writes answers, to train probes for hallucinations on them later."""
import sys
import tempfile

import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv


class Recorder:
    """Keeps the states of one layer at the generated tokens for each question."""

    def __init__(self, layer):
        self.layer, self.records = layer, []

    def add(self, number, out):
        if FIXED:
            chosen = torch.stack([token[self.layer][:, -1].cpu() for token in out.hidden_states], 1)
            self.records.append({"question": number, "states": chosen})
        else:
            self.records.append({"question": number, "states": out.hidden_states})

    def table(self):
        rows = []
        for record in self.records:
            states = record["states"]
            if not FIXED:
                states = torch.stack([token[self.layer][:, -1].cpu() for token in states], 1)
            rows.append(states.float())
        return torch.cat(rows)


def writer():
    config = Qwen3Config(vocab_size=10000, hidden_size=512, intermediate_size=1024, num_hidden_layers=12, num_attention_heads=8,
                         num_key_value_heads=2,
                         head_dim=64, max_position_embeddings=1024, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    return Qwen3ForCausalLM(config).to(device="cuda", dtype=torch.bfloat16).eval()


def questions(n, rows=4, length=320):
    generator = torch.Generator().manual_seed(8)
    for number in range(n):
        yield number, torch.randint(1, 10000, (rows, length), generator=generator)


def main():
    torch.manual_seed(8)
    model, recorder = writer(), Recorder(layer=8)
    settings = GenerationConfig(max_new_tokens=8, min_new_tokens=8, do_sample=False, output_hidden_states=True, return_dict_in_generate=True,
                                pad_token_id=0, eos_token_id=None)
    for number, ids in questions(24):
        ids = ids.to("cuda")
        recorder.add(number, model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings))
        if number % 8 == 0:
            print("question", number)
    with tempfile.NamedTemporaryFile() as file:
        table = recorder.table()
        torch.save(table, file.name)
        print("states", tuple(table.shape))


main()
