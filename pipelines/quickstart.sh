#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# From nothing to a clip: installs what is needed, builds, and makes an MP4 with
# the small checkpoint in demo/. Usage: quickstart.sh ["PROMPT" [OUT.mp4]]
set -eu

out=${2:-h3-clip.mp4}
top=$(cd "$(dirname "$0")/.." && pwd)
case $out in /*) ;; *) out=$PWD/$out ;; esac
if [ -d "$out" ] || ! [ -w "$(dirname "$out")" ]; then
  echo "Cannot write $out: it is a folder, or its folder is missing or not" \
    "writable." >&2
  exit 1
fi

"$top/pipelines/install-deps.sh" run
echo "Building in $top/build" >&2
# The demo is at home on a CPU; compiling for GPUs takes minutes.
[ -f "$top/build/build.ninja" ] ||
  meson setup "$top/build" "$top" --buildtype=release -Dtests=disabled \
    -Dcuda=disabled >&2
ninja -C "$top/build" >&2

trap 'exit 130' INT
trap 'exit 143' TERM
export GST_PLUGIN_PATH_1_0="$top/build/gst${GST_PLUGIN_PATH_1_0:+:$GST_PLUGIN_PATH_1_0}"
export H3_MODEL_PATH="$top/demo/FL2VA"
"$top/pipelines/mp4.sh" "${1-}" "$out"
echo "Your clip: $out"
echo "To use the plugin: export GST_PLUGIN_PATH=$top/build/gst GST_PRESET_PATH=$top/gst"
