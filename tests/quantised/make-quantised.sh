#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# make-quantised.sh MKCHECKPOINT TINY OUT: the tiny checkpoint in ComfyUI's
# quantised forms, and beside each what it stands for in float32.
set -eu
mkcheckpoint=$1 tiny=$2 out=$3

form() # NAME OPTIONS...
{
  name=$1
  shift
  set -- --like "$tiny" --seed 20260801 "$@"
  "$mkcheckpoint" "$@" --out "$out/$name"
  "$mkcheckpoint" "$@" --out "$out/$name-decoded" --decoded
}

rm -rf "$out"
for encoding in fp8 int8 nvfp4 mxfp8; do
  for layout in official diffusers; do
    form $encoding-$layout --encoding $encoding --layout $layout
  done
done
for encoding in fp8 int8 nvfp4 mxfp8; do
  form $encoding-comfy-pruned --encoding $encoding --layout comfy-pruned --rank 8
done
# other places of the markers, and none; names with a prefix that layers lack
form fp8-metadata --layout comfy --encoding fp8 --markers metadata --prefix net.
form int8-metadata --layout comfy --encoding int8 --markers metadata
form nvfp4-metadata --layout comfy --encoding nvfp4 --markers metadata \
  --prefix net.
form fp8-oldest --layout comfy --encoding fp8 --markers oldest \
  --prefix model.diffusion_model.
form fp8-cast --layout comfy --encoding fp8 --markers none
