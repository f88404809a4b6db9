/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gguf-file.h"

#include "model/checkpoint/tensor-set.h"

#include <string.h>

#define ALIGNMENT 32

static const struct {
  H3StoredType type;
  guint32 number;
} types[] = {
  { H3_STORED_F32, 0 },
  { H3_STORED_F16, 1 },
  { H3_STORED_BF16, 30 },
  { H3_STORED_Q4_0, 2 },
  { H3_STORED_Q4_1, 3 },
  { H3_STORED_Q5_0, 6 },
  { H3_STORED_Q5_1, 7 },
  { H3_STORED_Q8_0, 8 },
  { H3_STORED_Q2_K, 10 },
  { H3_STORED_Q3_K, 11 },
  { H3_STORED_Q4_K, 12 },
  { H3_STORED_Q5_K, 13 },
  { H3_STORED_Q6_K, 14 },
  { H3_STORED_IQ4_NL, 20 },
  { H3_STORED_IQ4_XS, 23 },
  { H3_STORED_MXFP4, 39 },
  { H3_STORED_NVFP4, 40 },
};

static guint32
number_of (H3StoredType type)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i].type == type)
      return types[i].number;
  g_error ("GGUF has no type %s", h3_stored_type_name (type));
}

gboolean
gguf_type_from_name (const gchar *name, H3StoredType *type)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (h3_stored_type_name (types[i].type), name)) {
      *type = types[i].type;
      return TRUE;
    }
  return FALSE;
}

struct _GgufFile {
  GByteArray *keys, *tensors, *data;
  guint64 n_keys, n_tensors;
};

static void
put (GByteArray *to, guint64 value, guint n)
{
  guint64 le = GUINT64_TO_LE (value);

  g_byte_array_append (to, (const guint8 *) &le, n);
}

static void
put_string (GByteArray *to, const gchar *text)
{
  put (to, strlen (text), 8);
  g_byte_array_append (to, (const guint8 *) text, strlen (text));
}

static void
pad (GByteArray *to)
{
  while (to->len % ALIGNMENT)
    put (to, 0, 1);
}

GgufFile *
gguf_file_new (void)
{
  GgufFile *file = g_new0 (GgufFile, 1);

  file->keys = g_byte_array_new ();
  file->tensors = g_byte_array_new ();
  file->data = g_byte_array_new ();
  return file;
}

void
gguf_file_free (GgufFile *file)
{
  g_byte_array_unref (file->keys);
  g_byte_array_unref (file->tensors);
  g_byte_array_unref (file->data);
  g_free (file);
}

static void
put_orig_shape (GgufFile *file, const gchar *name, guint rank,
    const guint64 *shape)
{
  g_autofree gchar *key = g_strconcat ("comfy.gguf.orig_shape.", name, NULL);

  put_string (file->keys, key);
  put (file->keys, 9, 4);
  put (file->keys, 5, 4);
  put (file->keys, rank, 8);
  for (guint i = 0; i < rank; i++)
    put (file->keys, shape[i], 4);
  file->n_keys++;
}

void
gguf_file_add (GgufFile *file, const gchar *name, H3StoredType type, guint rank,
    const guint64 *shape, guint64 flat, const guint8 *bytes, gsize size)
{
  guint64 rows[2] = { 1, flat };

  if (flat) {
    put_orig_shape (file, name, rank, shape);
    for (guint i = 0; i < rank; i++)
      rows[0] *= shape[i];
    rows[0] /= flat;
    rank = 2;
    shape = rows;
  }
  put_string (file->tensors, name);
  put (file->tensors, rank, 4);
  for (guint i = 0; i < rank; i++)
    put (file->tensors, shape[rank - 1 - i], 8);
  put (file->tensors, number_of (type), 4);
  pad (file->data);
  put (file->tensors, file->data->len, 8);
  g_byte_array_append (file->data, bytes, size);
  file->n_tensors++;
}

