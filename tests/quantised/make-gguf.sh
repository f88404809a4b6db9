#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# make-gguf.sh MKCHECKPOINT MKGGUF WIDE TINY OUT: the transformer and the text
# encoder in GGUF files, and beside each form what its blocks stand for in float32.
# blocks: every type, one a layer, in a geometry of whole blocks (WIDE); mixed: q
# and k in another than v; pruned: with a curve; flat: rows that are no whole
# blocks (TINY).
set -eu
mkcheckpoint=$1 mkgguf=$2 wide=$3 tiny=$4 out=$5
small=Q8_0,Q4_0,Q4_1,Q5_0,Q5_1,IQ4_NL,MXFP4
all=$small,NVFP4,Q2_K,Q3_K,Q4_K,Q5_K,Q6_K,IQ4_XS

one() # NAME LIKE COMPONENT FROM OPTIONS...
{
  name=$1 config=$2/FL2VA/$3/config.json component=$3 from=$4
  shift 4
  for suffix in '' -decoded; do
    folder=$out/$name$suffix/FL2VA/$component
    mkdir -p "$folder"
    cp "$config" "$folder"
    "$mkgguf" --from "$from" --to "$folder/model.gguf" "$@" \
      ${suffix:+--decoded}
  done
}

form() # NAME LIKE OPTIONS...
{
  form=$1 like=$2
  shift 2
  for part in transformer text_encoder; do
    one "$form" "$like" $part "$out/plain/FL2VA/$part" "$@"
  done
}

rm -rf "$out"
"$mkcheckpoint" --like "$wide" --seed 20260801 --out "$out/plain"
form blocks "$wide" --types $all
form mixed "$wide" --types $all --mix
"$mkcheckpoint" --like "$wide" --seed 20260801 --out "$out/plain" \
  --layout comfy-pruned --rank 8
one pruned "$wide" transformer \
  "$out/plain/diffusion_models/minimax_h3_fl2va_bf16.safetensors" --types $all
rm -rf "$out/plain"
"$mkcheckpoint" --like "$tiny" --seed 20260801 --out "$out/plain"
form flat "$tiny" --types $small --flatten
rm -rf "$out/plain"
