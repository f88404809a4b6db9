/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which models stay on a device: on cards too small for all, with models of
 * 1000 bytes and jobs of nothing. */
#include "card.h"

#include "gst/gsth3common.h"
#include "h3-test.h"

#define SIZE 1000 /* bytes of a model */
#define CHUNK 250 /* in tensors of */

/* --- models --- */

static H3Checkpoint *checkpoint;
static gint loads_allowed = G_MAXINT; /* atomic */

static gboolean
small_plan (const H3Checkpoint *from, const H3Device *device, guint64 *bytes,
    GError **error)
{
  *bytes = SIZE;
  return TRUE;
}

static gpointer
small_load (const H3Checkpoint *from, H3Device *device, const H3Stop *stop,
    H3LoadProgress progress, gpointer user_data, GError **error)
{
  GPtrArray *tensors =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);

  if (g_atomic_int_get (&loads_allowed) <= 0) {
    g_set_error (error, H3_ERROR, H3_ERROR_READ, "no more loads");
    g_ptr_array_unref (tensors);
    return NULL;
  }
  for (guint done = 0; done < SIZE; done += CHUNK) {
    guint8 values[CHUNK];
    const gint64 shape = CHUNK;
    H3Tensor *tensor;

    for (guint i = 0; i < CHUNK; i++)
      values[i] = (done + i) * 7;
    tensor =
        h3_tensor_new_from_host (device, H3_DTYPE_U8, 1, &shape, values, error);
    if (!tensor) {
      g_ptr_array_unref (tensors);
      return NULL;
    }
    g_ptr_array_add (tensors, tensor);
    progress (done + CHUNK, SIZE, user_data);
  }
  return tensors;
}

static gint free_ms; /* how long a model takes to be freed; atomic */

static void
small_unref (gpointer model)
{
  g_usleep (g_atomic_int_get (&free_ms) * 1000);
  g_ptr_array_unref (model);
}

static GPtrArray *
small_tensors (gpointer model)
{
  GPtrArray *copy =
      g_ptr_array_new_with_free_func ((GDestroyNotify) h3_tensor_unref);
  GPtrArray *tensors = model;

  for (guint i = 0; i < tensors->len; i++)
    g_ptr_array_add (copy, h3_tensor_ref (tensors->pdata[i]));
  return copy;
}

static void
assert_intact (gpointer model)
{
  GPtrArray *tensors = model;
  guint n = 0;

  for (guint i = 0; i < tensors->len; i++) {
    H3Tensor *tensor = tensors->pdata[i];
    const guint8 *data = tensor->data;

    g_assert_nonnull (data);
    for (guint k = 0; k < CHUNK; k++, n++)
      g_assert_cmpuint (data[k], ==, (guint8) (n * 7));
  }
  g_assert_cmpuint (n, ==, SIZE);
}

#define KIND(name_, stage_, passing_)                                          \
  {                                                                            \
    .name = name_, .component = H3_COMPONENT_TRANSFORMER, .stage = stage_,     \
    .passing = passing_, .plan = small_plan, .load = small_load,               \
    .tensors = stage_ ? small_tensors : NULL, .unref = small_unref,            \
  }
static const GstH3ModelKind kinds[] = { KIND ("first", 1, FALSE),
  KIND ("second", 2, FALSE), KIND ("third", 3, FALSE),
  KIND ("decoder", 0, FALSE), KIND ("guest", 0, TRUE) };
enum { FIRST, SECOND, THIRD, DECODER, GUEST };

/* --- users --- */

typedef struct {
  const GstH3ModelKind *kind;
  H3Device *device;
  GstH3Residency residency;
  GstH3Model *model;
  GstH3Request request;
} User;

static H3Device *
get_device (gint ordinal)
{
  g_autoptr (GError) error = NULL;
  H3Device *device =
      gst_h3_runtime_get_device (GST_H3_BACKEND_CUDA, ordinal, &error);

  g_assert_no_error (error);
  return device;
}

