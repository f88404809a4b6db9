/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/denoise/condition.h"

static const struct {
  const gchar *name, *plural;
  guint most;
} kinds[] = {
  [H3_CONDITION_FIRST_FRAME] = { "first frame", "first frames", 1 },
  [H3_CONDITION_LAST_FRAME] = { "last frame", "last frames", 1 },
  [H3_CONDITION_IMAGE] = { "reference picture", "reference pictures",
      H3_MAX_REFERENCE_IMAGES },
  [H3_CONDITION_VIDEO] = { "reference clip", "reference clips",
      H3_MAX_REFERENCE_VIDEOS },
  [H3_CONDITION_AUDIO] = { "reference sound", "reference sounds",
      H3_MAX_REFERENCE_AUDIOS },
};

const gchar *
h3_condition_name (H3ConditionKind kind)
{
  return kinds[kind].name;
}

gint64
h3_condition_video_rows (const H3Condition *c)
{
  return (gint64) c->latent_t * (c->latent_h / 2) * (c->latent_w / 2);
}

gint64
h3_condition_audio_rows (const H3Condition *c)
{
  return 2 * (gint64) c->audio_t;
}

static gboolean
is_keyframe (const H3Condition *c)
{
  return c->kind < H3_CONDITION_IMAGE;
}

/* Latents of pictures: of one, of 17k + 5, or of none at all. */
static gboolean
pictures_fit (const H3Condition *c)
{
  gboolean sides = c->latent_h > 0 && c->latent_w > 0 && c->latent_h % 2 == 0 &&
                   c->latent_w % 2 == 0;

  switch (c->kind) {
    case H3_CONDITION_AUDIO:
      return c->latent_t == 0 && c->latent_h == 0 && c->latent_w == 0;
    case H3_CONDITION_VIDEO:
      return sides && c->latent_t >= 2 && c->latent_t % 5 == 2;
    default:
      return sides && c->latent_t == 1;
  }
}

static gboolean
sound_fits (const H3Condition *c)
{
  switch (c->kind) {
    case H3_CONDITION_AUDIO:
      return c->audio_t >= 1;
    case H3_CONDITION_VIDEO:
      return c->audio_t >= 0;
    default:
      return c->audio_t == 0;
  }
}

/* [?, a, b, c] or [2, ?, a]: the channels are the transformer's to check. */
static gboolean
tensors_fit (const H3Condition *c)
{
  const H3Tensor *v = c->video, *a = c->audio;

  return (!v || (v->rank == 4 && v->dtype == H3_DTYPE_F32 &&
                    v->shape[1] == c->latent_t && v->shape[2] == c->latent_h &&
                    v->shape[3] == c->latent_w)) &&
         (!a || (a->rank == 3 && a->dtype == H3_DTYPE_F32 && a->shape[0] == 2 &&
                    a->shape[2] == c->audio_t));
}

static gboolean
check_shape (const H3Condition *c, guint i, const H3Geometry *geometry,
    GError **error)
{
  if (!pictures_fit (c) || !sound_fits (c) || !tensors_fit (c)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "condition %u, a %s, has latents of %d x %d x %d (frames, height, "
        "width) and %d of sound: no encoder makes that of one",
        i + 1, kinds[c->kind].name, c->latent_t, c->latent_h, c->latent_w,
        c->audio_t);
    return FALSE;
  }
  if (is_keyframe (c) && (c->latent_h != geometry->latent_h ||
                             c->latent_w != geometry->latent_w)) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the %s was encoded at %d x %d, the clip has %d x %d: a keyframe must "
        "have the clip's size",
        kinds[c->kind].name, H3_LATENT_RATIO * c->latent_w,
        H3_LATENT_RATIO * c->latent_h, geometry->width, geometry->height);
    return FALSE;
  }
  return TRUE;
}

static gboolean
check_counts (const guint count[G_N_ELEMENTS (kinds)], guint n, GError **error)
{
  guint keyframes =
      count[H3_CONDITION_FIRST_FRAME] + count[H3_CONDITION_LAST_FRAME];

  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
    if (count[kind] > kinds[kind].most) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "%u %s were given, at most %u can be used", count[kind],
          kinds[kind].plural, kinds[kind].most);
      return FALSE;
    }
  if (keyframes > 0 && keyframes < n) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%u keyframes and %u references were given: a clip takes the one or "
        "the other",
        keyframes, n - keyframes);
    return FALSE;
  }
  if (n > H3_MAX_REFERENCES) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%u references were given, at most %d can be used", n,
        H3_MAX_REFERENCES);
    return FALSE;
  }
  if (n > 0 && count[H3_CONDITION_AUDIO] == n) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "%u reference sounds were given and nothing to see: a sound needs a "
        "picture or a clip beside it",
        n);
    return FALSE;
  }
  return TRUE;
}

gboolean
h3_condition_kinds_check (const H3ConditionKind *list, guint n, GError **error)
{
  guint count[G_N_ELEMENTS (kinds)] = { 0 };

  for (guint i = 0; i < n; i++) {
    if (list[i] >= G_N_ELEMENTS (kinds)) {
      g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
          "condition %u is of no known kind (%d)", i + 1, list[i]);
      return FALSE;
    }
    count[list[i]]++;
  }
  if (!check_counts (count, n, error))
    return FALSE;
  if (n == 2 && list[0] == H3_CONDITION_LAST_FRAME &&
      list[1] == H3_CONDITION_FIRST_FRAME) {
    g_set_error_literal (error, H3_ERROR, H3_ERROR_FORMAT,
        "the last frame was given before the first");
    return FALSE;
  }
  return TRUE;
}

gboolean
h3_conditions_check (const H3Condition *conditions, guint n,
    const H3Geometry *geometry, GError **error)
{
  g_autofree H3ConditionKind *list = g_new (H3ConditionKind, n);

  for (guint i = 0; i < n; i++)
    list[i] = conditions[i].kind;
  if (!h3_condition_kinds_check (list, n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (!check_shape (&conditions[i], i, geometry, error))
      return FALSE;
  return TRUE;
}

gboolean
h3_conditions_check_lengths (const H3Condition *conditions, guint n,
    GError **error)
{
  const gdouble latents = H3_AUDIO_RATE / (gdouble) H3_AUDIO_HOP; /* a second */
  gint64 frames = 0, sound = 0;

  for (guint i = 0; i < n; i++) {
    if (conditions[i].kind == H3_CONDITION_VIDEO)
      frames += h3_frames_of_latent (conditions[i].latent_t);
    else if (conditions[i].kind == H3_CONDITION_AUDIO)
      sound += conditions[i].audio_t;
  }
  if (frames > H3_MAX_REFERENCE_FRAMES) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The reference clips have %" G_GINT64_FORMAT
        " frames (%.1f s) together; H3 is made for at most %d (%.1f s)",
        frames, frames / (gdouble) H3_FPS, H3_MAX_REFERENCE_FRAMES,
        H3_MAX_REFERENCE_FRAMES / (gdouble) H3_FPS);
    return FALSE;
  }
  if (sound > H3_MAX_REFERENCE_SOUND) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "The reference sounds have %.1f s together; H3 is made for at most "
        "%.1f s",
        sound / latents, H3_MAX_REFERENCE_SOUND / latents);
    return FALSE;
  }
  return TRUE;
}

H3Task
h3_conditions_task (const H3Condition *conditions, guint n)
{
  return n == 0                         ? H3_TASK_T2VA
         : is_keyframe (&conditions[0]) ? H3_TASK_FL2VA
                                        : H3_TASK_REF2VA;
}
