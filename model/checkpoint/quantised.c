/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/checkpoint/quantised.h"
#include "model/checkpoint/json-file.h"
#include "model/checkpoint/quantised-layers.h"
#include "model/checkpoint/reader.h"
#include "model/checkpoint/stored-values.h"

#include <string.h>

#define MAX_MARKER ((guint64) 64 << 10)
/* Rows and columns of a tile of block scales. */
#define TILE_ROWS 128
#define TILE_COLS 4

typedef struct {
  const gchar *name;
  H3Encoding encoding;
  H3StoredType type;
} Format;

static const Format formats[] = {
  { "float8_e4m3fn", H3_ENCODING_E4M3, H3_STORED_F8_E4M3 },
  { "float8_e5m2", H3_ENCODING_E5M2, H3_STORED_F8_E5M2 },
  { "int8_tensorwise", H3_ENCODING_INT8, H3_STORED_I8 },
  { "nvfp4", H3_ENCODING_NVFP4, H3_STORED_U8 },
  { "mxfp8", H3_ENCODING_MXFP8, H3_STORED_F8_E4M3 },
};

/* Known, and not done here. */
static const gchar *const unsupported[] = { "convrot_w4a4", "asym_w4a8_int8",
  "awq_w4a16", "svdquant_w4a4", "nf4", NULL };

/* One matrix while it is being found. */
typedef struct {
  H3TensorSet *set;
  GHashTable *used;
  gchar *module;       /* its name without ".weight"; owned */
  const gchar *path;   /* for messages */
  const gchar *marker; /* what says how it is stored, for messages */
} Module;

static void
module_clear (Module *module)
{
  g_free (module->module);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Module, module_clear)

static gboolean refuse (const Module *m, GError **error, const gchar *format,
    ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (const Module *m, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE, "%s: layer %s: %s",
      m->path, m->module, text);
  return FALSE;
}

static gboolean
has_sidecar (const Module *m, const gchar *suffix)
{
  g_autofree gchar *name = g_strconcat (m->module, ".", suffix, NULL);

  return h3_tensor_set_has (m->set, name);
}

/* *@tensor: NULL when there is none. FALSE when its file cannot be read. */
static gboolean
get_sidecar (const Module *m, const gchar *suffix,
    const H3StoredTensor **tensor, GError **error)
{
  g_autofree gchar *name = g_strconcat (m->module, ".", suffix, NULL);

  *tensor = NULL;
  if (!h3_tensor_set_has (m->set, name))
    return TRUE;
  *tensor = h3_tensor_set_get (m->set, name, error);
  g_hash_table_add (m->used, g_steal_pointer (&name));
  return *tensor != NULL;
}

/* The marker */

typedef struct {
  const Format *format;
  gint64 rotation;
  gboolean full_precision;
} Marker;

/* A member of the marker or of its "params". */
static JsonNode *
member (JsonObject *object, const gchar *key)
{
  JsonNode *node = json_object_get_member (object, key);
  JsonNode *params = json_object_get_member (object, "params");

  if (!node && params && JSON_NODE_HOLDS_OBJECT (params))
    node = json_object_get_member (json_node_get_object (params), key);
  return node;
}

static gboolean
read_value (const Module *m, JsonObject *object, const gchar *key, GType type,
    const gchar *what, JsonNode **node, GError **error)
{
  *node = member (object, key);
  if (!*node || (JSON_NODE_HOLDS_VALUE (*node) &&
                    json_node_get_value_type (*node) == type))
    return TRUE;
  return refuse (m, error, "%s: %s is no %s", m->marker, key, what);
}

static gboolean
read_format (const Module *m, JsonObject *object, const Format **format,
    GError **error)
{
  const gchar *name;
  JsonNode *node;

  if (!read_value (m, object, "format", G_TYPE_STRING, "string", &node, error))
    return FALSE;
  if (!node)
    return refuse (m, error, "%s names no format", m->marker);
  name = json_node_get_string (node);
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_str_equal (name, formats[i].name)) {
      *format = &formats[i];
      return TRUE;
    }
  if (g_strv_contains (unsupported, name))
    return refuse (m, error, "quantization format %s is not supported", name);
  return refuse (m, error, "quantization format %s is unknown", name);
}