static void
user_init (User *user, guint kind, gint ordinal, GstH3Residency residency)
{
  g_autoptr (GError) error = NULL;

  *user = (User){ .kind = &kinds[kind],
    .device = get_device (ordinal),
    .residency = residency };
  user->request.checkpoint = checkpoint;
  user->request.weights = SIZE;
  user->model = gst_h3_model_hold (&kinds[kind], checkpoint, user->device,
      residency, &error);
  g_assert_no_error (error);
}

static void
user_clear (User *user)
{
  gst_h3_model_release (user->model, user->residency);
  h3_device_unref (user->device);
}

static void
begin (User *user)
{
  g_autoptr (GError) error = NULL;
  gpointer model = gst_h3_model_begin (user->model, &user->request, &error);

  g_assert_no_error (error);
  assert_intact (model);
}

static void
work (User *user)
{
  begin (user);
  gst_h3_model_end (user->model, user->residency);
}

static void
assert_no_work (User *user, gint code, const gchar *says)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gst_h3_model_begin (user->model, &user->request, &error));
  g_assert_error (error, H3_ERROR, code);
  if (!strstr (error->message, says))
    g_error ("\"%s\" does not say \"%s\"", error->message, says);
}

static void
load (User *user)
{
  g_autoptr (GError) error = NULL;
  gpointer model = gst_h3_model_load (user->model, &user->request, &error);

  g_assert_no_error (error);
  assert_intact (model);
}

#define ASSERT_LOADS(user, n)                                                  \
  g_assert_cmpuint (gst_h3_model_loads ((user)->model), ==, n)
#define ASSERT_PARKS(user, n)                                                  \
  g_assert_cmpuint (gst_h3_model_parks ((user)->model), ==, n)

/* A card with room for @models of them; a twentieth stays in reserve. */
static Card *
get_card (gint ordinal, gdouble models)
{
  card_reset (&cards[ordinal], models * SIZE / 0.95 + 1);
  return &cards[ordinal];
}

/* --- tests --- */

static void
test_least_recently_used (void)
{
  Card *card = get_card (0, 2.5);
  User users[3];

  for (guint i = 0; i < 3; i++)
    user_init (&users[i], i, 0, GST_H3_RESIDENCY_AUTO);
  work (&users[FIRST]);
  work (&users[SECOND]);
  g_assert_cmpuint (card->used, ==, 2 * SIZE);
  work (&users[THIRD]); /* the first goes */
  g_assert_cmpuint (card->used, ==, 2 * SIZE);
  ASSERT_PARKS (&users[FIRST], 1);
  ASSERT_PARKS (&users[SECOND], 0);
  work (&users[SECOND]); /* is still there */
  work (&users[FIRST]);  /* the third goes */
  ASSERT_PARKS (&users[SECOND], 0);
  ASSERT_PARKS (&users[THIRD], 1);
  for (guint i = 0; i < 20; i++)
    work (&users[i % 3]);
  for (guint i = 0; i < 3; i++) {
    ASSERT_LOADS (&users[i], 1);
    user_clear (&users[i]);
  }
  g_assert_cmpuint (card->peak, <=, 2.5 * SIZE);
  g_assert_cmpuint (card->used, ==, 0);
  g_assert_cmpuint (card->host_used, ==, 0);
}

static void
test_room_enough (void)
{
  Card *card = get_card (0, 3);
  User users[3];

  for (guint i = 0; i < 3; i++)
    user_init (&users[i], i, 0, GST_H3_RESIDENCY_AUTO);
  for (guint i = 0; i < 9; i++)
    work (&users[i % 3]);
  g_assert_cmpuint (card->host_used, ==, 0);
  for (guint i = 0; i < 3; i++) {
    ASSERT_PARKS (&users[i], 0);
    user_clear (&users[i]);
  }
}

