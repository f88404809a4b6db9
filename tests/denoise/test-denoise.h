/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of the two test programs of this folder. */
#pragma once

#include "h3-test.h"

G_BEGIN_DECLS

/* of the program "sampling" */
void h3_test_add_geometry (void);
void h3_test_add_noise (void);
void h3_test_add_packing (void);
void h3_test_add_schedule (void);
void h3_test_add_solver (void);

/* of the program "transformer" */
void h3_test_add_transformer (void);
void h3_test_add_denoise (void);
void h3_test_add_checkpoint_errors (void);

G_END_DECLS
