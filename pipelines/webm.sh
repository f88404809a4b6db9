#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# WebM with VP8 and Opus. Usage: webm.sh ["PROMPT" [OUT.webm]]
. "$(dirname "$0")/common.sh"
whole "${2:-clip.webm}"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! video/x-raw,format=I420 ! queue ! \
    vp8enc deadline=1 cpu-used=8 target-bitrate=4000000 keyframe-max-dist=48 ! \
    mux. \
  h3.audio ! queue ! audioresample ! audioconvert ! opusenc bitrate=160000 ! \
    mux. \
  webmmux name=mux ! filesink location="$(quoted "$part")"
