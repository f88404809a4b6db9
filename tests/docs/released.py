# SPDX-License-Identifier: LGPL-2.1-or-later
"""The files of checkpoints.md 4.1 as h3-inspect sees them: real headers and
markers, and holes where the weights are."""
import json
import os
import struct

H, A, F, T, TEXT = 5376, 7168, 14336, 2688, 5120
BYTES = {'F32': 4, 'F16': 2, 'BF16': 2, 'F8_E4M3': 1, 'I8': 1, 'U8': 1}


class Tensors(list):
    """(name, type, shape, bytes or None) in the order of the file."""

    def add(self, name, dtype, *shape, data=None):
        self.append((name, dtype, shape, data))

    def linear(self, name, dtype, rows, cols, bias=True):
        self.add(name + '.weight', dtype, rows, cols)
        if bias:
            self.add(name + '.bias', dtype, rows)

    def norm(self, name, dtype, n):
        self.add(name + '.weight', dtype, n)
        self.add(name + '.bias', dtype, n)

    def quantised(self, name, encoding, rows, cols, awq=False):
        """A matrix as 4.2 has it."""
        marker = {'format': encoding}
        if encoding is None:
            self.add(name + '.weight', 'BF16', rows, cols)
            return
        if encoding == 'float8_e4m3fn':
            self.add(name + '.weight', 'F8_E4M3', rows, cols)
            self.add(name + '.weight_scale', 'F32')
            self.add(name + '.input_scale', 'F32')
        elif encoding == 'int8_tensorwise':
            group = 256 if cols % 256 == 0 else 64
            marker.update(convrot=True, convrot_groupsize=group)
            self.add(name + '.weight', 'I8', rows, cols)
            self.add(name + '.weight_scale', 'F32', rows, 1)
        elif encoding == 'nvfp4':
            self.add(name + '.weight', 'U8', rows, cols // 2)
            self.add(name + '.weight_scale', 'F8_E4M3', rows, cols // 16)
            self.add(name + '.weight_scale_2', 'F32')
            if awq:
                marker['full_precision_matrix_mult'] = True
            if awq == 'scaled':
                self.add(name + '.pre_quant_scale', 'BF16', cols)
        text = json.dumps(marker).encode()
        self.add(name + '.comfy_quant', 'U8', len(text), data=text)


def transformer(encoding=None, pruned=False):
    t = Tensors()
    adaln = 'F16' if pruned else 'BF16'
    width = 8 if pruned else T
    t.linear('video_patch_proj', 'F32', H, 96)
    t.linear('audio_patch_proj', 'F32', H, 32)
    t.linear('condition_proj', 'BF16', H, TEXT)
    if pruned:
        t.add('adaln_t_table', 'F32', 1025, 8)
    else:
        t.linear('time_embedder.proj_in', 'F32', H, 256)
        t.linear('time_embedder.proj_out', 'F32', T, H)
    for prefix, n, quantised in (('token_refiner.blocks', 2, None),
                                 ('blocks', 50, encoding)):
        for i in range(n):
            p = f'{prefix}.{i}.'
            t.add(p + 'norm1.weight', 'BF16', H)
            t.add(p + 'norm2.weight', 'BF16', H)
            t.add(p + 'attn.q_norm.weight', 'BF16', 128)
            t.add(p + 'attn.k_norm.weight', 'BF16', 128)
            t.quantised(p + 'attn.qkv_proj', quantised, 3 * A, H)
            t.quantised(p + 'attn.out_proj', quantised, H, A)
            t.quantised(p + 'mlp.fc1', quantised, 2 * F, H)
            t.quantised(p + 'mlp.fc2', quantised, H, F)
            if prefix == 'blocks':
                name = p + 'adaln_proj.linear'
                if encoding == 'int8_tensorwise' and not pruned:
                    t.quantised(name, encoding, 18 * H, width)
                else:
                    t.add(name + '.weight', adaln, 18 * H, width)
                t.add(name + '.bias', adaln, 18 * H)
    t.add('token_refiner.final_norm.weight', 'BF16', H)
    t.add('final_layer.norm.weight', 'BF16', H)
    t.linear('final_layer.adaln_proj.linear', adaln, 2 * H, width)
    t.linear('final_layer.video_out', 'F32', 96, H)
    t.linear('final_layer.audio_out', 'F32', 32, H)
    t.add('rope.inv_freq', 'F32', 16)
    return t


def text_encoder(encoding=None):
    t = Tensors()
    nvfp4 = encoding == 'nvfp4'
    if nvfp4:
        name = 'model.embed_tokens'
        text = b'{"format": "int8_tensorwise"}'
        t.add(name + '.weight', 'I8', 151936, TEXT)
        t.add(name + '.weight_scale', 'F32', 151936, 1)
        t.add(name + '.comfy_quant', 'U8', len(text), data=text)
    else:
        t.add('model.embed_tokens.weight', 'BF16', 151936, TEXT)
    for i in range(50):
        p = f'model.layers.{i}.'
        for name in ('input_layernorm', 'post_attention_layernorm'):
            t.add(p + name + '.weight', 'BF16', TEXT)
        for name in ('q_norm', 'k_norm'):
            t.add(p + 'self_attn.' + name + '.weight', 'BF16', 128)
        for name, rows, cols in (('self_attn.q_proj', 8192, TEXT),
                                 ('self_attn.k_proj', 1024, TEXT),
                                 ('self_attn.v_proj', 1024, TEXT),
                                 ('self_attn.o_proj', TEXT, 8192),
                                 ('mlp.gate_proj', 25600, TEXT),
                                 ('mlp.up_proj', 25600, TEXT),
                                 ('mlp.down_proj', TEXT, 25600)):
            scaled = name.endswith(('o_proj', 'down_proj'))
            t.quantised(p + name, encoding, rows, cols,
                        nvfp4 and ('scaled' if scaled else True))
    v = 'visual.'
    t.add(v + 'patch_embed.proj.weight', 'BF16', 1152, 3, 2, 16, 16)
    t.add(v + 'patch_embed.proj.bias', 'BF16', 1152)
    t.add(v + 'pos_embed.weight', 'BF16', 2304, 1152)
    for i in range(27):
        p = f'{v}blocks.{i}.'
        t.norm(p + 'norm1', 'BF16', 1152)
        t.norm(p + 'norm2', 'BF16', 1152)
        t.linear(p + 'attn.qkv', 'BF16', 3456, 1152)
        t.linear(p + 'attn.proj', 'BF16', 1152, 1152)
        t.linear(p + 'mlp.linear_fc1', 'BF16', 4304, 1152)
        t.linear(p + 'mlp.linear_fc2', 'BF16', 1152, 4304)
    for p, n in [(v + 'merger.', 1152)] + [
            (f'{v}deepstack_merger_list.{i}.', 4608) for i in range(3)]:
        t.norm(p + 'norm', 'BF16', n)
        t.linear(p + 'linear_fc1', 'BF16', 4608, 4608)
        t.linear(p + 'linear_fc2', 'BF16', TEXT, 4608)
    return t


def video_vae(dtype='F16'):
    t = Tensors()

    def conv(name, rows, cols, k):
        t.add(name + '.weight', dtype, rows, cols, k, k, k)
        t.add(name + '.bias', dtype, rows)

    widths = [128, 256, 256, 512, 512, 1024]
    conv('encoder.conv_in', 128, 3, 3)
    before = 128
    for level, width in enumerate(widths):
        for j in range(2):
            p = f'encoder.down.{level}.block.{j}.'
            t.norm(p + 'norm1', dtype, before)
            t.norm(p + 'norm2', dtype, width)
            conv(p + 'conv1', width, before, 3)
            conv(p + 'conv2', width, width, 3)
            if before != width:
                conv(p + 'nin_shortcut', width, before, 1)
            before = width
        if level < 4:
            conv(f'encoder.down.{level}.downsample.conv', width, width, 3)
    t.norm('encoder.norm_out', dtype, 1024)
    conv('encoder.conv_out', 48, 1024, 3)
    conv('quant_conv', 48, 48, 1)
    conv('post_quant_conv', 24, 24, 1)
    t.linear('decoder.x_embedder', dtype, 2048, 24)
    t.add('decoder.register_tokens', dtype, 1, 4, 2048)
    t.add('decoder.mask_token', dtype, 1, 1, 2048)
    t.norm('decoder.norm_out', dtype, 2048)
    t.linear('decoder.proj_out', dtype, 3072, 2048)
    for i in range(36):
        p = f'decoder.transformer_blocks.{i}.'
        for name in ('norm1.weight', 'norm2.weight', 'scale1', 'scale2'):
            t.add(p + name, dtype, 2048)
        t.linear(p + 'attn.to_qkv', dtype, 6144, 2048)
        t.linear(p + 'attn.to_out', dtype, 2048, 2048)
        t.linear(p + 'ff.w1', dtype, 16384, 2048)
        t.linear(p + 'ff.w2', dtype, 2048, 8192)
    # as numbers: a mean of any and a deviation of one
    t.add('latents_mean', dtype, 24, data=b'\0' * 24 * BYTES[dtype])
    t.add('latents_std', dtype, 24, data=struct.pack(
        '<24' + ('e' if dtype == 'F16' else 'f'), *[1] * 24))
    return t


def audio_vae():
    t = Tensors()

    def conv(name, rows, cols, k, bias=None):
        t.add(name + '.weight', 'F32', rows, cols, k)
        if bias != 0:
            t.add(name + '.bias', 'F32', bias or rows)

    conv('encoder.block.0', 64, 1, 7)
    c = 64
    for i, stride in enumerate((2, 4, 4, 5, 5)):
        p = f'encoder.block.{i + 1}.block.'
        for j in range(3):
            t.add(f'{p}{j}.block.0.alpha', 'F32', 1, c, 1)
            conv(f'{p}{j}.block.1', c, c, 7)
            t.add(f'{p}{j}.block.2.alpha', 'F32', 1, c, 1)
            conv(f'{p}{j}.block.3', c, c, 1)
        t.add(p + '3.alpha', 'F32', 1, c, 1)
        conv(p + '4', 2 * c, c, 2 * stride)
        c *= 2
    t.add('encoder.block.6.alpha', 'F32', 1, 2048, 1)
    conv('encoder.block.7', 2048, 2048, 3)
    for name, n in (('norm1', 2048), ('norm3', 2048), ('norm2', 32)):
        t.norm('pre_block.' + name, 'F32', n)
    t.add('pre_block.attn.qkv.weight', 'F32', 6144, 2048)
    for name in ('q_bias', 'v_bias', 'zero_k_bias'):
        t.add('pre_block.attn.' + name, 'F32', 2048)
    t.linear('pre_block.attn.proj', 'F32', 32, 32)
    t.linear('pre_block.proj', 'F32', 32, 2048)
    t.norm('pre_block.mlp.norm', 'F32', 32)
    t.linear('pre_block.mlp.w0', 'F32', 64, 32)
    t.linear('pre_block.mlp.w1', 'F32', 64, 32)
    t.linear('pre_block.mlp.w2', 'F32', 32, 64)
    conv('mean_proj', 32, 32, 1)
    conv('logs_proj', 32, 32, 1)
    conv('dec_in_proj', 2048, 32, 1)
    conv('decoder.conv_pre', 1024, 2048, 7)
    for i, k in enumerate((9, 9, 4, 4, 4, 4, 4)):
        wide, narrow = 1024 >> i, 1024 >> (i + 1)
        conv(f'decoder.ups.{i}.0', wide, narrow, k, narrow)
        for j, size in enumerate((3, 7, 11)):
            p = f'decoder.resblocks.{3 * i + j}.'
            for m in range(3):
                conv(f'{p}convs1.{m}', narrow, narrow, size)
                conv(f'{p}convs2.{m}', narrow, narrow, size)
            for m in range(6):
                activation(t, f'{p}activations.{m}.', narrow)
    activation(t, 'decoder.activation_post.', 8)
    conv('decoder.conv_post', 1, 8, 7, 0)
    t.add('latents_mean', 'F32', 32, data=b'\0' * 128)
    t.add('latents_std', 'F32', 32, data=struct.pack('<32f', *[1] * 32))
    return t


def activation(t, p, n):
    t.add(p + 'act.alpha', 'F32', n)
    t.add(p + 'act.beta', 'F32', n)
    t.add(p + 'upsample.filter', 'F32', 1, 1, 12)
    t.add(p + 'downsample.lowpass.filter', 'F32', 1, 1, 12)


def elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def write_safetensors(path, tensors):
    header, end, pieces = {}, 0, []
    for name, dtype, shape, data in tensors:
        size = elements(shape) * BYTES[dtype]
        header[name] = {'dtype': dtype, 'shape': shape,
                        'data_offsets': [end, end + size]}
        if data is not None:
            pieces.append((end, data))
        end += size
    text = json.dumps(header, separators=(',', ':')).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        f.truncate(8 + len(text) + end)
        for offset, data in pieces:
            f.seek(8 + len(text) + offset)
            f.write(data)
    return end


# number, elements of a block, bytes
GGML = {'F32': (0, 1, 4), 'F16': (1, 1, 2), 'Q2_K': (10, 256, 84),
        'Q3_K': (11, 256, 110), 'Q4_K': (12, 256, 144)}


def write_gguf(path, tensors, wanted):
    """Matrices of whole blocks in the type that is wanted, others in floats."""
    def string(s):
        return struct.pack('<Q', len(s)) + s.encode()

    entries, keys, end, n_keys = b'', b'', 0, 0
    for name, dtype, shape, data in tensors:
        kind = 'F32' if len(shape) < 2 or dtype == 'F32' else 'F16'
        if len(shape) == 2 and dtype != 'F32' and shape[1] % 256 == 0:
            kind = wanted
        number, block, size = GGML[kind]
        dims = shape
        if len(shape) > 4:  # more than the container has
            dims = (elements(shape) // shape[-1], shape[-1])
            keys += string('comfy.gguf.orig_shape.' + name)
            keys += struct.pack(f'<IIQ{len(shape)}i', 9, 5, len(shape), *shape)
            n_keys += 1
        entries += string(name) + struct.pack(
            f'<I{len(dims)}QIQ', len(dims), *reversed(dims), number, end)
        end += -(-elements(shape) // block * size // 32) * 32
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), n_keys)
    head += keys + entries
    head += b'\0' * (-len(head) % 32)
    with open(path, 'wb') as f:
        f.write(head)
        f.truncate(len(head) + end)
    return end


FP8, INT8, NVFP4 = 'float8_e4m3fn', 'int8_tensorwise', 'nvfp4'
DIT, TE, VAE = 'diffusion_models/', 'text_encoders/', 'vae/'
FILES = {
    DIT + 'minimax_h3_fl2va_bf16.safetensors': lambda: transformer(),
    DIT + 'minimax_h3_fl2va_pruned_bf16.safetensors':
        lambda: transformer(None, True),
    DIT + 'minimax_h3_fl2va_pruned_fp8_scaled.safetensors':
        lambda: transformer(FP8, True),
    DIT + 'minimax_h3_fl2va_pruned_int8_convrot.safetensors':
        lambda: transformer(INT8, True),
    DIT + 'MiniMax_H3_FL2VA_pruned_nvfp4.safetensors':
        lambda: transformer(NVFP4, True),
    DIT + 'minimax_h3_fl2va_pruned-Q2_K.gguf':
        lambda: (transformer(None, True), 'Q2_K'),
    DIT + 'minimax_h3_fl2va_pruned-Q3_K.gguf':
        lambda: (transformer(None, True), 'Q3_K'),
    DIT + 'minimax_h3_fl2va_pruned-Q4_K_M.gguf':
        lambda: (transformer(None, True), 'Q4_K'),
    TE + 'qwen3vl_32b_minimax_h3_bf16.safetensors': lambda: text_encoder(),
    TE + 'qwen3vl_32b_minimax_h3_int8_convrot.safetensors':
        lambda: text_encoder(INT8),
    TE + 'qwen3vl_32b_minimax_h3_nvfp4_awq.safetensors':
        lambda: text_encoder(NVFP4),
    VAE + 'minimax_h3_video_vae_fp16.safetensors': lambda: video_vae(),
    VAE + 'minimax_h3_audio_vae_fp32.safetensors': lambda: audio_vae(),
}


def write(root, name):
    """Writes a file of FILES below the folder; returns its path."""
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    made = FILES[name]()
    if isinstance(made, tuple):
        write_gguf(path, *made)
    else:
        write_safetensors(path, made)
    return path
