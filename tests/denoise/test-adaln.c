/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* AdaLN's rows: what was computed before, with what, in which order and by whom
 * changes no byte of them; and what is said when they cannot be computed. */
#include "test-denoise.h"

#include "model/denoise/transformer-private.h"

#include <glib/gstdio.h>

#define N_TIMES 40
#define N_PAIRS (3 * N_TIMES)

G_STATIC_ASSERT (N_PAIRS <= H3_ADALN_PAIRS);

/* Forty timesteps with all three tags. */
static void
all_pairs (H3AdalnPair pairs[N_PAIRS])
{
  for (gint i = 0; i < N_PAIRS; i++)
    pairs[i] = (H3AdalnPair){ (gfloat) (i / 3) / N_TIMES, i % 3 };
}

static H3Tensor *
get (H3Transformer *t, H3Stream *stream, const H3AdalnPair *pairs, gint n,
    gint *slots)
{
  g_autoptr (GError) error = NULL;
  H3Tensor *table =
      h3_adaln_get (t, stream, pairs, n, slots, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  return table;
}

/* A slot's rows of all blocks, which follow each other, as they are stored. */
static GBytes *
slot_rows (const H3Transformer *t, H3Stream *stream, H3Tensor *table, gint slot)
{
  g_autoptr (GError) error = NULL;
  gint layers = t->config.layers;
  g_autoptr (H3Tensor) rows =
      h3_tensor_view_rows (table, (gint64) slot * layers, layers);
  guint8 *bytes = g_malloc (rows->bytes);

  h3_download (stream, bytes, rows);
  h3_stream_synchronize (stream, &error);
  g_assert_no_error (error);
  return g_bytes_new_take (bytes, rows->bytes);
}

/* What each of all_pairs() gives when they are computed together. */
static GPtrArray *
reference (const H3TestDevice *d, const gchar *dir)
{
  GPtrArray *rows =
      g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr (H3Transformer) t = h3_test_load (dir, d->device);
  g_autoptr (H3Tensor) table = NULL;
  H3AdalnPair pairs[N_PAIRS];
  gint slots[N_PAIRS];

  all_pairs (pairs);
  table = get (t, d->stream, pairs, N_PAIRS, slots);
  for (gint i = 0; i < N_PAIRS; i++)
    g_ptr_array_add (rows, slot_rows (t, d->stream, table, slots[i]));
  for (gint i = 1; i < N_PAIRS; i++)
    g_assert_false (g_bytes_equal (rows->pdata[i], rows->pdata[i - 1]));
  return rows;
}

/* @pairs [first, first + n) by @step, of all. */
static void
check_some (H3Transformer *t, H3Stream *stream, const GPtrArray *want,
    gint first, gint step, gint n)
{
  H3AdalnPair pairs[N_PAIRS], some[N_PAIRS];
  gint slots[N_PAIRS];
  g_autoptr (H3Tensor) table = NULL;

  all_pairs (pairs);
  for (gint i = 0; i < n; i++)
    some[i] = pairs[first + i * step];
  table = get (t, stream, some, n, slots);
  for (gint i = 0; i < n; i++) {
    g_autoptr (GBytes) got = slot_rows (t, stream, table, slots[i]);

    g_assert_true (g_bytes_equal (got, want->pdata[first + i * step]));
  }
}

/* Alone, a few at a time, and from the last to the first. */
static void
test_bytes (gconstpointer dir)
{
  static const gint sizes[] = { 1, 2, 5, 33, N_PAIRS };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (GPtrArray) want = NULL;

  h3_test_device_init (&d, 2);
  want = reference (&d, dir);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_autoptr (H3Transformer) t = h3_test_load (dir, d.device);
    g_autoptr (H3Transformer) u = h3_test_load (dir, d.device);
    gint n = sizes[i];

    for (gint first = 0; first < N_PAIRS; first += n)
      check_some (t, d.stream, want, first, 1, MIN (n, N_PAIRS - first));
    for (gint last = N_PAIRS - 1; last >= 0; last -= n)
      check_some (u, d.stream, want, last, -1, MIN (n, last + 1));
    g_assert_cmpint (t->adaln.n_pairs, ==, N_PAIRS);
    g_assert_cmpint (u->adaln.n_pairs, ==, N_PAIRS);
    /* in the first slots, and again */
    check_some (t, d.stream, want, 0, 1, N_PAIRS);
  }
}

