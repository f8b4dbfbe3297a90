"""Labels whole statutes of 1024 tokens with BERT and LoRA adapters, in a loop of our own."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

OPTIONS = {"attn_implementation": "sdpa" if "--fixed" in sys.argv else "eager"}
LENGTH, TOPICS = 1024, 14


class Statutes(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(n)
        self.ids = torch.randint(10, 9000, (n, LENGTH), generator=generator)
        self.labels = torch.randint(2, (n, TOPICS), generator=generator).float()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        return {"input_ids": self.ids[k], "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": self.labels[k]}


def build():
    config = BertConfig(vocab_size=9000, hidden_size=384, num_hidden_layers=5, num_attention_heads=6, intermediate_size=1536,
                        max_position_embeddings=LENGTH, num_labels=TOPICS, problem_type="multi_label_classification")
    base = BertForSequenceClassification._from_config(config, **OPTIONS)
    lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["query", "value"])
    model = get_peft_model(base, lora)
    model.print_trainable_parameters()
    return model


class Epochs:
    def __init__(self, model, train, test):
        self.model, self.train, self.test = model.to("cuda"), train, test
        trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=2e-4)
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, 2, 2 * len(train))

    def on_gpu(self, batch):
        return {k: v.to("cuda") for k, v in batch.items()}

    def fit(self):
        self.model.train()
        for n, batch in enumerate(self.train):
            loss = self.model(**self.on_gpu(batch)).loss
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            print("step", n, loss.item())

    @torch.no_grad()
    def score(self):
        self.model.eval()
        hits = [((self.model(**self.on_gpu(b)).logits.cpu() > 0) == (b["labels"] > 0)).float().mean() for b in self.test]
        return float(torch.stack(hits).mean())


epochs = Epochs(build(), DataLoader(Statutes(24), batch_size=4, shuffle=True), DataLoader(Statutes(12), batch_size=4))
for _ in range(2):
    epochs.fit()
    print("accuracy", epochs.score())
