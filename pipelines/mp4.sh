#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# MP4 with H.264 and AAC. avenc_aac delays the sound by 1024 samples and mp4mux
# has no way to say so; skip-samples takes them off the front, so that picture
# and sound meet. Usage: mp4.sh ["PROMPT" [OUT.mp4]]
. "$(dirname "$0")/common.sh"
whole "${2:-clip.mp4}"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" skip-samples=1024 $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 speed-preset=medium key-int-max=48 ! \
    video/x-h264,profile=high ! h264parse ! mux.video_0 \
  h3.audio ! queue ! audioconvert ! avenc_aac bitrate=192000 ! aacparse ! \
    mux.audio_0 \
  mp4mux name=mux faststart=true ! \
    filesink location="$(quoted "$part")"