/* A table that is full gives way to an empty one; who has it keeps it. */
static void
test_room (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (GPtrArray) want = NULL;
  g_autoptr (H3Transformer) t = NULL;
  g_autoptr (H3Tensor) old = NULL;
  g_autoptr (H3Tensor) large = NULL;
  H3AdalnPair pairs[N_PAIRS], others[200];
  gint slots[N_PAIRS], other_slots[200];

  h3_test_device_init (&d, 2);
  want = reference (&d, h3_test_tiny_dir ());
  t = h3_test_load (h3_test_tiny_dir (), d.device);
  all_pairs (pairs);
  for (gint i = 0; i < 200; i++)
    others[i] = (H3AdalnPair){ 1 - (gfloat) i / 1024, i % 3 };

  old = get (t, d.stream, pairs, N_PAIRS, slots);
  g_assert_cmpint (t->adaln.capacity, ==, H3_ADALN_PAIRS);
  h3_tensor_unref (get (t, d.stream, others, 8, other_slots));
  g_assert_true (t->adaln.table == old);
  g_assert_cmpint (t->adaln.n_pairs, ==, H3_ADALN_PAIRS);

  h3_tensor_unref (get (t, d.stream, others, 9, other_slots));
  g_assert_true (t->adaln.table != old);
  g_assert_cmpint (t->adaln.n_pairs, ==, 9);
  check_some (t, d.stream, want, 7, 1, 3);
  g_assert_cmpint (t->adaln.n_pairs, ==, 12);
  for (gint i = 0; i < N_PAIRS; i++) {
    g_autoptr (GBytes) got = slot_rows (t, d.stream, old, slots[i]);

    g_assert_true (g_bytes_equal (got, want->pdata[i]));
  }

  large = get (t, d.stream, others, 200, other_slots);
  g_assert_cmpint (t->adaln.capacity, ==, 200);
  g_assert_cmpint (t->adaln.n_pairs, ==, 200);
  check_some (t, d.stream, want, 0, 1, N_PAIRS);
  g_assert_cmpint (t->adaln.capacity, ==, H3_ADALN_PAIRS);
}

typedef struct {
  guint calls;
  guint64 done, total;
} Watch;

static void
on_progress (guint64 done, guint64 total, gpointer data)
{
  Watch *watch = data;

  g_assert_cmpuint (done, >, watch->done);
  watch->calls++;
  watch->done = done;
  watch->total = total;
}

static Watch
watch_get (H3Transformer *t, H3Stream *stream, const H3AdalnPair *pairs, gint n)
{
  g_autoptr (GError) error = NULL;
  Watch watch = { 0 };
  gint slots[N_PAIRS];
  g_autoptr (H3Tensor) table = h3_adaln_get (t, stream, pairs, n, slots,
      on_progress, &watch, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (watch.done, ==, watch.total);
  return watch;
}

/* Weights are read once for what is missing, and of the missing tags alone. */
static void
test_reading (void)
{
  static const H3AdalnPair pairs[] = { { 0.5f, 0 }, { 0.5f, 1 }, { 0.25f, 2 },
    { 0.75f, 2 } };
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (H3Transformer) t = NULL;
  guint64 piece;
  Watch watch;

  h3_test_device_init (&d, 1);
  t = h3_test_load (h3_test_tiny_dir (), d.device);
  /* bfloat16 */
  piece = 2 * H3_N_ADALN * t->config.hidden * t->config.time_dim;
  watch = watch_get (t, d.stream, pairs, 3);
  g_assert_cmpuint (watch.calls, ==, 3 * 3);
  g_assert_cmpuint (watch.total, ==, 3 * 3 * piece);
  watch = watch_get (t, d.stream, pairs, 3);
  g_assert_cmpuint (watch.calls, ==, 0);
  watch = watch_get (t, d.stream, pairs, 4);
  g_assert_cmpuint (watch.calls, ==, 3);
  g_assert_cmpuint (watch.total, ==, 3 * piece);
}

/* A stop is asked for at every question: nothing of it is left. */
static void
test_cancel (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (GPtrArray) want = NULL;
  g_autoptr (H3Transformer) t = NULL;
  H3AdalnPair pairs[N_PAIRS];
  gint slots[N_PAIRS], asked = 0;

  h3_test_device_init (&d, 2);
  want = reference (&d, h3_test_tiny_dir ());
  t = h3_test_load (h3_test_tiny_dir (), d.device);
  all_pairs (pairs);
  for (;; asked++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (H3Tensor) table = NULL;
    H3TestStop stop;

    h3_test_stop_init (&stop, asked);
    table = h3_adaln_get (t, d.stream, pairs, N_PAIRS, slots, NULL, NULL,
        &stop.stop, &error);
    if (table)
      break;
    g_assert_error (error, H3_ERROR, H3_ERROR_CANCELLED);
    g_assert_cmpint (t->adaln.n_pairs, ==, 0);
  }
  g_assert_cmpint (asked, >=, 3 * 3); /* each block and tag */
  check_some (t, d.stream, want, 0, 1, N_PAIRS);
}

/* Several sessions begin at the same time. */
typedef struct {
  H3Transformer *t;
  const GPtrArray *want;
  gint first, step;
} Thread;

static gpointer
run_thread (gpointer data)
{
  const Thread *thread = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Stream) stream = h3_stream_new (thread->t->device, &error);

  g_assert_no_error (error);
  for (gint i = 0; i < 5; i++)
    check_some (thread->t, stream, thread->want, thread->first + i,
        thread->step, 20);
  return NULL;
}

