#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Uncompressed for other tools: YUV4MPEG2 in OUT.y4m, float WAV in OUT.wav.
# Usage: y4m-wav.sh ["PROMPT" [OUT]]
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! video/x-raw,format=I420 ! y4menc ! \
    filesink location="$(quoted "${2:-clip}.y4m")" \
  h3.audio ! wavenc ! filesink location="$(quoted "${2:-clip}.wav")"
