/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The judge judged: clips whose content is known. */
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "model/checkpoint/safetensors.h"
#include "tests/tools/look.h"

#define RATE 32000

typedef struct {
  const gchar *name;
  gint rgb[3];
} Named;

static const Named colors[] = { { "red", { 220, 40, 40 } },
  { "green", { 40, 180, 60 } }, { "blue", { 40, 70, 220 } },
  { "yellow", { 235, 210, 40 } }, { "white", { 245, 245, 245 } } };
static const Named backgrounds[] = { { "black", { 15, 15, 15 } },
  { "blue", { 40, 70, 220 } }, { "green", { 40, 180, 60 } },
  { "gray", { 128, 128, 128 } }, { "purple", { 130, 40, 160 } } };
static const gchar *const shapes[] = { "circle", "square", "triangle" };
static const struct {
  const gchar *name;
  gint dx, dy;
} motions[] = { { "right", 1, 0 }, { "left", -1, 0 }, { "up", 0, -1 },
  { "down", 0, 1 }, { "still", 0, 0 } };
static const struct {
  const gchar *name;
  gdouble frequency;
} tones[] = { { "low", 240 }, { "mid", 480 }, { "high", 960 },
  { "silence", 0 } };

typedef struct {
  gint width, height, n_frames;
  gint shape, motion, color, background, tone;
  gdouble radius; /* of a circle; the others have about its size */
  guint32 seed;
} Scene;

/* --- a renderer of its own ---------------------------------------------- */

static gboolean
covers (const Scene *scene, gdouble x, gdouble y)
{
  gdouble r = scene->radius;

  switch (scene->shape) {
    case 0:
      return hypot (x, y) <= r;
    case 1:
      return MAX (fabs (x), fabs (y)) <= 0.89 * r;
    default: /* tip up, base as wide as it is high */
      return y >= -r && y <= r && fabs (x) <= (y + r) / 2;
  }
}

static gdouble
part_covered (const Scene *scene, gdouble x, gdouble y)
{
  gint hits = 0;

  if (hypot (x, y) > 1.5 * scene->radius + 2)
    return 0;
  /* Wider than a pixel, as soft as the autoencoder's edges are. */
  for (gint i = -3; i <= 3; i++)
    for (gint j = -3; j <= 3; j++)
      hits += covers (scene, x + i / 3.0, y + j / 3.0);
  return hits / 49.0;
}

static guint8 *
render_picture (const Scene *scene)
{
  gsize frame = (gsize) 3 * scene->width * scene->height;
  guint8 *rgb = g_malloc (frame * scene->n_frames), *out = rgb;
  GRand *rand = g_rand_new_with_seed (scene->seed);
  gint dx = motions[scene->motion].dx, dy = motions[scene->motion].dy;
  gdouble room_x = scene->width / 2.0 - scene->radius - 1;
  gdouble room_y = scene->height / 2.0 - scene->radius - 1;
  /* off the line of motion it stays where it happens to be */
  gdouble off_x = dx ? 0 : room_x * g_rand_double_range (rand, -1, 1);
  gdouble off_y = dy ? 0 : room_y * g_rand_double_range (rand, -1, 1);

  for (gint f = 0; f < scene->n_frames; f++) {
    gdouble way = 2.0 * f / (scene->n_frames - 1) - 1; /* -1 to 1 */
    gdouble cx = scene->width / 2.0 + off_x + dx * way * room_x;
    gdouble cy = scene->height / 2.0 + off_y + dy * way * room_y;

    for (gint y = 0; y < scene->height; y++) {
      for (gint x = 0; x < scene->width; x++) {
        gdouble m = part_covered (scene, x + 0.5 - cx, y + 0.5 - cy);
        guint32 bits = g_rand_int (rand);

        for (gint c = 0; c < 3; c++) {
          gdouble v = m * colors[scene->color].rgb[c] +
                      (1 - m) * backgrounds[scene->background].rgb[c];
          gint noise = (gint) (bits >> (8 * c) & 15) - 8;

          *out++ = CLAMP (lrint (v) + noise, 0, 255);
        }
      }
    }
  }
  g_rand_free (rand);
  return rgb;
}

static gfloat *
render_sound (const Scene *scene, gint *n_samples)
{
  gdouble f = tones[scene->tone].frequency;
  gint n = scene->n_frames * RATE / 24;
  gfloat *samples = g_new (gfloat, 2 * n);
  GRand *rand = g_rand_new_with_seed (scene->seed + 1);

  for (gint i = 0; i < n; i++) {
    gdouble v = f > 0 ? 0.3 * sin (2 * G_PI * f * i / RATE) : 0;

    for (gint s = 0; s < 2; s++)
      samples[2 * i + s] = v + g_rand_double_range (rand, -0.01, 0.01);
  }
  g_rand_free (rand);
  *n_samples = n;
  return samples;
}

