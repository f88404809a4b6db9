/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sampling.md 4: golden grids, every table, and what is refused. */
#include "test-denoise.h"

#include "model/denoise/schedule.h"

#include <math.h>

#define TOLERANCE 2e-7

static H3Schedule *
schedule_new (H3ScheduleKind kind, gint steps, gdouble shift_v, gdouble shift_a)
{
  g_autoptr (GError) error = NULL;
  H3Schedule *schedule =
      h3_schedule_new (kind, steps, shift_v, shift_a, NULL, NULL, 0, &error);

  g_assert_no_error (error);
  return schedule;
}

/* steps + 1 values of a list that the specification prints */
static void
check_list (const gfloat *got, const gfloat *want, gint n)
{
  h3_test_assert_max_abs (got, want, n, TOLERANCE);
}

static void
test_golden (void)
{
  static const gint points[] = { 2, 4, 5, 8, 9, 12, 13, 30, 50 };

  for (guint i = 0; i < G_N_ELEMENTS (points); i++) {
    g_autofree gchar *name_v = g_strdup_printf ("shift12_n%d", points[i]);
    g_autofree gchar *name_a = g_strdup_printf ("shift3_n%d", points[i]);
    gsize n;
    g_autofree gfloat *sigma_v =
        h3_test_golden ("schedule.safetensors", name_v, &n);
    g_autofree gfloat *sigma_a =
        h3_test_golden ("schedule.safetensors", name_a, NULL);
    g_autoptr (H3Schedule) s =
        schedule_new (H3_SCHEDULE_UNIFORM, points[i] - 1, 12, 3);

    g_assert_cmpuint (n, ==, points[i]);
    g_assert_cmpint (s->steps, ==, points[i] - 1);
    check_list (s->sigma_v, sigma_v, n);
    check_list (s->sigma_a, sigma_a, n);
    /* with more points the last bit depends on the width of the vectors of
     * the machine that made them (sampling.md 4.1) */
    if (n < 16) {
      h3_test_assert_max_abs (s->sigma_v, sigma_v, n, 0);
      h3_test_assert_max_abs (s->sigma_a, sigma_a, n, 0);
    }
    for (gint k = 0; k < s->steps; k++) {
      g_assert_cmpfloat (s->t_v[k], ==, 1.0f - s->sigma_v[k]);
      g_assert_cmpfloat (s->t_a[k], ==, 1.0f - s->sigma_a[k]);
    }
  }
}