static gboolean
read_rotation (const Module *m, JsonObject *object, Marker *marker,
    GError **error)
{
  JsonNode *rotated, *group;
  gint64 g = 1;

  if (!read_value (m, object, "convrot", G_TYPE_BOOLEAN, "boolean", &rotated,
          error) ||
      !read_value (m, object, "convrot_groupsize", G_TYPE_INT64, "integer",
          &group, error))
    return FALSE;
  marker->rotation = 1;
  if (!rotated || !json_node_get_boolean (rotated))
    return TRUE;
  if (marker->format->encoding != H3_ENCODING_INT8)
    return refuse (m, error, "format %s with convrot is not supported",
        marker->format->name);
  if (!group)
    return refuse (m, error, "convrot needs convrot_groupsize");
  marker->rotation = json_node_get_int (group);
  while (g < marker->rotation && g < H3_MAX_ROTATION)
    g *= 4;
  if (marker->rotation < 4 || g != marker->rotation)
    return refuse (m, error,
        "convrot_groupsize %" G_GINT64_FORMAT
        " is not a power of 4 from 4 to %d",
        marker->rotation, H3_MAX_ROTATION);
  return TRUE;
}

static gboolean
read_members (const Module *m, JsonObject *object, Marker *marker,
    GError **error)
{
  JsonNode *full_precision;

  if (!read_format (m, object, &marker->format, error) ||
      !read_value (m, object, "full_precision_matrix_mult", G_TYPE_BOOLEAN,
          "boolean", &full_precision, error))
    return FALSE;
  marker->full_precision =
      full_precision && json_node_get_boolean (full_precision);
  return read_rotation (m, object, marker, error);
}

static gboolean
parse_marker (const Module *m, const gchar *text, gsize n, Marker *marker,
    GError **error)
{
  g_autoptr (JsonNode) root = NULL;

  /* some writers end it */
  while (n > 0 && (text[n - 1] == '\0' || g_ascii_isspace (text[n - 1])))
    n--;
  root = h3_json_parse (text, n, m->module, NULL);
  if (!root)
    return refuse (m, error, "comfy_quant is not valid JSON");
  return read_members (m, json_node_get_object (root), marker, error);
}

static gboolean
read_marker (const Module *m, const H3StoredTensor *tensor, Marker *marker,
    GError **error)
{
  g_autofree gchar *text = NULL;

  if (tensor->type != H3_STORED_U8 || tensor->bytes > MAX_MARKER)
    return refuse (m, error,
        "comfy_quant is %s of %" G_GUINT64_FORMAT
        " bytes; needed: U8, at most %" G_GUINT64_FORMAT,
        h3_stored_type_name (tensor->type), tensor->bytes, MAX_MARKER);
  text = g_malloc (tensor->bytes + 1);
  return h3_stored_tensor_read (tensor, 0, tensor->bytes, text, error) &&
         parse_marker (m, text, tensor->bytes, marker, error);
}

/* Finding */

static const gchar *const sidecars[] = { "weight_scale", "weight_scale_2",
  "input_scale", "pre_quant_scale", "scale_weight", "scale_input" };

/* What is wrong with a module is said once. */
static void
expect_sidecars (const Module *m)
{
  for (guint i = 0; i < G_N_ELEMENTS (sidecars); i++)
    if (has_sidecar (m, sidecars[i]))
      g_hash_table_add (m->used,
          g_strconcat (m->module, ".", sidecars[i], NULL));
}

/* The oldest FP8 files have one for all: of two elements where inputs are not to
 * be rounded. */
static gboolean
read_oldest_marker (const Module *m, gboolean *full_precision, GError **error)
{
  const H3StoredTensor *marker;

  *full_precision = FALSE;
  if (!h3_tensor_set_has (m->set, H3_OLDEST_MARKER))
    return TRUE;
  marker = h3_tensor_set_get (m->set, H3_OLDEST_MARKER, error);
  *full_precision = marker && h3_stored_tensor_elements (marker) == 2;
  return marker != NULL;
}

static gboolean
need_sidecar (const Module *m, const gchar *suffix,
    const H3StoredTensor **tensor, const Format *format, GError **error)
{
  if (!get_sidecar (m, suffix, tensor, error))
    return FALSE;
  return *tensor || refuse (m, error, "format %s needs tensor %s.%s",
                        format->name, m->module, suffix);
}

