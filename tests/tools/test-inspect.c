/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3-inspect says, and that it says it of files of the released size too. */
#include "h3-test.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_SECONDS 1.0
#define MOST_KIB (100 * 1024)

static gchar *
inspect (const gchar *path, gint *status)
{
  const gchar *program = g_getenv ("H3_INSPECT");
  gchar *argv[] = { (gchar *) program, (gchar *) path, NULL };
  g_autoptr (GError) error = NULL;
  gchar *output = NULL;
  gint wait_status;

  g_assert_nonnull (program);
  g_spawn_sync (NULL, argv, NULL, 0, NULL, NULL, &output, NULL, &wait_status,
      &error);
  g_assert_no_error (error);
  g_assert_true (WIFEXITED (wait_status));
  *status = WEXITSTATUS (wait_status);
  return output;
}

static void
assert_says (const gchar *path, gint status, ...)
{
  gint found;
  g_autofree gchar *output = inspect (path, &found);
  const gchar *needle;
  va_list args;

  va_start (args, status);
  while ((needle = va_arg (args, const gchar *)))
    if (!strstr (output, needle))
      g_error ("%s: \"%s\" is not in:\n%s", path, needle, output);
  va_end (args);
  g_assert_cmpint (found, ==, status);
}

static void
test_tiny (void)
{
  g_autofree gchar *file = g_build_filename (h3_test_tiny_comfy_dir (),
      "diffusion_models/minimax_h3_ref2va_bf16.safetensors", NULL);
  g_autofree gchar *curve = h3_test_tiny_curve_dir ("diffusers-pruned-2");

  assert_says (h3_test_tiny_dir (), 0, "text encoder", "transformer",
      "video autoencoder", "audio autoencoder", "official, shards",
      "grouped per head", "fl2va (model_index.json", "ref2va (model_index.json",
      NULL);
  assert_says (h3_test_tiny_diffusers_dir (), 0, "diffusers, shards", "apart",
      "ref2va (model_index.json", NULL);
  assert_says (file, 0, "ComfyUI, one file", "contiguous", "ref2va (its name",
      "BF16 52", "3 layers and 2 of the refiner", "on cuda: weights", NULL);
  assert_says (h3_test_tiny_pruned_dir (), 0, "ComfyUI, one file",
      "pruned: AdaLN from a table", "F16 8 (", "1025 timesteps by 36\n", NULL);
  assert_says (curve, 0, "diffusers, shards", "apart",
      "1025 timesteps by 2, with the basis", NULL);
}

static void
test_wrong (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *file = g_build_filename (dir, "x.safetensors", NULL);
  static const gchar header[] =
      "{\"a.lora_A.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":"
      "[0,1]}}";
  guint64 length = GUINT64_TO_LE (sizeof header - 1);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  gint status;

  assert_says ("/nowhere", 1, "problem", "cannot open", NULL);
  h3_test_write_file (file, "GARBAGE", 7);
  assert_says (file, 1, "problem", "not a safetensors file", NULL);
  g_byte_array_append (bytes, (guint8 *) &length, 8);
  g_byte_array_append (bytes, (guint8 *) header, sizeof header); /* and a 0 */
  h3_test_write_file (file, bytes->data, bytes->len);
  assert_says (file, 1, "LoRA adapter", NULL);
  g_free (inspect (NULL, &status));
  g_assert_cmpint (status, ==, 2);
  g_free (inspect ("--width=7", &status));
  g_assert_cmpint (status, ==, 2);
  h3_test_remove_tree (dir);
}

/* The release's transformer (checkpoints.md 3.4) */

typedef struct {
  GString *header;
  guint64 end;
} Release;

static void add (Release *r, gboolean f32, guint rows, guint cols,
    const gchar *format, ...) G_GNUC_PRINTF (5, 6);

static void
add (Release *r, gboolean f32, guint rows, guint cols, const gchar *format, ...)
{
  guint64 bytes = (guint64) rows * MAX (cols, 1) * (f32 ? 4 : 2);
  g_autofree gchar *name = NULL;
  va_list args;

  va_start (args, format);
  name = g_strdup_vprintf (format, args);
  va_end (args);
  g_string_append_printf (r->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%u",
      r->end ? "," : "", name, f32 ? "F32" : "BF16", rows);
  if (cols)
    g_string_append_printf (r->header, ",%u", cols);
  g_string_append_printf (r->header,
      "],\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}",
      r->end, r->end + bytes);
  r->end += bytes;
}

