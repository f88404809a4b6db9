/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of the checkpoint tests: each file adds its own. */
#pragma once

#include "h3-test.h"

void add_safetensors_tests (void);
void add_config_tests (void);
void add_tensor_set_tests (void);
void add_component_tests (void);
void add_loader_tests (void);
void add_gguf_tests (void);
void add_gguf_load_tests (void);
void add_reader_tests (void);
void add_quantised_tests (void);
void add_damaged_tests (void);
void add_generator_tests (void);
void add_layout_tests (void);
void add_detect_tests (void);

/* A safetensors file: @header and @payload zero bytes. Free with g_free(). */
guint8 *build_file (const gchar *header, gsize payload, gsize *size);
/* The same with given payload, to @path. */
void write_safetensors (const gchar *path, const gchar *header,
    gconstpointer payload, gsize n);
