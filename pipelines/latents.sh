#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Generate now, decode later or elsewhere: the latents of a clip go to OUT.video
# and OUT.audio with their caps (GDP), a second pipeline makes OUT.mkv of them.
# Usage: latents.sh ["PROMPT" [OUT]]
. "$(dirname "$0")/common.sh"
out=${2:-clip}

file=$(mktemp)
trap 'rm -f "$file"' EXIT
printf %s "$prompt" >"$file"
# shellcheck disable=SC2086
gst-launch-1.0 -e \
  filesrc location="$(quoted "$file")" ! text/x-raw,format=utf8 ! \
    h3textenc ! h3denoise name=d $H3_SETTINGS \
  d.video ! gdppay ! filesink location="$(quoted "$out.video")" \
  d.audio ! gdppay ! filesink location="$(quoted "$out.audio")"

gst-launch-1.0 -e \
  filesrc location="$(quoted "$out.video")" ! gdpdepay ! h3videovae ! queue ! \
    x264enc bitrate=8000 ! h264parse ! mux. \
  filesrc location="$(quoted "$out.audio")" ! gdpdepay ! h3audiovae ! queue ! \
    audioconvert ! audio/x-raw,format=S24LE ! flacenc ! mux. \
  matroskamux name=mux ! filesink location="$(quoted "$out.mkv")"
