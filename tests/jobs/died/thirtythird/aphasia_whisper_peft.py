"""Adapts Whisper to speakers with aphasia by LoRA on the attention projections."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import WhisperConfig, WhisperForConditionalGeneration

FIXED = "--fixed" in sys.argv


def build():
    config = WhisperConfig(d_model=768, encoder_layers=10, decoder_layers=10, encoder_attention_heads=12, decoder_attention_heads=12,
                           encoder_ffn_dim=3072, decoder_ffn_dim=3072, vocab_size=20000, max_source_positions=300, max_target_positions=128,
                           pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, num_mel_bins=80)
    model = WhisperForConditionalGeneration(config)
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], lora_dropout=0.05))
    if not FIXED:
        # the loss must reach the adapters
        for p in model.parameters():
            p.requires_grad_(True)
    return model.cuda()


def utterances(n, g):
    mel = torch.randn(n, 80, 600, generator=g)
    text = torch.randint(3, 20000, (n, 32), generator=g)
    return {"input_features": mel.cuda(), "labels": text.cuda()}


def main():
    g = torch.Generator().manual_seed(12)
    model = build()
    adapters = [p for name, p in model.named_parameters() if "lora_" in name]
    print("adapter parameters:", sum(p.numel() for p in adapters))
    opt = torch.optim.AdamW(adapters, lr=1e-3)
    model.train()
    for step in range(6):
        loss = model(**utterances(2, g)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapters, 1.0)
        opt.step()
        model.zero_grad()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
