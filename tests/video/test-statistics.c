/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* latents_mean and latents_std as tensors of ComfyUI's files (checkpoints.md
 * 4.5): the release's own where these are what was rounded. */
#include <math.h>

#include "test-video.h"

#include "h3-test.h"
#include "model/video/video-private.h"

#define CHANNELS 24

static const gchar *const names[] = { "latents_mean", "latents_std" };

typedef struct {
  const gchar *name, *dtype;
  gint n_mean, n_std;
  gfloat change;  /* of one mean, relative */
  gfloat std;     /* of one channel instead; 0: as it is */
  gboolean taken; /* else the release's stay */
  const gchar *error;
} Case;

static const Case cases[] = {
  { "f32", "F32", CHANNELS, CHANNELS },
  { "f16", "F16", CHANNELS, CHANNELS },
  { "bf16", "BF16", CHANNELS, CHANNELS },
  { "others", "F16", CHANNELS, CHANNELS, .change = 0.1f, .taken = TRUE },
  { "fewer", "F32", 4, 4, .taken = TRUE },
  { "no-std", "F32", 4, 0, .error = "latents_std" },
  { "lengths", "F32", 4, 5, .error = "as many" },
  { "zero", "F32", 4, 4, .std = 1e-30f, .taken = TRUE },
  { "negative", "F32", 4, 4, .std = -1, .error = "positive" },
  { "nan", "F32", 4, 4, .std = NAN, .error = "positive" },
  { "integers", "I32", 4, 4, .error = "F32, F16 or BF16" },
};

static void
narrow (const gchar *dtype, gfloat value, GByteArray *bytes)
{
  _Float16 half = (_Float16) value;
  guint32 bits;
  guint16 top;

  memcpy (&bits, &value, 4);
  top = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  if (g_str_equal (dtype, "F16"))
    g_byte_array_append (bytes, (guint8 *) &half, 2);
  else if (g_str_equal (dtype, "BF16"))
    g_byte_array_append (bytes, (guint8 *) &top, 2);
  else
    g_byte_array_append (bytes, (guint8 *) &value, 4);
}

/* The release's, which stand where no file says anything. */
static void
release_values (H3VideoVaeConfig *config)
{
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "x.safetensors", NULL);
  g_autofree gchar *tensors = NULL;
  g_autoptr (GError) error = NULL;
  gint ffn_mult;

  h3_video_config_read (path, config, &ffn_mult, &tensors, &error);
  g_assert_no_error (error);
  config->channels = 0; /* to be read */
  h3_test_remove_tree (dir);
}

static void
write_file (const Case *c, const H3VideoVaeConfig *release, const gchar *path)
{
  g_autoptr (GString) header = g_string_new ("{");
  g_autoptr (GByteArray) payload = g_byte_array_new ();
  g_autoptr (GByteArray) file = g_byte_array_new ();
  const gint n[] = { c->n_mean, c->n_std };
  guint64 length;

  for (guint k = 0; k < 2; k++) {
    const gfloat *values = k ? release->latents_std : release->latents_mean;
    guint begin = payload->len;

    if (n[k] == 0)
      continue;
    for (gint i = 0; i < n[k]; i++) {
      gfloat value = values[i] * (k == 0 && i == 3 ? 1 + c->change : 1);

      narrow (c->dtype, k == 1 && i == 3 && c->std != 0 ? c->std : value,
          payload);
    }
    g_string_append_printf (header,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%u,%u]}",
        k ? "," : "", names[k], c->dtype, n[k], begin, payload->len);
  }
  g_string_append_c (header, '}');
  length = GUINT64_TO_LE (header->len);
  g_byte_array_append (file, (guint8 *) &length, 8);
  g_byte_array_append (file, (guint8 *) header->str, header->len);
  g_byte_array_append (file, payload->data, payload->len);
  h3_test_write_file (path, file->data, file->len);
}

static void
test_case (gconstpointer data)
{
  const Case *c = data;
  g_autofree gchar *dir = h3_test_temp_dir ();
  g_autofree gchar *path = g_build_filename (dir, "x.safetensors", NULL);
  g_autoptr (H3TensorSet) set = NULL;
  g_autoptr (GError) error = NULL;
  H3VideoVaeConfig release = { 0 }, config;
  gboolean same;

  release_values (&release);
  write_file (c, &release, path);
  set = h3_tensor_set_open (path, &error);
  g_assert_no_error (error);
  config = release;
  if (c->error) {
    g_assert_false (h3_video_config_take_statistics (&config, set, &error));
    h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, c->error);
  } else {
    g_assert_true (h3_video_config_take_statistics (&config, set, &error));
    g_assert_cmpint (config.channels, ==, c->n_mean);
    same = memcmp (config.latents_mean, release.latents_mean,
               c->n_mean * sizeof (gfloat)) == 0 &&
           memcmp (config.latents_std, release.latents_std,
               c->n_std * sizeof (gfloat)) == 0;
    /* four channels of the release's are those numbers, but for the one */
    g_assert_cmpint (same, ==, !c->taken || (!c->change && !c->std));
  }
  h3_test_remove_tree (dir);
}

void
add_statistics_tests (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree gchar *name =
        g_strconcat ("/video/statistics/", cases[i].name, NULL);

    g_test_add_data_func (name, &cases[i], test_case);
  }
}
