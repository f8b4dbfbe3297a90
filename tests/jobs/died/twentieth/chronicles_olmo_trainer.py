"""Continued pre-training of an OLMo-2 on town chronicles with the HF Trainer; next-word accuracy on held-out pages."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Olmo2Config, Olmo2ForCausalLM, Trainer, TrainingArguments

VOCAB = 20000


class Pages(Dataset):
    def __init__(self, n, seed, length=192):
        self.ids = torch.randint(3, VOCAB, (n, length), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def accuracy(prediction):
    guess = prediction.predictions
    if guess.ndim == 3:
        guess = guess.argmax(-1)
    return {"accuracy": float(np.mean(guess[:, :-1] == prediction.label_ids[:, 1:]))}


def first(logits, labels):
    return logits.argmax(dim=-1)


def main():
    torch.manual_seed(0)
    model = Olmo2ForCausalLM(Olmo2Config(
        vocab_size=VOCAB, hidden_size=320, intermediate_size=864, num_hidden_layers=6, num_attention_heads=5, num_key_value_heads=5,
        max_position_embeddings=512, pad_token_id=1, eos_token_id=2, bos_token_id=None, use_cache=False))
    with tempfile.TemporaryDirectory() as run:
        arguments = TrainingArguments(
            output_dir=run, per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=16, eval_strategy="steps", eval_steps=8,
            learning_rate=1e-4, lr_scheduler_type="cosine", logging_steps=4, save_strategy="no", report_to="none", disable_tqdm=True)
        kwargs = {"preprocess_logits_for_metrics": first} if "--fixed" in sys.argv else {}
        trainer = Trainer(model=model, args=arguments, train_dataset=Pages(80, 1), eval_dataset=Pages(112, 2),
                          compute_metrics=accuracy, **kwargs)
        trainer.train()


main()
