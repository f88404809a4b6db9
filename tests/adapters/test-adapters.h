/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of the test of adapters. */
#pragma once

#include "h3-test-device.h"

#include "model/checkpoint/adapter.h"
#include "model/denoise/denoise.h"

G_BEGIN_DECLS

void h3_test_add_layouts (void);
void h3_test_add_merge (void);
void h3_test_add_errors (void);

/* "comfy" as a file; free with g_free(). */
gchar *h3_test_adapter (const gchar *name);
/* A quantised checkpoint, or one of GGUF ("../gguf/blocks"). */
gchar *h3_test_quantised (const gchar *form);

/* A file of float32 tensors that is being made. */
typedef struct {
  GPtrArray *names;  /* owned strings */
  GPtrArray *values; /* owned */
  GArray *shapes;    /* gint64 [2] each; 0: a vector */
  gchar *metadata;   /* JSON, or NULL */
  const gchar *fp8;  /* a tensor that is written as ones in FP8, or NULL */
} H3TestFile;

void h3_test_file_init (H3TestFile *file);
void h3_test_file_clear (H3TestFile *file);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3TestFile, h3_test_file_clear)
/* Takes @values. @cols 0: a vector of @rows. */
void h3_test_file_add (H3TestFile *file, const gchar *name, gint64 rows,
    gint64 cols, gfloat *values);
/* Every tensor of a checkpoint's folder or file. */
void h3_test_file_read (H3TestFile *file, const gchar *path);
gfloat *h3_test_file_find (const H3TestFile *file, const gchar *name,
    gint64 *rows, gint64 *cols);
void h3_test_file_write (const H3TestFile *file, const gchar *path);

/* A transformer with adapters ("comfy", 1.0, ..., NULL). @order: AUTO, or what
 * @path does not show. */
typedef struct {
  H3Device *device;
  H3Stream *stream;
  H3Checkpoint *checkpoint;
} H3TestSetup;

void h3_test_setup_init (H3TestSetup *setup, const gchar *path,
    H3QkvOrder order, const H3AdapterChoice *choices, guint n);
void h3_test_setup_clear (H3TestSetup *setup);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3TestSetup, h3_test_setup_clear)

/* The latents of two steps on the host. @weights: (out) (optional) */
gfloat *h3_test_latents (const gchar *path, H3QkvOrder order,
    const H3AdapterChoice *choices, guint n_choices, gsize *n,
    guint64 *weights);

G_END_DECLS
