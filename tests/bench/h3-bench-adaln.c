/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long it takes to read AdaLN's weights and make a schedule's rows: from a
 * file of the release's size that holds nothing but its header, so that the page
 * cache is what it is read from. */
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/denoise/transformer-private.h"
#include "tests/bench/h3-bench.h"

#define STEPS 20

typedef struct {
  H3Transformer *transformer;
  H3AdalnPair pairs[3 * STEPS];
  guint64 bytes;
} Adaln;

static void
stop (const gchar *message)
{
  fprintf (stderr, "h3-bench: %s\n", message);
  exit (1);
}

static void
add (GString *header, guint64 *end, gint layer, const gchar *part, gint64 rows,
    gint64 cols)
{
  guint64 bytes = 2 * rows * cols;

  g_string_append_printf (header,
      "%s\"blocks.%d.adaln_proj.linear.%s\":{\"dtype\":\"BF16\",\"shape\":"
      "[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT
      "],\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}",
      header->len > 1 ? "," : "", layer, part, rows, cols, *end, *end + bytes);
  *end += bytes;
}

static void
write_file (const gchar *path, const H3TransformerConfig *c)
{
  g_autoptr (GString) header = g_string_new ("{");
  gint64 rows = H3_ADALN_ROWS * (gint64) c->hidden;
  guint64 end = 0, size;
  FILE *file = fopen (path, "wb");

  for (gint i = 0; i < c->layers; i++) {
    add (header, &end, i, "weight", rows, c->time_dim);
    add (header, &end, i, "bias", rows, 1);
  }
  g_string_append_c (header, '}');
  size = GUINT64_TO_LE (header->len);
  if (!file || fwrite (&size, sizeof size, 1, file) != 1 ||
      fwrite (header->str, header->len, 1, file) != 1 || fflush (file) != 0 ||
      ftruncate (fileno (file), sizeof size + header->len + end) != 0)
    stop ("cannot write a file of AdaLN weights");
  fclose (file);
}

static void
on_progress (guint64 done, guint64 total, gpointer data)
{
  ((Adaln *) data)->bytes = total;
}

static void
run (Bench *b, gpointer data)
{
  Adaln *a = data;
  GError *error = NULL;
  gint slots[3 * STEPS];
  H3Tensor *table;

  a->transformer->adaln.n_pairs = 0;
  table = h3_adaln_get (a->transformer, b->stream, a->pairs, 3 * STEPS, slots,
      on_progress, a, NULL, &error);
  if (!table)
    stop (error->message);
  h3_tensor_unref (table);
}

void
bench_adaln (Bench *b, gint layers)
{
  g_autofree gchar *dir = g_dir_make_tmp ("h3-bench-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (dir, "a.safetensors", NULL);
  g_autoptr (H3Transformer) t = bench_adaln_new (b->filler, layers);
  Adaln a = { .transformer = t };
  GError *error = NULL;
  gdouble seconds;

  write_file (path, &t->config);
  t->adaln.set = h3_tensor_set_open (path, &error);
  if (!t->adaln.set)
    stop (error->message);
  for (gint i = 0; i < 3 * STEPS; i++)
    a.pairs[i] = (H3AdalnPair){ (gfloat) i / (3 * STEPS), i % 3 };
  seconds = bench_measure (b, "AdaLN's rows of 20 steps, from the page cache",
      0, run, &a);
  printf ("  %.2f GB read, %.1f GB/s\n", a.bytes / 1e9,
      a.bytes / 1e9 / seconds);
  g_unlink (path);
  g_rmdir (dir);
}
