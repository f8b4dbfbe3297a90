"""Pretrains a small Mistral on Zulu news. The articles are joined and cut into blocks; HF Trainer does the rest."""
import sys
import tempfile

import torch
from transformers import MistralConfig, MistralForCausalLM, Trainer, TrainingArguments, default_data_collator

block_size = 2048
if "--fixed" in sys.argv:
    block_size = 512


def articles(n):
    g = torch.Generator().manual_seed(3)
    for _ in range(n):
        length = int(torch.randint(150, 900, (1,), generator=g))
        yield torch.randint(3, 4000, (length,), generator=g).tolist() + [2]


def group_texts(texts):
    joined = [token for text in texts for token in text]
    total = len(joined) // block_size * block_size
    return [joined[i:i + block_size] for i in range(0, total, block_size)]


class Blocks(torch.utils.data.Dataset):
    def __init__(self, blocks):
        self.blocks = blocks

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        return {"input_ids": self.blocks[index], "labels": list(self.blocks[index])}


def main():
    config = MistralConfig(vocab_size=4000, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                           num_key_value_heads=2, max_position_embeddings=4096, sliding_window=None, use_cache=False)
    model = MistralForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(output_dir=folder, per_device_train_batch_size=12, max_steps=5, learning_rate=3e-4, logging_steps=2,
                                 warmup_steps=2, save_strategy="no", report_to=[], disable_tqdm=True, dataloader_num_workers=0)
        trainer = Trainer(model=model, args=args, train_dataset=Blocks(group_texts(articles(300))), data_collator=default_data_collator)
        trainer.train()
        print("steps:", trainer.state.global_step)


if __name__ == "__main__":
    main()
