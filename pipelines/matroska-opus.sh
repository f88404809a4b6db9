#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Matroska with H.264 and Opus: sound and picture meet exactly.
# Usage: matroska-opus.sh ["PROMPT" [OUT.mkv]]
. "$(dirname "$0")/common.sh"
whole "${2:-clip.mkv}"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 speed-preset=medium key-int-max=48 ! \
    h264parse ! mux. \
  h3.audio ! queue ! audioresample ! audioconvert ! opusenc bitrate=160000 ! \
    opusparse ! mux. \
  matroskamux name=mux ! filesink location="$(quoted "$part")"
