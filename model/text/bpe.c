/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Symbols are what a word is made of while it is merged: 0 to 255 are the
 * bytes, the rest what merges.txt names. They are dense, so that the merges of
 * one left symbol are a short sorted range; ids come out at the end. */
#include "model/text/bpe.h"

#include <string.h>

#define N_BYTES 256

typedef struct {
  guint32 left, right, result;
  guint32 rank;
} Merge;

struct _H3Bpe {
  GArray *ids;    /* gint32, by symbol */
  GArray *merges; /* Merge, by left, then right */
  guint32 *first; /* [symbols + 1]: where a left symbol's merges begin */
};

void
h3_bpe_free (H3Bpe *bpe)
{
  g_array_unref (bpe->ids);
  g_array_unref (bpe->merges);
  g_free (bpe->first);
  g_free (bpe);
}

/* --- merges.txt --- */

typedef struct {
  H3Bpe *bpe;
  const H3Vocab *vocab;
  GHashTable *symbols; /* text in stand-ins -> symbol */
} Reader;

/* Bytes that stand for themselves as a code point (text-encoder.md 2.5). */
static gboolean
is_printable (guint byte)
{
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
         byte >= 0xae;
}

static gboolean
is_stand_in (gunichar c)
{
  return c < 0x100 ? is_printable (c) : c < 0x100 + 68;
}

static gboolean
is_stand_ins (const gchar *text)
{
  for (; *text; text = g_utf8_next_char (text)) {
    if (!is_stand_in (g_utf8_get_char (text)))
      return FALSE;
  }
  return TRUE;
}

/* The symbol spelled @text, a new one when it has none; FALSE when the
 * vocabulary does not have it. */
static gboolean
intern (Reader *reader, const gchar *text, guint32 *symbol)
{
  gpointer known;
  gint32 id;

  if (g_hash_table_lookup_extended (reader->symbols, text, NULL, &known)) {
    *symbol = GPOINTER_TO_UINT (known);
    return TRUE;
  }
  id = h3_vocab_lookup (reader->vocab, text);
  if (id < 0)
    return FALSE;
  *symbol = reader->bpe->ids->len;
  g_array_append_val (reader->bpe->ids, id);
  g_hash_table_insert (reader->symbols, g_strdup (text),
      GUINT_TO_POINTER (*symbol));
  return TRUE;
}

static gboolean
intern_bytes (Reader *reader, GError **error)
{
  gunichar other = 0x100;

  for (guint byte = 0; byte < N_BYTES; byte++) {
    gunichar c = is_printable (byte) ? byte : other++;
    gchar text[7] = { 0 };
    guint32 symbol;

    g_unichar_to_utf8 (c, text);
    if (!intern (reader, text, &symbol)) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "vocab.json: no token for byte 0x%02x (\"%s\")", byte, text);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
line_error (guint line, const gchar *what, GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "merges.txt line %u: %s",
      line, what);
  return FALSE;
}

/* @line is writable and ends with NUL at its length. */
static gboolean
read_merge (Reader *reader, gchar *line, guint number, GError **error)
{
  Merge merge = { .rank = reader->bpe->merges->len };
  gchar *right = strchr (line, ' ');
  g_autofree gchar *joined = NULL;

  if (!right || right == line || !right[1] || strchr (right + 1, ' '))
    return line_error (number, "not two tokens and one space", error);
  *right++ = '\0';
  if (!is_stand_ins (line) || !is_stand_ins (right))
    return line_error (number, "a character that stands for no byte", error);

  joined = g_strconcat (line, right, NULL);
  if (!intern (reader, line, &merge.left) ||
      !intern (reader, right, &merge.right) ||
      !intern (reader, joined, &merge.result)) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "merges.txt line %u: \"%s\", \"%s\" and \"%s\" are not all in "
        "vocab.json",
        number, line, right, joined);
    return FALSE;
  }
  g_array_append_val (reader->bpe->merges, merge);
  return TRUE;
}

