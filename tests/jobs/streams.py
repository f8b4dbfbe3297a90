"""Eight threads allocate at the same time, each on a stream of its own, and use tensors on each other's streams."""
import random
import threading

import torch

STREAMS = [torch.cuda.Stream() for _ in range(8)]
kept = []


def work(i):
    rng, mine = random.Random(i), []
    with torch.cuda.stream(STREAMS[i]):
        for _ in range(1500):
            if mine and rng.random() < 0.5:
                mine.pop(rng.randrange(len(mine)))
            else:
                t = torch.empty(rng.choice((100, 5000, 70000, 400000, 3000000, 7000000)), device="cuda")
                t.record_stream(STREAMS[rng.randrange(8)])
                mine.append(t)
    kept.extend(mine)


threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
torch.cuda.synchronize()
