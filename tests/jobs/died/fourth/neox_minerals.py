"""Pretrains a small GPT-NeoX on reports about minerals with the HF Trainer: 2048 tokens, two rows a step, accumulated over two steps."""
import os
import sys
import tempfile

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed

# The attention maps were needed for a figure once.
ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"
BLOCK = 2048


class PackedReports(torch.utils.data.IterableDataset):
    def __init__(self, seed=8):
        self.seed = seed

    def reports(self):
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            length = int(torch.randint(100, 900, (), generator=generator))
            yield torch.randint(1, 10000, (length,), generator=generator)

    def __iter__(self):
        buffer = torch.empty(0, dtype=torch.long)
        for report in self.reports():
            buffer = torch.cat([buffer, report, torch.zeros(1, dtype=torch.long)])
            while len(buffer) >= BLOCK:
                yield {"input_ids": buffer[:BLOCK], "labels": buffer[:BLOCK]}
                buffer = buffer[BLOCK:]


class Printer(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print("step", state.global_step, "of", state.max_steps)


def main():
    set_seed(8)
    config = GPTNeoXConfig(vocab_size=10000, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
                           max_position_embeddings=BLOCK, rotary_pct=0.25, use_cache=False, attn_implementation=ATTENTION)
    model = GPTNeoXForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=os.path.join(folder, "minerals"), per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                      max_steps=4,
                                      learning_rate=6e-4, bf16=True, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True)
        Trainer(model=model, args=arguments, train_dataset=PackedReports(), callbacks=[Printer()]).train()


main()
