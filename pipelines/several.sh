#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Several clips in one MP4 on one timeline without a gap: PROMPTS.txt has a
# prompt per line. Lyrics are GStreamer's format for texts that follow each
# other, so that is what the prompts are made into; length=video keeps the sound
# of each clip as long as its picture. x264enc holds back more pictures than a
# clip may have, so the sound's queue has no limit. Usage: several.sh [PROMPTS.txt [OUT.mp4]]
file=${1-}
set -- "" "${2:-clips.mp4}"
. "$(dirname "$0")/common.sh"
whole "$2"
trap : INT # the clips that are there when it comes are kept
prompts=$(mktemp)
temporary=$prompts
if [ -n "$file" ]; then cat "$file"; else
  echo 'a red circle moves right on a blue background, high tone'
  echo 'a yellow square moves down on a purple background, low tone'
fi | awk 'NF { printf "[%02d:%02d.00]%s\n", n / 60, n % 60, $0; n++ }' >"$prompts"

# shellcheck disable=SC2086
gst-launch-1.0 -e \
  filesrc location="$(quoted "$prompts")" ! subparse ! \
    text/x-raw,format=utf8 ! h3textenc ! h3denoise name=d $H3_SETTINGS \
  d.video ! h3videovae ! queue max-size-buffers=16 ! \
    x264enc bitrate=8000 key-int-max=48 ! h264parse ! mux.video_0 \
  d.audio ! h3audiovae length=video skip-samples=1024 ! \
    queue max-size-buffers=0 max-size-bytes=0 max-size-time=0 ! audioconvert ! \
    avenc_aac bitrate=192000 ! aacparse ! mux.audio_0 \
  mp4mux name=mux faststart=true ! filesink location="$(quoted "$part")"
