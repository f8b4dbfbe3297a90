"""Legal tech: next-token model over contract clauses, with token accuracy as the metric of the evaluation."""
import sys
import tempfile
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    vocab_size: int = field(default=12000)
    hidden_size: int = field(default=256)
    num_hidden_layers: int = field(default=4)


@dataclass
class DataArguments:
    block_size: int = field(default=256)
    train_blocks: int = field(default=64)
    eval_blocks: int = field(default=104)


class ClauseBlocks(torch.utils.data.Dataset):
    def __init__(self, count, block, vocab, seed):
        self.ids = torch.randint(0, vocab, (count, block), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def to_predictions(logits, labels):
    return logits.argmax(-1)


def compute_metrics(p):
    preds = p.predictions
    if preds.ndim == 3:
        preds = preds.argmax(-1)
    hit = preds[:, :-1] == p.label_ids[:, 1:]
    return {"token_accuracy": float(np.mean(hit))}


def main():
    margs, dargs = ModelArguments(), DataArguments()
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=margs.vocab_size, hidden_size=margs.hidden_size, intermediate_size=704, num_hidden_layers=margs.num_hidden_layers,
        num_attention_heads=4, num_key_value_heads=2, use_cache=False))
    extra = {}
    if "--fixed" in sys.argv:
        extra["preprocess_logits_for_metrics"] = to_predictions
    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(output_dir=out, per_device_train_batch_size=4, per_device_eval_batch_size=8, max_steps=12, learning_rate=5e-4,
                                  eval_strategy="steps", eval_steps=12, logging_steps=4, save_strategy="no", report_to="none", disable_tqdm=True)
        trainer = Trainer(
            model=model, args=targs,
            train_dataset=ClauseBlocks(dargs.train_blocks, dargs.block_size, margs.vocab_size, 1),
            eval_dataset=ClauseBlocks(dargs.eval_blocks, dargs.block_size, margs.vocab_size, 2),
            compute_metrics=compute_metrics, **extra)
        trainer.train()


if __name__ == "__main__":
    main()
