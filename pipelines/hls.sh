#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# HTTP live streaming: OUT.m3u8 and its segments OUT00000.ts and on. Not
# hlssink2, which in GStreamer 1.22 now and then never ends for a short clip.
# Usage: hls.sh ["PROMPT" [OUT]]
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 key-int-max=48 ! \
    h264parse config-interval=-1 ! mux. \
  h3.audio ! queue ! audioconvert ! avenc_aac bitrate=192000 ! aacparse ! mux. \
  mpegtsmux name=mux ! hlssink target-duration=2 max-files=0 \
    playlist-length=0 location="$(quoted "${2:-clip}%05d.ts")" \
    playlist-location="$(quoted "${2:-clip}.m3u8")"
