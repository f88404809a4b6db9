/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each fuzz-*.c is one target, linked with libFuzzer or with fuzz-runner.c. */
#pragma once

#include <glib.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);