gboolean
gguf_file_write (GgufFile *file, const gchar *path, GError **error)
{
  g_autoptr (GByteArray) out = g_byte_array_new ();

  g_byte_array_append (out, (const guint8 *) "GGUF", 4);
  put (out, 3, 4);
  put (out, file->n_tensors, 8);
  put (out, file->n_keys, 8);
  g_byte_array_append (out, file->keys->data, file->keys->len);
  g_byte_array_append (out, file->tensors->data, file->tensors->len);
  pad (out);
  g_byte_array_append (out, file->data->data, file->data->len);
  pad (out);
  return g_file_set_contents (path, (const gchar *) out->data, out->len, error);
}

/* --- out of a safetensors file --- */

/* N of "....N....", or 0. */
static guint
block_number (const gchar *name)
{
  for (const gchar *dot = strchr (name, '.'); dot; dot = strchr (dot + 1, '.'))
    if (g_ascii_isdigit (dot[1]))
      return g_ascii_strtoull (dot + 1, NULL, 10);
  return 0;
}

static gfloat *
read_floats (const H3StoredTensor *tensor, GError **error)
{
  g_autofree guint8 *bytes = g_malloc (MAX (tensor->bytes, 1));
  guint64 n = h3_stored_tensor_elements (tensor);
  gfloat *values;

  if (!h3_stored_tensor_read (tensor, 0, tensor->bytes, bytes, error))
    return NULL;
  values = g_new (gfloat, MAX (n, 1));
  gguf_decode (tensor->type, bytes, n, values);
  return values;
}

static gboolean
convert_tensor (GgufFile *file, const H3StoredTensor *tensor, H3StoredType type,
    GgufFlags flags, GError **error)
{
  guint64 n = h3_stored_tensor_elements (tensor);
  guint block = h3_stored_type_block (type);
  g_autofree gfloat *values = read_floats (tensor, error);
  g_autofree guint8 *bytes = NULL;
  guint64 last = tensor->shape[MAX (tensor->rank, 1) - 1];
  guint64 flat = tensor->rank > 4 ? last : 0; /* too many for the container */
  gboolean whole = last % block == 0;
  gsize size;

  if (!values)
    return FALSE;
  if (tensor->rank < 2 || tensor->type == H3_STORED_F32 ||
      (!whole && !((flags & GGUF_FLATTEN) && n % block == 0))) {
    type = tensor->type;
    whole = TRUE;
    block = 1;
  }
  size = n / block * h3_stored_type_size (type);
  bytes = g_malloc (MAX (size, 1));
  gguf_quantise (type, values, n, bytes);
  if ((flags & GGUF_DECODED) && block > 1) {
    gguf_decode (type, bytes, n, values);
    gguf_file_add (file, tensor->name, H3_STORED_F32, tensor->rank,
        tensor->shape, flat, (const guint8 *) values, n * sizeof *values);
  } else {
    gguf_file_add (file, tensor->name, type, tensor->rank, tensor->shape,
        whole ? flat : block, bytes, size);
  }
  return TRUE;
}

gboolean
gguf_convert (const gchar *from, const gchar *to, const H3StoredType *wanted,
    guint n_types, GgufFlags flags, GError **error)
{
  g_autoptr (H3TensorSet) set = h3_tensor_set_open (from, error);
  g_autoptr (GgufFile) file = gguf_file_new ();
  const GPtrArray *names;

  if (!set)
    return FALSE;
  names = h3_tensor_set_names (set);
  for (guint i = 0; i < names->len; i++) {
    const gchar *name = names->pdata[i];
    const H3StoredTensor *tensor = h3_tensor_set_get (set, name, error);
    guint number = block_number (name);

    if ((flags & GGUF_MIX) &&
        (strstr (name, "v_proj") || strstr (name, "up_proj")))
      number++;
    if (!tensor ||
        !convert_tensor (file, tensor, wanted[number % n_types], flags, error))
      return FALSE;
  }
  return gguf_file_write (file, to, error);
}