static void
test_uniform_tables (void)
{
  static const gfloat s12_4[] = { 1, 0.972972989f, 0.923076928f, 0.800000012f,
    0 };
  static const gfloat t12_4[] = { 0, 0.0270270109f, 0.0769230723f,
    0.199999988f };
  static const gfloat s6_4[] = { 1, 0.947368443f, 0.857142866f, 0.666666687f,
    0 };
  static const gfloat t6_4[] = { 0, 0.052631557f, 0.142857134f, 0.333333313f };
  static const gfloat s3_4[] = { 1, 0.899999976f, 0.75f, 0.5f, 0 };
  static const gfloat s12_8[] = { 1, 0.988235295f, 0.972972989f, 0.952380955f,
    0.923076928f, 0.878048778f, 0.800000012f, 0.631578922f, 0 };
  static const gfloat s3_8[] = { 1, 0.954545438f, 0.899999976f, 0.833333313f,
    0.75f, 0.642857134f, 0.5f, 0.300000012f, 0 };
  static const gfloat s12_12[] = { 1, 0.992481172f, 0.983606637f, 0.972972989f,
    0.959999979f, 0.943820238f, 0.923076928f, 0.895522356f, 0.857142806f,
    0.800000012f, 0.705882311f, 0.521739125f, 0 };
  static const gfloat s3_12[] = { 1, 0.970588207f, 0.93750006f, 0.899999976f,
    0.857142806f, 0.807692349f, 0.75f, 0.681818187f, 0.599999964f, 0.5f, 0.375f,
    0.214285716f, 0 };
  static const gfloat s12_11[] = { 1, 0.991735458f, 0.981818199f, 0.969696999f,
    0.954545438f, 0.935064912f, 0.909090936f, 0.872727275f, 0.818181872f,
    0.727272749f, 0.545454562f, 0 };
  static const gfloat s3_11[] = { 1, 0.967741907f, 0.931034565f, 0.888888896f,
    0.839999974f, 0.782608688f, 0.714285672f, 0.631578982f, 0.529411793f,
    0.400000006f, 0.230769232f, 0 };
  g_autoptr (H3Schedule) four = schedule_new (H3_SCHEDULE_UNIFORM, 4, 12, 3);
  g_autoptr (H3Schedule) turbo = schedule_new (H3_SCHEDULE_UNIFORM, 4, 6, 3);
  g_autoptr (H3Schedule) eight = schedule_new (H3_SCHEDULE_UNIFORM, 8, 12, 3);
  g_autoptr (H3Schedule) eleven = schedule_new (H3_SCHEDULE_UNIFORM, 11, 12, 3);
  g_autoptr (H3Schedule) twelve = schedule_new (H3_SCHEDULE_UNIFORM, 12, 12, 3);

  check_list (four->sigma_v, s12_4, 5);
  check_list (four->t_v, t12_4, 4);
  check_list (four->sigma_a, s3_4, 5);
  check_list (turbo->sigma_v, s6_4, 5);
  check_list (turbo->t_v, t6_4, 4);
  check_list (turbo->sigma_a, s3_4, 5);
  check_list (eight->sigma_v, s12_8, 9);
  check_list (eight->sigma_a, s3_8, 9);
  check_list (eleven->sigma_v, s12_11, 12);
  check_list (eleven->sigma_a, s3_11, 12);
  check_list (twelve->sigma_v, s12_12, 13);
  check_list (twelve->sigma_a, s3_12, 13);
}

static void
test_default_spots (void)
{
  static const struct {
    gint i;
    gfloat v, a;
  } spots[] = {
    { 1, 0.998266876f, 0.993103445f },
    { 10, 0.979079485f, 0.92125982f },
    { 24, 0.92592597f, 0.75757575f },
    { 40, 0.729729712f, 0.402985036f },
    { 47, 0.338028222f, 0.113207579f },
    { 48, 0.200000003f, 0.0588235296f },
  };
  g_autoptr (H3Schedule) s = schedule_new (H3_SCHEDULE_UNIFORM, 49, 12, 3);

  for (guint i = 0; i < G_N_ELEMENTS (spots); i++) {
    g_assert_cmpfloat_with_epsilon (s->sigma_v[spots[i].i], spots[i].v,
        TOLERANCE);
    g_assert_cmpfloat_with_epsilon (s->sigma_a[spots[i].i], spots[i].a,
        TOLERANCE);
  }
}

/* One more step at a time: 1 ... 0, strictly down, also with many points. */
static void
test_uniform_shape (void)
{
  static const gint steps[] = { 1, 2, 3, 14, 15, 16, 31, 47, 100, 999, 10000 };

  for (guint i = 0; i < G_N_ELEMENTS (steps); i++) {
    g_autoptr (H3Schedule) s =
        schedule_new (H3_SCHEDULE_UNIFORM, steps[i], 12, 3);

    g_assert_cmpint (s->steps, ==, steps[i]);
    g_assert_cmpfloat (s->sigma_v[0], ==, 1);
    g_assert_cmpfloat (s->sigma_a[0], ==, 1);
    g_assert_cmpfloat (s->sigma_v[s->steps], ==, 0);
    g_assert_cmpfloat (s->sigma_a[s->steps], ==, 0);
    g_assert_cmpfloat (s->t_v[0], ==, 0);
    for (gint k = 0; k < s->steps; k++) {
      g_assert_cmpfloat (s->sigma_v[k], >, s->sigma_v[k + 1]);
      g_assert_cmpfloat (s->sigma_a[k], >, s->sigma_a[k + 1]);
      g_assert_cmpfloat (s->sigma_a[k], <=, s->sigma_v[k]);
    }
  }
}