static void
test_stage (void)
{
  Card *card = get_card (0, 10);
  User user;

  user_init (&user, FIRST, 0, GST_H3_RESIDENCY_STAGE);
  for (guint i = 1; i <= 3; i++) {
    begin (&user);
    g_assert_cmpuint (card->used, ==, SIZE);
    gst_h3_model_end (user.model, user.residency);
    g_assert_cmpuint (card->used, ==, 0);
    ASSERT_PARKS (&user, i);
    g_assert_cmpuint (card->downloads, ==, SIZE / CHUNK);
  }
  ASSERT_LOADS (&user, 1);
  user_clear (&user);
  g_assert_cmpuint (card->host_used, ==, 0);
}

/* One user who wants it to stay is enough. */
static void
test_shared (void)
{
  Card *card = get_card (0, 10);
  User a, b;

  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_STAGE);
  user_init (&b, FIRST, 0, GST_H3_RESIDENCY_PIPELINE);
  work (&a);
  g_assert_cmpuint (card->used, ==, SIZE);
  user_clear (&b);
  work (&a);
  g_assert_cmpuint (card->used, ==, 0);
  user_clear (&a);
}

static void
test_never_parked (void)
{
  static const GstH3Residency stays[] = { GST_H3_RESIDENCY_PIPELINE,
    GST_H3_RESIDENCY_PROCESS };

  for (guint i = 0; i < G_N_ELEMENTS (stays); i++) {
    User a, b;

    get_card (0, 1.5);
    user_init (&a, FIRST, 0, stays[i]);
    user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
    work (&a);
    assert_no_work (&b, H3_ERROR_NO_SPACE, "set residency=auto");
    user_clear (&a);
    if (stays[i] == GST_H3_RESIDENCY_PROCESS) {
      assert_no_work (&b, H3_ERROR_NO_SPACE, "set residency=auto");
      g_assert_cmpuint (gst_h3_runtime_unload (), ==, 1);
    }
    work (&b);
    user_clear (&b);
  }
}

static void
test_workspace (void)
{
  Card *card = get_card (0, 2);
  User a, b;

  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  work (&a);
  b.request.workspace = SIZE; /* for it, the first must go */
  work (&b);
  ASSERT_PARKS (&a, 1);
  b.request.workspace = SIZE + 10;
  assert_no_work (&b, H3_ERROR_NO_SPACE, "make a smaller clip");
  b.request.workspace = 10;
  work (&b);
  work (&a);
  g_assert_cmpuint (card->used, ==, 2 * SIZE);
  user_clear (&a);
  user_clear (&b);
}

