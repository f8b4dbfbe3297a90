"""A small CTC student learns from a large one. The teacher is in eval mode, and everyone believed that to be enough."""
import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv


class Recognizer(nn.Module):
    def __init__(self, dim, layers, tokens=500):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv1d(80, dim, 5, 2, 2), nn.GELU(), nn.Conv1d(dim, dim, 5, 2, 2), nn.GELU())
        layer = nn.TransformerEncoderLayer(dim, dim // 64, 4 * dim, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.ctc = nn.Linear(dim, tokens)

    def forward(self, mel):
        return self.ctc(self.encoder(self.sub(mel).transpose(1, 2)))


teacher = Recognizer(768, 8).cuda().eval()
student = Recognizer(256, 4).cuda().train()
if fixed:
    teacher.requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), 5e-4)
T, alpha = 2.0, 0.7
for step in range(8):
    mel = torch.randn(16, 80, 1200).cuda()
    words, lengths = torch.randint(1, 500, (16, 60)), torch.full((16,), 60)
    wanted = teacher(mel)
    got = student(mel)
    frames = torch.full((16,), got.shape[1])
    kd = nn.functional.kl_div((got / T).log_softmax(-1), (wanted / T).softmax(-1), reduction="batchmean") * T * T
    ctc = nn.functional.ctc_loss(got.log_softmax(-1).transpose(0, 1), words.cuda(), frames, lengths)
    loss = alpha * kd + (1 - alpha) * ctc
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%d kd %.3f ctc %.3f" % (step, kd.item(), ctc.item()))