static gboolean
read_merges (Reader *reader, const gchar *merges, gsize size, GError **error)
{
  const gchar *end = merges + size;
  guint number = 0;

  while (merges < end) {
    const gchar *newline = memchr (merges, '\n', end - merges);
    gsize length = (newline ? newline : end) - merges;
    g_autofree gchar *line = NULL;

    number++;
    if (!g_utf8_validate_len (merges, length, NULL))
      return line_error (number, "not UTF-8", error);
    line = g_strndup (merges, length);
    if (length > 0 && !(number == 1 && g_str_has_prefix (line, "#version")) &&
        !read_merge (reader, line, number, error))
      return FALSE;
    if (!newline)
      break;
    merges = newline + 1;
  }
  return TRUE;
}

static gint
compare_pairs (gconstpointer a, gconstpointer b)
{
  const Merge *x = a, *y = b;

  if (x->left != y->left)
    return x->left < y->left ? -1 : 1;
  return (x->right > y->right) - (x->right < y->right);
}

static gboolean
index_merges (H3Bpe *bpe, GError **error)
{
  const Merge *merges;
  guint32 symbol = 0;

  g_array_sort (bpe->merges, compare_pairs);
  merges = (const Merge *) (gpointer) bpe->merges->data;
  bpe->first = g_new (guint32, bpe->ids->len + 1);
  for (guint i = 0; i < bpe->merges->len; i++) {
    if (i > 0 && compare_pairs (&merges[i - 1], &merges[i]) == 0) {
      g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
          "merges.txt: merges %u and %u are the same pair",
          MIN (merges[i - 1].rank, merges[i].rank) + 1,
          MAX (merges[i - 1].rank, merges[i].rank) + 1);
      return FALSE;
    }
    while (symbol <= merges[i].left)
      bpe->first[symbol++] = i;
  }
  while (symbol <= bpe->ids->len)
    bpe->first[symbol++] = bpe->merges->len;
  return TRUE;
}

H3Bpe *
h3_bpe_parse (const gchar *merges, gsize size, const H3Vocab *vocab,
    GError **error)
{
  g_autoptr (H3Bpe) bpe = g_new0 (H3Bpe, 1);
  g_autoptr (GHashTable) symbols =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Reader reader = { bpe, vocab, symbols };

  bpe->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  bpe->merges = g_array_new (FALSE, FALSE, sizeof (Merge));
  if (!intern_bytes (&reader, error) ||
      !read_merges (&reader, merges, size, error) || !index_merges (bpe, error))
    return NULL;
  return g_steal_pointer (&bpe);
}

static const Merge *
find_merge (const H3Bpe *bpe, guint32 left, guint32 right)
{
  const Merge *merges = (const Merge *) (gpointer) bpe->merges->data;
  guint32 low = bpe->first[left], high = bpe->first[left + 1];

  while (low < high) {
    guint32 middle = low + (high - low) / 2;

    if (merges[middle].right == right)
      return &merges[middle];
    if (merges[middle].right < right)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* --- one word --- */

#define NONE G_MAXUINT32

/* A pair that may be merged: rank * 2^32 + left, so that a lower key comes
 * first, lowest rank and then leftmost. It is stale when the symbols there have
 * changed since it was found. */
typedef struct {
  guint64 key;
  const Merge *merge;
} Candidate;

/* The word is a list of symbols through @previous and @next, by the byte at
 * which they begin. @heap has the candidates, the first to merge on top. */
struct _H3BpeWork {
  gsize room;
  guint32 *symbol, *previous, *next;
  Candidate *heap;
  gsize heap_size;
};

H3BpeWork *
h3_bpe_work_new (void)
{
  return g_new0 (H3BpeWork, 1);
}

void
h3_bpe_work_free (H3BpeWork *work)
{
  g_free (work->symbol);
  g_free (work->previous);
  g_free (work->next);
  g_free (work->heap);
  g_free (work);
}

/* A word of n bytes has n - 1 pairs at first; each merge takes a candidate
 * away and adds at most two, and there are at most n - 1 merges. */
static gboolean
reserve (H3BpeWork *work, gsize n, GError **error)
{
  gsize room = MAX (n, 64);

  if (room <= work->room)
    return TRUE;
  g_clear_pointer (&work->symbol, g_free);
  g_clear_pointer (&work->previous, g_free);
  g_clear_pointer (&work->next, g_free);
  g_clear_pointer (&work->heap, g_free);
  work->room = 0;
  if (n < NONE / 2) {
    work->symbol = g_try_new (guint32, room);
    work->previous = g_try_new (guint32, room);
    work->next = g_try_new (guint32, room);
    work->heap = g_try_new (Candidate, 2 * room);
  }
  if (!work->symbol || !work->previous || !work->next || !work->heap) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "no memory to encode a word of %" G_GSIZE_FORMAT " bytes", n);
    return FALSE;
  }
  work->room = room;
  return TRUE;
}