static void
check_beta_indices (gint steps, const gint *indices, gint n)
{
  /* shift 1 shows the table itself: sigma = (index + 1) / 1000 */
  g_autoptr (H3Schedule) s = schedule_new (H3_SCHEDULE_BETA, steps, 1, 1);

  g_assert_cmpint (s->steps, ==, n);
  for (gint i = 0; i < n; i++)
    g_assert_cmpint ((gint) lrintf (s->sigma_v[i] * 1000) - 1, ==, indices[i]);
}

static void
test_beta (void)
{
  static const gint n4[] = { 999, 823, 500, 176 };
  static const gint n6[] = { 999, 908, 724, 500, 275, 91 };
  static const gint n8[] = { 999, 942, 823, 670, 500, 329, 176, 57 };
  static const gint n10[] = { 999, 959, 876, 765, 637, 500, 362, 234, 123, 40 };
  static const gint n12[] = { 999, 970, 908, 823, 724, 614, 500, 385, 275, 176,
    91, 29 };
  static const gint n16[] = { 999, 981, 942, 888, 823, 750, 670, 586, 500, 413,
    329, 249, 176, 111, 57, 18 };
  static const gint n20[] = { 999, 986, 959, 922, 876, 823, 765, 703, 637, 569,
    500, 430, 362, 296, 234, 176, 123, 77, 40, 13 };
  static const gfloat v4[] = { 1, 0.982511938f, 0.923360527f, 0.720732987f, 0 };
  static const gfloat a4[] = { 1, 0.933534794f, 0.750749409f, 0.392171389f, 0 };
  static const gfloat v8[] = { 1, 0.994988143f, 0.982511938f, 0.9607445f,
    0.923360527f, 0.855291545f, 0.720732987f, 0.4249084f, 0 };
  static const gfloat a8[] = { 1, 0.980249533f, 0.933534794f, 0.859521645f,
    0.750749409f, 0.596385481f, 0.392171389f, 0.155913965f, 0 };
  static const gfloat v12[] = { 1, 0.997517407f, 0.991726577f, 0.982511938f,
    0.969359398f, 0.950418532f, 0.923360527f, 0.882958412f, 0.820614398f,
    0.720732987f, 0.548707724f, 0.270676702f, 0 };
  static const gfloat a12[] = { 1, 0.99014304f, 0.96770781f, 0.933534794f,
    0.887755325f, 0.827354221f, 0.750749409f, 0.6534988f, 0.533505032f,
    0.392171389f, 0.233108087f, 0.0849056645f, 0 };
  g_autoptr (H3Schedule) four = schedule_new (H3_SCHEDULE_BETA, 4, 12, 3);
  g_autoptr (H3Schedule) eight = schedule_new (H3_SCHEDULE_BETA, 8, 12, 3);
  g_autoptr (H3Schedule) twelve = schedule_new (H3_SCHEDULE_BETA, 12, 12, 3);

  check_beta_indices (4, n4, 4);
  check_beta_indices (6, n6, 6);
  check_beta_indices (8, n8, 8);
  check_beta_indices (10, n10, 10);
  check_beta_indices (12, n12, 12);
  check_beta_indices (16, n16, 16);
  check_beta_indices (20, n20, 20);
  check_list (four->sigma_v, v4, 5);
  check_list (four->sigma_a, a4, 5);
  check_list (eight->sigma_v, v8, 9);
  check_list (eight->sigma_a, a8, 9);
  check_list (twelve->sigma_v, v12, 13);
  check_list (twelve->sigma_a, a12, 13);
}

