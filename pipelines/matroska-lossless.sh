#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# A master: lossless H.264 4:4:4 and FLAC (24 bit) in Matroska.
# Usage: matroska-lossless.sh ["PROMPT" [OUT.mkv]]
. "$(dirname "$0")/common.sh"
whole "${2:-clip.mkv}"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! video/x-raw,format=Y444 ! queue ! \
    x264enc pass=quant quantizer=0 key-int-max=48 ! h264parse ! mux. \
  h3.audio ! queue ! audioconvert ! audio/x-raw,format=S24LE ! flacenc ! mux. \
  matroskamux name=mux ! filesink location="$(quoted "$part")"