static void
add_block (Release *r, const gchar *prefix, guint i)
{
  add (r, FALSE, 5376, 0, "%s.%u.norm1.weight", prefix, i);
  add (r, FALSE, 5376, 0, "%s.%u.norm2.weight", prefix, i);
  add (r, FALSE, 21504, 5376, "%s.%u.attn.qkv_proj.weight", prefix, i);
  add (r, FALSE, 128, 0, "%s.%u.attn.q_norm.weight", prefix, i);
  add (r, FALSE, 128, 0, "%s.%u.attn.k_norm.weight", prefix, i);
  add (r, FALSE, 5376, 7168, "%s.%u.attn.out_proj.weight", prefix, i);
  add (r, FALSE, 28672, 5376, "%s.%u.mlp.fc1.weight", prefix, i);
  add (r, FALSE, 5376, 14336, "%s.%u.mlp.fc2.weight", prefix, i);
}

static void
add_linear (Release *r, gboolean f32, guint rows, guint cols, const gchar *name)
{
  add (r, f32, rows, cols, "%s.weight", name);
  add (r, f32, rows, 0, "%s.bias", name);
}

static void
describe_release (Release *r)
{
  add_linear (r, TRUE, 5376, 96, "video_patch_proj");
  add_linear (r, TRUE, 5376, 32, "audio_patch_proj");
  add_linear (r, TRUE, 5376, 256, "time_embedder.proj_in");
  add_linear (r, TRUE, 2688, 5376, "time_embedder.proj_out");
  add_linear (r, TRUE, 96, 5376, "final_layer.video_out");
  add_linear (r, TRUE, 32, 5376, "final_layer.audio_out");
  add (r, TRUE, 16, 0, "rope.inv_freq");
  add_linear (r, FALSE, 5376, 5120, "condition_proj");
  for (guint i = 0; i < 2; i++)
    add_block (r, "token_refiner.blocks", i);
  add (r, FALSE, 5376, 0, "token_refiner.final_norm.weight");
  for (guint i = 0; i < 50; i++) {
    add_block (r, "blocks", i);
    add (r, FALSE, 96768, 2688, "blocks.%u.adaln_proj.linear.weight", i);
    add (r, FALSE, 96768, 0, "blocks.%u.adaln_proj.linear.bias", i);
  }
  add (r, FALSE, 5376, 0, "final_layer.norm.weight");
  add_linear (r, FALSE, 10752, 2688, "final_layer.adaln_proj.linear");
}

/* Headers that are real and 66 GB that are not there; FALSE where the file
 * system wants to have them. */
static gboolean
write_sparse (const gchar *path)
{
  Release r = { g_string_new ("{"), 0 };
  guint64 length;
  gint fd = g_open (path, O_CREAT | O_WRONLY, 0600);
  struct stat st;
  gboolean sparse;

  describe_release (&r);
  g_string_append_c (r.header, '}');
  length = GUINT64_TO_LE (r.header->len);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpuint (r.end, ==, G_GUINT64_CONSTANT (66280430144));
  g_assert_cmpint (write (fd, &length, 8), ==, 8);
  g_assert_cmpint (write (fd, r.header->str, r.header->len), ==, r.header->len);
  sparse = ftruncate (fd, 8 + r.header->len + r.end) == 0 &&
           fstat (fd, &st) == 0 && st.st_blocks < 1 << 20;
  close (fd);
  g_string_free (r.header, TRUE);
  return sparse;
}

static void
test_released_size (void)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path =
      g_build_filename (dir, "minimax_h3_fl2va_bf16.safetensors", NULL);
  struct rusage usage;
  gdouble seconds;
  gint64 before;

  if (!write_sparse (path)) {
    g_test_skip ("the file system has no sparse files");
  } else {
    before = g_get_monotonic_time ();
    assert_says (path, 0, "66.28 GB", "535 tensors", "BF16 522", "F32 13",
        "50 layers and 2 of the refiner, hidden 5376, 56 heads of 128",
        "fl2va (its name", "contiguous", NULL);
    seconds = (g_get_monotonic_time () - before) / 1e6;
    getrusage (RUSAGE_CHILDREN, &usage);
    g_test_message ("%.3f s, at most %ld KiB", seconds, usage.ru_maxrss);
#ifndef __SANITIZE_ADDRESS__
    g_assert_cmpfloat (seconds, <, MOST_SECONDS);
    g_assert_cmpint (usage.ru_maxrss, <, MOST_KIB);
#endif
  }
  h3_test_remove_tree (dir);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/inspect/tiny", test_tiny);
  g_test_add_func ("/inspect/wrong", test_wrong);
  g_test_add_func ("/inspect/released-size", test_released_size);
  return g_test_run ();
}
