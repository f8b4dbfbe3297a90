"""The workspaces of cuBLAS and cuBLASLt: PyTorch's allocator before, in and after products of each kind, also on a second stream."""
import torch
import torch.nn.functional as F

from marks import case, mark

torch.empty(1, device="cuda")
mark("context")
N = 1024


def matrix(dtype=torch.float32, rows=N, columns=N):
    return torch.ones(rows, columns, device="cuda", dtype=dtype)


def product(dtype):
    (matrix(dtype) @ matrix(dtype)).sum()


def linear(dtype, bias=True):
    x = matrix(dtype).requires_grad_()
    w, b = matrix(dtype).requires_grad_(), matrix(dtype)[0].clone().requires_grad_() if bias else None
    F.linear(x, w, b).sum().backward()


def batched(dtype):
    x = torch.ones(8, 256, 256, device="cuda", dtype=dtype)
    torch.bmm(x, x).sum()


def scaled():
    x = matrix().to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    torch._scaled_mm(x, x.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def activation(dtype):
    torch._addmm_activation(matrix(dtype)[0], matrix(dtype), matrix(dtype), use_gelu=True)


def on_stream(call, *arguments):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(*arguments)
    stream.synchronize()


for dtype in (torch.float32, torch.float16, torch.bfloat16):
    name = str(dtype)[6:]
    case("product " + name, product, dtype)
    case("linear with bias, backward " + name, linear, dtype)
    case("linear without bias, backward " + name, linear, dtype, False)
    case("batched product " + name, batched, dtype)
    case("product and gelu " + name, activation, dtype)
case("product float64", product, torch.float64)
case("product int8", lambda: torch._int_mm(matrix(torch.int8), matrix(torch.int8)))
case("scaled product float8", scaled)
case("vector product", lambda: (matrix()[0] @ matrix()))
case("product on a second stream", on_stream, product, torch.float32)
case("linear on a third stream", on_stream, linear, torch.bfloat16)
case("triangular solve", lambda: torch.linalg.solve_triangular(matrix().tril(), matrix(), upper=False))
case("decomposition", lambda: torch.linalg.cholesky(matrix() * 0 + 2 * torch.eye(N, device="cuda")))
