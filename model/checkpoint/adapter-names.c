/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/adapter-names.h"

#include <string.h>

/* Keys */

void
h3_adapter_key_parse (const gchar *name, H3AdapterKey *key)
{
  static const struct {
    const gchar *suffix;
    H3AdapterRole role;
    gboolean infix;
  } suffixes[] = {
    { ".lora_A.weight", H3_ADAPTER_DOWN, FALSE },
    { ".lora_B.weight", H3_ADAPTER_UP, FALSE },
    { ".lora_down.weight", H3_ADAPTER_DOWN, FALSE },
    { ".lora_up.weight", H3_ADAPTER_UP, FALSE },
    { ".lora_A.default.weight", H3_ADAPTER_DOWN, TRUE },
    { ".lora_B.default.weight", H3_ADAPTER_UP, TRUE },
    { ".alpha", H3_ADAPTER_ALPHA, FALSE },
    { ".dora_scale", H3_ADAPTER_DORA, FALSE },
    { ".diff", H3_ADAPTER_REPLACES, FALSE },
    { ".diff_b", H3_ADAPTER_REPLACES, FALSE },
    { ".set_weight", H3_ADAPTER_REPLACES, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++)
    if (g_str_has_suffix (name, suffixes[i].suffix)) {
      key->role = suffixes[i].role;
      key->infix = suffixes[i].infix;
      key->module = strlen (name) - strlen (suffixes[i].suffix);
      return;
    }
  *key = (H3AdapterKey){ .role = H3_ADAPTER_UNKNOWN };
}

/* Modules */

/* '#' stands for a block's number; part -1: the whole. */
typedef struct {
  const gchar *official, *diffusers;
  gint part;
  gboolean swapped, activated;
} Word;

/* Of a block and of the refiner's. */
#define BLOCK(official, diffusers)                                             \
  { official "attn.qkv_proj", NULL, -1, FALSE, FALSE },                        \
      { official "attn.qkv_proj", diffusers "attn.to_q", 0, FALSE, FALSE },    \
      { official "attn.qkv_proj", diffusers "attn.to_k", 1, FALSE, FALSE },    \
      { official "attn.qkv_proj", diffusers "attn.to_v", 2, FALSE, FALSE },    \
      { official "attn.out_proj", diffusers "attn.to_out.0", -1, FALSE,        \
        FALSE },                                                               \
      { official "mlp.fc1", diffusers "ff.net.0.proj", -1, TRUE, FALSE },      \
  {                                                                            \
    official "mlp.fc2", diffusers "ff.net.2", -1, FALSE, FALSE                 \
  }

static const Word vocabulary[] = {
  BLOCK ("blocks.#.", "transformer_blocks.#."),
  BLOCK ("token_refiner.blocks.#.", "token_refiner.refiner_blocks.#."),
  { "blocks.#.adaln_proj.linear", "transformer_blocks.#.adaln_proj.linear", -1,
      FALSE, FALSE },
  { "video_patch_proj", "proj_in", -1, FALSE, FALSE },
  { "audio_patch_proj", "audio_proj_in", -1, FALSE, FALSE },
  { "condition_proj", "context_embedder", -1, FALSE, FALSE },
  { "time_embedder.proj_in", "time_embedder.linear_1", -1, FALSE, TRUE },
  { "time_embedder.proj_out", "time_embedder.linear_2", -1, FALSE, TRUE },
  { "final_layer.adaln_proj.linear", "norm_out.linear", -1, FALSE, FALSE },
  { "final_layer.video_out", "proj_out", -1, FALSE, FALSE },
  { "final_layer.audio_out", "audio_proj_out", -1, FALSE, FALSE },
};

/* Whether @text is @word with @dot for every '.'; the number in it as text. */
static gboolean
is_word (const gchar *text, gsize n, const gchar *word, gchar dot,
    const gchar **number, gsize *n_number)
{
  const gchar *end = text + n;

  *number = NULL;
  *n_number = 0;
  for (; *word; word++) {
    if (*word == '#') {
      *number = text;
      while (text < end && g_ascii_isdigit (*text))
        text++;
      *n_number = text - *number;
      /* as it is written: "007" would be another name of block 7 */
      if (*n_number == 0 || (**number == '0' && *n_number > 1))
        return FALSE;
    } else if (text == end || *text++ != (*word == '.' ? dot : *word)) {
      return FALSE;
    }
  }
  return text == end;
}

static gchar *
with_number (const gchar *word, const gchar *number, gsize n)
{
  const gchar *at = strchr (word, '#');
  GString *name = g_string_new (word);

  if (at) {
    g_string_erase (name, at - word, 1);
    g_string_insert_len (name, at - word, number, n);
  }
  return g_string_free (name, FALSE);
}

static gboolean
find_word (const gchar *text, gsize n, gchar dot, H3AdapterModule *module)
{
  const gchar *number;
  gsize n_number;

  for (guint i = 0; i < G_N_ELEMENTS (vocabulary); i++) {
    const Word *word = &vocabulary[i];
    gboolean official = word->part < 0 && is_word (text, n, word->official, dot,
                                              &number, &n_number);

    if (!official && (!word->diffusers || !is_word (text, n, word->diffusers,
                                              dot, &number, &n_number)))
      continue;
    module->name = with_number (word->official, number, n_number);
    module->part = word->part;
    module->activated = word->activated;
    module->swapped = !official && word->swapped;
    module->names =
        official ? H3_ADAPTER_NAMES_OFFICIAL : H3_ADAPTER_NAMES_DIFFUSERS;
    return TRUE;
  }
  return FALSE;
}

static gboolean
skip (const gchar **text, gsize *n, const gchar *prefix)
{
  gsize length = strlen (prefix);

  if (*n < length || memcmp (*text, prefix, length) != 0)
    return FALSE;
  *text += length;
  *n -= length;
  return TRUE;
}

gboolean
h3_adapter_module_parse (const gchar *name, gsize n, H3AdapterModule *module)
{
  static const gchar *const prefixes[] = { "model.diffusion_model.",
    "diffusion_model.", "transformer_ref.", "transformer." };

  *module = (H3AdapterModule){ .part = -1 };
  skip (&name, &n, "base_model.model.");
  if (skip (&name, &n, "lora_unet_")) {
    module->prefixed = TRUE;
    if (!find_word (name, n, '_', module))
      return FALSE;
    if (module->names == H3_ADAPTER_NAMES_OFFICIAL)
      module->names = H3_ADAPTER_NAMES_FLAT;
    return TRUE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (prefixes) && !module->prefixed; i++)
    module->prefixed = skip (&name, &n, prefixes[i]);
  return find_word (name, n, '.', module);
}