/* More steps than the table has entries: repeated ones drop out. */
static void
test_beta_many (void)
{
  g_autoptr (H3Schedule) s = schedule_new (H3_SCHEDULE_BETA, 3000, 12, 3);

  g_assert_cmpint (s->steps, <, 1001);
  g_assert_cmpint (s->steps, >, 500);
  for (gint i = 0; i < s->steps; i++)
    g_assert_cmpfloat (s->sigma_v[i], >, s->sigma_v[i + 1]);
}

static void
test_simple (void)
{
  static const gfloat v20[] = { 1, 0.995633185f, 0.990825653f, 0.985507309f,
    0.979591846f, 0.972972989f, 0.965517223f, 0.957055211f, 0.947368383f,
    0.93617022f, 0.923076928f, 0.907562971f, 0.888888896f, 0.865979373f,
    0.837209284f, 0.800000012f, 0.75f, 0.679245293f, 0.571428597f, 0.387096792f,
    0 };
  static const gint n6[] = { 999, 833, 666, 499, 333, 166 };
  g_autoptr (H3Schedule) twenty = schedule_new (H3_SCHEDULE_SIMPLE, 20, 12, 3);
  g_autoptr (H3Schedule) six = schedule_new (H3_SCHEDULE_SIMPLE, 6, 1, 1);
  g_autoptr (H3Schedule) all = schedule_new (H3_SCHEDULE_SIMPLE, 1000, 12, 3);

  check_list (twenty->sigma_v, v20, 21);
  for (gint i = 0; i < 6; i++)
    g_assert_cmpint ((gint) lrintf (six->sigma_v[i] * 1000) - 1, ==, n6[i]);
  g_assert_cmpint (all->steps, ==, 1000);
  g_assert_cmpfloat_with_epsilon (all->sigma_v[999], 0.011869436f, 1e-9);
}

