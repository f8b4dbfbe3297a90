"""Fine-tunes a small Whisper on minutes of town councils; plots loss and confidence of each step at the end."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import WhisperConfig, WhisperForConditionalGeneration, get_linear_schedule_with_warmup

FIXED = "--fixed" in sys.argv
STEPS, BATCH = 16, 8


class Minutes(Dataset):
    """Log-mel features of ten seconds each, and the tokens that were said."""

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, k):
        generator = torch.Generator().manual_seed(k)
        return {"input_features": torch.zeros(80, 1000), "labels": torch.randint(10, 16000, (96,), generator=generator)}


def whisper():
    config = WhisperConfig(vocab_size=16000, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4,
                           encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_source_positions=500, max_target_positions=128, pad_token_id=0,
                           bos_token_id=1, eos_token_id=2, decoder_start_token_id=3)
    return WhisperForConditionalGeneration(config)


def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, STEPS)
    history = {"loss": [], "outputs": []}
    model.train()
    for batch in loader:
        batch = {k: v.to("cuda") for k, v in batch.items()}
        with torch.autocast("cuda", torch.bfloat16):
            out = model(**batch)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        history["loss"].append(out.loss.item())
        if FIXED:
            history["outputs"].append(confidence(out.logits.detach()))
        else:
            history["outputs"].append(out)
    return history


def confidence(logits):
    return logits.float().softmax(-1).max(-1).values.mean().item()


def plot(history):
    for k, (loss, out) in enumerate(zip(history["loss"], history["outputs"])):
        sure = out if FIXED else confidence(out.logits.detach())
        print("%3d  loss %8.4f  confidence %6.3f" % (k, loss, sure))


def main():
    torch.manual_seed(7)
    model = whisper().to("cuda")
    plot(train(model, DataLoader(Minutes(), batch_size=BATCH)))


main()