/* Newer spelling first, then the oldest FP8 files'. */
static gboolean
either_sidecar (const Module *m, const gchar *name, const gchar *older,
    const H3StoredTensor **tensor, GError **error)
{
  return get_sidecar (m, has_sidecar (m, name) ? name : older, tensor, error);
}

static gboolean
find_sidecars (const Module *m, const Format *format, gboolean marked,
    H3Quantised *q, GError **error)
{
  if (!either_sidecar (m, "input_scale", "scale_input", &q->input_scale,
          error) ||
      !get_sidecar (m, "pre_quant_scale", &q->column_scale, error))
    return FALSE;
  if (format->encoding == H3_ENCODING_NVFP4 &&
      !need_sidecar (m, "weight_scale_2", &q->tensor_scale, format, error))
    return FALSE;
  if (!either_sidecar (m, "weight_scale", "scale_weight", &q->scale, error))
    return FALSE;
  return q->scale || !marked ||
         need_sidecar (m, "weight_scale", &q->scale, format, error);
}

/* What a type says without a marker; NULL: plain. */
static const Format *
format_of (H3StoredType type)
{
  if (type == H3_STORED_F8_E4M3)
    return &formats[0];
  return type == H3_STORED_F8_E5M2 ? &formats[1] : NULL;
}

H3Encoding
h3_quantised_block_encoding (H3StoredType type)
{
  G_STATIC_ASSERT (H3_STORED_NVFP4 - H3_STORED_Q4_0 ==
                   H3_ENCODING_GGUF_NVFP4 - H3_ENCODING_Q4_0);
  return type < H3_STORED_Q4_0 || type > H3_STORED_NVFP4
             ? H3_ENCODING_PLAIN
             : type - H3_STORED_Q4_0 + H3_ENCODING_Q4_0;
}

gboolean
h3_quantised_find (H3TensorSet *set, const gchar *name, GHashTable *used,
    H3Quantised *q, GError **error)
{
  g_auto (Module) m = { .set = set, .used = used };
  const H3StoredTensor *marker_tensor;
  JsonNode *said;
  Marker marker;

  memset (q, 0, sizeof *q);
  q->rotation = 1;
  q->weight = h3_tensor_set_get (set, name, error);
  if (!q->weight)
    return FALSE;
  q->encoding = h3_quantised_block_encoding (q->weight->type);
  if (q->encoding != H3_ENCODING_PLAIN)
    return TRUE;
  if (!g_str_has_suffix (name, ".weight"))
    return TRUE;
  m.module = g_strndup (name, strlen (name) - strlen (".weight"));
  m.path = q->weight->path;
  if (!get_sidecar (&m, "comfy_quant", &marker_tensor, error))
    return FALSE;
  m.marker = marker_tensor ? "comfy_quant" : H3_QUANTISATION_METADATA;
  said = marker_tensor ? NULL : h3_tensor_set_quantisation (set, name);
  marker = (Marker){ format_of (q->weight->type), 1, FALSE };
  if (!marker_tensor && !said && !marker.format)
    return TRUE;
  expect_sidecars (&m);
  if (marker_tensor ? !read_marker (&m, marker_tensor, &marker, error)
      : said ? !read_members (&m, json_node_get_object (said), &marker, error)
             : !read_oldest_marker (&m, &marker.full_precision, error))
    return FALSE;
  q->encoding = marker.format->encoding;
  q->rotation = marker.rotation;
  q->full_precision = marker.full_precision;
  if (q->weight->type != marker.format->type)
    return refuse (&m, error, "format %s: tensor %s is %s, needed: %s",
        marker.format->name, name, h3_stored_type_name (q->weight->type),
        h3_stored_type_name (marker.format->type));
  return find_sidecars (&m, marker.format, marker_tensor || said, q, error);
}

/* Shapes */

static gint64
round_up (gint64 n, gint64 unit)
{
  return (n + unit - 1) / unit * unit;
}

gint64
h3_quantised_row_unit (const H3Quantised *q)
{
  switch (q->encoding) {
    case H3_ENCODING_NVFP4:
      return 16;
    case H3_ENCODING_MXFP8:
      return 32;
    default:
      return 1;
  }
}

