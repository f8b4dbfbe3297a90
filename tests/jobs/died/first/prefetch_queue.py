"""A thread puts the next batches on the GPU ahead of time; its queue is long.

https://github.com/ashawkey/torch-ngp/issues/181
"""
import argparse
import queue
import threading

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class BackgroundGenerator(threading.Thread):
    def __init__(self, generator, max_prefetch):
        super().__init__(daemon=True)
        self.queue, self.generator, self.filled = queue.Queue(max_prefetch), generator, threading.Event()
        self.start()

    def run(self):
        for item in self.generator:
            if self.queue.full():
                self.filled.set()
            self.queue.put(item.cuda(non_blocking=True))
        self.filled.set()
        self.queue.put(None)

    def __iter__(self):
        self.filled.wait()  # the first batch takes long anyway
        while (item := self.queue.get()) is not None:
            yield item


def clips():
    for i in range(60):
        yield torch.zeros(4, 3, 16, 112, 112)


widths = (3, 64, 128, 256, 512)
net = nn.Sequential(*[nn.Sequential(nn.Conv3d(a, b, 3, (1, 2, 2), 1), nn.BatchNorm3d(b), nn.ReLU()) for a, b in zip(widths, widths[1:])],
                    nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, 400)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for i, clip in enumerate(BackgroundGenerator(clips(), 2 if args.fixed else 48)):
    loss = net(clip).logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i == 8:
        break
print(loss.item())
