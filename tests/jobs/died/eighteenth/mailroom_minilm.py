"""Small router for incoming mail, distilled from the big BERT of last year."""
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

DESKS, WORDS, LENGTH = 40, 12000, 128


class Letters(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(8)
        self.ids, self.desk = torch.randint(1, WORDS, (n, LENGTH), generator=g), torch.randint(0, DESKS, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        return dict(input_ids=self.ids[k], attention_mask=torch.ones(LENGTH, dtype=torch.long), labels=self.desk[k])


def bert(layers, hidden, heads):
    return BertForSequenceClassification(BertConfig(vocab_size=WORDS, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                                                    intermediate_size=4 * hidden, num_labels=DESKS, output_hidden_states=True))


class DistillTrainer(Trainer):
    def __init__(self, *args, teacher=None, temperature=3.0, alpha=0.6, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.to(self.args.device).eval()
        self.temperature, self.alpha = temperature, alpha
        self.bridge = torch.nn.Linear(256, 512, bias=False).to(self.args.device)

    def ask_teacher(self, inputs):
        words = {k: v for k, v in inputs.items() if k != "labels"}
        if "--fixed" in sys.argv:
            with torch.no_grad():
                return self.teacher(**words)
        return self.teacher(**words)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        theirs = self.ask_teacher(inputs)
        ours = model(**inputs)
        t = self.temperature
        soft = F.kl_div(F.log_softmax(ours.logits / t, -1), F.softmax(theirs.logits / t, -1), reduction="batchmean") * t * t
        match = F.mse_loss(self.bridge(ours.hidden_states[-1]), theirs.hidden_states[-1])
        loss = self.alpha * soft + (1 - self.alpha) * ours.loss + 0.1 * match
        return (loss, ours) if return_outputs else loss


def main():
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=32, max_steps=10, learning_rate=2e-4, logging_steps=5,
                                      save_strategy="no", report_to=[], disable_tqdm=True, dataloader_num_workers=0)
        trainer = DistillTrainer(model=bert(4, 256, 4), args=arguments, train_dataset=Letters(640), teacher=bert(10, 512, 8))
        print(trainer.train().metrics["train_loss"])


main()
