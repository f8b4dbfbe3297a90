"""Language model for transcribed charters. The log tells the perplexity of each scribe's hand apart."""
import collections
import math
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

HANDS = ("insular", "caroline", "gothic", "secretary")


class Charters(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, n):
        g = torch.Generator().manual_seed(n)
        ids = torch.randint(0, 8000, (256,), generator=g)
        return {"input_ids": ids, "labels": ids, "hand": torch.tensor(n % len(HANDS))}


class HandTrainer(Trainer):
    """Remembers (hand, outputs) of the steps since the last log."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.since_log = collections.deque()

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        hand = inputs.pop("hand")
        outputs = model(**inputs)
        if "--fixed" in sys.argv:
            self.since_log.append((hand.cpu(), self.per_text(outputs.logits.detach(), inputs["labels"]).cpu()))
        else:
            self.since_log.append((hand, outputs.logits, inputs["labels"]))
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    @staticmethod
    def per_text(logits, labels):
        return torch.stack([torch.nn.functional.cross_entropy(l[:-1], t[1:]) for l, t in zip(logits, labels)])

    def log(self, logs, *args, **kwargs):
        sums = collections.Counter()
        while self.since_log:
            hand, *rest = self.since_log.popleft()
            losses = rest[0] if len(rest) == 1 else self.per_text(rest[0].detach(), rest[1]).cpu()
            for h, loss in zip(hand.tolist(), losses.tolist()):
                sums[HANDS[h]] += loss
        logs.update({f"ppl_{h}": math.exp(min(20.0, abs(v) / 100)) for h, v in sums.items() if v == v})
        super().log(logs, *args, **kwargs)


config = GPT2Config(vocab_size=8000, n_positions=256, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
args = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=40, logging_steps=40, learning_rate=5e-4,
                         save_strategy="no", report_to=[], remove_unused_columns=False, disable_tqdm=True, lr_scheduler_type="constant")
HandTrainer(model=GPT2LMHeadModel(config), args=args, train_dataset=Charters(400)).train()
