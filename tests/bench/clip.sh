#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The whole way from gst-launch-1.0 to a finished MP4, with the demo checkpoint:
# time and peak memory of the process, then where the time of one run went.
# Usage: clip.sh [BUILD-DIR [RUNS]]
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build-test}
runs=${2:-7}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export GST_PLUGIN_PATH_1_0="$build/gst"

set -- gst-launch-1.0 -q -e h3src name=h3 \
  prompt='a red circle moves right on a blue background, high tone' \
  width=96 height=64 frames=22 steps=8 \
  h3.video ! queue ! x264enc speed-preset=veryfast ! h264parse ! mux.video_0 \
  h3.audio ! queue ! avenc_aac bitrate=128000 ! aacparse ! mux.audio_0 \
  mp4mux name=mux faststart=true ! filesink location="$tmp/clip.mp4"

"$build/tests/bench/h3-bench-process" "$runs" "$@"
echo
echo 'One run, from the elements'\'' own timings:'
GST_DEBUG='h3*:INFO' GST_DEBUG_NO_COLOR=1 "$@" 2>&1 |
  sed -n 's/.*INFO *\(h3[a-z]*\) .*: *\(.*[0-9] ms.*\)$/\1 \2/p'
