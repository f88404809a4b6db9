#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# MP4 from one picture to another, which is cut to the first one's shape.
# Usage: both-frames.sh FIRST LAST ["PROMPT" [OUT.mp4]]
[ $# -ge 2 ] || { echo "Usage: ${0##*/} FIRST LAST [\"PROMPT\" [OUT.mp4]]" >&2; exit 2; }
first=$1 last=$2; shift 2
. "$(dirname "$0")/common.sh"
whole "${2:-clip.mp4}"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" skip-samples=1024 \
    first-frame="$(quoted "$first")" last-frame="$(quoted "$last")" $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 speed-preset=medium key-int-max=48 ! \
    video/x-h264,profile=high ! h264parse ! mux.video_0 \
  h3.audio ! queue ! audioconvert ! avenc_aac bitrate=192000 ! aacparse ! \
    mux.audio_0 \
  mp4mux name=mux faststart=true ! \
    filesink location="$(quoted "$part")"
