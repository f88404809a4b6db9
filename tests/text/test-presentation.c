/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests as the language model reads them: labels, blocks, tags, positions,
 * and what is refused. */
#include "model/text/presentation.h"
#include "tests/text/text-tests.h"
#include "tests/tools/h3-test.h"

#define START 489
#define END 490
#define IMAGE_PAD 492
#define VIDEO_PAD 493

static H3Tokenizer *
load_tiny (void)
{
  g_autofree gchar *dir = g_build_filename (h3_test_golden_dir (), "tiny",
      "FL2VA", "tokenizer", NULL);
  g_autoptr (GError) error = NULL;
  H3Tokenizer *tokenizer = h3_tokenizer_load (dir, &error);

  g_assert_no_error (error);
  return tokenizer;
}

/* Conditions of any grid, without pixels. */
static H3TextCondition *
condition (H3ConditionKind kind, gboolean has_sound, guint samples, gint grid_h,
    gint grid_w)
{
  H3TextCondition *c = g_new0 (H3TextCondition, 1);

  c->kind = kind;
  c->has_sound = has_sound;
  c->n_images = samples;
  c->images = g_new0 (H3Image, samples);
  c->size.blocks = (samples + 1) / 2;
  c->size.grid_h = grid_h;
  c->size.grid_w = grid_w;
  c->size.tokens = grid_h * grid_w / 4;
  c->finished = TRUE;
  return c;
}

#define PICTURE(h, w) condition (H3_CONDITION_IMAGE, FALSE, 1, h, w)
#define CLIP(sound, samples, h, w)                                             \
  condition (H3_CONDITION_VIDEO, sound, samples, h, w)

typedef struct {
  H3TextCondition *list[16];
  guint n;
} List;

static void
list_clear (List *list)
{
  while (list->n > 0)
    h3_text_condition_free (list->list[--list->n]);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (List, list_clear)

static gboolean
present (H3Presentation *presentation, const H3Tokenizer *tokenizer,
    const List *list, const gchar *prompt, guint max_tokens, GError **error)
{
  return h3_presentation_init (presentation, tokenizer,
      (const H3TextCondition *const *) list->list, list->n, prompt,
      strlen (prompt), max_tokens, error);
}

/* What is wanted: written row by row. */
typedef struct {
  const H3Tokenizer *tokenizer;
  GArray *ids, *tags, *positions, *pads;
  gint p;
} Want;

static void
want_row (Want *want, gint32 id, gint32 tag, gint32 t, gint32 h, gint32 w)
{
  const gint32 position[] = { t, h, w };

  g_array_append_val (want->ids, id);
  g_array_append_val (want->tags, tag);
  g_array_append_vals (want->positions, position, 3);
}

static void
want_text (Want *want, const gchar *text)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  g_assert_true (
      h3_tokenizer_encode (want->tokenizer, text, strlen (text), ids, NULL));
  for (guint i = 0; i < ids->len; i++, want->p++)
    want_row (want, g_array_index (ids, gint32, i), 1, want->p, want->p,
        want->p);
}

static void
want_block (Want *want, gint32 pad, gint rows, gint columns)
{
  want_row (want, START, 0, want->p, want->p, want->p);
  want->p++;
  for (gint r = 0; r < rows; r++) {
    for (gint c = 0; c < columns; c++) {
      const gint32 at = want->ids->len;

      g_array_append_val (want->pads, at);
      want_row (want, pad, 0, want->p, want->p + r, want->p + c);
    }
  }
  want->p += MAX (rows, columns);
  want_row (want, END, 0, want->p, want->p, want->p);
  want->p++;
}

static void
assert_same (const GArray *got, GArray *want)
{
  g_assert_cmpmem (got->data, got->len * sizeof (gint32), want->data,
      want->len * sizeof (gint32));
  g_array_unref (want);
}

static void
want_check (Want *want, const List *list, const gchar *prompt)
{
  g_auto (H3Presentation) presentation = { NULL };
  g_autoptr (GError) error = NULL;
  H3TextInput input;

  want_text (want, prompt);
  present (&presentation, want->tokenizer, list, prompt, want->ids->len,
      &error);
  g_assert_no_error (error);
  input = h3_presentation_input (&presentation, NULL);
  g_assert_cmpint (input.n, ==, want->ids->len);
  g_assert_cmpint (input.n_pads, ==, want->pads->len);
  assert_same (presentation.ids, want->ids);
  assert_same (presentation.tags, want->tags);
  assert_same (presentation.positions, want->positions);
  assert_same (presentation.pads, want->pads);
}

