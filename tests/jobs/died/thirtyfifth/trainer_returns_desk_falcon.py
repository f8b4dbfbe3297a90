"""Language model of the returns desk: learns from chat logs, reports next-token accuracy on held-out chats after training."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import FalconConfig, FalconForCausalLM, Trainer, TrainingArguments

VOCAB = 12000
BLOCK = 256


class ChatBlocks(Dataset):
    def __init__(self, blocks, seed):
        self.tokens = torch.randint(0, VOCAB, (blocks, BLOCK), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i].clone()}


def best_tokens(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(-1)


def token_accuracy(prediction):
    guess, labels = prediction
    if isinstance(guess, tuple):
        guess = guess[0]
    if guess.ndim == 3:
        guess = guess.argmax(-1)
    hits = guess[:, :-1] == labels[:, 1:]
    return {"token_accuracy": float(np.mean(hits))}


def main():
    config = FalconConfig(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, new_decoder_architecture=False,
                          multi_query=True, bias=False, parallel_attn=True)
    model = FalconForCausalLM(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(output_dir=out, per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=8,
                                 learning_rate=3e-4, logging_steps=4, save_strategy="no", report_to=[], eval_strategy="no")
        extra = {"preprocess_logits_for_metrics": best_tokens} if "--fixed" in sys.argv else {}
        trainer = Trainer(model=model, args=args, train_dataset=ChatBlocks(96, 0), eval_dataset=ChatBlocks(128, 1),
                          compute_metrics=token_accuracy, **extra)
        trainer.train()
        print(trainer.evaluate())


main()
