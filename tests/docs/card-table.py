#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""card-table.py H3-INSPECT PAGE.md TOKENIZER [--write]

The table of what to download for which card, between the lines `<!-- cards -->`
and `<!-- end cards -->` of the page: memory as h3-inspect counts it for files of
the released sizes. Without --write it only compares."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import released

VIDEO = 'vae/minimax_h3_video_vae_fp16.safetensors'
AUDIO = 'vae/minimax_h3_audio_vae_fp32.safetensors'
DIT = 'diffusion_models/'
TE = 'text_encoders/qwen3vl_32b_minimax_h3_'
FULL, SMALL = (1344, 768, 124), (864, 480, 124)
GB, GIB = 1e9, 1 << 30
CONTEXT = 0.6 * GB  # CUDA's own, docs/performance.md

# GB on the box, GiB there are, clip, transformer, text encoder, others on the GPU
ROWS = [
    (12, 12, SMALL, 'minimax_h3_fl2va_pruned-Q3_K.gguf', None, []),
    (16, 16, SMALL, 'minimax_h3_fl2va_pruned-Q2_K.gguf', None, [VIDEO, AUDIO]),
    (24, 24, SMALL, 'MiniMax_H3_FL2VA_pruned_nvfp4.safetensors',
     'nvfp4_awq.safetensors', [VIDEO, AUDIO]),
    (24, 24, FULL, 'minimax_h3_fl2va_pruned-Q4_K_M.gguf',
     'nvfp4_awq.safetensors', [VIDEO, AUDIO]),
    (32, 32, FULL, 'minimax_h3_fl2va_pruned_fp8_scaled.safetensors',
     'nvfp4_awq.safetensors', [VIDEO, AUDIO]),
    (48, 48, FULL, 'minimax_h3_fl2va_pruned_int8_convrot.safetensors',
     'nvfp4_awq.safetensors', [VIDEO, AUDIO]),
    (80, 80, FULL, 'minimax_h3_fl2va_pruned_bf16.safetensors',
     'int8_convrot.safetensors', [VIDEO, AUDIO]),
    (96, 96, FULL, 'minimax_h3_fl2va_bf16.safetensors',
     'int8_convrot.safetensors', [VIDEO, AUDIO]),
    (141, 140, FULL, 'minimax_h3_fl2va_bf16.safetensors', 'bf16.safetensors',
     [VIDEO, AUDIO]),
]


def inspect(program, root, clip, files):
    """Whole, in turn, one clip: GB on cuda; and what is on disk."""
    command = [program]
    for option, value in zip(('width', 'height', 'frames'), clip):
        command.append(f'--{option}={value}')
    text = subprocess.run(command + files, cwd=root, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    sums = text.partition('all of these')[2].partition('on cuda')[2]
    if sums:
        found = re.findall(r'([\d.]+) GB ', sums)[:3]
    else:  # one model alone
        found = 3 * re.findall(r'([\d.]+) GB on cuda: weights', text)
    return [float(x) for x in found]


def how(card_gib, sums):
    """What the residency must be, by gst/gsth3residency.c's arithmetic."""
    total = card_gib * GIB
    usable = (total - min(total / 20, GIB) - CONTEXT) / GB
    if sums[0] <= usable:
        return 'all stays there (`residency=pipeline`)'
    if sums[1] <= usable:
        return 'in turn (`residency=auto` or `stage`)'
    if sums[2] <= usable:
        return 'in turn, one clip in a pipeline'
    raise SystemExit(f'{sums} GB do not fit {usable:.2f} GB')


def table(program, root):
    lines = ['| card | transformer | text encoder | clip | whole | in turn | '
             'one clip | so |', '|---|---|---|---|---|---|---|---|']
    commands = []
    for box, gib, clip, dit, te, others in ROWS:
        files = [DIT + dit] + ([TE + te] if te else []) + others
        sums = inspect(program, root, clip, files)
        where = te and f'`{TE[14:]}{te}`'
        if not te:
            where = 'on the CPU' + ('' if others else ', decoders too')
        size = f'{clip[0]}x{clip[1]}'
        lines.append(f'| {box} GB | `{dit}` | {where} | {size} | ' + ' | '.join(
            f'{x:.1f}' for x in sums) + f' | {how(gib, sums)} |')
        options = '' if clip == FULL else '--width=%d --height=%d ' % clip[:2]
        commands.append(f'h3-inspect {options}{" ".join(files)}')
    return '\n'.join(lines + ['', 'The rows, in their order:', '', '```sh']
                     + commands + ['```'])


def main():
    program, page, tokenizer = sys.argv[1:4]
    text = open(page, encoding='utf-8').read()
    begin, end = '<!-- cards -->\n', '\n<!-- end cards -->'
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    with tempfile.TemporaryDirectory() as root:
        shutil.copytree(tokenizer, os.path.join(root, 'tokenizer'))
        try:
            paths = [released.write(root, name) for name in released.FILES]
        except OSError as error:
            print(f'no files of that size here: {error}')
            sys.exit(77)
        if any(os.stat(path).st_blocks > 1 << 15 for path in paths):
            print('the file system has no sparse files')
            sys.exit(77)
        fresh = before + begin + table(os.path.abspath(program), root)
        fresh += end + after
    if '--write' in sys.argv:
        open(page, 'w', encoding='utf-8').write(fresh)
    elif fresh != text:
        sys.exit(f'{page} is not what h3-inspect says; renew it with\n  '
                 + ' '.join(sys.argv) + ' --write')


main()
