#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Every frame as a PNG, OUT0000.png and on; the sound is not decoded.
# Usage: png.sh ["PROMPT" [OUT]]
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! video/x-raw,format=RGB ! pngenc ! \
    multifilesink location="$(quoted "${2:-frame}%04d.png")"
