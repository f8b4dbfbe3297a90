"""Fine-tunes a GPT-2 on letters of a clinic with the Trainer; the arguments were copied from a run on a larger card.
"""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
VOCABULARY = 4000


class Letters(Dataset):
    """Letters cut into blocks of one length."""

    def __init__(self, n, block=512, seed=11):
        generator = torch.Generator().manual_seed(seed)
        self.blocks = torch.randint(0, VOCABULARY, (n, block), generator=generator)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i].clone()}


def make_model():
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=512, n_embd=512, n_layer=8, n_head=8, bos_token_id=0, eos_token_id=1)
    model = GPT2LMHeadModel(config)
    print("parameters: %.1f M" % (sum(p.numel() for p in model.parameters()) / 1e6))
    return model


def arguments(directory):
    size = 4 if FIXED else 32
    return TrainingArguments(
        output_dir=directory,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=32 // size,
        max_steps=3,
        learning_rate=5e-5,
        weight_decay=0.01,
        warmup_steps=1,
        bf16=True,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        dataloader_num_workers=0,
        disable_tqdm=True,
    )


def main():
    with tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(model=make_model(), args=arguments(directory), train_dataset=Letters(128))
        result = trainer.train()
    print("steps", result.global_step, "loss", result.training_loss)


if __name__ == "__main__":
    main()
