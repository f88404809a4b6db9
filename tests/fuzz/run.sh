#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Fuzzes the readers of files for SECONDS in all (30): tests/fuzz/run.sh [SECONDS]
# Built with clang in build-fuzz/; inputs found on the way stay there, the corpus
# in the repository is only read. Ends with 1 when something was found, and says
# where the input is: put it into corpus/ once fixed.
set -eu

seconds=${1:-30}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=$top/build-fuzz
targets='safetensors gguf quantised tokenizer config'
findings=$build/findings

[ -f "$build/build.ninja" ] || CC=clang meson setup "$build" "$top" \
  --buildtype=debugoptimized -Dtests=enabled -Dfuzzers=enabled \
  -Db_sanitize=address,undefined -Db_lundef=false \
  -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined'
# shellcheck disable=SC2046
ninja -C "$build" $(printf 'tests/fuzz/fuzz-%s ' $targets)

mkdir -p "$findings"
each=$((seconds / 5))
[ "$each" -gt 0 ] || each=1
status=0
for target in $targets; do
  echo "== $target, $each s"
  mkdir -p "$build/corpus/$target"
  if ! G_DEBUG=fatal-criticals "$build/tests/fuzz/fuzz-$target" \
    -max_total_time=$each -timeout=10 -rss_limit_mb=1024 -max_len=32768 \
    -print_final_stats=1 -verbosity=0 -dict="$here/json.dict" \
    -artifact_prefix="$findings/$target-" \
    "$build/corpus/$target" "$here/corpus/$target"; then
    echo "$target: found something, see $findings" >&2
    status=1
  fi
done
exit $status