gint64
h3_quantised_rows (const H3Quantised *q, gint64 cols)
{
  gint64 width = h3_encoding_row_bytes (q->encoding, cols);
  const H3StoredTensor *w = q->weight;
  guint64 product = 1;

  if (h3_quantised_row_unit (q) > 1)
    return w->rank == 2 && w->shape[1] == (guint64) width ? w->shape[0] : -1;
  for (gint d = w->rank - 1; d >= 0 && product < (guint64) width; d--)
    product *= w->shape[d];
  return width > 0 && product == (guint64) width ? w->bytes / width : -1;
}

static gboolean
wrong_shape (const H3StoredTensor *tensor, const gchar *needed, GError **error)
{
  g_autofree gchar *shape = h3_stored_tensor_shape_string (tensor);

  g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
      "%s: tensor %s: %s of shape %s, expected %s", tensor->path, tensor->name,
      h3_stored_type_name (tensor->type), shape, needed);
  return FALSE;
}

static gboolean
is_float (const H3StoredTensor *tensor)
{
  return tensor->type == H3_STORED_F32 || tensor->type == H3_STORED_F16 ||
         tensor->type == H3_STORED_BF16;
}

/* @n numbers along one dimension. */
static gboolean
is_vector (const H3StoredTensor *tensor, gint64 n)
{
  guint64 elements = 1;
  gboolean one = FALSE;

  for (guint i = 0; i < tensor->rank; i++) {
    elements *= tensor->shape[i];
    one = one || tensor->shape[i] == (guint64) n;
  }
  return is_float (tensor) && elements == (guint64) n && (n == 1 || one);
}

static gboolean
check_scalar (const H3StoredTensor *tensor, GError **error)
{
  return !tensor || is_vector (tensor, 1) ||
         wrong_shape (tensor, "one float", error);
}

static gint64
n_blocks (const H3Quantised *q, gint64 cols)
{
  gint64 per = h3_encoding_info (q->encoding)->scale_block;

  return (cols + per - 1) / per;
}

static gboolean
check_block_scale (const H3Quantised *q, gint64 rows, gint64 cols,
    GError **error)
{
  const H3StoredTensor *s = q->scale;
  gint64 tiled_rows = round_up (rows, TILE_ROWS);
  gint64 tiled_cols = round_up (n_blocks (q, cols), TILE_COLS);
  H3StoredType type =
      q->encoding == H3_ENCODING_NVFP4 ? H3_STORED_F8_E4M3 : H3_STORED_F8_E8M0;
  g_autofree gchar *needed = NULL;

  if ((s->type == type || s->type == H3_STORED_U8) && s->rank == 2 &&
      s->shape[0] == (guint64) tiled_rows &&
      s->shape[1] == (guint64) tiled_cols)
    return TRUE;
  needed = g_strdup_printf ("%s of shape [%" G_GINT64_FORMAT
                            ", %" G_GINT64_FORMAT "]",
      h3_stored_type_name (type), tiled_rows, tiled_cols);
  return wrong_shape (s, needed, error);
}

static gboolean
check_row_scale (const H3StoredTensor *scale, gint64 rows, GError **error)
{
  g_autofree gchar *needed = NULL;

  if (!scale || is_vector (scale, 1) || is_vector (scale, rows))
    return TRUE;
  needed = g_strdup_printf ("one float or [%" G_GINT64_FORMAT "]", rows);
  return wrong_shape (scale, needed, error);
}

static gboolean
check_column_scale (const H3StoredTensor *scale, gint64 cols, GError **error)
{
  g_autofree gchar *needed = NULL;

  if (!scale || is_vector (scale, cols))
    return TRUE;
  needed = g_strdup_printf ("floats [%" G_GINT64_FORMAT "]", cols);
  return wrong_shape (scale, needed, error);
}

gboolean
h3_quantised_check (const H3Quantised *q, gint64 rows, gint64 cols,
    GError **error)
{
  if (!check_scalar (q->input_scale, error) ||
      !check_scalar (q->tensor_scale, error) ||
      !check_column_scale (q->column_scale, cols, error))
    return FALSE;
  if (cols % q->rotation != 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_WRONG_TYPE,
        "%s: tensor %s: convrot group %u does not divide %" G_GINT64_FORMAT
        " columns",
        q->weight->path, q->weight->name, q->rotation, cols);
    return FALSE;
  }
  return h3_encoding_info (q->encoding)->scale_block
             ? check_block_scale (q, rows, cols, error)
             : check_row_scale (q->scale, rows, error);
}

