/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of test-vision, and what they share. */
#pragma once

#include "model/text/text-model.h"
#include "model/text/tokenizer.h"
#include "tests/tools/h3-test-device.h"

/* The device of the whole program. */
extern H3Device *vision_test_device;

/* FL2VA of the tiny checkpoint; free with g_free(). */
gchar *vision_test_tiny (void);
H3Checkpoint *vision_test_open (const gchar *path);
H3Tokenizer *vision_test_tokenizer (const gchar *path);
H3TextModel *vision_test_text_model (const gchar *path);
H3VisionModel *vision_test_model (const gchar *path);
H3Stream *vision_test_stream (void);
/* Of request @name in @requests (a golden file). */
gchar *vision_test_prompt (const gchar *requests, const gchar *name);
/* A picture on its canvas, filled with @seed's noise. */
H3TextCondition *vision_test_picture (gint width, gint height, guint32 seed);

void add_vision_golden_tests (void);
void add_vision_model_tests (void);
