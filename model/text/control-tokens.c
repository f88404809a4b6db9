/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "model/checkpoint/json-file.h"
#include "model/text/control-tokens.h"

static const gchar file[] = "tokenizer_config.json";

/* The search tries all that share a first byte: bounds for hostile files. */
#define MAX_TOKENS 1024
#define MAX_SIZE 256

struct _H3ControlTokens {
  GArray *tokens;      /* H3ControlToken, longest first */
  gboolean first[256]; /* whether a token begins with that byte */
};

static void
clear_token (gpointer token)
{
  g_free (((H3ControlToken *) token)->text);
}

void
h3_control_tokens_free (H3ControlTokens *tokens)
{
  g_array_unref (tokens->tokens);
  g_free (tokens);
}

static gboolean
add_token (H3ControlTokens *tokens, H3Vocab *vocab, const gchar *text,
    gint64 id, GError **error)
{
  H3ControlToken token;

  if (h3_control_tokens_lookup (tokens, text) &&
      h3_vocab_lookup (vocab, text) == id)
    return TRUE;
  token.size = strlen (text);
  if (token.size == 0 || token.size > MAX_SIZE) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: token %" G_GINT64_FORMAT " has %" G_GSIZE_FORMAT
        " bytes, 1 to %d are allowed",
        file, id, token.size, MAX_SIZE);
    return FALSE;
  }
  if (tokens->tokens->len >= MAX_TOKENS) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: more than %d control tokens", file, MAX_TOKENS);
    return FALSE;
  }
  if (!h3_vocab_add (vocab, text, id, file, error))
    return FALSE;
  token.text = g_strdup (text);
  token.id = id;
  g_array_append_val (tokens->tokens, token);
  tokens->first[(guint8) text[0]] = TRUE;
  return TRUE;
}

/* FALSE when @object has @flag set (or not a boolean). */
static gboolean
flag_is_off (JsonObject *object, const gchar *flag, const gchar *of,
    GError **error)
{
  JsonNode *node = json_object_get_member (object, flag);

  if (!node || JSON_NODE_HOLDS_NULL (node) ||
      (json_node_get_value_type (node) == G_TYPE_BOOLEAN &&
          !json_node_get_boolean (node)))
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: %s of %s is set, H3's tokenizer has it false", file, flag, of);
  return FALSE;
}

/* A token is a string, or an object with the string in "content" and flags
 * that change how it is matched. */
static const gchar *
token_text (JsonNode *node, const gchar *of, GError **error)
{
  static const gchar *const flags[] = { "lstrip", "rstrip", "single_word",
    "normalized" };
  const gchar *text = NULL;

  if (JSON_NODE_HOLDS_OBJECT (node)) {
    JsonObject *object = json_node_get_object (node);
    JsonNode *content = json_object_get_member (object, "content");

    for (guint i = 0; i < G_N_ELEMENTS (flags); i++) {
      if (!flag_is_off (object, flags[i], of, error))
        return NULL;
    }
    if (content)
      node = content;
  }
  if (json_node_get_value_type (node) == G_TYPE_STRING)
    text = json_node_get_string (node);
  if (!text)
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s has no text",
        file, of);
  return text;
}

static gboolean
read_added_tokens (H3ControlTokens *tokens, H3Vocab *vocab, JsonObject *config,
    GError **error)
{
  static const gchar member[] = "added_tokens_decoder";
  JsonNode *node = json_object_get_member (config, member);
  JsonObjectIter iter;
  const gchar *key;

  if (!node)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node)) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: %s is not an object", file, member);
    return FALSE;
  }
  json_object_iter_init (&iter, json_node_get_object (node));
  while (json_object_iter_next (&iter, &key, &node)) {
    g_autofree gchar *of = g_strdup_printf ("%s.%s", member, key);
    guint64 id;
    const gchar *text;

    if (!g_ascii_string_to_unsigned (key, 10, 0, G_MAXINT32, &id, NULL)) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: %s: the key is not an id", file, of);
      return FALSE;
    }
    text = token_text (node, of, error);
    if (!text || !add_token (tokens, vocab, text, id, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
read_special_tokens (H3ControlTokens *tokens, H3Vocab *vocab,
    JsonObject *config, GError **error)
{
  static const gchar member[] = "additional_special_tokens";
  JsonNode *node = json_object_get_member (config, member);
  JsonArray *array;

  if (!node || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node)) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: %s is not a list",
        file, member);
    return FALSE;
  }
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++) {
    const gchar *text =
        token_text (json_array_get_element (array, i), member, error);
    gint32 id;

    if (!text)
      return FALSE;
    id = h3_vocab_lookup (vocab, text);
    if (id < 0)
      id = h3_vocab_highest (vocab) + 1;
    if (!add_token (tokens, vocab, text, id, error))
      return FALSE;
  }
  return TRUE;
}

static gint
longer_first (gconstpointer a, gconstpointer b)
{
  const H3ControlToken *x = a, *y = b;

  return (x->size < y->size) - (x->size > y->size);
}

H3ControlTokens *
h3_control_tokens_parse (const gchar *config_json, gsize size, H3Vocab *vocab,
    GError **error)
{
  g_autoptr (H3ControlTokens) tokens = g_new0 (H3ControlTokens, 1);
  g_autoptr (JsonNode) root = NULL;
  JsonObject *config;

  tokens->tokens = g_array_new (FALSE, FALSE, sizeof (H3ControlToken));
  g_array_set_clear_func (tokens->tokens, clear_token);

  root = h3_json_parse (config_json, size, file, error);
  if (!root)
    return NULL;
  config = json_node_get_object (root);
  if (!flag_is_off (config, "add_bos_token", "the tokenizer", error) ||
      !flag_is_off (config, "add_prefix_space", "the tokenizer", error) ||
      !flag_is_off (config, "split_special_tokens", "the tokenizer", error) ||
      !read_added_tokens (tokens, vocab, config, error) ||
      !read_special_tokens (tokens, vocab, config, error))
    return NULL;
  g_array_sort (tokens->tokens, longer_first);
  return g_steal_pointer (&tokens);
}

const H3ControlToken *
h3_control_tokens_lookup (const H3ControlTokens *tokens, const gchar *text)
{
  for (guint i = 0; i < tokens->tokens->len; i++) {
    const H3ControlToken *token =
        &g_array_index (tokens->tokens, H3ControlToken, i);

    if (g_str_equal (token->text, text))
      return token;
  }
  return NULL;
}

const H3ControlToken *
h3_control_tokens_find (const H3ControlTokens *tokens, const gchar *text,
    gsize size, gsize from, gsize *start)
{
  for (gsize i = from; i < size; i++) {
    if (!tokens->first[(guint8) text[i]])
      continue;
    for (guint k = 0; k < tokens->tokens->len; k++) {
      const H3ControlToken *token =
          &g_array_index (tokens->tokens, H3ControlToken, k);

      if (token->size <= size - i &&
          memcmp (text + i, token->text, token->size) == 0) {
        *start = i;
        return token;
      }
    }
  }
  return NULL;
}
