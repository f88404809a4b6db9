/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an application or another plugin needs to make or read H3's streams:
 * caps, tensor memory, the facts of a clip, progress messages. */
#pragma once

#include <gst/h3/gsth3caps.h>
#include <gst/h3/gsth3job.h>
#include <gst/h3/gsth3memory.h>
#include <gst/h3/gsth3message.h>
