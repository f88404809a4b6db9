/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What h3-inspect says, and that it says it of files of the released size too. */
#include "h3-test.h"
#include "model/memory-plan.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_SECONDS 1.0
#define MOST_KIB (100 * 1024)

/* Up to five arguments, up to NULL. */
static gchar *
inspect_all (const gchar *const *arguments, gint *status)
{
  const gchar *program = g_getenv ("H3_INSPECT");
  gchar *argv[7] = { (gchar *) program };
  g_autoptr (GError) error = NULL;
  gchar *output = NULL;
  gint wait_status;

  for (guint i = 0; arguments[i]; i++) {
    g_assert_cmpuint (i, <, G_N_ELEMENTS (argv) - 2);
    argv[i + 1] = (gchar *) arguments[i];
  }
  g_assert_nonnull (program);
  g_spawn_sync (NULL, argv, NULL, 0, NULL, NULL, &output, NULL, &wait_status,
      &error);
  g_assert_no_error (error);
  g_assert_true (WIFEXITED (wait_status));
  *status = WEXITSTATUS (wait_status);
  return output;
}

static gchar *
inspect (const gchar *path, gint *status)
{
  return inspect_all ((const gchar *const[]){ path, NULL }, status);
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

/* The number before @unit on the line of @output that has @line, in bytes. */
static gdouble
bytes_before (const gchar *output, const gchar *line)
{
  g_auto (GStrv) lines = g_strsplit (output, "\n", -1);

  for (guint i = 0; lines[i]; i++) {
    const gchar *found = strstr (lines[i], line);
    gchar *end;
    gdouble value;

    if (!found)
      continue;
    value = g_ascii_strtod (lines[i] + strspn (lines[i], " "), &end);
    return value * (strstr (end, " GB ")      ? 1e9
                       : strstr (end, " MB ") ? 1e6
                                              : 1e3);
  }
  g_error ("no line has \"%s\":\n%s", line, output);
}

static void
test_several (void)
{
  g_autofree gchar *vae =
      g_build_filename (h3_test_tiny_comfy_dir (), "vae", NULL);
  g_autofree gchar *text =
      g_build_filename (h3_test_tiny_comfy_dir (), "text_encoders", NULL);
  g_autofree gchar *video =
      g_build_filename (vae, "minimax_h3_video_vae_fp16.safetensors", NULL);
  g_autofree gchar *transformer = g_build_filename (h3_test_tiny_comfy_dir (),
      "diffusion_models/minimax_h3_fl2va_bf16.safetensors", NULL);
  const gchar *const all[] = { text, transformer, vae, video, NULL };
  const gchar *const small[] = { "--width=64", "--height=64", "--frames=22",
    text, transformer, NULL };
  const gchar *const one[] = { transformer, NULL };
  gint status;
  g_autofree gchar *output = inspect_all (all, &status);
  g_autofree gchar *smaller = inspect_all (small, &status);
  g_autofree gchar *alone = inspect_all (one, &status);
  const gchar *seen = strstr (output, video);

  g_assert_cmpint (status, ==, 0);
  g_assert_nonnull (strstr (output, "all of these"));
  g_assert_nonnull (strstr (output, "for clips of 1344x768, 124 frames"));
  g_assert_nonnull (strstr (smaller, "for clips of 64x64, 22 frames"));
  g_assert_null (strstr (alone, "all of these"));
  /* a file that is named twice is there once */
  g_assert_nonnull (seen);
  g_assert_null (strstr (seen + 1, video));
  g_assert_cmpfloat (bytes_before (output, "with models in turn"), <=,
      bytes_before (output, "with all models there"));
  g_assert_cmpfloat (bytes_before (output, "one clip is made"), <=,
      bytes_before (output, "with models in turn"));
  g_assert_cmpfloat (bytes_before (smaller, "with all models there"), <,
      bytes_before (output, "with all models there"));
}

static void
test_sums (void)
{
  H3MemoryPlan plan = { 0 };

  h3_memory_plan_add (&plan, 100, 10, TRUE);
  h3_memory_plan_add (&plan, 50, 40, TRUE);
  h3_memory_plan_add (&plan, 5, 200, FALSE);
  h3_memory_plan_add (&plan, 7, 3, FALSE);
  g_assert_cmpuint (h3_memory_plan_whole (&plan), ==, 150 + 40 + 12 + 203);
  g_assert_cmpuint (h3_memory_plan_stream (&plan), ==, 110 + 12 + 203);
  g_assert_cmpuint (h3_memory_plan_least (&plan), ==, 203 + 12);
  h3_memory_plan_add (&plan, 300, 0, TRUE);
  g_assert_cmpuint (h3_memory_plan_least (&plan), ==, 300 + 12);
  g_assert_cmpuint (h3_memory_margin (1000), ==, 50);
  g_assert_cmpuint (h3_memory_margin ((guint64) 80 << 30), ==, 1 << 30);
}

/* What no device takes is said of each layer, but not two hundred times. */
static void
test_unsupported (void)
{
  static const gchar *const formats[] = { "convrot_w4a4", "asym_w4a8_int8",
    "awq_w4a16", "svdquant_w4a4", "nf4", "int3" };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
    g_autofree gchar *dir = h3_test_temp_dir ();
    g_autofree gchar *file = g_build_filename (dir, "x.safetensors", NULL);
    g_autofree gchar *says = g_strdup_printf ("quantization format %s is %s",
        formats[i], i == 5 ? "unknown" : "not supported");
    g_autoptr (GString) header = g_string_new (
        "{\"__metadata__\":{\"_quantization_metadata\":\"{\\\"layers\\\":{");
    g_autoptr (GByteArray) bytes = g_byte_array_new ();
    guint64 length;

    for (guint k = 0; k < 9; k++)
      g_string_append_printf (header, "%s\\\"blocks.%u.x\\\":\\\"%s\\\"",
          k ? "," : "", k, formats[i]);
    g_string_append (header, "}}\"}");
    for (guint k = 0; k < 9; k++)
      g_string_append_printf (header,
          ",\"blocks.%u.x.weight\":{\"dtype\":\"I8\",\"shape\":[1],"
          "\"data_offsets\":[%u,%u]}",
          k, k, k + 1);
    g_string_append (header,
        ",\"video_patch_proj.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
        "\"data_offsets\":[9,10]},\"audio_patch_proj.weight\":{\"dtype\":"
        "\"U8\",\"shape\":[1],\"data_offsets\":[10,11]}}");
    length = GUINT64_TO_LE (header->len);
    g_byte_array_append (bytes, (guint8 *) &length, 8);
    g_byte_array_append (bytes, (guint8 *) header->str, header->len);
    g_byte_array_append (bytes, (guint8 *) "12345678901", 11);
    h3_test_write_file (file, bytes->data, bytes->len);
    assert_says (file, 1, "unusable 9", says, "and 6 more of that kind", NULL);
    h3_test_remove_tree (dir);
  }
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

/* What a name in a file says to a terminal is not passed on. */
static void
test_escapes (void)
{
  static const gchar header[] =
      "{\"a\\u001b[31m\\nb\\u009b2J.lora_A.weight\":"
      "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "a.safetensors", NULL);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  const guint64 length = GUINT64_TO_LE (strlen (header));
  const gfloat value = 0;

  g_byte_array_append (bytes, (const guint8 *) &length, sizeof length);
  g_byte_array_append (bytes, (const guint8 *) header, strlen (header));
  g_byte_array_append (bytes, (const guint8 *) &value, sizeof value);
  h3_test_write_file (path, bytes->data, bytes->len);
  assert_says (path, 1, "a?[31m b?2J", NULL);
  h3_test_remove_tree (dir);
}

/* What an adapter is, and which transformers it fits. */
static void
test_adapters (void)
{
  static const gchar *const says[] = { "LoRA adapter", "ComfyUI",
    "31: 1 audio_patch_proj", "5 attn.qkv_proj", "rank         2 to 5",
    "alpha        per module", "unknown", "fits" };
  const gchar *dir = g_getenv ("H3_ADAPTERS_DIR");
  g_autofree gchar *comfy = g_build_filename (dir, "comfy.safetensors", NULL);
  g_autofree gchar *peft = g_build_filename (dir, "peft.safetensors", NULL);
  g_autofree gchar *wide = g_build_filename (dir, "wide.safetensors", NULL);
  g_autofree gchar *base =
      g_build_filename (h3_test_tiny_dir (), "FL2VA", "transformer", NULL);
  gint status;
  g_autofree gchar *good =
      inspect_all ((const gchar *const[]){ base, comfy, NULL }, &status);
  g_autofree gchar *bad = NULL;

  g_assert_cmpint (status, ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (says); i++)
    if (!strstr (good, says[i]))
      g_error ("\"%s\" is not in:\n%s", says[i], good);
  assert_says (peft, 0, "PEFT", "1.5 in the metadata", "31: ", NULL);
  bad = inspect_all ((const gchar *const[]){ base, wide, NULL }, &status);
  g_assert_cmpint (status, ==, 1);
  g_assert_nonnull (strstr (bad, "lora_A is"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/inspect/tiny", test_tiny);
  g_test_add_func ("/inspect/several", test_several);
  g_test_add_func ("/inspect/sums", test_sums);
  g_test_add_func ("/inspect/unsupported", test_unsupported);
  g_test_add_func ("/inspect/wrong", test_wrong);
  g_test_add_func ("/inspect/released-size", test_released_size);
  g_test_add_func ("/inspect/adapters", test_adapters);
  g_test_add_func ("/inspect/escapes", test_escapes);
  return g_test_run ();
}
