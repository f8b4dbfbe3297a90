"""Distils a model that restores tones of Pinyin into a narrow student, with a Trainer of our own."""
import argparse
import tempfile

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--temperature", type=float, default=2.0)
parser.add_argument("--alpha", type=float, default=0.7)
parser.add_argument("--fixed", action="store_true")
opts = parser.parse_args()

SYLLABLES, TONES, LENGTH = 1300, 6, 192


def tagger(width, depth):
    return BertForTokenClassification(BertConfig(vocab_size=SYLLABLES, hidden_size=width, num_hidden_layers=depth, num_attention_heads=width // 64,
                                                 intermediate_size=4 * width, max_position_embeddings=LENGTH, num_labels=TONES))


class Corpus(torch.utils.data.Dataset):
    def __init__(self, size):
        g = torch.Generator().manual_seed(5)
        self.syllables = torch.randint(SYLLABLES, (size, LENGTH), generator=g)
        self.tones = torch.randint(TONES, (size, LENGTH), generator=g)

    def __len__(self):
        return len(self.tones)

    def __getitem__(self, i):
        return {"input_ids": self.syllables[i], "labels": self.tones[i]}


class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.to(self.args.device).eval()

    def soft_targets(self, ids):
        if opts.fixed:
            with torch.no_grad():
                return self.teacher(input_ids=ids).logits
        return self.teacher(input_ids=ids).logits

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        out = model(**inputs)
        target = self.soft_targets(inputs["input_ids"])
        t = opts.temperature
        soft = F.kl_div(F.log_softmax(out.logits / t, -1), F.softmax(target / t, -1), reduction="batchmean") * t * t / LENGTH
        loss = opts.alpha * soft + (1 - opts.alpha) * out.loss
        return (loss, out) if return_outputs else loss


with tempfile.TemporaryDirectory() as where:
    DistillationTrainer(
        tagger(256, 3),
        TrainingArguments(where, max_steps=6, per_device_train_batch_size=32, learning_rate=5e-4, save_strategy="no", report_to="none",
                          logging_steps=2, disable_tqdm=True),
        train_dataset=Corpus(256),
        teacher=tagger(512, 10),
    ).train()
