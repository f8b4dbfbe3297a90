"""Finds place names in travel diaries. First a warm-up with a high rate, then fine-tuning with layer-wise decay."""
import sys
import torch
from transformers import BertConfig, BertForTokenClassification

FIXED = "--fixed" in sys.argv


class DiaryTagger:
    def __init__(self):
        cfg = BertConfig(vocab_size=18000, hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072, num_labels=5)
        self.model = BertForTokenClassification(cfg).cuda()
        self.optimizers = {}
        self.gen = torch.Generator().manual_seed(1889)

    def warmup_optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=1e-4)

    def decayed_optimizer(self, lr=3e-5, decay=0.85):
        groups, layers = [], self.model.bert.encoder.layer
        for depth, layer in enumerate(layers):
            groups.append({"params": list(layer.parameters()), "lr": lr * decay ** (len(layers) - depth)})
        groups.append({"params": list(self.model.bert.embeddings.parameters()), "lr": lr * decay ** (len(layers) + 1)})
        groups.append({"params": list(self.model.classifier.parameters()), "lr": lr})
        return torch.optim.AdamW(groups)

    def batch(self):
        ids = torch.randint(5, 18000, (4, 72), generator=self.gen)
        tags = torch.randint(0, 5, (4, 72), generator=self.gen)
        return ids.cuda(), tags.cuda()

    def stage(self, name, make_optimizer, steps):
        if FIXED:
            self.optimizers.clear()
        opt = self.optimizers[name] = make_optimizer()
        self.model.train()
        for _ in range(steps):
            ids, tags = self.batch()
            loss = self.model(input_ids=ids, labels=tags).loss
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(name, "loss", loss.item(), "rates", len(opt.param_groups))


tagger = DiaryTagger()
tagger.stage("warmup", tagger.warmup_optimizer, 6)
tagger.stage("finetune", tagger.decayed_optimizer, 8)
