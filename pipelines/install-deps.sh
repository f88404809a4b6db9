#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs what Debian 12 packages the build needs, asking nobody; packages that
# are there already cost nothing. Usage: install-deps.sh run|test
set -eu

packages="gcc libc6-dev meson ninja-build pkg-config
 libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev libjson-glib-dev
 libopenblas-dev gstreamer1.0-tools gstreamer1.0-plugins-base
 gstreamer1.0-plugins-good gstreamer1.0-plugins-bad
 gstreamer1.0-plugins-ugly gstreamer1.0-libav"
[ "${1:-run}" = test ] && packages="$packages
 gstreamer1.0-plugins-base-apps clang libclang-rt-14-dev"

missing=
for p in $packages; do
  [ "$(dpkg-query -W -f '${Status}' "$p" 2>/dev/null)" = 'install ok installed' ] ||
    missing="$missing $p"
done
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "This script knows Debian's apt-get only. Install the like of:$missing" >&2
  exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "Not root and no sudo. As root: apt-get install$missing" >&2
    exit 1
  }
  sudo=sudo
fi
echo "Installing:$missing" >&2
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --no-install-recommends $missing >&2