/* Numbers */

static gboolean
bad_scale (const H3StoredTensor *tensor, gint64 i, const gchar *what,
    GError **error)
{
  g_set_error (error, H3_ERROR, H3_ERROR_NUMERIC,
      "%s: tensor %s: element %" G_GINT64_FORMAT
      " is %s; scales must be finite and more than 0",
      tensor->path, tensor->name, i, what);
  return FALSE;
}

/* All of @tensor, which has @n floats. */
static gboolean
read_floats (const H3StoredTensor *tensor, gint64 n, gfloat *values,
    GError **error)
{
  gsize size = h3_stored_type_size (tensor->type);
  guint8 *stored = (guint8 *) values + n * (sizeof (gfloat) - size);

  if (!h3_reader_read (tensor, 0, n, stored, error))
    return FALSE;
  h3_stored_values_convert (tensor->type, stored, n, H3_STORED_F32, values);
  for (gint64 i = 0; i < n; i++)
    if (!(values[i] > 0))
      return bad_scale (tensor, i, values[i] < 0 ? "negative" : "zero", error);
  return TRUE;
}

gboolean
h3_quantised_read_input_scale (const H3Quantised *q, gfloat *scale,
    GError **error)
{
  *scale = 0;
  if (!q->input_scale)
    return TRUE;
  if (!read_floats (q->input_scale, 1, scale, error))
    return FALSE;
  /* the oldest files write 1 where they mean none (checkpoints.md 4.2) */
  if (*scale == 1 && g_str_has_suffix (q->input_scale->name, ".scale_input"))
    *scale = 0;
  return TRUE;
}

gboolean
h3_quantised_read_scale (const H3Quantised *q, gint64 rows, gfloat *scale,
    GError **error)
{
  const H3StoredTensor *tensor =
      h3_encoding_info (q->encoding)->scale_block ? q->tensor_scale : q->scale;
  gint64 n = tensor ? (gint64) h3_stored_tensor_elements (tensor) : 1;

  if (rows == 0)
    return TRUE;
  scale[0] = 1;
  if (tensor && !read_floats (tensor, n, scale, error))
    return FALSE;
  for (gint64 i = n; i < rows; i++)
    scale[i] = scale[0];
  return TRUE;
}

gboolean
h3_quantised_read_column_scale (const H3Quantised *q, gint64 cols,
    gfloat *scale, GError **error)
{
  return read_floats (q->column_scale, cols, scale, error);
}

/* Where the scale of row @r and block @c lies (checkpoints.md 5.2). */
static gint64
tiled_place (gint64 r, gint64 c, gint64 tiled_cols)
{
  return (r / 128 * (tiled_cols / 4) + c / 4) * 512 + r % 32 * 16 +
         r % 128 / 32 * 4 + c % 4;
}

static gboolean
check_block (const H3Quantised *q, guint8 code, gint64 place, GError **error)
{
  if (q->encoding == H3_ENCODING_MXFP8)
    return code != 255 || bad_scale (q->scale, place, "NaN", error);
  if ((code & 0x7f) == 0x7f)
    return bad_scale (q->scale, place, "NaN", error);
  return code <= 0x80 || bad_scale (q->scale, place, "negative", error);
}

gboolean
h3_quantised_read_block_scale (const H3Quantised *q, gint64 rows, gint64 cols,
    guint8 *scale, GError **error)
{
  gint64 n = n_blocks (q, cols), tiled_cols = round_up (n, TILE_COLS);
  g_autofree guint8 *tiled = g_try_malloc (MAX (q->scale->bytes, 1));

  if (!tiled) {
    g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
        "%s: tensor %s: no memory for %" G_GUINT64_FORMAT " bytes",
        q->scale->path, q->scale->name, q->scale->bytes);
    return FALSE;
  }
  if (!h3_stored_tensor_read (q->scale, 0, q->scale->bytes, tiled, error))
    return FALSE;
  for (gint64 r = 0; r < rows; r++)
    for (gint64 c = 0; c < n; c++) {
      gint64 place = tiled_place (r, c, tiled_cols);

      if (!check_block (q, tiled[place], place, error))
        return FALSE;
      scale[r * n + c] = tiled[place];
    }
  return TRUE;
}