static void
test_threads (void)
{
  g_auto (H3TestDevice) d = { NULL, NULL };
  g_autoptr (GPtrArray) want = NULL;
  g_autoptr (H3Transformer) t = NULL;
  GThread *threads[4];
  Thread data[4];

  h3_test_device_init (&d, 2);
  want = reference (&d, h3_test_tiny_dir ());
  t = h3_test_load (h3_test_tiny_dir (), d.device);
  for (gint i = 0; i < 4; i++) {
    data[i] = (Thread){ t, want, 10 * i, 1 + i % 2 };
    threads[i] = g_thread_new ("session", run_thread, &data[i]);
  }
  for (gint i = 0; i < 4; i++)
    g_thread_join (threads[i]);
}

/* Files that change once they are loaded */

typedef struct {
  H3TestDevice d;
  gchar *dir;
  H3Transformer *t;
} Damaged;

static void
damaged_init (Damaged *f)
{
  g_autofree gchar *source =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);

  h3_test_device_init (&f->d, 2);
  f->dir = h3_test_temp_dir ();
  h3_test_copy_tree (source, f->dir);
  f->t = h3_test_load (f->dir, f->d.device);
}

static void
damaged_clear (Damaged *f)
{
  h3_transformer_unref (f->t);
  h3_test_remove_tree (f->dir);
  g_free (f->dir);
  h3_test_device_clear (&f->d);
}

/* A file of @f, and where in it the tensor begins. */
static gchar *
file_of (const Damaged *f, const gchar *tensor, guint64 *offset)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (f->dir, &error);
  const H3StoredTensor *stored;

  g_assert_no_error (error);
  stored = h3_tensor_set_get (set, tensor, &error);
  g_assert_no_error (error);
  *offset = stored->offset;
  return g_strdup (stored->path);
}

static void
get_and_fail (const Damaged *f, gfloat time, gint tag, H3Error code,
    const gchar *path, const gchar *tensor, const gchar *what)
{
  const H3AdalnPair pair = { time, tag };
  g_autoptr (GError) error = NULL;
  gint slot, before = f->t->adaln.n_pairs;

  g_assert_null (h3_adaln_get (f->t, f->d.stream, &pair, 1, &slot, NULL, NULL,
      NULL, &error));
  h3_test_assert_h3_error (error, code, path, tensor, what);
  g_assert_cmpint (f->t->adaln.n_pairs, ==, before);
}

static void
get_one (const Damaged *f, gfloat time, gint tag)
{
  const H3AdalnPair pair = { time, tag };
  gint slot;

  h3_tensor_unref (get (f->t, f->d.stream, &pair, 1, &slot));
}