static Want
want_new (const H3Tokenizer *tokenizer)
{
  return (Want){ tokenizer, g_array_new (FALSE, FALSE, sizeof (gint32)),
    g_array_new (FALSE, FALSE, sizeof (gint32)),
    g_array_new (FALSE, FALSE, sizeof (gint32)),
    g_array_new (FALSE, FALSE, sizeof (gint32)), 0 };
}

/* The worked example of text-encoder.md 3. */
static void
test_mixed (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  g_auto (List) list = {
    { PICTURE (4, 4), CLIP (TRUE, 3, 4, 4), h3_text_condition_new_audio () }, 3
  };
  Want want = want_new (tokenizer);

  want_text (&want, "<Picture 1>: ");
  want_block (&want, IMAGE_PAD, 2, 2);
  want_text (&want, "<Audio 1>: ");
  want_text (&want, "<Video 1>: ");
  want_text (&want, "<0.2 seconds>");
  want_block (&want, VIDEO_PAD, 2, 2);
  want_text (&want, "<1.0 seconds>");
  want_block (&want, VIDEO_PAD, 2, 2);
  want_text (&want, "<Audio 2>: ");
  want_check (&want, &list, "hi");
}

/* Each kind counts on its own, in the order of the request; blocks that are no
 * squares; 11 samples (text-encoder.md 3). */
static void
test_order (void)
{
  static const gchar *const times[] = { "0.2", "1.2", "2.2", "3.2", "4.2",
    "5.0" };
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  g_auto (List)
      list = { { h3_text_condition_new_audio (), CLIP (FALSE, 2, 2, 6),
                   PICTURE (8, 2), CLIP (TRUE, 11, 2, 4), PICTURE (2, 2) },
        5 };
  Want want = want_new (tokenizer);

  want_text (&want, "<Audio 1>: ");
  want_text (&want, "<Video 1>: ");
  want_text (&want, "<0.2 seconds>");
  want_block (&want, VIDEO_PAD, 1, 3);
  want_text (&want, "<Picture 1>: ");
  want_block (&want, IMAGE_PAD, 4, 1);
  want_text (&want, "<Audio 2>: ");
  want_text (&want, "<Video 2>: ");
  for (guint i = 0; i < G_N_ELEMENTS (times); i++) {
    g_autofree gchar *label = g_strdup_printf ("<%s seconds>", times[i]);

    want_text (&want, label);
    want_block (&want, VIDEO_PAD, 1, 2);
  }
  want_text (&want, "<Picture 2>: ");
  want_block (&want, IMAGE_PAD, 1, 1);
  want_check (&want, &list, "<Picture 1> dances like <Video 2>");
}

/* A lone last frame is the first picture. */
static void
test_keyframes (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  g_auto (List)
      last = { { condition (H3_CONDITION_LAST_FRAME, FALSE, 1, 4, 6) }, 1 };
  g_auto (List)
      both = { { condition (H3_CONDITION_FIRST_FRAME, FALSE, 1, 4, 6),
                   condition (H3_CONDITION_LAST_FRAME, FALSE, 1, 4, 6) },
        2 };
  Want want = want_new (tokenizer);

  want_text (&want, "<Picture 1>: ");
  want_block (&want, IMAGE_PAD, 2, 3);
  want_check (&want, &last, "a");
  want = want_new (tokenizer);
  want_text (&want, "<Picture 1>: ");
  want_block (&want, IMAGE_PAD, 2, 3);
  want_text (&want, "<Picture 2>: ");
  want_block (&want, IMAGE_PAD, 2, 3);
  want_check (&want, &both, "a");
}

static void
test_t2va (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  const List none = { { NULL }, 0 };
  Want want = want_new (tokenizer);

  want_check (&want, &none, "a<|image_pad|>b"); /* typed: ordinary rows */
  want = want_new (tokenizer);
  want_check (&want, &none, "  "); /* white space alone is a prompt */
}

static void
assert_refused (const H3Tokenizer *tokenizer, const List *list,
    const gchar *prompt, guint max_tokens, const gchar *says,
    const gchar *and_says)
{
  H3Presentation presentation;
  g_autoptr (GError) error = NULL;

  g_assert_false (
      present (&presentation, tokenizer, list, prompt, max_tokens, &error));
  h3_test_assert_h3_error (error, H3_ERROR_FORMAT, says, and_says);
  g_assert_null (presentation.ids);
  g_assert_null (presentation.pads);
}