static void
test_too_large (void)
{
  User user;

  get_card (0, 0.5);
  user_init (&user, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  assert_no_work (&user, H3_ERROR_NO_SPACE, "a device with more memory");
  user.request.workspace = 1; /* a smaller clip does not help */
  assert_no_work (&user, H3_ERROR_NO_SPACE, "a device with more memory");
  ASSERT_LOADS (&user, 0);
  user_clear (&user);
}

/* As if the card were smaller. */
static void
test_budget (void)
{
  Card *card = get_card (0, 100);
  User a, b;

  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  a.request.budget = b.request.budget = 1500;
  a.request.workspace = 500;
  for (guint i = 0; i < 4; i++)
    work (i % 2 ? &b : &a);
  g_assert_cmpuint (card->peak, <=, 1500);
  ASSERT_PARKS (&a, 2);
  ASSERT_PARKS (&b, 1);
  a.request.workspace = 501;
  assert_no_work (&a, H3_ERROR_NO_SPACE, "memory-budget allows 1500");
  b.request.budget = 999;
  assert_no_work (&b, H3_ERROR_NO_SPACE, "raise memory-budget");
  user_clear (&a);
  user_clear (&b);
}

static void
test_host_full (void)
{
  Card *card = get_card (0, 1.5);
  User a, b;

  card->host_capacity = SIZE / 2;
  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  work (&a);
  work (&b);
  work (&a);
  ASSERT_LOADS (&a, 2);
  g_assert_cmpuint (card->host_used, ==, 0);
  user_clear (&a);
  user_clear (&b);
}

/* What the free memory promised is not there: another process took it. */
static void
test_unpark_fails (void)
{
  Card *card = get_card (0, 1.5);
  User user;

  user_init (&user, FIRST, 0, GST_H3_RESIDENCY_STAGE);
  work (&user);
  g_atomic_int_set (&card->refuse, TRUE);
  assert_no_work (&user, H3_ERROR_NO_SPACE, "on a card");
  g_assert_cmpuint (card->used, ==, 0);
  g_atomic_int_set (&card->refuse, FALSE);
  work (&user);
  ASSERT_LOADS (&user, 1);
  user_clear (&user);
}

static void
test_load_fails (void)
{
  User user;

  get_card (0, 1.5);
  user_init (&user, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  g_atomic_int_set (&loads_allowed, 0);
  assert_no_work (&user, H3_ERROR_READ, "no more loads");
  g_atomic_int_set (&loads_allowed, G_MAXINT);
  work (&user);
  user_clear (&user);
}

/* The CPU's memory is the host's: a model is freed and loaded again. */
static void
test_cpu (void)
{
  g_autoptr (GError) error = NULL;
  H3Device *device = gst_h3_runtime_get_device (GST_H3_BACKEND_CPU, -1, &error);
  User user = { .device = device, .residency = GST_H3_RESIDENCY_STAGE };

  g_assert_no_error (error);
  user.request.checkpoint = checkpoint;
  user.request.weights = SIZE;
  user.model = gst_h3_model_hold (&kinds[FIRST], checkpoint, device,
      user.residency, &error);
  for (guint i = 1; i <= 3; i++) {
    work (&user);
    ASSERT_LOADS (&user, i);
    ASSERT_PARKS (&user, i);
  }
  user_clear (&user);
}

/* --- waiting --- */

static gboolean
asked (gpointer data)
{
  return g_atomic_int_get ((gint *) data);
}

/* load() in a thread of its own. */
typedef struct {
  User *user;
  gboolean begins; /* a job */
  GThread *thread;
  gint stop, done; /* atomic */
  GError *error;
} Loader;

static gpointer
loader_run (gpointer data)
{
  Loader *loader = data;
  const H3Stop stop = { asked, &loader->stop };
  gpointer model;

  loader->user->request.stop = &stop;
  model = loader->begins ? gst_h3_model_begin (loader->user->model,
                               &loader->user->request, &loader->error)
                         : gst_h3_model_load (loader->user->model,
                               &loader->user->request, &loader->error);
  loader->user->request.stop = NULL;
  if (model)
    assert_intact (model);
  g_atomic_int_set (&loader->done, TRUE);
  return NULL;
}

static void
loader_start (Loader *loader, User *user)
{
  *loader = (Loader){ .user = user, .begins = user->kind->stage > 0 };
  loader->thread = g_thread_new ("loader", loader_run, loader);
  g_usleep (100 * 1000);
}

/* It computes, and so it is waited for; then it is parked. */
static void
test_decoder_waits (void)
{
  Card *card = get_card (0, 1.5);
  User job, decoder;
  Loader loader;

  user_init (&job, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&decoder, DECODER, 0, GST_H3_RESIDENCY_AUTO);
  begin (&job);
  loader_start (&loader, &decoder);
  g_assert_false (g_atomic_int_get (&loader.done));
  g_assert_cmpuint (card->used, ==, SIZE);
  gst_h3_model_end (job.model, job.residency);
  g_thread_join (loader.thread);
  g_assert_no_error (loader.error);
  ASSERT_PARKS (&job, 1);
  /* and never leaves: the job is told, it does not wait */
  assert_no_work (&job, H3_ERROR_NO_SPACE, "other models take 1000");
  user_clear (&decoder);
  work (&job);
  user_clear (&job);
}

static void
test_cancel_waiting (void)
{
  User job, decoder;
  Loader loader;

  get_card (0, 1.5);
  user_init (&job, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&decoder, DECODER, 0, GST_H3_RESIDENCY_AUTO);
  begin (&job);
  loader_start (&loader, &decoder);
  g_atomic_int_set (&loader.stop, TRUE);
  g_thread_join (loader.thread);
  g_assert_error (loader.error, H3_ERROR, H3_ERROR_CANCELLED);
  g_clear_error (&loader.error);
  gst_h3_model_end (job.model, job.residency);
  ASSERT_PARKS (&job, 0);
  load (&decoder);
  user_clear (&decoder);
  user_clear (&job);
}

/* One that does not even begin, since it would not help. */
static void
test_no_vain_wait (void)
{
  g_autoptr (GError) error = NULL;
  User job, decoder;

  get_card (0, 1.5);
  user_init (&job, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&decoder, DECODER, 0, GST_H3_RESIDENCY_AUTO);
  begin (&job);
  decoder.request.workspace = SIZE;
  g_assert_null (gst_h3_model_load (decoder.model, &decoder.request, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  gst_h3_model_end (job.model, job.residency);
  ASSERT_PARKS (&job, 0);
  user_clear (&decoder);
  user_clear (&job);
}

/* Turns: the second job waits for the first, and may give up. */
static void
test_turns (void)
{
  User a, b;
  Loader loader;

  get_card (0, 1.5);
  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  begin (&a);
  loader_start (&loader, &b);
  g_assert_false (g_atomic_int_get (&loader.done));
  g_atomic_int_set (&loader.stop, TRUE);
  g_thread_join (loader.thread);
  g_assert_error (loader.error, H3_ERROR, H3_ERROR_CANCELLED);
  g_clear_error (&loader.error);
  loader_start (&loader, &b);
  gst_h3_model_end (a.model, a.residency);
  g_thread_join (loader.thread);
  g_assert_no_error (loader.error);
  gst_h3_model_end (b.model, b.residency);
  ASSERT_PARKS (&a, 1);
  user_clear (&a);
  user_clear (&b);
}

/* Workspace that is promised is waited for: it may turn out to be counted
 * twice, once as promised and once as no longer free. */
static void
test_promised (void)
{
  Card *card = get_card (0, 3);
  User job, decoder;
  Loader loader;

  user_init (&job, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&decoder, DECODER, 0, GST_H3_RESIDENCY_AUTO);
  decoder.request.workspace = SIZE / 2;
  load (&decoder);
  job.request.workspace = SIZE / 2;
  card->used += SIZE / 2; /* the decoder's workspace */
  loader_start (&loader, &job);
  g_assert_false (g_atomic_int_get (&loader.done));
  gst_h3_model_settle (decoder.model, SIZE / 2);
  g_thread_join (loader.thread);
  g_assert_no_error (loader.error);
  gst_h3_model_end (job.model, job.residency);
  card->used -= SIZE / 2;
  user_clear (&decoder);
  user_clear (&job);
}

static gpointer
clear_thread (gpointer user)
{
  user_clear (user);
  return NULL;
}

/* What is being freed makes room: one waits for it. */
static void
test_leaving (void)
{
  for (guint budget = 0; budget < 2; budget++) {
    Card *card = get_card (0, budget ? 3 : 1.5);
    User a, b;
    GThread *thread;

    user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
    user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
    work (&a);
    if (budget) /* which has no room, on a card that has */
      b.request.budget = SIZE;
    g_atomic_int_set (&free_ms, 100);
    thread = g_thread_new ("leaving", clear_thread, &a);
    g_usleep (50 * 1000);
    work (&b);
    g_thread_join (thread);
    g_atomic_int_set (&free_ms, 0);
    g_assert_cmpuint (card->peak, <=, 1.5 * SIZE);
    user_clear (&b);
  }
}

/* Three threads on a card that holds one of their models. */
typedef struct {
  guint kind;
  GstH3Residency residency;
} Contender;

static gpointer
contend (gpointer data)
{
  const Contender *contender = data;
  User user;

  user_init (&user, contender->kind, 0, contender->residency);
  for (guint i = 0; i < 200; i++)
    work (&user);
  user_clear (&user);
  return NULL;
}

static void
test_contention (void)
{
  static const Contender contenders[] = { { FIRST, GST_H3_RESIDENCY_AUTO },
    { SECOND, GST_H3_RESIDENCY_AUTO }, { SECOND, GST_H3_RESIDENCY_STAGE },
    { THIRD, GST_H3_RESIDENCY_STAGE } };
  Card *card = get_card (0, 1.5);
  GThread *threads[G_N_ELEMENTS (contenders)];

  for (guint i = 0; i < G_N_ELEMENTS (contenders); i++)
    threads[i] = g_thread_new ("contender", contend, (gpointer) &contenders[i]);
  for (guint i = 0; i < G_N_ELEMENTS (contenders); i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (card->peak, <=, 1.5 * SIZE);
  g_assert_cmpuint (card->used, ==, 0);
  g_assert_cmpuint (card->host_used, ==, 0);
}

/* --- plans --- */

static GstH3Plan *
plan (User *user, GError **error)
{
  return gst_h3_plan_new (user->kind, user->device, user->residency,
      &user->request, error);
}

static void
preload (User *user)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gst_h3_model_preload (user->model, &user->request, &error));
  g_assert_no_error (error);
}

/* What is needed later does not get in the way of what is needed first. */
static void
test_preload (void)
{
  User a, b;
  GstH3Plan *plans[2];

  get_card (0, 1.5);
  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  plans[0] = plan (&a, NULL);
  plans[1] = plan (&b, NULL);
  preload (&b);
  ASSERT_LOADS (&b, 0);
  preload (&a);
  ASSERT_LOADS (&a, 1);
  preload (&b);
  ASSERT_PARKS (&a, 0);
  work (&b);
  preload (&a); /* parked; it is not brought back, either */
  ASSERT_PARKS (&b, 0);
  gst_h3_plan_log (plans[0]);
  gst_h3_plan_free (plans[0]);
  gst_h3_plan_free (plans[1]);
  user_clear (&a);
  user_clear (&b);

  get_card (0, 2.5);
  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  plans[0] = plan (&a, NULL);
  plans[1] = plan (&b, NULL);
  preload (&b);
  ASSERT_LOADS (&b, 1);
  preload (&a);
  ASSERT_LOADS (&a, 1);
  gst_h3_plan_free (plans[0]);
  gst_h3_plan_free (plans[1]);
  user_clear (&a);
  user_clear (&b);
}

static void
assert_no_plan (User *user, const gchar *says)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (plan (user, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_NO_SPACE);
  if (!strstr (error->message, says))
    g_error ("\"%s\" does not say \"%s\"", error->message, says);
}

static void
test_plan (void)
{
  User a, b, decoder;
  GstH3Plan *plans[3];

  get_card (0, 2);
  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&decoder, DECODER, 0, GST_H3_RESIDENCY_AUTO);
  b.request.workspace = SIZE;
  plans[0] = plan (&a, NULL);
  plans[1] = plan (&b, NULL);
  g_assert_nonnull (plans[1]); /* they take turns */
  assert_no_plan (&decoder, "a device with more memory");
  gst_h3_plan_free (plans[1]);
  plans[2] = plan (&decoder, NULL);
  assert_no_plan (&b, "make a smaller clip");
  b.request.workspace = 0;
  plans[1] = plan (&b, NULL);
  g_assert_nonnull (plans[1]);
  gst_h3_plan_free (plans[1]);
  b.residency = GST_H3_RESIDENCY_PIPELINE;
  assert_no_plan (&b, "set residency=auto");
  b.residency = GST_H3_RESIDENCY_AUTO;
  b.request.budget = SIZE;
  assert_no_plan (&b, "raise memory-budget");
  gst_h3_plan_free (plans[0]);
  gst_h3_plan_free (plans[2]);
  user_clear (&a);
  user_clear (&b);
  user_clear (&decoder);
}

/* What is there for a job alone shares the room with what takes turns, unless it
 * is kept. */
static void
test_plan_passing (void)
{
  User a, b, guest;
  GstH3Plan *plans[3];

  get_card (0, 2);
  user_init (&a, FIRST, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&b, SECOND, 0, GST_H3_RESIDENCY_AUTO);
  user_init (&guest, GUEST, 0, GST_H3_RESIDENCY_PIPELINE);
  b.request.workspace = guest.request.workspace = SIZE;
  plans[0] = plan (&a, NULL);
  plans[1] = plan (&b, NULL);
  plans[2] = plan (&guest, NULL);
  g_assert_nonnull (plans[2]);
  gst_h3_plan_free (plans[2]);
  guest.residency = GST_H3_RESIDENCY_PROCESS;
  assert_no_plan (&guest, "set residency=auto");
  guest.residency = GST_H3_RESIDENCY_PIPELINE;
  guest.request.workspace = SIZE + 10;
  assert_no_plan (&guest, "guest 1000 bytes of weights, 1010 of workspace");
  gst_h3_plan_free (plans[0]);
  gst_h3_plan_free (plans[1]);
  user_clear (&a);
  user_clear (&b);
  user_clear (&guest);
}

/* --- devices --- */

static void
test_failed_device (void)
{
  g_autoptr (GError) error = NULL;
  User user;

  get_card (7, 10);
  user_init (&user, FIRST, 7, GST_H3_RESIDENCY_AUTO);
  work (&user);
  h3_device_fail (user.device, "an illegal address");
  assert_no_work (&user, H3_ERROR_DEVICE, "restart the process");
  g_assert_null (gst_h3_runtime_get_device (GST_H3_BACKEND_CUDA, 7, &error));
  g_assert_error (error, H3_ERROR, H3_ERROR_DEVICE);
  user_clear (&user);
}

/* One device, and so one turn, however it is named. */
static void
test_same_device (void)
{
  H3Device *any = get_device (-1), *named = get_device (0);
  H3Device *other = get_device (1), *again = get_device (-1);

  g_assert_true (any == named);
  g_assert_true (any == again);
  g_assert_true (any != other);
  h3_device_unref (any);
  h3_device_unref (named);
  h3_device_unref (other);
  h3_device_unref (again);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  int result;

  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  GST_DEBUG_CATEGORY_INIT (gst_h3_runtime_debug, "h3runtime", 0, "H3");
  checkpoint =
      h3_checkpoint_open (g_getenv ("H3_DEMO_DIR"), H3_PARTITION_FL2VA, &error);
  g_assert_no_error (error);
  cards_insert ();
  g_test_add_func ("/residency/least-recently-used", test_least_recently_used);
  g_test_add_func ("/residency/room-enough", test_room_enough);
  g_test_add_func ("/residency/stage", test_stage);
  g_test_add_func ("/residency/shared", test_shared);
  g_test_add_func ("/residency/never-parked", test_never_parked);
  g_test_add_func ("/residency/workspace", test_workspace);
  g_test_add_func ("/residency/too-large", test_too_large);
  g_test_add_func ("/residency/budget", test_budget);
  g_test_add_func ("/residency/host-full", test_host_full);
  g_test_add_func ("/residency/unpark-fails", test_unpark_fails);
  g_test_add_func ("/residency/load-fails", test_load_fails);
  g_test_add_func ("/residency/cpu", test_cpu);
  g_test_add_func ("/residency/decoder-waits", test_decoder_waits);
  g_test_add_func ("/residency/cancel-waiting", test_cancel_waiting);
  g_test_add_func ("/residency/no-vain-wait", test_no_vain_wait);
  g_test_add_func ("/residency/turns", test_turns);
  g_test_add_func ("/residency/promised", test_promised);
  g_test_add_func ("/residency/leaving", test_leaving);
  g_test_add_func ("/residency/contention", test_contention);
  g_test_add_func ("/residency/preload", test_preload);
  g_test_add_func ("/residency/plan", test_plan);
  g_test_add_func ("/residency/plan-passing", test_plan_passing);
  g_test_add_func ("/residency/failed-device", test_failed_device);
  g_test_add_func ("/residency/same-device", test_same_device);
  result = g_test_run ();
  h3_checkpoint_free (checkpoint);
  return result;
}
