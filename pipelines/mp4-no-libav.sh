#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# MP4 where gstreamer1.0-libav is not installed: voaacenc, which delays the
# sound by 1600 samples. Usage: mp4-no-libav.sh ["PROMPT" [OUT.mp4]]
. "$(dirname "$0")/common.sh"
whole "${2:-clip.mp4}"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" skip-samples=1600 $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 key-int-max=48 ! h264parse ! \
    mux.video_0 \
  h3.audio ! queue ! audioconvert ! voaacenc bitrate=128000 ! aacparse ! \
    mux.audio_0 \
  mp4mux name=mux faststart=true ! \
    filesink location="$(quoted "$part")"
