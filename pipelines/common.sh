# SPDX-License-Identifier: LGPL-2.1-or-later
# What the pipelines in this folder share; they source it.
#   $prompt       the first argument, or a prompt of the demo's little language
#   quoted TEXT   TEXT as a property's value, whatever characters it has
#   quoted_list TEXT...   several, as the value of a property that takes a list
#   $H3_SETTINGS  more properties of h3src, or of h3denoise where that is used
#   whole FILE    from here on $part is written; it becomes FILE when the script
#                 ends well, else it goes and a FILE of before stays
# shellcheck shell=sh disable=SC2034
set -eu
trap 'exit 130' INT # so that dash runs what is trapped at EXIT

prompt=${1:-a red circle moves right on a blue background, high tone}
: "${H3_SETTINGS=}"

# gst-launch-1.0 unquotes a value twice: its parser, then the string itself.
quoted () {
  set -- "$(printf %sx "$1" |
    LC_ALL=C sed -e 's/[^A-Za-z0-9]/\\&/g' -e '$!s/$/\\/' -e 's/["\\]/\\&/g')"
  printf '"\\"%s\\""' "${1%x}" # without the x, no newline at the end is lost
}

quoted_list () {
  list=
  for item; do
    item=$(printf %sx "$item" |
      LC_ALL=C sed -e 's/[^A-Za-z0-9]/\\&/g' -e '$!s/$/\\/')
    list="$list${list:+, }\"${item%x}\""
  done
  printf '"<%s>"' "$(printf %s "$list" | LC_ALL=C sed -e 's/["\\]/\\&/g')"
}

temporary=
whole () {
  whole=$1 part=$1.part
  trap 'status=$?
    [ -z "$temporary" ] || rm -f "$temporary"
    if [ $status -eq 0 ]; then mv "$part" "$whole"; else rm -f "$part"; fi
    exit $status' EXIT
}

# A tree that was built but not installed: use its plugin and its presets.
if [ -z "${GST_PLUGIN_PATH_1_0-}" ] &&
  built=$(cd "$(dirname "$0")/../build/gst" 2>/dev/null && pwd); then
  export GST_PLUGIN_PATH_1_0="$built${GST_PLUGIN_PATH:+:$GST_PLUGIN_PATH}"
  export GST_PRESET_PATH="${GST_PRESET_PATH:+$GST_PRESET_PATH:}${built%/build/gst}/gst"
fi
