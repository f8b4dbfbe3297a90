"""Distils a twelve-layer BERT that fills in crosswords into one of three layers, with a Trainer of its own."""
import sys
import tempfile

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

VOCAB, LENGTH = 4000, 128


class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher=None, temperature=2.0, alpha=0.7, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.to(self.args.device)
        self.teacher.eval()
        self.temperature, self.alpha = temperature, alpha

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        student = model(**inputs)
        if "--fixed" in sys.argv:
            with torch.no_grad():
                teacher_logits = self.teacher(**inputs).logits
        else:
            teacher_logits = self.teacher(**inputs).logits
        t = self.temperature
        soft = F.kl_div(F.log_softmax(student.logits / t, -1), F.softmax(teacher_logits / t, -1), reduction="batchmean") * t * t / LENGTH
        loss = self.alpha * soft + (1 - self.alpha) * student.loss
        return (loss, student) if return_outputs else loss


class Clues(torch.utils.data.Dataset):
    def __init__(self, n=400):
        g = torch.Generator().manual_seed(9)
        self.ids = torch.randint(4, VOCAB, (n, LENGTH), generator=g)
        self.hidden = torch.rand(n, LENGTH, generator=g) < 0.15

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids, hidden = self.ids[i], self.hidden[i]
        return {"input_ids": ids.masked_fill(hidden, 3), "labels": ids.masked_fill(~hidden, -100)}


def bert(layers, width):
    return BertForMaskedLM(BertConfig(vocab_size=VOCAB, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
                                      intermediate_size=4 * width, max_position_embeddings=LENGTH))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(scratch, max_steps=8, per_device_train_batch_size=24, learning_rate=1e-4, logging_steps=2, report_to="none",
                                      save_strategy="no", disable_tqdm=True)
        DistillationTrainer(bert(3, 256), arguments, train_dataset=Clues(), teacher=bert(12, 512)).train()
