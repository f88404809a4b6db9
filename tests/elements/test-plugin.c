/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The plugin as gst-inspect-1.0 shows it: what registers, and that every
 * element, pad and property says what it is. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <link.h>

#include <gst/gst.h>
#include <string.h>

typedef struct {
  const gchar *name, *klass;
} Element;

static const Element elements[] = {
  { "h3src", "Source/Audio/Video" },
  { "h3textenc", "Filter/Converter/Text" },
  { "h3denoise", "Filter/Generator/Audio/Video" },
  { "h3videovae", "Codec/Decoder/Video" },
  { "h3audiovae", "Codec/Decoder/Audio" },
  { "h3videovaeenc", "Codec/Encoder/Video" },
  { "h3audiovaeenc", "Codec/Encoder/Audio" },
};

static void
test_features (void)
{
  GstRegistry *registry = gst_registry_get ();
  g_autoptr (GstPlugin) plugin = gst_registry_find_plugin (registry, "h3");
  GList *features = gst_registry_get_feature_list_by_plugin (registry, "h3");

  g_assert_nonnull (plugin);
  g_assert_cmpstr (gst_plugin_get_license (plugin), ==, "LGPL");
  g_assert_cmpuint (g_list_length (features), ==, G_N_ELEMENTS (elements));
  for (guint i = 0; i < G_N_ELEMENTS (elements); i++)
    g_assert_true (gst_registry_check_feature_version (registry,
        elements[i].name, 0, 1, 0));
  gst_plugin_feature_list_free (features);
}

static void
check_metadata (GstElementFactory *factory, const gchar *klass)
{
  static const gchar *const keys[] = { GST_ELEMENT_METADATA_LONGNAME,
    GST_ELEMENT_METADATA_DESCRIPTION, GST_ELEMENT_METADATA_AUTHOR };

  g_assert_cmpstr (gst_element_factory_get_metadata (factory,
                       GST_ELEMENT_METADATA_KLASS),
      ==, klass);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++) {
    const gchar *text = gst_element_factory_get_metadata (factory, keys[i]);

    g_assert_nonnull (text);
    g_assert_cmpuint (strlen (text), >, 5);
  }
  /* nobody wants a 60 GB model plugged in by itself */
  g_assert_cmpuint (gst_plugin_feature_get_rank (GST_PLUGIN_FEATURE (factory)),
      ==, GST_RANK_NONE);
}

static void
check_pads (GstElementFactory *factory)
{
  for (const GList *l = gst_element_factory_get_static_pad_templates (factory);
       l; l = l->next) {
    GstStaticPadTemplate *template = l->data;
    g_autoptr (GstCaps) caps = gst_static_pad_template_get_caps (template);

    g_assert_false (gst_caps_is_any (caps));
    g_assert_false (gst_caps_is_empty (caps));
  }
}

static void
check_enum (const GParamSpec *spec)
{
  GEnumClass *values = G_PARAM_SPEC_ENUM (spec)->enum_class;

  for (guint i = 0; i < values->n_values; i++) {
    const GEnumValue *value = &values->values[i];
    g_autofree gchar *lower = g_ascii_strdown (value->value_nick, -1);

    g_assert_cmpstr (value->value_nick, ==, lower);
    /* a description, not the nick once more */
    g_assert_nonnull (strchr (value->value_name, ' '));
  }
}

static guint
count_mutable (const GParamSpec *spec)
{
  return !!(spec->flags & GST_PARAM_MUTABLE_READY) +
         !!(spec->flags & GST_PARAM_MUTABLE_PAUSED) +
         !!(spec->flags & GST_PARAM_MUTABLE_PLAYING);
}

static void
check_property (GObject *element, GParamSpec *spec)
{
  const gchar *blurb = g_param_spec_get_blurb (spec);
  GValue value = G_VALUE_INIT;

  g_test_message ("%s", spec->name);
  g_assert_cmpuint (strlen (g_param_spec_get_nick (spec)), >, 0);
  g_assert_true (g_str_has_suffix (blurb, "."));
  g_assert_false (spec->flags & GST_PARAM_CONTROLLABLE);
  if (G_IS_PARAM_SPEC_ENUM (spec))
    check_enum (spec);
  if (!(spec->flags & G_PARAM_WRITABLE))
    return;
  g_assert_cmpuint (count_mutable (spec), ==, 1);
  g_value_init (&value, spec->value_type);
  g_object_get_property (element, spec->name, &value);
  g_assert_true (g_param_value_defaults (spec, &value));
  /* what it gives it takes */
  g_object_set_property (element, spec->name, &value);
  g_value_unset (&value);
}

static void
check_properties (GObject *element)
{
  guint n, ours = 0;
  g_autofree GParamSpec **specs =
      g_object_class_list_properties (G_OBJECT_GET_CLASS (element), &n);

  for (guint i = 0; i < n; i++) {
    if (!g_str_has_prefix (g_type_name (specs[i]->owner_type), "GstH3"))
      continue;
    check_property (element, specs[i]);
    ours++;
  }
  g_assert_cmpuint (ours, >=, 6);
}

static void
test_element (gconstpointer data)
{
  const Element *expected = data;
  g_autoptr (GstElementFactory) factory =
      gst_element_factory_find (expected->name);
  g_autoptr (GstElement) element = NULL;

  g_assert_nonnull (factory);
  check_metadata (factory, expected->klass);
  check_pads (factory);
  element = gst_element_factory_create (factory, NULL);
  g_assert_nonnull (element);
  gst_object_ref_sink (element);
  check_properties (G_OBJECT (element));
}

static gint
find_cuda (struct dl_phdr_info *info, size_t size, void *found)
{
  static const gchar *const names[] = { "libcuda.so", "libgstcuda", "libgstgl",
    "libcublas", "libcudnn", "libnccl", "libh3cuda", "libh3gstcuda" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (strstr (info->dlpi_name, names[i]))
      *(const gchar **) found = names[i];
  return 0;
}

/* Nor does it need what only a GPU needs: it loads where that is absent. */
static void
test_no_cuda_libraries (void)
{
  const gchar *found = NULL;
  g_autoptr (GstElement) element =
      gst_element_factory_make ("h3videovae", NULL);

  gst_object_ref_sink (element);
  dl_iterate_phdr (find_cuda, &found);
  g_assert_cmpstr (found, ==, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  g_test_add_func ("/plugin/features", test_features);
  g_test_add_func ("/plugin/no-cuda-libraries", test_no_cuda_libraries);
  for (guint i = 0; i < G_N_ELEMENTS (elements); i++) {
    g_autofree gchar *path = g_strconcat ("/plugin/", elements[i].name, NULL);

    g_test_add_data_func (path, &elements[i], test_element);
  }
  return g_test_run ();
}
