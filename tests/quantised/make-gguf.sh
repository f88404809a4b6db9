#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# make-gguf.sh MKCHECKPOINT MKGGUF WIDE TINY OUT: the transformer and the text
# encoder in GGUF files, and beside each form what its blocks stand for in float32.
# blocks: every type, one a layer, in a geometry of whole blocks (WIDE); mixed: q
# and k in another than v; flat: rows that are no whole blocks (TINY).
set -eu
mkcheckpoint=$1 mkgguf=$2 wide=$3 tiny=$4 out=$5
small=Q8_0,Q4_0,Q4_1,Q5_0,Q5_1,IQ4_NL,MXFP4
all=$small,NVFP4,Q2_K,Q3_K,Q4_K,Q5_K,Q6_K,IQ4_XS

form() # NAME LIKE OPTIONS...
{
  name=$1 like=$2
  shift 2
  for component in transformer text_encoder; do
    for suffix in '' -decoded; do
      folder=$out/$name$suffix/FL2VA/$component
      mkdir -p "$folder"
      cp "$like/FL2VA/$component/config.json" "$folder"
      "$mkgguf" --from "$out/plain/FL2VA/$component" --to "$folder/model.gguf" \
        "$@" ${suffix:+--decoded}
    done
  done
}

rm -rf "$out"
"$mkcheckpoint" --like "$wide" --seed 20260801 --out "$out/plain"
form blocks "$wide" --types $all
form mixed "$wide" --types $all --mix
rm -rf "$out/plain"
"$mkcheckpoint" --like "$tiny" --seed 20260801 --out "$out/plain"
form flat "$tiny" --types $small --flatten
rm -rf "$out/plain"