static void
check_scene (const Scene *scene)
{
  g_autofree guint8 *rgb = render_picture (scene);
  gint n_samples;
  g_autofree gfloat *samples = render_sound (scene, &n_samples);
  g_autofree gchar *want = g_strjoin (" ", colors[scene->color].name,
      shapes[scene->shape], motions[scene->motion].name,
      backgrounds[scene->background].name, tones[scene->tone].name, NULL);
  g_autofree gchar *got = NULL;
  H3Look look;

  h3_look (rgb, scene->width, scene->height, scene->n_frames, samples,
      n_samples, &look);
  got = h3_look_words (&look);
  g_assert_cmpstr (got, ==, want);
}

/* --- tests -------------------------------------------------------------- */

/* Every shape with every motion and colour; backgrounds, tones, sizes and
 * canvases take turns. */
static void
test_rendered (void)
{
  guint n = 0;

  for (gint shape = 0; shape < 3; shape++) {
    for (gint motion = 0; motion < 5; motion++) {
      for (gint color = 0; color < 5; color++, n++) {
        gboolean portrait = n % 3 == 2;
        Scene scene = {
          .width = portrait ? 64 : 96,
          .height = portrait ? 96 : 64,
          .n_frames = n % 5 == 4 ? 39 : 22,
          .shape = shape,
          .motion = motion,
          .color = color,
          .background = (color + motion + shape) % 5,
          .tone = (n + shape) % 4,
          .radius = 16 + n % 4,
          .seed = n,
        };

        if (g_str_equal (colors[color].name,
                backgrounds[scene.background].name))
          scene.background = (scene.background + 1) % 5;
        check_scene (&scene);
      }
    }
  }
  g_test_message ("%u clips", n);
  g_assert_cmpuint (n, >=, 60);
}

/* A wrong reading of one property must not come out as right by luck: change
 * one at a time and see exactly that word change. */
static void
test_one_difference (void)
{
  const Scene base = { 96, 64, 22, 0, 0, 0, 1, 2, 17, 1 };
  Scene other[5] = { base, base, base, base, base };

  other[0].shape = 1;
  other[1].motion = 3;
  other[2].color = 4;
  other[3].background = 0;
  other[4].tone = 3;
  check_scene (&base);
  for (guint i = 0; i < G_N_ELEMENTS (other); i++)
    check_scene (&other[i]);
}

/* A stored tensor's bytes. Free with g_free(). */
static gpointer
read_stored (const H3SafeTensors *file, const gchar *name, H3StoredType type,
    const H3StoredTensor **tensor)
{
  g_autoptr (GError) error = NULL;
  gpointer data;

  *tensor = h3_safetensors_lookup (file, name);
  g_assert_nonnull (*tensor);
  g_assert_cmpint ((*tensor)->type, ==, type);
  data = g_malloc ((*tensor)->bytes);
  h3_stored_tensor_read (*tensor, 0, (*tensor)->bytes, data, &error);
  g_assert_no_error (error);
  return data;
}

