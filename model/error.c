/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/error.h"

/* clang-format off */
G_DEFINE_QUARK (h3-error-quark, h3_error)
/* clang-format on */

gboolean
h3_stop_requested (const H3Stop *stop, GError **error)
{
  if (!stop || !stop->should_stop || !stop->should_stop (stop->user_data))
    return FALSE;
  g_set_error (error, H3_ERROR, H3_ERROR_CANCELLED, "cancelled");
  return TRUE;
}
