"""The kernel that scaled_dot_product_attention chooses, and the memory of its forward and backward pass."""
import itertools
import re

import torch
import torch.nn.functional as F

from marks import case

MASKS = ("none", "causal", "tensor")


def chosen(call):
    """The kernel, by the operation of ATen that PyTorch's own profiler saw."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    names = {e.key for e in profile.key_averages() if e.key.startswith("aten::_scaled_dot_product_") and "backward" not in e.key}
    return ", ".join(sorted(re.sub("_for_cuda$", "", n[len("aten::_scaled_dot_product_"):]) for n in names)) or "other"


def attention(batch, heads, kv_heads, length, width, dtype, mask, dropout):
    q = torch.randn(batch, heads, length, width, device="cuda", dtype=dtype, requires_grad=True)
    k, v = (torch.randn(batch, kv_heads, length, width, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
    options = {"is_causal": mask == "causal", "dropout_p": dropout}
    if mask == "tensor":
        options["attn_mask"] = torch.ones(length, length, device="cuda", dtype=torch.bool).tril()
    if heads != kv_heads:
        options["enable_gqa"] = True
    return chosen(lambda: F.scaled_dot_product_attention(q, k, v, **options).sum().backward())


for dtype, mask, dropout in itertools.product((torch.float32, torch.float16, torch.bfloat16), MASKS, (0.0, 0.1)):
    case("4x8x512x64 %s mask %s dropout %s" % (str(dtype)[6:], mask, dropout), attention, 4, 8, 8, 512, 64, dtype, mask, dropout)
for width in (32, 72, 80, 96, 100, 128, 160, 192, 256, 512):
    case("2x8x256x%d bfloat16 causal" % width, attention, 2, 8, 8, 256, width, torch.bfloat16, "causal", 0.0)
for length in (1, 17, 1000, 2048, 4096):
    case("1x8x%dx128 bfloat16 causal" % length, attention, 1, 8, 8, length, 128, torch.bfloat16, "causal", 0.0)
case("grouped query 2x8/2x1024x128 bfloat16 causal", attention, 2, 8, 2, 1024, 128, torch.bfloat16, "causal", 0.0)
case("grouped query 2x8/2x1024x128 float32", attention, 2, 8, 2, 1024, 128, torch.float32, "none", 0.0)
