# SPDX-License-Identifier: LGPL-2.1-or-later
# What the pipelines in this folder share; they source it.
#   $prompt       the first argument, or a prompt of the demo's little language
#   $H3_SETTINGS  properties of h3src; the default suits the checkpoint in demo/
# shellcheck shell=sh disable=SC2034
set -eu

prompt=${1:-a red circle moves right on a blue background, high tone}
: "${H3_SETTINGS:=width=96 height=64 frames=22 steps=8}"

# A tree that was built but not installed: use its plugin.
if [ -z "${GST_PLUGIN_PATH_1_0-}" ]; then
  GST_PLUGIN_PATH_1_0=$(cd "$(dirname "$0")/../build/gst" 2>/dev/null && pwd) || :
  export GST_PLUGIN_PATH_1_0
fi
