"""Mixtures of experts: prints, for the experts of each layer, the number of rows that each received."""
import json

import torch
import transformers

SHAPE = {"vocab_size": 512, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = [(transformers.MixtralForCausalLM, transformers.MixtralConfig(num_local_experts=8, **SHAPE)),
          (transformers.Qwen2MoeForCausalLM, transformers.Qwen2MoeConfig(num_experts=16, num_experts_per_tok=4, moe_intermediate_size=64,
                                                                         shared_expert_intermediate_size=192, **SHAPE))]
for model, config in MODELS:
    config._experts_implementation = "eager"  # a loop over the experts that were hit, each with the rows that nonzero() found
    layer = model(config).cuda().bfloat16()
    rows = []
    linear = torch.nn.functional.linear
    down = config.intermediate_size if model is transformers.MixtralForCausalLM else config.moe_intermediate_size
    torch.nn.functional.linear = lambda x, w, b=None: (rows.append(len(x)) if w.shape == (128, down) else None, linear(x, w, b))[1]
    tokens = torch.randint(0, 512, (2, 128), device="cuda")
    loss = layer(tokens, labels=tokens, output_router_logits=True).loss
    loss.backward()
    torch.nn.functional.linear = linear
    print(json.dumps({"model": model.__name__, "rows": rows, "loss": loss.item()}), flush=True)
