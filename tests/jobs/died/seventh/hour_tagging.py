"""A small service that tags sounds in recordings: it cuts the spectrogram into overlapping windows and answers with the tags of each minute."""
import sys
from dataclasses import dataclass, field

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
FRAMES_A_SECOND, WINDOW, HOP, MELS = 100, 500, 250, 64


class Stage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu_()
        return self.pool(self.bn2(self.conv2(x)).relu_())


class SoundTagger(nn.Module):
    def __init__(self, tags=200):
        super().__init__()
        self.norm = nn.BatchNorm1d(MELS)
        self.stages = nn.Sequential(Stage(1, 32), Stage(32, 64), Stage(64, 128), Stage(128, 256))
        self.hidden, self.out = nn.Linear(256, 512), nn.Linear(512, tags)

    def forward(self, mel):
        x = self.stages(self.norm(mel).unsqueeze(1))
        x = x.mean(2)
        x = x.amax(-1) + x.mean(-1)
        return self.out(self.hidden(x).relu()).sigmoid()


@dataclass
class Request:
    name: str
    seconds: int
    answer: list = field(default_factory=list)

    def spectrogram(self):
        return torch.zeros(MELS, self.seconds * FRAMES_A_SECOND)


class Service:
    def __init__(self, device="cuda", batch=16):
        self.device, self.batch = device, batch
        self.model = SoundTagger().to(device).eval()
        self.names = ["tag%d" % k for k in range(200)]

    def windows(self, mel):
        return mel.unfold(1, WINDOW, HOP).permute(1, 0, 2).contiguous()

    @torch.no_grad()
    def handle(self, request):
        windows = self.windows(request.spectrogram())
        if FIXED:
            scores = torch.cat([self.model(part.to(self.device)).cpu() for part in windows.split(self.batch)])
        else:
            scores = self.model(windows.to(self.device)).cpu()
        in_minute = 60 * FRAMES_A_SECOND // HOP
        for part in scores.split(in_minute):
            request.answer.append([self.names[k] for k in part.amax(0).topk(3).indices.tolist()])
        return request


def main():
    service = Service()
    for request in [Request("doorbell", 12), Request("song", 30), Request("lesson", 480), Request("clip", 20)]:
        done = service.handle(request)
        print(done.name, done.seconds, "seconds:", done.answer[0])


if __name__ == "__main__":
    main()
