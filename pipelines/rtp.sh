#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# RTP over UDP in real time: H.264 to PORT, Opus to PORT + 2. Receive with
#   gst-launch-1.0 udpsrc port=5004 caps="application/x-rtp,media=video,\
#     clock-rate=90000,encoding-name=H264,payload=96" ! rtpjitterbuffer ! \
#     rtph264depay ! h264parse ! avdec_h264 ! videoconvert ! autovideosink
# Usage: rtp.sh ["PROMPT" [HOST [PORT]]]
. "$(dirname "$0")/common.sh"
host=${2:-127.0.0.1}
port=${3:-5004}

# shellcheck disable=SC2086
exec gst-launch-1.0 -e \
  h3src name=h3 prompt="$(quoted "$prompt")" $H3_SETTINGS \
  h3.video ! queue ! \
    x264enc tune=zerolatency speed-preset=veryfast bitrate=4000 \
      key-int-max=24 ! queue max-size-time=60000000000 max-size-bytes=0 \
      max-size-buffers=0 ! \
    h264parse ! rtph264pay config-interval=-1 pt=96 ! \
    udpsink host="$host" port="$port" \
  h3.audio ! queue ! audioresample ! audioconvert ! opusenc ! \
    rtpopuspay pt=97 ! udpsink host="$host" port="$((port + 2))"
