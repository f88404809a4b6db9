/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/tokenizer.h"

#include "model/checkpoint/json-file.h"
#include "model/text/bpe.h"
#include "model/text/control-tokens.h"
#include "model/text/splitter.h"
#include "model/text/unicode.h"
#include "model/text/vocab.h"

/* Sixteen bytes for each of the 262144 tokens that a request may have; bounds
 * the memory an encode needs. */
#define MAX_TEXT_BYTES (4 * 1024 * 1024)

struct _H3Tokenizer {
  H3Bpe *bpe;
  H3ControlTokens *controls;
};

H3Tokenizer *
h3_tokenizer_parse (const gchar *merges, gsize merges_size,
    const gchar *vocab_json, gsize vocab_size, const gchar *config_json,
    gsize config_size, GError **error)
{
  g_autoptr (H3Vocab) vocab = NULL;
  g_autoptr (H3Bpe) bpe = NULL;
  g_autoptr (H3ControlTokens) controls = NULL;
  H3Tokenizer *tokenizer;

  vocab = h3_vocab_parse (vocab_json, vocab_size, error);
  if (!vocab)
    return NULL;
  bpe = h3_bpe_parse (merges, merges_size, vocab, error);
  if (!bpe)
    return NULL;
  controls = h3_control_tokens_parse (config_json, config_size, vocab, error);
  if (!controls)
    return NULL;

  tokenizer = g_new0 (H3Tokenizer, 1);
  tokenizer->bpe = g_steal_pointer (&bpe);
  tokenizer->controls = g_steal_pointer (&controls);
  return tokenizer;
}

static gboolean
read_file (const gchar *dir, const gchar *name, gchar **contents, gsize *size,
    GError **error)
{
  g_autofree gchar *path = g_build_filename (dir, name, NULL);
  g_autoptr (GError) local = NULL;

  if (h3_text_file_load (path, contents, size, &local))
    return TRUE;
  g_set_error (error, local->domain, local->code,
      "%s; the tokenizer needs merges.txt, vocab.json and "
      "tokenizer_config.json",
      local->message);
  return FALSE;
}

H3Tokenizer *
h3_tokenizer_load (const gchar *dir, GError **error)
{
  g_autofree gchar *merges = NULL, *vocab = NULL, *config = NULL;
  gsize merges_size, vocab_size, config_size;
  H3Tokenizer *tokenizer;

  if (!read_file (dir, "merges.txt", &merges, &merges_size, error) ||
      !read_file (dir, "vocab.json", &vocab, &vocab_size, error) ||
      !read_file (dir, "tokenizer_config.json", &config, &config_size, error))
    return NULL;
  tokenizer = h3_tokenizer_parse (merges, merges_size, vocab, vocab_size,
      config, config_size, error);
  if (!tokenizer)
    g_prefix_error (error, "%s: ", dir);
  return tokenizer;
}

void
h3_tokenizer_free (H3Tokenizer *tokenizer)
{
  h3_bpe_free (tokenizer->bpe);
  h3_control_tokens_free (tokenizer->controls);
  g_free (tokenizer);
}

gint32
h3_tokenizer_control (const H3Tokenizer *tokenizer, const gchar *token)
{
  const H3ControlToken *found =
      h3_control_tokens_lookup (tokenizer->controls, token);

  return found ? found->id : -1;
}

/* What one call of encode works in. */
typedef struct {
  GArray *chars, *composed; /* gunichar: a piece as given, and in NFC */
  GByteArray *word;
  H3BpeWork *bpe;
} Work;

static void
work_init (Work *work)
{
  work->chars = g_array_new (FALSE, FALSE, sizeof (gunichar));
  work->composed = g_array_new (FALSE, FALSE, sizeof (gunichar));
  work->word = g_byte_array_new ();
  work->bpe = h3_bpe_work_new ();
}

static void
work_clear (Work *work)
{
  g_array_unref (work->chars);
  g_array_unref (work->composed);
  g_byte_array_unref (work->word);
  h3_bpe_work_free (work->bpe);
}

/* Text between two control tokens: compose, split, encode word by word. */
static gboolean
encode_piece (const H3Tokenizer *tokenizer, const gchar *text, gsize size,
    Work *work, GArray *ids, GError **error)
{
  const gunichar *s;
  gsize n, end;

  g_array_set_size (work->chars, 0);
  g_array_set_size (work->composed, 0);
  h3_utf8_decode (text, size, work->chars);
  h3_nfc ((const gunichar *) (gpointer) work->chars->data, work->chars->len,
      work->composed);
  s = (const gunichar *) (gpointer) work->composed->data;
  n = work->composed->len;

  for (gsize i = 0; i < n; i = end) {
    end = h3_split_word (s, n, i);
    g_byte_array_set_size (work->word, 0);
    for (gsize k = i; k < end; k++) {
      gchar bytes[6];
      gint length = g_unichar_to_utf8 (s[k], bytes);

      g_byte_array_append (work->word, (const guint8 *) bytes, length);
    }
    if (!h3_bpe_encode (tokenizer->bpe, work->bpe, work->word->data,
            work->word->len, ids, error))
      return FALSE;
  }
  return TRUE;
}

/* @text is valid UTF-8; control tokens are too, so pieces are cut at
 * characters. */
static gboolean
encode_pieces (const H3Tokenizer *tokenizer, const gchar *text, gsize size,
    Work *work, GArray *ids, GError **error)
{
  gsize from = 0;

  while (from < size) {
    gsize start = size;
    const H3ControlToken *token =
        h3_control_tokens_find (tokenizer->controls, text, size, from, &start);

    if (!encode_piece (tokenizer, text + from, start - from, work, ids, error))
      return FALSE;
    if (!token)
      break;
    g_array_append_val (ids, token->id);
    from = start + token->size;
  }
  return TRUE;
}

gboolean
h3_tokenizer_encode (const H3Tokenizer *tokenizer, const gchar *text,
    gsize size, GArray *ids, GError **error)
{
  guint old_length = ids->len;
  gssize invalid;
  gboolean ok;
  Work work;

  if (size > MAX_TEXT_BYTES) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the text has %" G_GSIZE_FORMAT " bytes, at most %d are allowed", size,
        MAX_TEXT_BYTES);
    return FALSE;
  }
  invalid = h3_utf8_first_invalid (text, size);
  if (invalid >= 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_FORMAT,
        "the text is not valid UTF-8: byte 0x%02x at offset %" G_GSSIZE_FORMAT,
        (guint8) text[invalid], invalid);
    return FALSE;
  }

  work_init (&work);
  ok = encode_pieces (tokenizer, text, size, &work, ids, error);
  if (!ok)
    g_array_set_size (ids, old_length);
  work_clear (&work);
  return ok;
}