static void
push_pair (const H3Bpe *bpe, H3BpeWork *work, guint32 left)
{
  Candidate *heap = work->heap;
  const Merge *merge;
  guint64 key;
  gsize i;

  if (work->next[left] == NONE)
    return;
  merge = find_merge (bpe, work->symbol[left], work->symbol[work->next[left]]);
  if (!merge)
    return;
  key = (guint64) merge->rank << 32 | left;
  for (i = work->heap_size++; i > 0 && key < heap[(i - 1) / 2].key;
       i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = (Candidate){ key, merge };
}

static Candidate
pop (H3BpeWork *work)
{
  Candidate *heap = work->heap;
  const Candidate top = heap[0], last = heap[--work->heap_size];
  gsize i = 0, child;

  while ((child = 2 * i + 1) < work->heap_size) {
    if (child + 1 < work->heap_size && heap[child + 1].key < heap[child].key)
      child++;
    if (last.key <= heap[child].key)
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return top;
}

static gboolean
is_stale (const H3BpeWork *work, const Merge *merge, guint32 left)
{
  const guint32 right = work->next[left];

  return work->symbol[left] != merge->left || right == NONE ||
         work->symbol[right] != merge->right;
}

static void
merge_pair (const H3Bpe *bpe, H3BpeWork *work, const Merge *merge, guint32 left)
{
  const guint32 right = work->next[left];

  work->symbol[left] = merge->result;
  work->symbol[right] = NONE;
  work->next[left] = work->next[right];
  if (work->next[left] != NONE)
    work->previous[work->next[left]] = left;

  if (work->previous[left] != NONE)
    push_pair (bpe, work, work->previous[left]);
  push_pair (bpe, work, left);
}

gboolean
h3_bpe_encode (const H3Bpe *bpe, H3BpeWork *work, const guint8 *word, gsize n,
    GArray *ids, GError **error)
{
  if (n == 0)
    return TRUE;
  if (!reserve (work, n, error))
    return FALSE;
  for (gsize i = 0; i < n; i++) {
    work->symbol[i] = word[i];
    work->previous[i] = i > 0 ? i - 1 : NONE;
    work->next[i] = i + 1 < n ? i + 1 : NONE;
  }
  work->heap_size = 0;
  for (gsize i = 0; i < n; i++)
    push_pair (bpe, work, i);

  while (work->heap_size > 0) {
    const Candidate candidate = pop (work);
    const guint32 left = candidate.key & G_MAXUINT32;

    if (!is_stale (work, candidate.merge, left))
      merge_pair (bpe, work, candidate.merge, left);
  }

  for (guint32 i = 0; i != NONE; i = work->next[i])
    g_array_append_val (ids, g_array_index (bpe->ids, gint32, work->symbol[i]));
  return TRUE;
}
