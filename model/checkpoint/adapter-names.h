/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names in adapters' files (denoiser.md 8.2, checkpoints.md 7.1). Private to
 * model/checkpoint. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What a key holds of its module. */
typedef enum {
  H3_ADAPTER_DOWN, /* A [rank, in] */
  H3_ADAPTER_UP,   /* B [out, rank] */
  H3_ADAPTER_ALPHA,
  H3_ADAPTER_DORA,     /* a magnitude that is left out */
  H3_ADAPTER_REPLACES, /* a weight, or a difference to one, as a whole */
  H3_ADAPTER_UNKNOWN,
} H3AdapterRole;

/**
 * H3AdapterKey:
 * @module: bytes of the key that name the module
 * @infix: peft's ".default" is in it
 */
typedef struct {
  H3AdapterRole role;
  gsize module;
  gboolean infix;
} H3AdapterKey;

void h3_adapter_key_parse (const gchar *name, H3AdapterKey *key);

typedef enum {
  H3_ADAPTER_NAMES_OFFICIAL,
  H3_ADAPTER_NAMES_FLAT, /* official ones with _ for . after lora_unet_ */
  H3_ADAPTER_NAMES_DIFFUSERS,
} H3AdapterNames;

/**
 * H3AdapterModule:
 * @name: the official one, "blocks.3.attn.qkv_proj"; g_free() it
 * @part: of fused q, k, v: 0, 1, 2; -1: all of the module
 * @swapped: its rows are [value; gate]
 * @activated: the transformer applies an activation to its result
 * @prefixed: with what its writer puts before the names
 */
typedef struct {
  gchar *name;
  gint part;
  gboolean swapped, activated, prefixed;
  H3AdapterNames names;
} H3AdapterModule;

/* The first @n bytes of @name, in any of the layouts; also the names of the
 * transformer's own tensors without ".weight". FALSE when it is none of its
 * linear layers. */
gboolean h3_adapter_module_parse (const gchar *name, gsize n,
    H3AdapterModule *module);

G_END_DECLS
