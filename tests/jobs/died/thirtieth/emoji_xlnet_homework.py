# NLP course, assignment 2: which emoji belongs to the tweet? (XLNet, my own loop)
import contextlib
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import XLNetConfig, XLNetForSequenceClassification, get_linear_schedule_with_warmup

FIXED = "--fixed" in sys.argv
N_EMOJI, SEQ_LEN, VOCAB = 20, 96, 8000

torch.manual_seed(1)


def encode(n):
    ids = torch.randint(5, VOCAB, (n, SEQ_LEN))
    mask = torch.ones_like(ids)
    return TensorDataset(ids, mask, torch.randint(0, N_EMOJI, (n,)))


train_dataloader = DataLoader(encode(320), batch_size=32, shuffle=True)
validation_dataloader = DataLoader(encode(480), batch_size=32)

cfg = XLNetConfig(vocab_size=VOCAB, d_model=256, n_layer=6, n_head=4, d_inner=1024, num_labels=N_EMOJI)
model = XLNetForSequenceClassification(cfg)
model.cuda()

epochs = 2
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, eps=1e-8)
scheduler = get_linear_schedule_with_warmup(optimizer, 0, len(train_dataloader) * epochs)


def flat_accuracy(logits, labels):
    return (logits.argmax(dim=1) == labels).float().mean().item()


def validation_context():
    return torch.no_grad() if FIXED else contextlib.nullcontext()


for epoch_i in range(epochs):
    print(f"======== Epoch {epoch_i + 1} / {epochs} ========")
    total_train_loss = 0
    model.train()
    for step, batch in enumerate(train_dataloader):
        b_ids, b_mask, b_labels = (t.cuda() for t in batch)
        model.zero_grad()
        result = model(b_ids, attention_mask=b_mask, labels=b_labels)
        total_train_loss += result.loss.item()
        result.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    print("  average training loss:", total_train_loss / len(train_dataloader))

    del result
    model.eval()
    total_eval_loss, total_eval_accuracy = 0, 0
    with validation_context():
        for batch in validation_dataloader:
            b_ids, b_mask, b_labels = (t.cuda() for t in batch)
            out = model(b_ids, attention_mask=b_mask, labels=b_labels)
            total_eval_loss += out.loss
            total_eval_accuracy += flat_accuracy(out.logits, b_labels)
    print("  validation loss:", float(total_eval_loss) / len(validation_dataloader))
    print("  accuracy:", total_eval_accuracy / len(validation_dataloader))
