"""The batch that a model of memtrace_model.py is trained with: tensors by the names of its forward's arguments."""
import inspect

from memtrace_train import Refused, rows_of

SECOND_OF_AUDIO = 16000  # samples of a second
IMAGE_TOKENS = ("image_token_id", "image_token_index")
HALF_MINUTE = 3000  # frames of a spectrum
PATCHES = 32  # patches of an image along each side, where the model takes patches of any number: of 14 pixels, an image of 448 x 448


def parts(config):
    """A configuration and those inside it."""
    inside = [value for value in vars(config).values() if hasattr(value, "model_type") and hasattr(value, "to_dict")]
    return [config] + [part for each in inside for part in parts(each)]


def first(config, *names):
    for part in parts(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return None


def arguments(model):
    return inspect.signature(model.forward).parameters


def tokens_of(job):
    return job.get("seq_length", 512)


class Batch:
    """What the inputs are made of."""

    def __init__(self, model, config, job):
        self.model, self.config, self.job = model, config, job
        self.rows, self.tokens = rows_of(job), tokens_of(job)
        self.accepted = arguments(model)
        main = model.main_input_name
        self.main = main if isinstance(main, str) else main[0]
        self.needed = [name for name, p in self.accepted.items() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]

    @property
    def sees_and_reads(self):
        """The model takes an image beside the text, and no token of the text stands for it."""
        both = "input_ids" in self.accepted and "pixel_values" in self.accepted
        named = any(hasattr(part, name) for part in parts(self.config) for name in IMAGE_TOKENS)
        return both and not named and "codebook_pixel_values" not in self.accepted

    def first(self, *names):
        return first(self.config, *names)

    def zeros(self, *shape, **kinds):
        import torch
        return torch.zeros(self.rows, *shape, device="cuda", **kinds)

    def whole(self, *shape):
        import torch
        return self.zeros(*shape, dtype=torch.long)


def placeholders(config):
    """The tokens that stand for a part of an image, a video or a sound."""
    named = [(name, value) for part in parts(config) for name, value in vars(part).items() if name.endswith(("_token_id", "_token_index"))]
    return {value for name, value in named if isinstance(value, int) and name.startswith(("image", "video", "audio", "vision"))}


def text(config, rows, tokens):
    """Tokens drawn at random, none of which stands for something else than text: the model compares their number with that of its images."""
    import torch
    vocabulary = first(config, "vocab_size") or 2
    drawn, others = torch.randint(0, min(vocabulary, 2 ** 31 - 1), (rows, tokens)), placeholders(config)
    word = next(token for token in range(len(others) + 1) if token not in others)
    for token in others:
        drawn[drawn == token] = word
    return drawn.cuda()


def channels(b):
    return b.first("num_channels", "in_channels", "in_chans") or 3


def image(b):
    size = b.first("image_size", "input_size") or 224
    high, wide = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return b.zeros(channels(b), high, wide)


def frames_of(b):
    """Pictures in a video, before the channels."""
    return image(b).unsqueeze(1).repeat(1, b.first("num_frames") or 8, 1, 1, 1)


def images_of(b):
    """The declared number of images of a sequence."""
    return b.job.get("images_per_sequence", 0)


def image_token(b):
    """The token of the text that stands for a part of an image; None: there is none."""
    return b.first(*IMAGE_TOKENS)


def tokens_of_image(b):
    """How many tokens stand for an image."""
    if "image_grid_thw" in b.accepted:
        return PATCHES ** 2 // (b.first("spatial_merge_size") or 1) ** 2
    stated = b.first("mm_tokens_per_image", "image_seq_length", "num_image_tokens")
    size, patch = b.first("image_size"), b.first("patch_size")
    if stated or not isinstance(size, int) or not isinstance(patch, int):
        return stated
    return (size // patch) ** 2


def with_images(b, batch):
    """Adds the declared images to a batch of text, and puts their tokens into it."""
    count, token, tokens = images_of(b), image_token(b), tokens_of_image(b)
    if "input_ids" not in batch or "pixel_values" not in b.accepted or token is None or not tokens:
        raise Refused("images_per_sequence=%s: how %s takes images beside text is not known here" % (count, type(b.model).__name__))
    if count * (tokens + 1) > b.tokens:
        raise Refused("images_per_sequence=%s: as many images of %d tokens, with one of text behind each, are more than seq_length=%d" % (
            count, tokens, b.tokens))
    for begin in range(0, count * (tokens + 1), tokens + 1):
        batch["input_ids"][:, begin:begin + tokens] = token
    if "image_grid_thw" in b.accepted:
        batch["pixel_values"] = patches(b).repeat(count, 1)
        batch["image_grid_thw"] = grids(b).repeat(count, 1)
        if "mm_token_type_ids" in b.accepted:
            batch["mm_token_type_ids"] = (batch["input_ids"] == token).int()
    else:
        batch["pixel_values"] = image(b).repeat(count, 1, 1, 1)


def takes_patches(b):
    return any(name in b.needed for name in ("grid_thw", "image_grid_thw"))


def patches(b):
    """An image as rows of pixels, a row for each patch; grids() has their number."""
    import torch
    side = b.first("patch_size") or 14
    values = channels(b) * (b.first("temporal_patch_size") or 1) * side ** 2
    return torch.zeros(b.rows * PATCHES ** 2, values, device="cuda")


def grids(b):
    """Time, height and width in patches, of each image."""
    import torch
    return torch.tensor([[1, PATCHES, PATCHES]] * b.rows, device="cuda")


def pixels(b):
    if takes_patches(b):
        return patches(b)
    return frames_of(b) if isinstance(getattr(b.config, "num_frames", None), int) and b.main == "pixel_values" else image(b)


def hidden(b):
    return patches(b) if takes_patches(b) else b.zeros(b.tokens, b.first("input_dim", "hidden_size", "d_model"))


def frequencies_first(b, bins):
    """A convolution over time takes the features as Whisper does, with the time last."""
    import torch
    return any(isinstance(m, torch.nn.Conv1d) and m.in_channels == bins and name.split(".")[-1] == "conv1" for name, m in b.model.named_modules())


def features(b):
    """Frequencies over time."""
    if hasattr(b.config, "audio_config") and b.first("spec_size"):
        return b.zeros(1, 1001, b.first("num_mel_bins"))  # the spectrum as an image
    bins = b.first("feature_projection_input_dim", "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim") or 80
    frames = min(2 * (b.first("max_source_positions") or 500), HALF_MINUTE)
    return b.zeros(bins, frames) if frequencies_first(b, bins) else b.zeros(frames, bins)


def waves(b):
    """Samples; a spectrum where the model has a length of it."""
    if b.first("max_length"):
        return b.zeros(b.first("max_length"), b.first("num_mel_bins", "feature_size", "input_feat_per_channel") or 80)
    codec = any(hasattr(b.config, name) for name in ("codebook_size", "audio_channels", "upsampling_ratios"))
    return b.zeros(b.first("audio_channels") or 1, SECOND_OF_AUDIO) if codec else b.zeros(SECOND_OF_AUDIO)


def series(b):
    """Values of a time series up to now, and as many lags before as the model looks back."""
    size = b.first("num_input_channels", "input_size") or 1
    length = b.first("context_length") or b.tokens
    if not hasattr(b.config, "lags_sequence"):
        return b.zeros(length, size)
    past = length + max(b.config.lags_sequence)
    return b.zeros(past) if size == 1 else b.zeros(past, size)


def past_of_series(b, *more):
    return b.zeros((b.first("context_length") or b.tokens) + max(getattr(b.config, "lags_sequence", None) or [0]), *more)


def time_features(b):
    return b.first("num_time_features") or 0


def boxes(b):
    return b.whole(b.tokens, 4)


def query(b):
    return b.zeros(b.first("num_query_tokens") or 32, b.first("hidden_size"))


# The inputs, each by its argument's name.
INPUTS = {
    "input_ids": lambda b: text(b.config, b.rows, b.tokens),
    "decoder_input_ids": lambda b: text(b.config, b.rows, b.tokens),
    "qformer_input_ids": lambda b: text(b.config, b.rows, b.tokens),
    "pixel_values": pixels,
    "images": image,
    "image": image,
    "pixel_values_videos": frames_of,
    "videos": frames_of,
    "hidden_states": hidden,
    "grid_thw": grids,
    "image_grid_thw": grids,
    "inputs_embeds": hidden,
    "input_features": features,
    "audio_mel": features,
    "input_values": waves,
    "audio_values": waves,
    "past_values": series,
    "past_time_features": lambda b: past_of_series(b, time_features(b)),
    "past_observed_mask": lambda b: past_of_series(b),
    "future_values": lambda b: b.zeros(b.first("prediction_length")),
    "future_time_features": lambda b: b.zeros(b.first("prediction_length"), time_features(b)),
    "flattened_patches": lambda b: b.zeros(2048, 2 + channels(b) * (b.first("patch_size") or 16) ** 2),
    "bbox": boxes,
    "visual_feats": lambda b: b.zeros(36, b.first("visual_feat_dim")),
    "visual_pos": lambda b: b.zeros(36, b.first("visual_pos_dim")),
    "query_embeds": query,
    "spectrogram": lambda b: b.zeros(500, b.first("model_in_dim", "num_mel_bins")),
    "aspect_ratio_ids": lambda b: b.whole(1) + 1,
    "states": lambda b: b.zeros(b.tokens, b.first("state_dim")),
    "actions": lambda b: b.zeros(b.tokens, b.first("act_dim")),
    "rewards": lambda b: b.zeros(b.tokens, 1),
    "returns_to_go": lambda b: b.zeros(b.tokens, 1),
    "timesteps": lambda b: b.whole(b.tokens),
}

# Arguments that have a default, and whose models need them all the same: of the models that take the first, the others too.
WITH = {
    "past_time_features": ("past_values", "future_values", "future_time_features", "past_observed_mask"),
    "visual_feats": ("visual_pos",),
    "states": ("actions", "rewards", "returns_to_go", "timesteps"),
    "bbox": (),
    "qformer_input_ids": ("input_ids", "pixel_values"),
    "return_loss": ("input_ids", "pixel_values", "input_features"),  # texts beside images or sounds
}


def is_text_alone(model, batch):
    """Does the model take images, sounds or videos, of which the batch has none?"""
    others = [name for name in arguments(model) if name.startswith(("pixel_values", "input_features", "input_values"))]
    return bool(others) and not any(name in batch for name in others)


def takes_images(model, config):
    """Can images_per_sequence add images to the text?"""
    return {"input_ids", "pixel_values"} <= set(arguments(model)) and first(config, *IMAGE_TOKENS) is not None


def labels_of(b, batch, job):
    """Labels of the kind that the model's loss takes; None: it has no loss of its own that is known here."""
    import torch
    name = type(b.model).__name__
    if "labels" not in b.accepted:
        return None
    if "decoder_seq_length" in job and getattr(b.config, "is_encoder_decoder", False):
        return text(b.config, b.rows, job["decoder_seq_length"])
    if "input_ids" in batch and ("LM" in name or "ConditionalGeneration" in name or "Pretrain" in name or "PreTraining" in name):
        return batch["input_ids"]
    if name.endswith("ForConditionalGeneration"):
        return text(b.config, b.rows, min(b.tokens, 448, b.first("max_target_positions", "max_position_embeddings") or 448))
    if "Classification" in name:
        return b.whole()
    if "ForCTC" in name:
        return torch.ones(b.rows, 16, dtype=torch.long, device="cuda")
    return None


def needed(b):
    """The names of the inputs that the model needs."""
    names = ([b.main] if b.main in b.accepted else []) + b.needed
    for name, others in WITH.items():
        if name in b.accepted:
            names += [each for each in (name, *others) if each in b.accepted and each in INPUTS]
    names += [name for name in ("input_ids", "pixel_values") if b.sees_and_reads]
    if "decoder_input_ids" not in b.accepted and b.main == "input_ids" and "pixel_values" not in b.needed and not b.sees_and_reads:
        names = [name for name in names if name != "pixel_values"]
    return list(dict.fromkeys(names))


def batch_of(model, config, job):
    b = Batch(model, config, job)
    batch = {}
    for name in needed(b):
        if name not in INPUTS:
            raise Refused('%s needs the input "%s", which memtrace does not know' % (type(model).__name__, name))
        batch[name] = INPUTS[name](b)
    if images_of(b):
        with_images(b, batch)
    if "return_loss" in b.accepted:
        batch["return_loss"] = True
    labels = labels_of(b, batch, job)
    if labels is not None:
        batch["labels"] = labels
    elif getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in b.accepted:
        batch["decoder_input_ids"] = text(config, b.rows, b.tokens)
    return batch
