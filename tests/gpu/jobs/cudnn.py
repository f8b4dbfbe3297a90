"""cuDNN's workspaces: the peak of convolutions and recurrent layers above what they keep, forward and backward."""
import torch
import torch.nn as nn

from marks import case, mark

torch.empty(1, device="cuda")
mark("context")
# in, out, kernel, stride, groups, batch, size
CONVOLUTIONS = [(3, 64, 7, 2, 1, 32, 224), (64, 64, 3, 1, 1, 32, 56), (256, 512, 1, 2, 1, 32, 28), (512, 512, 3, 1, 1, 32, 7),
                (64, 64, 3, 1, 64, 16, 56), (64, 128, 5, 1, 1, 8, 32), (16, 16, 3, 1, 1, 2, 512)]


def convolution(row, dtype, layout, benchmark):
    torch.backends.cudnn.benchmark = benchmark
    inside, outside, kernel, stride, groups, batch, size = row
    layer = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups).to("cuda", dtype, memory_format=layout)
    x = torch.randn(batch, inside, size, size, device="cuda", dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    layer(x).sum().backward()


def recurrent(kind, dtype, layers, both):
    layer = kind(256, 512, layers, batch_first=True, bidirectional=both).to("cuda", dtype)
    x = torch.randn(16, 128, 256, device="cuda", dtype=dtype, requires_grad=True)
    layer(x)[0].sum().backward()


for row in CONVOLUTIONS:
    for dtype in (torch.float32, torch.bfloat16):
        case("convolution %s %s" % (row, str(dtype)[6:]), convolution, row, dtype, torch.contiguous_format, False)
for row in CONVOLUTIONS[:4]:
    case("convolution %s float16 channels last" % (row,), convolution, row, torch.float16, torch.channels_last, False)
    case("convolution %s float32 benchmark" % (row,), convolution, row, torch.float32, torch.contiguous_format, True)
for kind, dtype, layers, both in ((nn.LSTM, torch.float32, 1, False), (nn.LSTM, torch.float16, 2, True), (nn.GRU, torch.float32, 2, False),
                                  (nn.RNN, torch.float32, 1, False)):
    case("%s %s, layers %d, both ways %s" % (kind.__name__, str(dtype)[6:], layers, both), recurrent, kind, dtype, layers, both)
case("batch norm", lambda: nn.BatchNorm2d(64).cuda()(torch.randn(32, 64, 56, 56, device="cuda", requires_grad=True)).sum().backward())
case("transposed convolution", lambda: nn.ConvTranspose2d(64, 32, 4, 2, 1).cuda()(torch.randn(8, 64, 32, 32, device="cuda")).sum().backward())
