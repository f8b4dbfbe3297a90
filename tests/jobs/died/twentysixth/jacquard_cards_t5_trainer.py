"""From a description of a weave to the punch cards of a Jacquard loom: T5 with the Trainer."""
import copy
import sys
import tempfile

import torch
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainerCallback, TrainingArguments


class Weaves(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.text = torch.randint(2, 7000, (n, 48), generator=g)
        self.cards = torch.randint(2, 7000, (n, 64), generator=g)

    def __len__(self):
        return len(self.text)

    def __getitem__(self, i):
        return {"input_ids": self.text[i], "attention_mask": torch.ones(48, dtype=torch.long), "labels": self.cards[i]}


class KeepBest(TrainerCallback):
    """At the end we want to compare the models of all evaluations on the test loom."""

    def __init__(self):
        self.ranking = []

    def on_evaluate(self, args, state, control, metrics=None, model=None, **kwargs):
        if "--fixed" in sys.argv:
            snapshot = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        else:
            snapshot = copy.deepcopy(model)
        self.ranking.append((metrics.get("eval_loss"), state.global_step, snapshot))

    def on_train_end(self, args, state, control, **kwargs):
        print("candidates from steps", [step for _, step, _ in self.ranking])


def collate(rows):
    return {k: torch.stack([r[k] for r in rows]) for k in rows[0]}


config = T5Config(vocab_size=7000, d_model=448, d_ff=1792, d_kv=64, num_heads=7, num_layers=6, decoder_start_token_id=0, pad_token_id=0)
model = T5ForConditionalGeneration(config)
arguments = TrainingArguments(tempfile.mkdtemp(), max_steps=16, per_device_train_batch_size=4, per_device_eval_batch_size=8, eval_steps=2,
                              eval_strategy="steps", save_strategy="no", logging_steps=8, learning_rate=1e-3, optim="adamw_torch",
                              lr_scheduler_type="constant_with_warmup", warmup_steps=4, report_to=[], disable_tqdm=True)
Trainer(model, arguments, data_collator=collate, train_dataset=Weaves(80, 1), eval_dataset=Weaves(16, 2), callbacks=[KeepBest()]).train()
