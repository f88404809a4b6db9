/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What all tests share. Everything here ends the test program with a message
 * when it cannot do what it is for: a missing golden file is no test result. */
#pragma once

#include <glib.h>
#include <string.h>

#include "model/checkpoint/safetensors.h"

G_BEGIN_DECLS

/* Where things are (the environment set by meson). Not owned. */
const gchar *h3_test_golden_dir (void); /* tests/golden */
const gchar *h3_test_demo_dir (void);   /* demo/FL2VA */
/* The generated tiny checkpoint: FL2VA/ and Ref2VA/ in it. */
const gchar *h3_test_tiny_dir (void);
/* The same in the diffusers layout. */
const gchar *h3_test_tiny_diffusers_dir (void);
/* The same as ComfyUI's single files: with the official numbers, and with AdaLN
 * as a table and the video autoencoder in F16. */
const gchar *h3_test_tiny_comfy_dir (void);
const gchar *h3_test_tiny_pruned_dir (void);
/* With curves of a width, FORM-WIDTH: "comfy-pruned-2", "diffusers-pruned-36".
 * Free with g_free(). */
gchar *h3_test_tiny_curve_dir (const gchar *form);

/**
 * h3_test_golden:
 * @file: in tests/golden/tiny/golden ("dit.safetensors"), or, with a slash,
 *   below tests/golden ("demo/t2va_22.safetensors")
 * @n: (out) (optional): elements
 *
 * A golden tensor as float, whatever it is stored as. Free with g_free().
 */
gfloat *h3_test_golden (const gchar *file, const gchar *tensor, gsize *n);
/* The same as integers; for tensors of integers only. */
gint32 *h3_test_golden_ints (const gchar *file, const gchar *tensor, gsize *n);
/* Its shape; returns the rank. */
guint h3_test_golden_shape (const gchar *file, const gchar *tensor,
    gint64 shape[H3_STORED_MAX_RANK]);
gboolean h3_test_golden_has (const gchar *file, const gchar *tensor);
/* Free with g_free(). */
gchar *h3_test_golden_path (const gchar *file);

/* A stored tensor as float. Free with g_free(). */
gfloat *h3_test_stored_floats (const H3StoredTensor *tensor);

/* |got - want| / |want|, in double; NaN when a value is. */
gdouble h3_test_rel_l2 (const gfloat *got, const gfloat *want, gsize n);
/* The largest |got - want|, and where. A NaN is the largest of all. */
gdouble h3_test_max_abs (const gfloat *got, const gfloat *want, gsize n,
    gsize *index);

/* Fails unless the relative L2 error is at most @tolerance; says where the
 * worst element is. Prints the error found otherwise. */
#define h3_test_assert_close(got, want, n, tolerance)                          \
  h3_test_check_close (G_STRLOC, #got, got, want, n, tolerance)
void h3_test_check_close (const gchar *where, const gchar *what,
    const gfloat *got, const gfloat *want, gsize n, gdouble tolerance);
/* The same for the largest absolute difference. */
#define h3_test_assert_max_abs(got, want, n, tolerance)                        \
  h3_test_check_max_abs (G_STRLOC, #got, got, want, n, tolerance)
void h3_test_check_max_abs (const gchar *where, const gchar *what,
    const gfloat *got, const gfloat *want, gsize n, gdouble tolerance);

/* Fails unless @error is of H3_ERROR and @code and its message contains every
 * one of the strings that follow, up to NULL. */
#define h3_test_assert_h3_error(error, code, ...)                              \
  h3_test_check_h3_error (G_STRLOC, error, code, __VA_ARGS__, NULL)
void h3_test_check_h3_error (const gchar *where, const GError *error, gint code,
    ...) G_GNUC_NULL_TERMINATED;

/* Files to damage. A new folder: h3_test_remove_tree() and g_free() it. */
gchar *h3_test_temp_dir (void);
void h3_test_remove_tree (const gchar *path);
/* Copies a file, or the folder @from, with what is in it, as @to. */
void h3_test_copy_file (const gchar *from, const gchar *to);
void h3_test_copy_tree (const gchar *from, const gchar *to);
void h3_test_write_file (const gchar *path, gconstpointer bytes, gsize n);
/* Overwrites @n bytes at @offset, from the end when negative. */
void h3_test_patch_file (const gchar *path, gint64 offset, gconstpointer bytes,
    gsize n);
void h3_test_truncate_file (const gchar *path, gint64 size);
gint64 h3_test_file_size (const gchar *path);

G_END_DECLS
