/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gsth3job.h"

void
gst_h3_job_meta_init (void)
{
  static gsize once;

  if (g_once_init_enter (&once)) {
    /* no tags: base classes copy it from input to output */
    const gchar *tags[] = { NULL };

    if (!gst_meta_get_info (GST_H3_JOB_META_NAME))
      gst_meta_register_custom (GST_H3_JOB_META_NAME, tags, NULL, NULL, NULL);
    g_once_init_leave (&once, 1);
  }
}

void
gst_h3_buffer_add_job (GstBuffer *buffer, const GstStructure *job)
{
  GstCustomMeta *meta;
  GstStructure *structure;

  g_return_if_fail (gst_buffer_is_writable (buffer));

  gst_h3_job_meta_init ();
  meta = gst_buffer_get_custom_meta (buffer, GST_H3_JOB_META_NAME);
  if (!meta)
    meta = gst_buffer_add_custom_meta (buffer, GST_H3_JOB_META_NAME);
  structure = gst_custom_meta_get_structure (meta);
  gst_structure_remove_all_fields (structure);
  for (gint i = 0; i < gst_structure_n_fields (job); i++) {
    const gchar *field = gst_structure_nth_field_name (job, i);

    gst_structure_set_value (structure, field,
        gst_structure_get_value (job, field));
  }
}

const GstStructure *
gst_h3_buffer_get_job (GstBuffer *buffer)
{
  GstCustomMeta *meta;

  gst_h3_job_meta_init ();
  meta = gst_buffer_get_custom_meta (buffer, GST_H3_JOB_META_NAME);
  return meta ? gst_custom_meta_get_structure (meta) : NULL;
}
