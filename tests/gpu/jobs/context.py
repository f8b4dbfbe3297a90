"""What the driver takes: after the context's creation, and after the first use of each kind of kernel (CUDA_MODULE_LOADING)."""
import torch
import torch.nn.functional as F

from marks import case, mark

torch.cuda.init()
one = torch.empty(1, device="cuda")
mark("context")
x = torch.randn(256, 256, device="cuda")
mark("random numbers")
for name, call in (
        ("elementwise", lambda: torch.relu(x + 1.0).mul_(2.0)),
        ("reduction", lambda: x.sum(0).max()),
        ("sort", lambda: x.view(-1).sort()),
        ("index", lambda: x[torch.randint(0, 256, (64,), device="cuda")]),
        ("softmax, layer norm", lambda: F.layer_norm(x.softmax(-1), (256,))),
        ("matmul fp32", lambda: x @ x),
        ("matmul fp16", lambda: x.half() @ x.half()),
        ("matmul bf16", lambda: x.bfloat16() @ x.bfloat16()),
        ("linear with bias", lambda: F.linear(x, x, x[0])),
        ("attention bf16", lambda: F.scaled_dot_product_attention(*(x.bfloat16().view(1, 4, 256, 64) for _ in range(3)), is_causal=True)),
        ("convolution", lambda: F.conv2d(x.view(1, 1, 256, 256), x[:3, :3].reshape(1, 1, 3, 3), padding=1)),
        ("inverse", lambda: torch.linalg.inv(x + 100 * torch.eye(256, device="cuda"))),
        ("fft", lambda: torch.fft.rfft(x)),
        ("sparse", lambda: torch.sparse.mm(x.relu().to_sparse(), x)),
        ("second stream", lambda: torch.cuda.Stream().synchronize()),
        ("pinned memory", lambda: torch.empty(1 << 20, pin_memory=True).is_pinned())):
    case(name, call)
a = torch.randn(256, 256, device="cuda", requires_grad=True)
case("backward", lambda: (a @ x).sum().backward())
