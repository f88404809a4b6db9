#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Fragmented MP4: playable while it grows and after a crash. No B-frames, which
# would delay the picture. Usage: mp4-fragmented.sh ["PROMPT" [OUT.mp4]]
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" skip-samples=1024 $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 key-int-max=48 bframes=0 ! \
    h264parse ! mux.video_0 \
  h3.audio ! queue ! audioconvert ! avenc_aac bitrate=192000 ! aacparse ! \
    mux.audio_0 \
  mp4mux name=mux fragment-duration=2000 streamable=true ! \
    filesink location="$(quoted "${2:-clip.mp4}")"