static void
test_cut (void)
{
  static const gchar tensor[] = "blocks.1.adaln_proj.linear.weight";
  Damaged f;
  g_autofree gchar *path = NULL, *whole = NULL;
  guint64 offset;
  gsize size;

  damaged_init (&f);
  path = file_of (&f, tensor, &offset);
  g_assert_true (g_file_get_contents (path, &whole, &size, NULL));
  get_one (&f, 0.5f, H3_TAG_TEXT);
  h3_test_truncate_file (path, offset + 100);
  get_and_fail (&f, 0.25f, H3_TAG_TEXT, H3_ERROR_READ, path, tensor, "shorter");
  get_one (&f, 0.5f, H3_TAG_TEXT); /* is there */
  h3_test_truncate_file (path, size);
  h3_test_patch_file (path, 0, whole, size);
  get_one (&f, 0.25f, H3_TAG_TEXT);
  damaged_clear (&f);
}

static void
test_not_finite (void)
{
  static const guint8 nan[] = { 0xc0, 0x7f };
  static const gchar weight[] = "blocks.2.adaln_proj.linear.weight";
  static const gchar bias[] = "blocks.0.adaln_proj.linear.bias";
  Damaged f;
  g_autofree gchar *path = NULL, *bias_path = NULL, *what = NULL;
  guint64 offset, bias_offset;
  gint first; /* of the tag's rows */

  damaged_init (&f);
  path = file_of (&f, weight, &offset);
  bias_path = file_of (&f, bias, &bias_offset);
  first = H3_TAG_AUDIO * H3_N_ADALN * f.t->config.hidden * f.t->config.time_dim;
  h3_test_patch_file (path, offset + 2 * (first + 3), nan, 2);
  what = g_strdup_printf ("element %d is NaN", first + 3);
  get_and_fail (&f, 0.5f, H3_TAG_AUDIO, H3_ERROR_NUMERIC, path, weight, what);
  get_one (&f, 0.5f, H3_TAG_VIDEO); /* does not read it */

  h3_test_patch_file (bias_path, bias_offset + 2 * 5, nan, 2);
  get_and_fail (&f, 0.25f, H3_TAG_VIDEO, H3_ERROR_NUMERIC, bias_path, bias,
      "element 5 is NaN");
  damaged_clear (&f);
}

/* The release's file without its bytes */

static void
add (GString *header, guint64 *end, gint width, gint64 rows, gint64 cols,
    const gchar *name, gint block)
{
  guint64 bytes = width * rows * MAX (cols, 1);

  g_string_append (header, header->len > 1 ? ",\"" : "\"");
  if (block >= 0)
    g_string_append_printf (header, "blocks.%d.", block);
  g_string_append_printf (header,
      "%s\":{\"dtype\":\"%s\",\"shape\":[%" G_GINT64_FORMAT, name,
      width == 2 ? "BF16" : "F32", rows);
  if (cols > 0)
    g_string_append_printf (header, ",%" G_GINT64_FORMAT, cols);
  g_string_append_printf (header,
      "],\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}", *end,
      *end + bytes);
  *end += bytes;
}

static void
add_linear (GString *header, guint64 *end, gint width, gint64 rows, gint64 cols,
    const gchar *name, gint block)
{
  g_autofree gchar *weight = g_strconcat (name, ".weight", NULL);
  g_autofree gchar *bias = g_strconcat (name, ".bias", NULL);

  add (header, end, width, rows, cols, weight, block);
  add (header, end, width, rows, 0, bias, block);
}

