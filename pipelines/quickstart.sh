#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# From nothing to a clip: installs what is needed, builds, and makes an MP4 with
# the small checkpoint in demo/. Usage: quickstart.sh ["PROMPT" [OUT.mp4]]
set -eu

prompt=${1:-a red circle moves right on a blue background, high tone}
out=${2:-h3-clip.mp4}
top=$(cd "$(dirname "$0")/.." && pwd)
case $out in /*) ;; *) out=$PWD/$out ;; esac

"$top/pipelines/install-deps.sh" run
[ -f "$top/build/build.ninja" ] ||
  meson setup "$top/build" "$top" --buildtype=release -Dtests=disabled >&2
ninja -C "$top/build" >&2

# The clip appears under its name only when it is whole.
part=$out.part
trap 'rm -f "$part"' EXIT
export GST_PLUGIN_PATH_1_0="$top/build/gst${GST_PLUGIN_PATH_1_0:+:$GST_PLUGIN_PATH_1_0}"
gst-launch-1.0 -e \
  h3src name=h3 prompt="$prompt" width=96 height=64 frames=22 steps=8 \
  h3.video ! queue ! x264enc speed-preset=veryfast ! h264parse ! mux.video_0 \
  h3.audio ! queue ! avenc_aac bitrate=128000 ! aacparse ! mux.audio_0 \
  mp4mux name=mux faststart=true ! filesink location="$part"
mv "$part" "$out"
trap - EXIT
echo "Your clip: $out"
