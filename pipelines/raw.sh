#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Raw bytes: NV12 frames in OUT.nv12, interleaved float32 stereo samples at
# 32 kHz in OUT.f32. Usage: raw.sh ["PROMPT" [OUT]]
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! video/x-raw,format=NV12 ! \
    filesink location="$(quoted "${2:-clip}.nv12")" \
  h3.audio ! filesink location="$(quoted "${2:-clip}.f32")"
