#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The same MP4 from the four elements that h3src holds, and the prompt from a
# file, where it may be long and have quotes and line breaks in it.
# Usage: mp4-elements.sh [PROMPT.txt [OUT.mp4]]
file=${1-}
set -- "" "${2:-clip.mp4}"
. "$(dirname "$0")/common.sh"
whole "$2"
[ -n "$file" ] || {
  file=$(mktemp)
  temporary=$file
  echo 'a red circle moves right on a blue background, high tone' >"$file"
}

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  filesrc location="$(quoted "$file")" ! text/x-raw,format=utf8 ! \
    h3textenc ! h3denoise name=d $H3_SETTINGS \
  d.video ! h3videovae ! queue max-size-buffers=16 ! x264enc bitrate=8000 ! \
    h264parse ! mux.video_0 \
  d.audio ! h3audiovae skip-samples=1024 ! queue ! audioconvert ! \
    avenc_aac bitrate=192000 ! aacparse ! mux.audio_0 \
  mp4mux name=mux faststart=true ! filesink location="$(quoted "$part")"
