#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# MP4 with pictures, clips and sounds that the prompt speaks of as <Picture 1>,
# <Video 1>, <Audio 1>. It needs the Ref2VA transformer, which the demo has not.
# Usage: references.sh "PROMPT" OUT.mp4 FILE...
[ $# -ge 3 ] || { echo "Usage: ${0##*/} \"PROMPT\" OUT.mp4 FILE..." >&2; exit 2; }
. "$(dirname "$0")/common.sh"
whole "$2"
shift 2

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" skip-samples=1024 \
    references="$(quoted_list "$@")" $H3_SETTINGS \
  h3.video ! queue ! x264enc bitrate=8000 speed-preset=medium key-int-max=48 ! \
    video/x-h264,profile=high ! h264parse ! mux.video_0 \
  h3.audio ! queue ! audioconvert ! avenc_aac bitrate=192000 ! aacparse ! \
    mux.audio_0 \
  mp4mux name=mux faststart=true ! \
    filesink location="$(quoted "$part")"