static void
test_explicit (void)
{
  static const gdouble v[] = { 1, 0.923076928, 0.8, 0 };
  static const gdouble a[] = { 0.9, 0.5, 0.1, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (H3Schedule) both =
      h3_schedule_new (H3_SCHEDULE_EXPLICIT, 20, 12, 3, v, a, 4, &error);
  g_autoptr (H3Schedule) derived = NULL;

  g_assert_no_error (error);
  g_assert_cmpint (both->steps, ==, 3);
  for (gint i = 0; i < 4; i++) {
    g_assert_cmpfloat (both->sigma_v[i], ==, (gfloat) v[i]);
    g_assert_cmpfloat (both->sigma_a[i], ==, (gfloat) a[i]);
  }
  g_assert_cmpfloat (both->t_a[0], ==, 1.0f - 0.9f);

  derived =
      h3_schedule_new (H3_SCHEDULE_EXPLICIT, 0, 12, 3, v, NULL, 4, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (derived->sigma_a[0], ==, 1);
  g_assert_cmpfloat_with_epsilon (derived->sigma_a[1], 0.75, TOLERANCE);
  g_assert_cmpfloat_with_epsilon (derived->sigma_a[2], 0.5, TOLERANCE);
  g_assert_cmpfloat (derived->sigma_a[3], ==, 0);
}

static void
check_bad (H3ScheduleKind kind, gint steps, gdouble shift_v, gdouble shift_a,
    const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_schedule_new (kind, steps, shift_v, shift_a, NULL, NULL, 0, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, text);
}

static void
test_bad_settings (void)
{
  check_bad (H3_SCHEDULE_UNIFORM, 0, 12, 3, "steps");
  check_bad (H3_SCHEDULE_UNIFORM, -5, 12, 3, "steps");
  check_bad (H3_SCHEDULE_UNIFORM, G_MAXINT, 12, 3, "steps");
  check_bad (H3_SCHEDULE_BETA, 0, 12, 3, "steps");
  check_bad (H3_SCHEDULE_SIMPLE, 1001, 12, 3, "1000");
  check_bad (H3_SCHEDULE_UNIFORM, 8, 0, 3, "shift-video");
  check_bad (H3_SCHEDULE_UNIFORM, 8, -12, 3, "shift-video");
  check_bad (H3_SCHEDULE_UNIFORM, 8, NAN, 3, "shift-video");
  check_bad (H3_SCHEDULE_UNIFORM, 8, INFINITY, 3, "shift-video");
  check_bad (H3_SCHEDULE_UNIFORM, 8, 1e300, 3, "shift-video");
  check_bad (H3_SCHEDULE_UNIFORM, 8, 12, 0, "shift-audio");
  check_bad (H3_SCHEDULE_BETA, 8, 12, -3, "shift-audio");
  check_bad (H3_SCHEDULE_SIMPLE, 8, 12, NAN, "shift-audio");
  check_bad (H3_SCHEDULE_UNIFORM, 8, 12, 1e-300, "shift-audio");
  /* so steep that sigmas run together */
  check_bad (H3_SCHEDULE_UNIFORM, 8, 1e12, 3, "fewer steps");
  check_bad (H3_SCHEDULE_SIMPLE, 8, 1e12, 3, "decrease");
  check_bad (H3_SCHEDULE_EXPLICIT, 8, 12, 3, "sigmas");
}

static void
check_bad_list (const gdouble *v, const gdouble *a, gint n, const gchar *stream,
    const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (
      h3_schedule_new (H3_SCHEDULE_EXPLICIT, 1, 12, 3, v, a, n, &error));
  h3_test_assert_h3_error (error, H3_ERROR_SETTINGS, stream, text);
}

static void
test_bad_lists (void)
{
  static const gdouble good[] = { 1, 0.5, 0 };
  static const gdouble rising[] = { 0.5, 0.8, 0 };
  static const gdouble flat[] = { 0.5, 0.5, 0 };
  static const gdouble no_zero[] = { 1, 0.5, 0.1 };
  static const gdouble negative[] = { 1, 0.5, -0.1 };
  static const gdouble above[] = { 1.01, 0.5, 0 };
  static const gdouble nan_first[] = { NAN, 0.5, 0 };
  static const gdouble nan_inside[] = { 1, NAN, 0 };
  static const gdouble infinite[] = { INFINITY, 0.5, 0 };

  check_bad_list (rising, NULL, 3, "video", "decrease");
  check_bad_list (flat, NULL, 3, "video", "decrease");
  check_bad_list (no_zero, NULL, 3, "video", "last");
  check_bad_list (negative, NULL, 3, "video", "last");
  check_bad_list (above, NULL, 3, "video", "at most 1");
  check_bad_list (nan_first, NULL, 3, "video", "at most 1");
  check_bad_list (nan_inside, NULL, 3, "video", "decrease");
  check_bad_list (infinite, NULL, 3, "video", "at most 1");
  check_bad_list (good, NULL, 1, "explicit", "2 to");
  check_bad_list (good, NULL, 0, "explicit", "2 to");
  check_bad_list (good, NULL, -1, "explicit", "2 to");
  check_bad_list (good, rising, 3, "audio", "decrease");
  check_bad_list (good, above, 3, "audio", "at most 1");
  check_bad_list (good, no_zero, 3, "audio", "last");
}

void
h3_test_add_schedule (void)
{
  g_test_add_func ("/schedule/golden", test_golden);
  g_test_add_func ("/schedule/uniform-tables", test_uniform_tables);
  g_test_add_func ("/schedule/default-spots", test_default_spots);
  g_test_add_func ("/schedule/uniform-shape", test_uniform_shape);
  g_test_add_func ("/schedule/beta", test_beta);
  g_test_add_func ("/schedule/beta-many", test_beta_many);
  g_test_add_func ("/schedule/simple", test_simple);
  g_test_add_func ("/schedule/explicit", test_explicit);
  g_test_add_func ("/schedule/bad-settings", test_bad_settings);
  g_test_add_func ("/schedule/bad-lists", test_bad_lists);
}
