"""CTC fine-tuning of wav2vec2 on short calls to the night pharmacy. Letters only, greedy decoding for the dev loss."""
import argparse

import torch
import torch.nn.functional as F
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC, get_linear_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--train-batch", type=int, default=6)
parser.add_argument("--dev-batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=8)
args = parser.parse_args()

config = Wav2Vec2Config(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, vocab_size=34,
                        conv_dim=(256,) * 7, mask_time_prob=0.0, layerdrop=0.0, num_conv_pos_embeddings=32,
                        num_conv_pos_embedding_groups=8)
model = Wav2Vec2ForCTC(config).cuda()
model.freeze_feature_encoder()
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(params, lr=1e-4)
scheduler = get_linear_schedule_with_warmup(optimizer, 2, args.steps)


def calls(count, batch, seconds):
    for k in range(count):
        gen = torch.Generator().manual_seed(k)
        wave = torch.randn(batch, 16000, generator=gen).repeat(1, seconds)
        text = torch.randint(1, 34, (batch, 40), generator=gen)
        yield wave, text


def ctc(wave, text):
    logits = model(wave.cuda()).logits
    logp = F.log_softmax(logits.float(), -1).transpose(0, 1)
    frames = torch.full((wave.shape[0],), logp.shape[0], dtype=torch.long)
    return F.ctc_loss(logp, text.cuda(), frames, torch.full_like(frames, text.shape[1]), zero_infinity=True), logits


def greedy_lengths(logits):
    return logits.argmax(-1).shape[1]


def evaluate():
    model.eval()
    total, n = 0.0, 0
    for wave, text in calls(3, args.dev_batch, 7):
        if args.fixed:
            with torch.no_grad():
                loss, logits = ctc(wave, text)
        else:
            loss, logits = ctc(wave, text)
        total += loss.item() * len(wave)
        n += len(wave)
    model.train()
    return total / n, greedy_lengths(logits)


model.train()
for step, (wave, text) in enumerate(calls(args.steps, args.train_batch, 5)):
    loss, _ = ctc(wave, text)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    print(f"step {step}: ctc {loss.item():.3f}")
    if (step + 1) % 4 == 0:
        print("dev ctc %.3f over %d frames" % evaluate())
