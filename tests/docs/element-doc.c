/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* element-doc PAGE.md [--write]: what gst-inspect-1.0 shows of an element, as
 * Markdown, between the markers `<!-- inspect NAME -->` and `<!-- end -->` of a
 * page. Without --write it only compares, so a test can see that the page is
 * what the elements are. */
#include <gst/gst.h>
#include <stdio.h>
#include <string.h>

static const gchar *
when_mutable (GParamSpec *spec)
{
  if (!(spec->flags & G_PARAM_WRITABLE))
    return "read only";
  if (spec->flags & G_PARAM_CONSTRUCT_ONLY)
    return "at creation";
  if (spec->flags & GST_PARAM_MUTABLE_PLAYING)
    return "always";
  if (spec->flags & GST_PARAM_MUTABLE_PAUSED)
    return "up to PAUSED";
  return "in NULL and READY";
}

static void
append_enum (GString *out, GParamSpec *spec)
{
  GEnumClass *class = G_PARAM_SPEC_ENUM (spec)->enum_class;
  const GEnumValue *def =
      g_enum_get_value (class, G_PARAM_SPEC_ENUM (spec)->default_value);

  g_string_append_printf (out, "one of ");
  for (guint i = 0; i < class->n_values; i++)
    g_string_append_printf (out, "%s`%s` (%s)", i ? ", " : "",
        class->values[i].value_nick, class->values[i].value_name);
  g_string_append_printf (out, " | `%s`", def ? def->value_nick : "?");
}

#define RANGE(T, t, format, cast)                                              \
  if (G_IS_PARAM_SPEC_##T (spec)) {                                            \
    GParamSpec##t *s = G_PARAM_SPEC_##T (spec);                                \
    g_string_append_printf (out, format " to " format " | `" format "`",       \
        (cast) s->minimum, (cast) s->maximum, (cast) s->default_value);        \
    return;                                                                    \
  }

/* "range | default" */
static void
append_type (GString *out, GParamSpec *spec)
{
  if (G_IS_PARAM_SPEC_ENUM (spec)) {
    append_enum (out, spec);
    return;
  }
  if (G_IS_PARAM_SPEC_BOOLEAN (spec)) {
    g_string_append_printf (out, "true or false | `%s`",
        G_PARAM_SPEC_BOOLEAN (spec)->default_value ? "true" : "false");
    return;
  }
  if (G_IS_PARAM_SPEC_STRING (spec)) {
    const gchar *def = G_PARAM_SPEC_STRING (spec)->default_value;
    g_string_append (out, "text | ");
    if (def)
      g_string_append_printf (out, "`%s`", def);
    else
      g_string_append (out, "none");
    return;
  }
  if (GST_IS_PARAM_SPEC_FRACTION (spec)) {
    GstParamSpecFraction *s = GST_PARAM_SPEC_FRACTION (spec);
    g_string_append_printf (out, "%d/%d to %d/%d | `%d/%d`", s->min_num,
        s->min_den, s->max_num, s->max_den, s->def_num, s->def_den);
    return;
  }
  RANGE (INT, Int, "%d", gint)
  RANGE (UINT, UInt, "%u", guint)
  RANGE (INT64, Int64, "%lld", long long)
  RANGE (UINT64, UInt64, "%llu", unsigned long long)
  RANGE (DOUBLE, Double, "%g", gdouble)
  RANGE (FLOAT, Float, "%g", gdouble)
  g_string_append_printf (out, "%s | ", g_type_name (spec->value_type));
}

static void
append_cell (GString *out, const gchar *text)
{
  for (; text && *text; text++) {
    if (*text == '|')
      g_string_append_c (out, '\\');
    g_string_append_c (out, *text == '\n' ? ' ' : *text);
  }
}

static gint
by_name (gconstpointer a, gconstpointer b)
{
  return strcmp ((*(GParamSpec **) a)->name, (*(GParamSpec **) b)->name);
}