/* The clip stored in a golden file, looked at. */
static gchar *
look_at_golden (const gchar *dir, const gchar *name)
{
  g_autofree gchar *file_name = g_strconcat (name, ".safetensors", NULL);
  g_autofree gchar *path = g_build_filename (dir, file_name, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (H3SafeTensors) file = h3_safetensors_open (path, &error);
  const H3StoredTensor *video, *audio;
  g_autofree guint8 *rgb = NULL;
  g_autofree gfloat *planar = NULL;
  g_autofree gfloat *samples = NULL;
  H3Look look;
  gint n;

  g_assert_no_error (error);
  rgb = read_stored (file, "video_u8", H3_STORED_U8, &video);
  planar = read_stored (file, "audio", H3_STORED_F32, &audio);
  n = audio->shape[2];
  samples = g_new (gfloat, 2 * n);
  for (gint i = 0; i < n; i++) {
    samples[2 * i] = planar[i];
    samples[2 * i + 1] = planar[n + i];
  }
  h3_look (rgb, video->shape[2], video->shape[1], video->shape[0], samples, n,
      &look);
  g_test_message ("%s: overlap %.3f %.3f %.3f, moved %.1f %.1f, rms %.3f, "
                  "%.1f Hz",
      name, look.overlap[0], look.overlap[1], look.overlap[2], look.dx, look.dy,
      look.rms, look.frequency);
  return h3_look_words (&look);
}

/* What the demo's own measurement read is what this one reads. */
static void
test_golden (void)
{
  g_autofree gchar *dir =
      g_build_filename (g_getenv ("H3_GOLDEN_DIR"), "demo", NULL);
  g_autofree gchar *path = g_build_filename (dir, "requests.json", NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  JsonObject *requests;
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *request;
  guint n = 0;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  requests = json_node_get_object (json_parser_get_root (parser));
  json_object_iter_init (&iter, requests);
  while (json_object_iter_next (&iter, &name, &request)) {
    g_autofree gchar *got = look_at_golden (dir, name);

    g_assert_cmpstr (got, ==,
        json_object_get_string_member (json_node_get_object (request),
            "measured"));
    n++;
  }
  g_assert_cmpuint (n, ==, 4);
}

/* Nothing to see, nothing to hear, and sounds at no known pitch. */
static void
test_nothing (void)
{
  Scene scene = { 96, 64, 22, 0, 0, 0, 3, 0, 17, 1 };
  g_autofree guint8 *gray = g_malloc (3 * 96 * 64 * 22);
  g_autofree gfloat *samples = NULL;
  H3Look look;
  gint n;

  memset (gray, 128, 3 * 96 * 64 * 22);
  h3_look (gray, 96, 64, 22, NULL, 0, &look);
  g_assert_cmpstr (look.background, ==, "gray");
  g_assert_cmpstr (look.shape, ==, "nothing");
  g_assert_cmpstr (look.color, ==, "nothing");
  g_assert_cmpstr (look.motion, ==, "nothing");
  g_assert_cmpstr (look.tone, ==, "silence");

  h3_look (NULL, 96, 64, 0, NULL, 0, &look);
  g_assert_cmpstr (look.background, ==, "nothing");

  samples = render_sound (&scene, &n);
  for (gint i = 0; i < n; i++)
    samples[2 * i] = samples[2 * i + 1] = 0.3 * sin (2 * G_PI * 340 * i / RATE);
  h3_look (gray, 96, 64, 22, samples, n, &look);
  g_assert_cmpstr (look.tone, ==, "other");
  g_assert_cmpfloat_with_epsilon (look.frequency, 340, 1);
}

static const gchar *program; /* h3-look, the test's argument */

/* The program, on files. */
static void
run_program (const gchar *video, const gchar *audio, const gchar *width,
    gboolean json, gint *status, gchar **out, gchar **err)
{
  g_autoptr (GError) error = NULL;
  const gchar *argv[7] = { program };
  gint n = 1;

  if (json)
    argv[n++] = "--json";
  argv[n++] = video;
  argv[n++] = width;
  argv[n++] = "64";
  argv[n++] = audio;
  g_spawn_sync (NULL, (gchar **) argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, out,
      err, status, &error);
  g_assert_no_error (error);
}

static void
test_program (void)
{
  const Scene scene = { 96, 64, 22, 2, 3, 3, 4, 1, 17, 1 };
  g_autofree guint8 *rgb = render_picture (&scene);
  gint n_samples, status;
  g_autofree gfloat *samples = render_sound (&scene, &n_samples);
  g_autofree gchar *dir = g_dir_make_tmp ("h3-look-XXXXXX", NULL);
  g_autofree gchar *video = g_build_filename (dir, "v.rgb", NULL);
  g_autofree gchar *audio = g_build_filename (dir, "a.f32", NULL);
  gchar *out = NULL, *err = NULL;

  g_assert_true (
      g_file_set_contents (video, (gchar *) rgb, 3 * 96 * 64 * 22, NULL));
  g_assert_true (
      g_file_set_contents (audio, (gchar *) samples, 8 * n_samples, NULL));
  run_program (video, audio, "96", FALSE, &status, &out, &err);
  g_assert_cmpint (status, ==, 0);
  g_assert_cmpstr (out, ==, "yellow triangle down purple mid\n");
  g_free (out);
  g_free (err);

  run_program (video, audio, "96", TRUE, &status, &out, &err);
  g_assert_cmpint (status, ==, 0);
  g_assert_nonnull (strstr (out, "\"shape\": \"triangle\""));
  g_free (out);
  g_free (err);

  /* Another width leaves a part of a frame over. */
  run_program (video, audio, "97", FALSE, &status, &out, &err);
  g_assert_cmpint (status, !=, 0);
  g_assert_nonnull (strstr (err, "no whole number of frames"));
  g_free (out);
  g_free (err);

  run_program (video, "/nonexistent", "96", FALSE, &status, &out, &err);
  g_assert_cmpint (status, !=, 0);
  g_assert_nonnull (strstr (err, "/nonexistent"));
  g_free (out);
  g_free (err);

  g_unlink (video);
  g_unlink (audio);
  g_rmdir (dir);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  program = argv[1];
  g_test_add_func ("/look/rendered", test_rendered);
  g_test_add_func ("/look/one-difference", test_one_difference);
  g_test_add_func ("/look/golden", test_golden);
  g_test_add_func ("/look/nothing", test_nothing);
  g_test_add_func ("/look/program", test_program);
  return g_test_run ();
}
