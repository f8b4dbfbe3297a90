"""SRE assistant: continues the pretraining of OLMo2 on runbooks and postmortems."""
import sys
from dataclasses import asdict, dataclass

import torch
from transformers import AutoModelForCausalLM, Olmo2Config


@dataclass
class TrainConfig:
    attn_implementation: str = "eager"   # flash-attn does not build on our image
    seq_len: int = 2048
    batch_size: int = 2
    lr: float = 3e-4
    max_steps: int = 4
    vocab: int = 6000


def make_model(cfg):
    config = Olmo2Config(vocab_size=cfg.vocab, hidden_size=384, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=4096, use_cache=False)
    return AutoModelForCausalLM.from_config(config, attn_implementation=cfg.attn_implementation)


def runbook_stream(cfg):
    gen = torch.Generator().manual_seed(42)
    for _ in range(cfg.max_steps):
        yield torch.randint(0, cfg.vocab, (cfg.batch_size, cfg.seq_len), generator=gen)


def param_groups(model, decay=0.1):
    two_d = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": two_d, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]


def main():
    cfg = TrainConfig()
    if "--fixed" in sys.argv:
        cfg.attn_implementation = "sdpa"
    print(asdict(cfg))
    model = make_model(cfg).to("cuda")
    model.train()
    optimizer = torch.optim.AdamW(param_groups(model), lr=cfg.lr, betas=(0.9, 0.95))
    for step, ids in enumerate(runbook_stream(cfg)):
        ids = ids.to("cuda")
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", out.loss.item())


main()
