/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Graphics cards for tests: the CPU computes, but their memory is not the
 * host's, is limited and counted, and can fail. */
#pragma once

#include "gst/gsth3runtime.h"

G_BEGIN_DECLS

#define N_CARDS 8

typedef struct {
  gsize capacity, used, peak;
  gsize host_capacity, host_used;
  guint uploads, downloads, products;
  gint refuse;       /* alloc says no, whatever memory_info says */
  guint break_after; /* the product with this number fails for good; 0: none */
  /* called as attention or a convolution of clips begins; NULL: nothing is */
  void (*begins) (gpointer user_data);
  gpointer user_data;
  gint cancelled; /* of those, which ended because they were to stop */
} Card;

/* By their ordinal. */
extern Card cards[N_CARDS];

/* From here on GPUs are these; capacity 0 is unlimited. */
void cards_insert (void);
/* Everything as new, but for what is allocated. */
void card_reset (Card *card, gsize capacity);

G_END_DECLS
