#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs what the tests need, builds, and runs every test: as built for users,
# under AddressSanitizer and UBSan, and the fuzzers for half a minute. The last line
# is the count. Logs: build-test/, build-asan/ and build-fuzz/.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
"$top/pipelines/install-deps.sh" test || exit 1

passed=0 failed=0 skipped=0

# counts from the JUnit file meson writes: a TAP subtest counts as a test
count () {
  set -- $(sed -n 's/.*<testsuite .*name="[^"]*" tests="\([0-9]*\)" errors="\([0-9]*\)" failures="\([0-9]*\)" skipped="\([0-9]*\)".*/\1 \2 \3 \4/p' "$1" |
    awk '{ n += $1; bad += $2 + $3; skip += $4 } END { print n + 0, bad + 0, skip + 0 }')
  passed=$((passed + $1 - $2 - $3)) bad=$2 skipped=$((skipped + $3))
}

# suite NAME BUILD-DIR TEST-ARGS -- SETUP-ARGS
suite () {
  name=$1 dir=$top/build-$2
  shift 2
  args=
  while [ "$1" != -- ]; do args="$args $1"; shift; done
  shift
  echo "== $name"
  rm -f "$dir/meson-logs/testlog.junit.xml"
  if ! { [ -f "$dir/build.ninja" ] || meson setup "$dir" "$top" "$@"; } ||
    ! ninja -C "$dir"; then
    echo "$name: the build failed" >&2
    failed=$((failed + 1))
    return
  fi
  # shellcheck disable=SC2086
  meson test -C "$dir" --no-rebuild --print-errorlogs $args
  status=$? # how many test programs failed, crashed or timed out
  bad=0
  [ -f "$dir/meson-logs/testlog.junit.xml" ] &&
    count "$dir/meson-logs/testlog.junit.xml"
  # what crashed has no subtests to count
  [ "$bad" -ge "$status" ] || bad=$status
  failed=$((failed + bad))
}

# the CUDA device is compiled where nvcc is, for one architecture, and without a
# GPU to run it nvcc need not optimise: time
[ -e /dev/nvidia0 ] || export NVCC_APPEND_FLAGS='-Ofc max'
suite 'as users build it' test -- --buildtype=release -Dtests=enabled \
  -Dgpu_archs=sm_90a
# what is seen and heard is the same there; -O1 compiles in half the time
suite 'under ASan and UBSan' asan -t 4 --no-suite semantic -- --debug \
  --optimization=1 -Dtests=enabled -Dcuda=disabled -Db_sanitize=address,undefined \
  -Db_lundef=false

echo "== fuzzers, ${H3_FUZZ_SECONDS:-30} s"
if "$top/tests/fuzz/run.sh" "${H3_FUZZ_SECONDS:-30}"; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
