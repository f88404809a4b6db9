/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/text/vocab.h"

#include "model/checkpoint/json-file.h"

/* Far above any vocabulary, far below an overflow. */
#define MAX_ID (1 << 24)

struct _H3Vocab {
  GHashTable *ids;    /* token -> id */
  GHashTable *tokens; /* id -> token, owned by ids */
  gint32 highest;
};

gint32
h3_vocab_lookup (const H3Vocab *vocab, const gchar *token)
{
  gpointer id;

  if (!g_hash_table_lookup_extended (vocab->ids, token, NULL, &id))
    return -1;
  return GPOINTER_TO_INT (id);
}

gint32
h3_vocab_highest (const H3Vocab *vocab)
{
  return vocab->highest;
}

gboolean
h3_vocab_add (H3Vocab *vocab, const gchar *token, gint64 id, const gchar *file,
    GError **error)
{
  const gchar *other;
  gchar *key;
  gint32 known = h3_vocab_lookup (vocab, token);

  if (id < 0 || id >= MAX_ID) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: token \"%s\" has id %" G_GINT64_FORMAT ", ids are 0 to %d", file,
        token, id, MAX_ID - 1);
    return FALSE;
  }
  if (known == id)
    return TRUE;
  if (known >= 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: token \"%s\" has id %" G_GINT64_FORMAT " and id %d", file, token,
        id, known);
    return FALSE;
  }
  other = g_hash_table_lookup (vocab->tokens, GINT_TO_POINTER ((gint) id));
  if (other) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tokens \"%s\" and \"%s\" have the same id %" G_GINT64_FORMAT, file,
        other, token, id);
    return FALSE;
  }

  key = g_strdup (token);
  g_hash_table_insert (vocab->ids, key, GINT_TO_POINTER ((gint) id));
  g_hash_table_insert (vocab->tokens, GINT_TO_POINTER ((gint) id), key);
  vocab->highest = MAX (vocab->highest, (gint32) id);
  return TRUE;
}

void
h3_vocab_free (H3Vocab *vocab)
{
  g_hash_table_unref (vocab->tokens);
  g_hash_table_unref (vocab->ids);
  g_free (vocab);
}

H3Vocab *
h3_vocab_parse (const gchar *json, gsize size, GError **error)
{
  static const gchar file[] = "vocab.json";
  g_autoptr (H3Vocab) vocab = g_new0 (H3Vocab, 1);
  g_autoptr (JsonNode) root = NULL;
  JsonObjectIter iter;
  const gchar *token;
  JsonNode *node;

  vocab->ids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  vocab->tokens = g_hash_table_new (NULL, NULL);
  vocab->highest = -1;

  root = h3_json_parse (json, size, file, error);
  if (!root)
    return NULL;
  json_object_iter_init (&iter, json_node_get_object (root));
  while (json_object_iter_next (&iter, &token, &node)) {
    if (json_node_get_value_type (node) != G_TYPE_INT64) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "%s: the id of token \"%s\" is not an integer", file, token);
      return NULL;
    }
    if (!h3_vocab_add (vocab, token, json_node_get_int (node), file, error))
      return NULL;
  }
  return g_steal_pointer (&vocab);
}
