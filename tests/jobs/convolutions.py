"""What a convolution of 2 x 4 x 512 x 512 by 4 filters of 3 x 3 takes beside its arguments: the highest number of bytes that were asked for."""
import json

import torch


def taken(dtype, layout):
    x = torch.empty(2, 4, 512, 512, dtype=dtype, device="cuda").contiguous(memory_format=layout)
    w = torch.empty(4, 4, 3, 3, dtype=dtype, device="cuda").contiguous(memory_format=layout)
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    torch.nn.functional.conv2d(x, w, padding=1)
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before


for dtype in torch.bfloat16, torch.float16, torch.float32:
    for layout in torch.contiguous_format, torch.channels_last:
        print(json.dumps({"convolution": "%s %s" % (str(dtype)[6:], str(layout)[6:]), "bytes": taken(dtype, layout)}))
