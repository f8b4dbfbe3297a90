"""Back-label texts for limoncello: a Qwen2 with activation checkpointing, which writes a few labels after every fourth step."""
import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM


def make_model():
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=7000, hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8,
                                         num_key_value_heads=2, max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.to("cuda").train()


@torch.no_grad()
def write_labels(model, prompt, new=24):
    model.eval()
    ids = prompt
    for _ in range(new):
        logits = model(input_ids=ids, use_cache=False).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    if "--fixed" in sys.argv:
        model.train()
    return ids[:, prompt.shape[1]:].tolist()


def main():
    g = torch.Generator().manual_seed(40)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(9):
        ids = torch.randint(3, 7000, (8, 512), generator=g).cuda()
        out = model(input_ids=ids, labels=ids, use_cache=False)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", out.loss.item())
        del out
        if step % 4 == 3:
            print(write_labels(model, torch.ones(4, 6, dtype=torch.long, device="cuda"))[0][:8])


main()
