"""What each convolution of convolution_cases.CASES takes beside its results on the device, in bytes that were asked for: forward, and the gradients of input and filters."""
import json

import torch

from convolution_cases import CASES

def taken(call):
    """The peak less what is live afterwards, beside what was live before."""
    torch.cuda.reset_peak_memory_stats()
    result = call()
    stats = torch.cuda.memory_stats()
    del result
    return stats["requested_bytes.all.peak"] - stats["requested_bytes.all.current"]


for name, (batch, channels, filters, kernel, size, stride, padding, groups, kind) in CASES.items():
    out = (size + 2 * padding - kernel) // stride + 1
    x, w, y = (torch.empty(*sizes, dtype=getattr(torch, kind), device="cuda") for sizes in (
        (batch, channels, size, size), (filters, channels // groups, kernel, kernel), (batch, filters, out, out)))
    shape = [[stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups]

    def backward(*mask):
        return torch.ops.aten.convolution_backward(y, x, w, None, *shape, mask)

    print(json.dumps({"convolution": name, "forward": taken(lambda: torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)),
                      "input": taken(lambda: backward(True, False, False)), "filters": taken(lambda: backward(False, True, False))}))
