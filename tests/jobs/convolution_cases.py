"""Convolutions whose workspaces cudnn_answers.py asks for and convolutions_planned.py takes."""
# name: (batch, channels, filters, kernel, size, stride, padding, groups), type
CASES = {
    "%s %s" % (shape, kind): (*sizes, kind) for kind in ("bfloat16", "float16", "float32") for shape, sizes in {
        "small": (2, 4, 4, 3, 512, 1, 1, 1), "residual": (8, 64, 128, 3, 56, 1, 1, 1), "first": (8, 3, 64, 7, 224, 2, 3, 1),
        "patches": (8, 3, 768, 16, 224, 16, 0, 1), "groups": (4, 128, 128, 3, 28, 1, 1, 4), "diffusion": (2, 320, 640, 3, 64, 1, 1, 1)}.items()}
