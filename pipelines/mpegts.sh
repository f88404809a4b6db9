#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# MPEG transport stream. Usage: mpegts.sh ["PROMPT" [OUT.ts]]
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 key-int-max=48 ! \
    h264parse config-interval=-1 ! mux. \
  h3.audio ! queue ! audioconvert ! avenc_aac bitrate=192000 ! aacparse ! mux. \
  mpegtsmux name=mux alignment=7 ! filesink location="$(quoted "${2:-clip.ts}")"
