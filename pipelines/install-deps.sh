#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs what Debian 12 packages the build needs, asking nobody; packages that
# are there already cost nothing. Usage: install-deps.sh run|test
set -eu

# dpkg-dev: with it Meson knows Debian's library folder, lib/x86_64-linux-gnu
packages="gcc libc6-dev dpkg-dev meson ninja-build pkg-config
 libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev libjson-glib-dev
 libopenblas-dev gstreamer1.0-tools gstreamer1.0-plugins-base
 gstreamer1.0-plugins-good gstreamer1.0-plugins-bad
 gstreamer1.0-plugins-ugly gstreamer1.0-libav"
case ${1:-run} in
  run) ;;
  test) packages="$packages
 gstreamer1.0-plugins-base-apps clang libclang-rt-14-dev" ;;
  *) echo "Usage: ${0##*/} run|test" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This is no Debian: it has no dpkg-query and apt-get. Install the like" \
    "of these yourself, then see \"Install\" in README.md:" >&2
  # shellcheck disable=SC2086
  echo $packages >&2
  exit 1
fi

missing=
for p in $packages; do
  [ "$(dpkg-query -W -f '${Status}' "$p" 2>/dev/null)" = 'install ok installed' ] ||
    missing="$missing $p"
done
[ -z "$missing" ] && exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "Not root and no sudo. As root: apt-get update && apt-get install$missing" >&2
    exit 1
  }
  sudo=sudo
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
# quiet COMMAND...: what it said is shown only when one of them fails
quiet () {
  $sudo "$@" >>"$log" 2>&1 && return
  cat "$log" >&2
  echo "Failed, see above: $sudo $*" >&2
  exit 1
}
echo "Installing, which takes minutes:$missing" >&2
quiet apt-get update -qq
# shellcheck disable=SC2086
quiet env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --no-install-recommends $missing
