#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Every kernel, on the small shapes of test-cuda-ops, under NVIDIA's
# compute-sanitizer: memory (memcheck), races in shared memory (racecheck),
# barriers (synccheck), reads of what nobody wrote (initcheck). A line per tool
# and test; needs a GPU. Usage: sanitize.sh [BUILD-DIR [TOOL...]]
# H3_SANITIZE_JOBS: how many at a time, 4 unless it is set; logs are left in
# BUILD-DIR/sanitize.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- memcheck racecheck synccheck initcheck
sanitizer=$(command -v compute-sanitizer ||
  echo /usr/local/cuda/bin/compute-sanitizer)
export H3_CUDA_MODULE="$build/cuda/libh3cuda.so"
export H3_SANITIZER="$sanitizer" H3_SANITIZED="$build/tests/cuda/test-cuda-ops"
export H3_SANITIZE_LOGS="$build/sanitize"
mkdir -p "$H3_SANITIZE_LOGS"

# One tool, one test. A test may refuse something on purpose: calls of CUDA that
# fail are not looked at. What racecheck says of cuDNN's kernels is not either.
one='
  log="$H3_SANITIZE_LOGS/$1$(echo "$2" | tr / -).log"
  start=$(date +%s)
  options=
  [ "$1" != memcheck ] || options="--leak-check no --report-api-errors no"
  status=0
  "$H3_SANITIZER" --tool "$1" $options --error-exitcode 99 \
    "$H3_SANITIZED" -p "$2" >"$log" 2>&1 || status=$?
  if [ "$1" = racecheck ] && [ $status -eq 99 ] &&
    ! grep "reported between" "$log" | grep -qv cudnn_generated; then
    status=0
  fi
  [ $status -eq 0 ] && result=ok || result=FAILED
  echo "$result $1 $2 $(($(date +%s) - start)) s"
  [ $result = ok ]
'
# refuses an allocation of everything, fills memory: no kernel of ours in it
tests=$("$H3_SANITIZED" -l | grep ^/ | grep -v -e /no-space -e /memory-returns)
for tool in "$@"; do
  for test in $tests; do
    echo "$tool $test"
  done
done | xargs -P "${H3_SANITIZE_JOBS:-4}" -L 1 sh -c "$one" one