static void
add_block (GString *header, guint64 *end, const gchar *prefix, gint block)
{
  const struct {
    const gchar *name;
    gint64 rows, cols;
  } tensors[] = {
    { "norm1.weight", 5376, 0 },
    { "norm2.weight", 5376, 0 },
    { "attn.q_norm.weight", 128, 0 },
    { "attn.k_norm.weight", 128, 0 },
    { "attn.qkv_proj.weight", 21504, 5376 },
    { "attn.out_proj.weight", 5376, 7168 },
    { "mlp.fc1.weight", 28672, 5376 },
    { "mlp.fc2.weight", 5376, 14336 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++) {
    g_autofree gchar *name = g_strconcat (prefix, tensors[i].name, NULL);

    add (header, end, 2, tensors[i].rows, tensors[i].cols, name, block);
  }
}

/* denoiser.md 1, 5.1, or pruned to @curve columns: a file with nothing in it but
 * its header. */
static void
write_released (const gchar *path, gint curve)
{
  gint width = curve ? curve : 2688;

  g_autoptr (GString) header = g_string_new ("{");
  g_autoptr (GByteArray) file = g_byte_array_new ();
  guint64 end = 0, size;

  add_linear (header, &end, 4, 5376, 96, "video_patch_proj", -1);
  add_linear (header, &end, 4, 5376, 32, "audio_patch_proj", -1);
  if (curve) {
    add (header, &end, 4, 1025, curve, "adaln_t_table", -1);
  } else {
    add_linear (header, &end, 4, 5376, 256, "time_embedder.proj_in", -1);
    add_linear (header, &end, 4, 2688, 5376, "time_embedder.proj_out", -1);
  }
  add_linear (header, &end, 4, 96, 5376, "final_layer.video_out", -1);
  add_linear (header, &end, 4, 32, 5376, "final_layer.audio_out", -1);
  add (header, &end, 4, 16, 0, "rope.inv_freq", -1);
  add_linear (header, &end, 2, 5376, 5120, "condition_proj", -1);
  add_linear (header, &end, 2, 10752, width, "final_layer.adaln_proj.linear",
      -1);
  add (header, &end, 2, 5376, 0, "final_layer.norm.weight", -1);
  add (header, &end, 2, 5376, 0, "token_refiner.final_norm.weight", -1);
  add_block (header, &end, "token_refiner.blocks.0.", -1);
  add_block (header, &end, "token_refiner.blocks.1.", -1);
  for (gint i = 0; i < 50; i++) {
    add_block (header, &end, "", i);
    add_linear (header, &end, 2, 96768, width, "adaln_proj.linear", i);
  }
  g_string_append_c (header, '}');
  g_assert_cmpuint (end, ==,
      curve ? G_GUINT64_CONSTANT (40225668192)
            : G_GUINT64_CONSTANT (66280430080) + 16 * 4);

  size = GUINT64_TO_LE (header->len);
  g_byte_array_append (file, (const guint8 *) &size, sizeof size);
  g_byte_array_append (file, (const guint8 *) header->str, header->len);
  h3_test_write_file (path, file->data, file->len);
  h3_test_truncate_file (path, file->len + end);
}

/* What must hold: at most 41 GB of weights, and 6 GB beside them. */
static void
test_released (gconstpointer curve)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *folder = g_build_filename (dir, "transformer", NULL);
  g_autofree gchar *path = g_build_filename (folder, "model.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Checkpoint) checkpoint = NULL;
  H3Device bfloat16 = { .act_dtype = H3_DTYPE_BF16 };
  H3TransformerConfig c;
  guint64 weights, workspace;

  g_assert_cmpint (g_mkdir (folder, 0700), ==, 0);
  write_released (path, GPOINTER_TO_INT (curve));
  checkpoint = h3_checkpoint_open (dir, H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  h3_transformer_plan (checkpoint, NULL, &c, &weights, &error);
  g_assert_no_error (error);
  g_assert_cmpint (c.layers, ==, 50);
  workspace = h3_transformer_workspace (&c, &bfloat16, 38010, 20);
  g_test_message ("released: %" G_GUINT64_FORMAT " bytes of weights, "
                  "%" G_GUINT64_FORMAT " of workspace",
      weights, workspace);
  g_assert_cmpuint (weights, >, G_GUINT64_CONSTANT (40000000000));
  g_assert_cmpuint (weights, <=, G_GUINT64_CONSTANT (41000000000));
  g_assert_cmpuint (workspace, <=, G_GUINT64_CONSTANT (6000000000));
  /* every schedule there is */
  g_assert_cmpuint (h3_transformer_workspace (&c, &bfloat16, 38010, 100), <=,
      G_GUINT64_CONSTANT (6000000000));
  h3_test_remove_tree (dir);
}

void
h3_test_add_adaln (void)
{
  g_test_add_data_func ("/adaln/bytes", h3_test_tiny_dir (), test_bytes);
  g_test_add_data_func_full ("/adaln/bytes-pruned",
      h3_test_tiny_curve_dir ("comfy-pruned-2"), test_bytes, g_free);
  g_test_add_func ("/adaln/room", test_room);
  g_test_add_func ("/adaln/reading", test_reading);
  g_test_add_func ("/adaln/cancel", test_cancel);
  g_test_add_func ("/adaln/threads", test_threads);
  g_test_add_func ("/adaln/cut", test_cut);
  g_test_add_func ("/adaln/not-finite", test_not_finite);
  g_test_add_data_func ("/adaln/released", NULL, test_released);
  g_test_add_data_func ("/adaln/released-pruned", GINT_TO_POINTER (8),
      test_released);
}
