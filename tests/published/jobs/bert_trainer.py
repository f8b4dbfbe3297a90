"""Hugging Face's document of training on one GPU: BERT-large on 512 tokens, with the steps of its Trainer:

    bert_trainer.py BATCH ACCUMULATE [checkpoint] [fp16] [adafactor]

transformers' AdamW of that time was a loop, gradients were set to zero and kept, and softmax kept its input.
"""
import sys

import old_torch
import torch
from said import reserved_peak
from transformers import BertConfig, BertForSequenceClassification
from transformers.optimization import Adafactor

torch.nn.functional.softmax = old_torch.softmax
batch, accumulate, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
torch.nn.Linear.reset_parameters = torch.nn.Embedding.reset_parameters = lambda self: None
BertForSequenceClassification.init_weights = BertForSequenceClassification.post_init = lambda self: None
config = BertConfig(vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
model = BertForSequenceClassification(config).to("cuda")
reserved_peak("model")
if batch:
    if "checkpoint" in words:
        model.gradient_checkpointing_enable()
    if "adafactor" in words:
        optimizer = Adafactor(model.parameters(), scale_parameter=False, relative_step=False, lr=1e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    scaler = torch.cuda.amp.GradScaler(enabled="fp16" in words)
    model.train()
    for _ in range(3):
        for _ in range(accumulate):
            tokens, labels = torch.randint(100, 30000, (batch, 512)).cuda(), torch.zeros(batch, dtype=torch.int64).cuda()
            with torch.autocast("cuda", dtype=torch.float16, enabled="fp16" in words):
                loss = model(input_ids=tokens, labels=labels).loss
            scaler.scale(loss / accumulate).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)
    reserved_peak("peak")