static void
append_properties (GString *out, GObjectClass *class)
{
  guint n;
  g_autofree GParamSpec **specs = g_object_class_list_properties (class, &n);

  qsort (specs, n, sizeof *specs, by_name);
  g_string_append (out, "| property | what | values | default | may change |\n"
                        "|---|---|---|---|---|\n");
  for (guint i = 0; i < n; i++) {
    GType owner = specs[i]->owner_type;

    if (!g_str_has_prefix (g_type_name (owner), "GstH3"))
      continue;
    g_string_append_printf (out, "| `%s` | ", specs[i]->name);
    append_cell (out, g_param_spec_get_blurb (specs[i]));
    g_string_append (out, " | ");
    append_type (out, specs[i]);
    g_string_append_printf (out, " | %s |\n", when_mutable (specs[i]));
  }
  g_string_append_c (out, '\n');
}

static gint
by_template_name (gconstpointer a, gconstpointer b)
{
  return strcmp (((const GstStaticPadTemplate *) a)->name_template,
      ((const GstStaticPadTemplate *) b)->name_template);
}

/* Sorted: a registry read from its cache has them the other way round. */
static void
append_pads (GString *out, GstElementFactory *factory)
{
  g_autoptr (GList) templates =
      g_list_sort (g_list_copy (
                       (GList *) gst_element_factory_get_static_pad_templates (
                           factory)),
          by_template_name);

  for (GList *l = templates; l; l = l->next) {
    GstStaticPadTemplate *t = l->data;
    g_autoptr (GstCaps) caps = gst_static_pad_template_get_caps (t);
    const gchar *when = t->presence == GST_PAD_ALWAYS    ? "always"
                        : t->presence == GST_PAD_REQUEST ? "on request"
                                                         : "sometimes";

    g_string_append_printf (out, "Pad `%s` (%s, %s):\n\n```\n",
        t->name_template, t->direction == GST_PAD_SINK ? "sink" : "source",
        when);
    for (guint i = 0; i < gst_caps_get_size (caps); i++) {
      g_autofree gchar *s =
          gst_structure_to_string (gst_caps_get_structure (caps, i));
      GstCapsFeatures *f = gst_caps_get_features (caps, i);

      s[strlen (s) - 1] = '\0';
      if (f && !gst_caps_features_is_equal (f,
                   GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY)) {
        g_autofree gchar *fs = gst_caps_features_to_string (f);
        gchar *comma = strchr (s, ',');
        g_string_append_printf (out, "%.*s(%s)%s\n",
            (gint) (comma ? comma - s : (gint) strlen (s)), s, fs,
            comma ? comma : "");
      } else {
        g_string_append_printf (out, "%s\n", s);
      }
    }
    g_string_append (out, "```\n\n");
  }
}

/* Its own, then those of the classes of ours that it is made from. */
static void
append_signals (GString *out, GType type)
{
  guint n;
  g_autofree guint *ids = g_signal_list_ids (type, &n);
  GType parent = g_type_parent (type);

  for (guint i = 0; i < n; i++) {
    GSignalQuery q;

    g_signal_query (ids[i], &q);
    g_string_append_printf (out, "%s `%s` (",
        q.signal_flags & G_SIGNAL_ACTION ? "Action" : "Signal", q.signal_name);
    for (guint k = 0; k < q.n_params; k++)
      g_string_append_printf (out, "%s%s", k ? ", " : "",
          g_type_name (q.param_types[k] & ~G_SIGNAL_TYPE_STATIC_SCOPE));
    g_string_append_printf (out, ") → %s\n\n", g_type_name (q.return_type));
  }
  if (g_str_has_prefix (g_type_name (parent), "GstH3"))
    append_signals (out, parent);
}

static gchar *
describe (const gchar *name)
{
  g_autoptr (GstElementFactory) factory = gst_element_factory_find (name);
  g_autoptr (GstElement) element = NULL;
  GString *out;

  if (!factory || !(element = gst_element_factory_create (factory, NULL)))
    return NULL;
  gst_object_ref_sink (element);
  out = g_string_new (NULL);
  g_string_append_printf (out, "*%s*: %s. Class `%s`.\n\n",
      gst_element_factory_get_metadata (factory, GST_ELEMENT_METADATA_LONGNAME),
      gst_element_factory_get_metadata (factory,
          GST_ELEMENT_METADATA_DESCRIPTION),
      gst_element_factory_get_metadata (factory, GST_ELEMENT_METADATA_KLASS));
  append_pads (out, factory);
  append_properties (out, G_OBJECT_GET_CLASS (element));
  append_signals (out, G_OBJECT_TYPE (element));
  return g_string_free (out, FALSE);
}

