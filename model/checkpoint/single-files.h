/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A folder of single files, as ComfyUI has them: which is which component
 * (checkpoints.md 4.1). */
#pragma once

#include "model/checkpoint/checkpoint.h"

G_BEGIN_DECLS

/* Whether @dir has ComfyUI's folders, or files of weights without an index that
 * are more than one component's. */
gboolean h3_single_files_likely (const gchar *dir);

/**
 * h3_single_files_find:
 * @partition: of the transformer that is wanted
 * @files: (out): the file of each component, or NULL; g_free() each
 * @refusals: (out): why a component that has no file has none, where there is
 *   more to say than that; g_free() each
 * @damaged: (inout): of a file that cannot be read, or is no whole download, and
 *   why; or NULL; g_free() it
 *
 * Opens every *.safetensors and *.gguf of @dir and of ComfyUI's folders in it. FALSE when
 * none of them is a component.
 */
gboolean h3_single_files_find (const gchar *dir, H3Partition partition,
    gchar *files[H3_N_COMPONENTS], gchar *refusals[H3_N_COMPONENTS],
    gchar **damaged);

/* Where the tokenizer of the text encoder @file is: its folder, tokenizer/ in
 * it, or tokenizer/ beside it. NULL when there is none; g_free() it. */
gchar *h3_single_file_tokenizer (const gchar *file);
/* Whether @dir has a tokenizer's files. */
gboolean h3_holds_tokenizer (const gchar *dir);

G_END_DECLS