static void
test_refused (void)
{
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();
  const List none = { { NULL }, 0 };
  g_auto (List) picture = { { PICTURE (4, 4) }, 1 };
  g_auto (List) huge = { { PICTURE (2000, 2000) }, 1 };
  g_auto (List) unfinished = { { CLIP (FALSE, 2, 4, 4) }, 1 };
  g_auto (List) sounds = {
    { h3_text_condition_new_audio (), h3_text_condition_new_audio () }, 2
  };
  static const gchar *const typed[] = { "<|vision_start|>", "<|vision_end|>",
    "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>" };

  unfinished.list[0]->finished = FALSE;
  assert_refused (tokenizer, &none, "", 10, "empty", NULL);
  assert_refused (tokenizer, &picture, "", 100, "empty", NULL);
  assert_refused (tokenizer, &none, "1234567", 6, "7 tokens", "at most 6");
  assert_refused (tokenizer, &none, "a\xff", 6, "not valid UTF-8", NULL);
  assert_refused (tokenizer, &picture, "a\xff", 100, "not valid UTF-8", NULL);
  assert_refused (tokenizer, &picture, "hi", 12, "6 of them for its pictures",
      "at most 12");
  assert_refused (tokenizer, &huge, "hi", 262144, "1000002 tokens",
      "at most 262144");
  assert_refused (tokenizer, &unfinished, "hi", 100, "not finished", NULL);
  assert_refused (tokenizer, &sounds, "hi", 100, "2 reference sounds",
      "nothing to see");
  for (guint i = 0; i < G_N_ELEMENTS (typed); i++) {
    g_autofree gchar *prompt = g_strconcat ("a ", typed[i], NULL);

    assert_refused (tokenizer, &picture, prompt, 100, typed[i],
        "cannot be written");
  }
}

static void
test_counts (void)
{
  static const struct {
    guint pictures, clips, sounds, keyframes;
    const gchar *says, *and_says;
  } cases[] = {
    { 10, 0, 0, 0, "10 reference pictures", "at most 9" },
    { 1, 4, 0, 0, "4 reference clips", "at most 3" },
    { 1, 0, 4, 0, "4 reference sounds", "at most 3" },
    { 8, 3, 2, 0, "13 references", "at most 12" },
    { 0, 0, 3, 0, "3 reference sounds", "nothing to see" },
    { 0, 0, 0, 2, "2 first frames", "at most 1" },
    { 2, 0, 0, 1, "1 keyframes and 2 references", NULL },
    { 0, 1, 1, 1, "1 keyframes and 2 references", NULL },
  };
  g_autoptr (H3Tokenizer) tokenizer = load_tiny ();

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (List) list = { { NULL }, 0 };

    for (guint k = 0; k < cases[i].keyframes; k++)
      list.list[list.n++] =
          condition (H3_CONDITION_FIRST_FRAME, FALSE, 1, 2, 2);
    for (guint k = 0; k < cases[i].pictures; k++)
      list.list[list.n++] = PICTURE (2, 2);
    for (guint k = 0; k < cases[i].clips; k++)
      list.list[list.n++] = CLIP (FALSE, 2, 2, 2);
    for (guint k = 0; k < cases[i].sounds; k++)
      list.list[list.n++] = h3_text_condition_new_audio ();
    assert_refused (tokenizer, &list, "hi", 4096, cases[i].says,
        cases[i].and_says);
  }
}

/* A tokenizer of text alone serves text, and says what it lacks otherwise. */
static void
test_no_controls (void)
{
  g_autofree gchar *released = NULL;
  g_autoptr (H3Tokenizer) tokenizer = NULL;
  g_auto (List) list = { { PICTURE (2, 2) }, 1 };
  g_auto (H3Presentation) presentation = { NULL };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *path = g_build_filename (h3_test_golden_dir (), "tiny",
      "FL2VA", "tokenizer", "vocab.json", NULL);

  g_assert_true (g_file_get_contents (path, &released, NULL, NULL));
  tokenizer =
      h3_tokenizer_parse ("", 0, released, strlen (released), "{}", 2, &error);
  g_assert_no_error (error);
  g_assert_false (present (&presentation, tokenizer, &list, "hi", 100, &error));
  h3_test_assert_h3_error (error, H3_ERROR_WRONG_TYPE, "the tokenizer has no",
      "pictures and clips need");
}

void
add_presentation_tests (void)
{
  g_test_add_func ("/text/presentation/t2va", test_t2va);
  g_test_add_func ("/text/presentation/mixed", test_mixed);
  g_test_add_func ("/text/presentation/order", test_order);
  g_test_add_func ("/text/presentation/keyframes", test_keyframes);
  g_test_add_func ("/text/presentation/refused", test_refused);
  g_test_add_func ("/text/presentation/counts", test_counts);
  g_test_add_func ("/text/presentation/no-controls", test_no_controls);
}
