/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* packing.md 3 to 5: the worked examples, and the golden layouts bit by bit. */
#include "test-denoise.h"

#include "model/denoise/packing.h"

#define PRINTED 5e-10 /* the specification prints nine decimals */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (H3Packing, h3_packing_clear)

static void
pack (H3Packing *packing, gint width, gint height, gint frames, gint n_text)
{
  g_autoptr (GError) error = NULL;
  H3Geometry geometry;

  h3_geometry_init (&geometry, width, height, frames, &error);
  g_assert_no_error (error);
  h3_packing_t2va (packing, &geometry, NULL, n_text, &error);
  g_assert_no_error (error);
}

static void
check_row (const H3Packing *packing, gint row, gint tag, gint clock, gdouble t,
    gdouble h, gdouble w)
{
  g_assert_cmpint (packing->tag[row], ==, tag);
  g_assert_cmpint (packing->clock[row], ==, clock);
  g_assert_cmpfloat_with_epsilon (packing->position[3 * row], t, PRINTED);
  g_assert_cmpfloat_with_epsilon (packing->position[3 * row + 1], h, PRINTED);
  g_assert_cmpfloat_with_epsilon (packing->position[3 * row + 2], w, PRINTED);
}

/* packing.md 9.1 */
static void
test_worked (void)
{
  static const gdouble h[] = { 3.606453292, 7.737635528, 11.868817764, 16,
    20.131182236, 24.262364472 };
  static const gdouble w[] = { -4.655911180, -0.524728944, 3.606453292,
    7.737635528, 11.868817764, 16, 20.131182236, 24.262364472, 28.393546708,
    32.524728944 };
  static const gdouble t[] = { 17, 18.666666667, 25.333333333, 32, 38.666666667,
    45.333333333, 47 };
  g_auto (H3Packing) packing = { 0 };

  pack (&packing, 320, 192, 22, 17);
  g_assert_cmpint (packing.rows, ==, 511);
  g_assert_cmpint (packing.text_rows, ==, 17);
  g_assert_cmpint (packing.first_audio, ==, 17);
  g_assert_cmpint (packing.audio_rows, ==, 74);
  g_assert_cmpint (packing.first_video, ==, 91);
  g_assert_cmpint (packing.video_rows, ==, 420);

  for (gint i = 0; i < 17; i++)
    check_row (&packing, i, H3_TAG_TEXT, H3_CLOCK_VIDEO, i, 0, 0);
  for (gint i = 0; i < 37; i++) {
    check_row (&packing, 17 + i, H3_TAG_AUDIO, H3_CLOCK_AUDIO, 17 + i, 0, w[0]);
    check_row (&packing, 54 + i, H3_TAG_AUDIO, H3_CLOCK_AUDIO, 17 + i, 0, w[9]);
  }
  for (gint m = 0; m < 7; m++)
    for (gint i = 0; i < 6; i++)
      for (gint j = 0; j < 10; j++)
        check_row (&packing, 91 + (m * 6 + i) * 10 + j, H3_TAG_VIDEO,
            H3_CLOCK_VIDEO, t[m], h[i], w[j]);
}

/* packing.md 9.4 */
static void
test_production (void)
{
  static const struct {
    gint width, height, frames;
    gdouble h_first, h_last, w_first, w_last, step;
  } sizes[] = {
    { 864, 480, 141, 4.074304120, 26.335603096, -5.466252584, 35.876159800,
        1.590092784 },
    { 960, 544, 124, 3.955637557, 26.627378626, -5.254757253, 35.837773436,
        1.416983817 },
    { 1344, 768, 124, 3.905136864, 27.086957875, -5.166010489, 36.158105227,
        1.007905261 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_auto (H3Packing) packing = { 0 };
    const gdouble *first, *second, *last;

    pack (&packing, sizes[i].width, sizes[i].height, sizes[i].frames, 256);
    first = packing.position + 3 * packing.first_video;
    second = first + 3;
    last = packing.position + 3 * (packing.rows - 1);
    g_assert_cmpfloat_with_epsilon (first[1], sizes[i].h_first, PRINTED);
    g_assert_cmpfloat_with_epsilon (first[2], sizes[i].w_first, PRINTED);
    g_assert_cmpfloat_with_epsilon (last[1], sizes[i].h_last, PRINTED);
    g_assert_cmpfloat_with_epsilon (last[2], sizes[i].w_last, PRINTED);
    g_assert_cmpfloat_with_epsilon (second[2] - first[2], sizes[i].step,
        2 * PRINTED);
    g_assert_cmpfloat (first[0], ==, 256);
  }
}

static gdouble *
golden_doubles (const gchar *file, const gchar *name, gsize *n)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *path = h3_test_golden_path (file);
  g_autoptr (H3SafeTensors) tensors = h3_safetensors_open (path, &error);
  const H3StoredTensor *tensor;
  gdouble *values;

  g_assert_no_error (error);
  tensor = h3_safetensors_lookup (tensors, name);
  g_assert_nonnull (tensor);
  g_assert_cmpint (tensor->type, ==, H3_STORED_F64);
  values = g_malloc (tensor->bytes);
  h3_stored_tensor_read (tensor, 0, tensor->bytes, values, &error);
  g_assert_no_error (error);
  *n = tensor->bytes / sizeof (gdouble);
  return values;
}

