"""Classifies questions put to jurors; the hidden states of all layers are weighted, and the training accuracy is printed for each epoch."""
import sys
import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments, XLMRobertaConfig, XLMRobertaForSequenceClassification

FIXED = "--fixed" in sys.argv


class Questions(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(12)
        self.ids = torch.randint(5, 6000, (n, 128), generator=g)
        self.labels = torch.randint(0, 6, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(128, dtype=torch.long), "labels": self.labels[i]}


class JuryTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.epoch_outputs, self.epoch_labels = [], []
        self.smooth = nn.CrossEntropyLoss(label_smoothing=0.1)

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.smooth(outputs.logits, labels)
        layers = torch.stack([h[:, 0].norm(dim=-1).mean() for h in outputs.hidden_states])
        loss = loss + 1e-3 * layers.std()
        self.epoch_outputs.append({"logits": outputs.logits.detach().cpu()} if FIXED else outputs)
        self.epoch_labels.append(labels.cpu())
        return (loss, outputs) if return_outputs else loss


class TrainAccuracy(TrainerCallback):
    trainer = None

    def on_epoch_end(self, args, state, control, **kwargs):
        guesses = torch.cat([o["logits"].argmax(-1).cpu() for o in self.trainer.epoch_outputs])
        print("accuracy", (guesses == torch.cat(self.trainer.epoch_labels)).float().mean().item())
        self.trainer.epoch_outputs, self.trainer.epoch_labels = [], []


config = XLMRobertaConfig(vocab_size=6000, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=1024,
                          max_position_embeddings=140, num_labels=6, output_hidden_states=True, pad_token_id=1)
callback = TrainAccuracy()
with tempfile.TemporaryDirectory() as tmp:
    arguments = TrainingArguments(tmp, per_device_train_batch_size=32, num_train_epochs=1, save_strategy="no", report_to="none", disable_tqdm=True)
    callback.trainer = JuryTrainer(XLMRobertaForSequenceClassification(config), arguments, train_dataset=Questions(32 * 36), callbacks=[callback])
    callback.trainer.train()
