"""Rollouts for reinforcement learning from verified answers: 16 samples of each of 24 problems, decoded together, with sampling.

After https://github.com/huggingface/transformers/pull/45530 and https://github.com/sgl-project/sglang/issues/140
"""
import sys

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM


def build():
    config = Qwen2Config(vocab_size=16384, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=2048)
    with torch.device("cuda"):
        return Qwen2ForCausalLM(config).to(torch.bfloat16).eval()


@torch.inference_mode()
def sample(model, prompts, new, temperature=1.0, top_k=50):
    cache, ids, taken = DynamicCache(config=model.config), prompts, []
    for _ in range(new):
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float() / temperature
        best, where = logits.topk(top_k, dim=-1)
        ids = where.gather(1, torch.multinomial(best.softmax(-1), 1))
        taken.append(ids.cpu())
    return torch.cat(taken, 1)


def problems(count, length):
    return torch.randint(16384, (count, length))


def main():
    model, group = build(), 16
    prompts = problems(24, 96).repeat_interleave(group, 0)
    at_a_time = 6 * group if "--fixed" in sys.argv else len(prompts)
    answers = [sample(model, part.to("cuda"), 40) for part in prompts.split(at_a_time)]
    print("answers", torch.cat(answers).shape)


if __name__ == "__main__":
    main()
