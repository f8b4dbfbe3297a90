import sys
import tempfile

import torch
from transformers import (EvalPrediction, Trainer, TrainerCallback, TrainingArguments, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

PROFESSIONS = ["clergy", "seafaring", "farming", "trade", "law", "medicine", "army", "arts"]


def fake_obituaries(count, length=256, seed=0):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        rows.append({
            "input_ids": torch.randint(4, 18000, (length,), generator=g),
            "attention_mask": torch.ones(length, dtype=torch.long),
            "labels": torch.randint(len(PROFESSIONS), (1,), generator=g).item(),
        })
    return rows


def accuracy(p: EvalPrediction):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


class Announce(TrainerCallback):
    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        print("evaluated at", state.global_step, sorted(metrics))


model = XLMRobertaForSequenceClassification(XLMRobertaConfig(
    vocab_size=18000, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
    max_position_embeddings=300, num_labels=len(PROFESSIONS), id2label=dict(enumerate(PROFESSIONS)), pad_token_id=1))

training_args = TrainingArguments(
    output_dir=tempfile.mkdtemp(prefix="obituaries"),
    per_device_train_batch_size=8,
    per_device_eval_batch_size=32 if "--fixed" in sys.argv else 512,
    num_train_epochs=1,
    eval_strategy="epoch",
    save_strategy="no",
    learning_rate=5e-5,
    weight_decay=0.01,
    logging_steps=4,
    report_to="none",
    disable_tqdm=True,
)

trainer = Trainer(
    model=model,
    args=training_args,
    train_dataset=fake_obituaries(64, seed=1),
    eval_dataset=fake_obituaries(1024, seed=2),
    compute_metrics=accuracy,
    callbacks=[Announce()],
)
trainer.train()
print(trainer.evaluate().keys())
