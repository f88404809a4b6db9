#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The same shapes as h3-bench in plain PyTorch: one block of the transformer and
of the video decoder, one layer of the text encoder. Run by h3-bench --pytorch;
a whole pass is the block's time times the number printed beside it."""
import statistics
import time

import torch
import torch.nn.functional as F

DEVICE = "cuda"
REPS = 5


def random(*shape, dtype=torch.bfloat16, scale=1.0):
    return torch.randn(*shape, device=DEVICE, dtype=dtype) * scale


def rms(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-5)


def rope(x, cos, sin):
    n = cos.shape[-1]
    a, b, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attention(qkv, heads, kv_heads, dim, cos, sin, gain, causal=False, batch=1):
    q, k, v = qkv.view(batch, -1, heads + 2 * kv_heads, dim).split(
        [heads, kv_heads, kv_heads], 2)
    q, k = rope(rms(q, gain), cos, sin), rope(rms(k, gain), cos, sin)
    o = F.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
        is_causal=causal, enable_gqa=heads != kv_heads)
    return o.transpose(1, 2).reshape(qkv.shape[0], heads * dim)


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def measure(name, times, run):
    run()
    torch.cuda.synchronize()
    ms = []
    for _ in range(REPS):
        start = time.monotonic()
        run()
        torch.cuda.synchronize()
        ms.append((time.monotonic() - start) * 1e3)
    median = statistics.median(ms)
    print(f"{name:48} {median:9.3f} ms  x {times} = {median * times:9.1f} ms",
          flush=True)


def transformer(rows):
    h, inner, ffn = 5376, 7168, 14336
    w = [random(n, k, scale=k ** -0.5) for n, k in (
        (3 * inner, h), (h, inner), (2 * ffn, h), (h, ffn))]
    x, gain, head = random(rows, h), random(h), random(128)
    cos, sin = random(rows, 1, 48), random(rows, 1, 48)
    table = random(6, 6, h)
    index = torch.zeros(rows, device=DEVICE, dtype=torch.long)

    def run():
        p = table[index]
        n = rms(x, gain) * (1 + p[:, 1]) + p[:, 0]
        a = attention(n @ w[0].T, 56, 56, 128, cos, sin, head) @ w[1].T
        y = x + p[:, 2] * a
        n = rms(y, gain) * (1 + p[:, 4]) + p[:, 3]
        return y + p[:, 5] * (swiglu(n @ w[2].T) @ w[3].T)

    measure(f"transformer block, {rows} rows", 50, run)


def text(rows):
    h = 5120
    w = [random(n, k, scale=k ** -0.5) for n, k in (
        (80 * 128, h), (h, 64 * 128), (51200, h), (h, 25600))]
    x, gain, head = random(rows, h), random(h), random(128)
    cos, sin = random(rows, 1, 64), random(rows, 1, 64)

    def run():
        n = rms(x, gain)
        y = x + attention(n @ w[0].T, 64, 8, 128, cos, sin, head, True) @ w[1].T
        return y + swiglu(rms(y, gain) @ w[2].T) @ w[3].T

    measure(f"text layer, {rows} rows", 50, run)


def video(tiles):
    rows, h, f16 = tiles * 1797, 2048, torch.float16
    w = [random(n, k, dtype=f16, scale=k ** -0.5) for n, k in (
        (3 * h, h), (h, h), (16384, h), (h, 8192))]
    b = [random(m.shape[0], dtype=f16) for m in w]
    x, gain = random(rows, h, dtype=torch.float32), random(h, dtype=torch.float32)
    head = random(64, dtype=f16)
    cos, sin = random(1797, 1, 24, dtype=f16), random(1797, 1, 24, dtype=f16)

    def run():
        n = rms(x, gain).half()
        a = attention(F.linear(n, w[0], b[0]), 32, 32, 64, cos, sin, head,
                      batch=tiles)
        y = x + gain * F.linear(a, w[1], b[1])
        n = rms(y, gain).half()
        return y + gain * F.linear(swiglu(F.linear(n, w[2], b[2])), w[3], b[3])

    measure(f"video decoder block, {tiles} tiles", 36 * 28 * 7 // tiles, run)


def main():
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    with torch.inference_mode():
        for rows in (37754, 19328, 17524):
            transformer(rows)
            torch.cuda.empty_cache()
        text(300)
        video(7)


if __name__ == "__main__":
    main()
