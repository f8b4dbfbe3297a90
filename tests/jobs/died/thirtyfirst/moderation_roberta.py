"""Trust & safety: adapts RoBERTa to the language of comments (masked words); reports the accuracy on training batches too."""
import sys
import tempfile

import torch
from transformers import RobertaConfig, RobertaForMaskedLM, Trainer, TrainingArguments

VOCAB, LENGTH = 16000, 96


class Comments(torch.utils.data.Dataset):
    def __init__(self, n):
        self.g = torch.Generator().manual_seed(8)
        self.ids = torch.randint(5, VOCAB, (n, LENGTH), generator=self.g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i].clone()
        masked = torch.rand(LENGTH, generator=self.g) < 0.15
        labels = torch.where(masked, ids, torch.full_like(ids, -100))
        ids[masked] = 4
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


class ModerationTrainer(Trainer):
    """Adds train_acc to what is logged."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._train_outputs = []

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        logits, labels = outputs.logits.detach(), inputs["labels"]
        if "--fixed" in sys.argv:
            logits = logits.argmax(-1)
        self._train_outputs.append((logits, labels))
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    def log(self, logs, *args, **kwargs):
        if self._train_outputs:
            right = total = 0
            for pred, labels in self._train_outputs:
                pred = pred.argmax(-1) if pred.dim() == 3 else pred
                keep = labels != -100
                right += ((pred == labels) & keep).sum().item()
                total += keep.sum().item()
            logs["train_acc"] = right / max(total, 1)
            self._train_outputs.clear()
        super().log(logs, *args, **kwargs)


config = RobertaConfig(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                       max_position_embeddings=LENGTH + 8, pad_token_id=1)
with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(output_dir=out, per_device_train_batch_size=16, max_steps=24, logging_steps=100, learning_rate=1e-4, warmup_steps=4,
                             save_strategy="no", report_to="none", disable_tqdm=True)
    ModerationTrainer(model=RobertaForMaskedLM(config), args=args, train_dataset=Comments(512)).train()