static void
check_indices (const gchar *file, const gchar *name, gint first, gint n)
{
  gsize count;
  g_autofree gint32 *want = h3_test_golden_ints (file, name, &count);

  g_assert_cmpuint (count, ==, n);
  for (gint i = 0; i < n; i++)
    g_assert_cmpint (want[i], ==, first + i);
}

static void
check_golden (const gchar *file, gint width, gint height, gint frames)
{
  g_auto (H3Packing) packing = { 0 };
  gsize n_text, n_tags, n_positions;
  g_autofree gint32 *text =
      h3_test_golden_ints (file, "text_token_tags", &n_text);
  g_autofree gint32 *tags = h3_test_golden_ints (file, "token_tags", &n_tags);
  g_autofree gdouble *positions =
      golden_doubles (file, "position_ids", &n_positions);

  pack (&packing, width, height, frames, n_text);
  g_assert_cmpuint (n_tags, ==, packing.rows);
  for (gint row = 0; row < packing.rows; row++)
    g_assert_cmpint (packing.tag[row], ==, tags[row]);
  g_assert_cmpmem (packing.position, 3 * packing.rows * sizeof (gdouble),
      positions, n_positions * sizeof (gdouble));
  check_indices (file, "text_indices", 0, packing.text_rows);
  check_indices (file, "audio_indices", packing.first_audio,
      packing.audio_rows);
  check_indices (file, "video_indices", packing.first_video,
      packing.video_rows);
}

static void
test_golden (void)
{
  check_golden ("request_t2va.safetensors", 96, 64, 22);
  check_golden ("request_t2va_39.safetensors", 64, 96, 39);
}

static void
test_vision_tags (void)
{
  static const gint32 tags[] = { 1, 0, 0, 1 };
  g_autoptr (GError) error = NULL;
  g_auto (H3Packing) packing = { 0 };
  H3Geometry geometry;

  h3_geometry_init (&geometry, 64, 64, 5, &error);
  h3_packing_t2va (&packing, &geometry, tags, 4, &error);
  g_assert_no_error (error);
  for (gint i = 0; i < 4; i++)
    check_row (&packing, i, tags[i], H3_CLOCK_VIDEO, i, 0, 0);
}

static void
test_bad (void)
{
  static const gint32 audio_tag[] = { 1, 2 }, negative[] = { -1, 1 };
  GError *error = NULL;
  H3Packing packing;
  H3Geometry geometry;

  h3_geometry_init (&geometry, 64, 64, 5, &error);
  g_assert_no_error (error);
  g_assert_false (h3_packing_t2va (&packing, &geometry, NULL, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "no tokens");
  g_clear_error (&error);
  g_assert_false (h3_packing_t2va (&packing, &geometry, audio_tag, 2, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "tag 2", "row 1");
  g_clear_error (&error);
  g_assert_false (h3_packing_t2va (&packing, &geometry, negative, 2, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, "tag -1", "row 0");
  g_clear_error (&error);
  g_assert_false (
      h3_packing_t2va (&packing, &geometry, NULL, G_MAXINT, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, "rows");
  g_clear_error (&error);
  /* a layout that was refused holds nothing */
  g_assert_null (packing.position);
}

/* packing.md 3, its worked row: lh = lw = 4, T = 1 */
static void
test_patchify (void)
{
  gfloat latent[2 * 2 * 4 * 4], rows[2 * 4 * 8];
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (latent); i++)
    latent[i] = i;
  h3_patchify (rows, latent, 2, 2, 4, 4);
  for (gint t = 0; t < 2; t++)
    for (gint i = 0; i < 2; i++)
      for (gint j = 0; j < 2; j++)
        for (gint c = 0; c < 2; c++)
          for (gint dy = 0; dy < 2; dy++)
            for (gint dx = 0; dx < 2; dx++)
              g_assert_cmpfloat (rows[n++], ==,
                  ((c * 2 + t) * 4 + 2 * i + dy) * 4 + 2 * j + dx);
}

void
h3_test_add_packing (void)
{
  g_test_add_func ("/packing/worked-example", test_worked);
  g_test_add_func ("/packing/production-sizes", test_production);
  g_test_add_func ("/packing/golden", test_golden);
  g_test_add_func ("/packing/vision-tags", test_vision_tags);
  g_test_add_func ("/packing/bad", test_bad);
  g_test_add_func ("/packing/patchify", test_patchify);
}