/* The page with every marked block made anew; NULL when an element is missing. */
static gchar *
renew (const gchar *page)
{
  const gchar begin[] = "<!-- inspect ", end[] = "<!-- end -->";
  GString *out = g_string_new (NULL);
  const gchar *p = page, *b;

  while ((b = strstr (p, begin))) {
    const gchar *name = b + strlen (begin);
    const gchar *name_end = strstr (name, " -->");
    const gchar *block_end = name_end ? strstr (name_end, end) : NULL;
    g_autofree gchar *element = NULL, *text = NULL;

    if (!block_end) {
      fprintf (stderr, "a marker at byte %ld has no end\n", (long) (b - page));
      g_string_free (out, TRUE);
      return NULL;
    }
    element = g_strndup (name, name_end - name);
    text = describe (element);
    if (!text) {
      fprintf (stderr, "no element %s\n", element);
      g_string_free (out, TRUE);
      return NULL;
    }
    g_string_append_len (out, p, name_end + strlen (" -->") - p);
    g_string_append_printf (out, "\n%s", text);
    p = block_end;
  }
  g_string_append (out, p);
  return g_string_free (out, FALSE);
}

static void
print_first_difference (const gchar *is, const gchar *should)
{
  g_auto (GStrv) a = g_strsplit (is, "\n", -1);
  g_auto (GStrv) b = g_strsplit (should, "\n", -1);

  for (guint i = 0; a[i] || b[i]; i++) {
    if (g_strcmp0 (a[i], b[i]) != 0) {
      fprintf (stderr, "line %u\n  page:    %s\n  element: %s\n", i + 1,
          a[i] ? a[i] : "(end)", b[i] ? b[i] : "(end)");
      return;
    }
    if (!a[i] || !b[i])
      return;
  }
}

#define CUDA_MEMORY "video/x-raw(memory:CUDAMemory)"

/* The page describes a build with -Dgstcuda; in one without it, those lines of a
 * pad's caps are not missed. */
static gchar *
without_cuda_memory (const gchar *page)
{
  g_auto (GStrv) lines = g_strsplit (page, "\n", -1);
  GString *out = g_string_new (NULL);

  for (guint i = 0; lines[i]; i++)
    if (!g_str_has_prefix (lines[i], CUDA_MEMORY))
      g_string_append_printf (out, "%s%s", i ? "\n" : "", lines[i]);
  return g_string_free (out, FALSE);
}

int
main (int argc, char **argv)
{
  g_autofree gchar *page = NULL, *fresh = NULL;
  g_autoptr (GError) error = NULL;

  gst_init (&argc, &argv);
  if (argc < 2) {
    fprintf (stderr, "usage: %s PAGE.md [--write]\n", argv[0]);
    return 2;
  }
  if (!g_file_get_contents (argv[1], &page, NULL, &error)) {
    fprintf (stderr, "%s\n", error->message);
    return 2;
  }
  if (!strstr (page, "<!-- inspect ")) {
    fprintf (stderr, "%s: no <!-- inspect NAME --> marker\n", argv[1]);
    return 1;
  }
  if (!(fresh = renew (page)))
    return 1;
  if (!strstr (fresh, "\n" CUDA_MEMORY) && strstr (page, "\n" CUDA_MEMORY)) {
    gchar *all = g_steal_pointer (&page);

    page = without_cuda_memory (all);
    g_free (all);
    if (argc > 2) {
      fprintf (stderr, "this build has no gstcuda: %s would lose lines\n",
          argv[1]);
      return 1;
    }
  }
  if (argc > 2 && g_str_equal (argv[2], "--write")) {
    if (!g_file_set_contents (argv[1], fresh, -1, &error)) {
      fprintf (stderr, "%s\n", error->message);
      return 1;
    }
    return 0;
  }
  if (g_str_equal (page, fresh))
    return 0;
  fprintf (stderr,
      "%s is not what the elements are; renew it with\n"
      "  %s %s --write\n",
      argv[1], argv[0], argv[1]);
  print_first_difference (page, fresh);
  return 1;
}
