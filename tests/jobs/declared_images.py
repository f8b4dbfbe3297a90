"""The part of declared_megatron.py for models of images and text: LLaVA of pretrain_vlm.py, and llava_vlm of examples/mimo."""
import torch


def llava_of(job, config):
    """model_provider() of pretrain_vlm.py, of local layers: an encoder of images, a projector, and a GPT that reads images and text."""
    import copy

    from megatron.core import parallel_state
    from megatron.core.enums import ModelType
    from megatron.core.models.multimodal.llava_model import LLaVAModel
    from megatron.core.models.multimodal.llava_spec import decoder_model_with_local_default_spec
    from megatron.core.models.vision.clip_vit_model import CLIPViTModel
    from megatron.core.models.vision.vit_layer_specs import get_vit_layer_with_local_spec
    from megatron.core.transformer.torch_norm import WrappedTorchNorm
    make = CLIPViTModel.__init__

    def with_norm(self, *args, **more):  # without Transformer Engine the default is a class that takes other arguments
        make(self, *args, ln_pre_impl=WrappedTorchNorm, **more)

    CLIPViTModel.__init__ = with_norm
    vision, projector, layers = copy.deepcopy(config), copy.deepcopy(config), decoder_model_with_local_default_spec()
    vision.num_layers, vision.vision_model_type = job.get("encoder_num_layers", config.num_layers), "clip"
    vision.pipeline_model_parallel_size = projector.pipeline_model_parallel_size = 1
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    model = LLaVAModel(
        config, layers, job["vocab_size"], llava_tokens(job), vision, get_vit_layer_with_local_spec(), job.get("disable_vision_class_token", False),
        projector, copy.deepcopy(layers.submodules.mlp.submodules), "mlp", language_position_embedding_type=job["position_embedding_type"],
        pre_process=first, post_process=last, add_encoder=first, img_h=job["img_h"], img_w=job["img_w"], patch_dim=job["patch_dim"])
    model.model_type = ModelType.encoder_or_decoder  # as get_model() of Megatron-LM sets it
    model.freeze(job.get("freeze_LM", False), job.get("freeze_ViT", False), False)
    return model


def mimo_of(job, config):
    """model_provider_llava_vlm() of examples/mimo, of local layers: transformers' CLIP, which is not trained, a projector, and a language model, which is
    not trained."""
    import copy

    from megatron.core.enums import ModelType
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.models.mimo import MimoModel, MimoModelConfig
    from megatron.core.models.mimo.submodules.vision import VisionModalitySubmodules
    from megatron.core.models.vision.multimodal_projector import MultimodalProjector
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.mlp import MLPSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec
    from transformers import CLIPVisionConfig, CLIPVisionModel

    class Encoder(torch.nn.Module):
        """HFCLIPEncoderWrapper, of random weights"""

        def __init__(self):
            super().__init__()
            self.encoder = CLIPVisionModel(CLIPVisionConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16,
                                                            image_size=336, patch_size=14))

        def forward(self, pixel_values):
            with torch.no_grad():
                return self.encoder(pixel_values, output_hidden_states=True)[-1][-2][:, 1:, :]

    projector = copy.deepcopy(config)
    projector.ffn_hidden_size, projector.add_bias_linear, projector.gated_linear_unit, projector.activation_func = 4096, True, False, torch.nn.functional.gelu
    language = ModuleSpec(GPTModel, params=dict(
        config=config, transformer_layer_spec=get_gpt_layer_local_spec(normalization=job["normalization"]), vocab_size=job["vocab_size"],
        max_sequence_length=job["seq_length"], position_embedding_type=job["position_embedding_type"]))
    projection = ModuleSpec(MultimodalProjector, params=dict(config=projector, submodules=MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear),
                                                             projector_type="mlp", input_size=1024))
    images = ModuleSpec(VisionModalitySubmodules, submodules={"encoders": {"clip_encoder": ModuleSpec(Encoder)}, "input_projections": [projection]})
    model = MimoModel(MimoModelConfig(language, {"images": images}, special_token_ids={"images": 3}))
    model.model_type = ModelType.encoder_or_decoder
    for part in model.modality_submodules["images"].encoders, model.language_model:
        part.requires_grad_(False)
    return model


def llava_tokens(job):
    """Tokens of the decoder: those of the text and of its image."""
    patches = (job["img_h"] // job["patch_dim"]) * (job["img_w"] // job["patch_dim"])
    return job["seq_length"] + patches + (not job.get("disable_vision_class_token", False))


def parts(*shapes):
    """Tensors of one buffer, as tensor_parallel.broadcast_data() makes them."""
    whole = torch.ones(sum(b * s for b, s in shapes), dtype=torch.long, device="cuda")
    return [part.view(shape) for part, shape in zip(whole.split([b * s for b, s in shapes]), shapes)]


class ImagePositions(torch.overrides.TorchFunctionMode):
    """On a device whose kernels do nothing, LLaVAModel's mask of the images' places, which come first, is written from the host."""

    def __init__(self, images):
        super().__init__()
        self.images = images

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is torch.Tensor.__setitem__ and args[0].dtype == torch.bool and args[2] is False:
            args[0].copy_((torch.arange(args[0].shape[1]) < self.images).repeat(args[0].shape[0], 1))
        return result


def llava_step(job, model):
    """get_batch(), forward_step() and loss_func() of pretrain_vlm.py; the first token of each sequence is its image."""
    b, s = job["micro_batch_size"], job["seq_length"] + 1
    tokens, positions, labels = parts((b, s), (b, s), (b, s))
    tokens[:, 0] = -200
    sizes = 3 * job["img_h"] * job["img_w"], s
    image, weights = torch.ones(b * sum(sizes), device="cuda").split([b * size for size in sizes])
    with ImagePositions(llava_tokens(job) - job["seq_length"]):
        output, weights = model(image.view(b, 3, job["img_h"], job["img_w"]), tokens, positions, None, labels, weights.view(b, s))

    def loss(losses):
        total = torch.sum(losses.view(-1).float() * weights.view(-1).float())
        return total / weights.numel(), {"loss": total.detach()}

    return output, loss


def mimo_step(job, model):
    """get_batch() and loss_func() of pretrain_mimo.py: an image of 576 tokens is in each sequence"""
    b, s = job["micro_batch_size"], job["seq_length"]
    tokens, labels, weights, positions = parts(*[(b, s)] * 4)
    tokens[:, 1:577] = 3
    image = torch.ones(b, 3, 336, 336, device="cuda")
    output, weights = model(input_ids=tokens, position_ids=positions, labels=labels, loss_mask=weights,
                            modality_inputs={"images": {"clip_encoder": {"pixel_values": image}}})

    def loss(losses):
        total = torch.sum(losses.float().view(-1) * weights.contiguous().view(-1).float())
        return total, {"loss": total.detach()}

    return output, loss
