/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which models are on a device: loading, parking, and the plan.
 *
 * Who needs room parks idle models, the one longest unused first, waits for
 * room that is about to come, or is told that there is none. Nobody waits in a
 * circle: a job that has the turn waits for models that are just being moved
 * and for workspace that is just being allocated, and whoever moves or
 * allocates waits for nobody; all others may wait for the job that has the turn
 * as well. */
#include "gst/gsth3runtime-private.h"

#include "model/memory-plan.h"

GST_DEBUG_CATEGORY_EXTERN (gst_h3_runtime_debug);
#define GST_CAT_DEFAULT gst_h3_runtime_debug

#define BYTES G_GUINT64_FORMAT

#define lock gst_h3_runtime_lock
#define changed gst_h3_runtime_changed

struct _GstH3Plan {
  const GstH3ModelKind *kind;
  GstH3DeviceEntry *entry;
  gchar *key; /* the model's */
  GstH3Residency residency;
  guint64 weights, workspace;
};

static guint64
less (guint64 a, guint64 b)
{
  return a > b ? a - b : 0;
}

/* --- with the lock held: what is where --- */

static gboolean
is_resident (const GstH3Model *model)
{
  return !model->moving && model->model &&
         !(model->parking && h3_parking_is_parked (model->parking));
}

static gboolean
may_park (GstH3Residency residency)
{
  return residency == GST_H3_RESIDENCY_AUTO ||
         residency == GST_H3_RESIDENCY_STAGE;
}

/* Not when any of its users wants it to stay. */
static gboolean
is_parkable (const GstH3Model *model)
{
  if (model->kind->stage == 0 || model->keep)
    return FALSE;
  for (guint i = 0; i < GST_H3_N_RESIDENCIES; i++) {
    if (model->holders[i] > 0 && !may_park (i))
      return FALSE;
  }
  return TRUE;
}

/* Calls @func for every model of the device but @except. */
typedef void (*ModelFunc) (GstH3Model *model, gpointer user_data);

static void
for_each_model (const GstH3DeviceEntry *entry, const GstH3Model *except,
    ModelFunc func, gpointer user_data)
{
  GHashTable *models = gst_h3_runtime_models ();
  GHashTableIter iter;
  gpointer value;

  if (!models)
    return;
  g_hash_table_iter_init (&iter, models);
  while (g_hash_table_iter_next (&iter, NULL, &value)) {
    GstH3Model *model = value;

    if (model->entry == entry && model != except)
      func (model, user_data);
  }
}

/* What the device's memory holds besides a model that needs room. */
typedef struct {
  guint64 resident; /* weights of all, those on their way included */
  guint64 idle;     /* of those, what can be parked now */
  guint64 moving;   /* what can be parked once it has arrived, or is leaving */
  guint64 busy;     /* what can be parked after the job that has begun */
  guint64 kept;     /* could be parked, but its residency keeps it */
  GstH3Model *oldest;
} Content;

static void
add_content (GstH3Model *model, gpointer user_data)
{
  Content *content = user_data;

  if (!is_resident (model) && !model->moving)
    return;
  content->resident += model->weights;
  if (!is_parkable (model)) {
    if (model->kind->stage > 0)
      content->kept += model->weights;
  } else if (model->moving) {
    content->moving += model->weights;
  } else if (model->busy) {
    content->busy += model->weights;
  } else {
    content->idle += model->weights;
    if (!content->oldest || model->last_used < content->oldest->last_used)
      content->oldest = model;
  }
}

/* What a model and its workspace need, and what there is. */
typedef struct {
  guint64 needed;  /* bytes to allocate */
  guint64 lacking; /* of those */
  guint64 free, total, margin;
  guint64 budget, in_use;
  Content content;
} Room;

static void
measure (const GstH3Model *me, const GstH3Request *request, Room *room)
{
  GstH3DeviceEntry *entry = me->entry;
  guint64 weights = is_resident (me) ? 0 : me->weights;

  *room = (Room){ .budget = request->budget };
  for_each_model (entry, me, add_content, &room->content);
  room->needed = weights + less (request->workspace, request->held);

  entry->device->ops->memory_info (entry->device, &room->free, &room->total);
  room->margin = h3_memory_margin (room->total);
  if (room->total > 0) /* else the device cannot tell */
    room->lacking =
        less (room->needed + room->margin + entry->loading + entry->promised,
            room->free);
  /* nothing to allocate is never too much, but a budget may be exceeded */
  room->lacking = MIN (room->lacking, room->needed);

  room->in_use = room->content.resident + entry->promised + entry->taken +
                 entry->leaving + (me->weights - weights) +
                 MIN (request->held, request->workspace);
  if (room->budget > 0)
    room->lacking =
        MAX (room->lacking, less (room->in_use + room->needed, room->budget));
}

/* Room that comes without anybody's help; @has_turn: nobody else's job does. */
static guint64
could_come (const GstH3DeviceEntry *entry, const Room *room, gboolean has_turn)
{
  const Content *content = &room->content;

  return content->idle + content->moving + entry->promised + entry->leaving +
         (has_turn ? 0 : content->busy + entry->taken);
}

/* --- saying that there is no room --- */

static const gchar *
advice (const GstH3Request *request, guint64 weights, guint64 possible,
    guint64 kept)
{
  if (kept > 0)
    return "set residency=auto or residency=stage wherever it is pipeline or "
           "process, so that models can take turns";
  if (request->workspace > 0 && weights <= possible)
    return "make a smaller clip";
  if (request->budget > 0)
    return "raise memory-budget or use a smaller checkpoint";
  return "use a smaller checkpoint or a device with more memory";
}

static void
set_no_space (const GstH3Model *me, const GstH3Request *request,
    const Room *room, guint64 coming, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  guint64 weights = is_resident (me) ? 0 : me->weights;

  g_string_printf (text,
      "The %s needs %" BYTES " bytes on %s (%" BYTES " of weights%s, %" BYTES
      " of workspace); %" BYTES " of %" BYTES
      " bytes are free, of which %" BYTES " stay in reserve",
      me->kind->name, room->needed, me->entry->device->name, me->weights,
      weights ? "" : ", which are there", request->workspace, room->free,
      room->total, room->margin);
  if (room->content.resident > 0)
    g_string_append_printf (text,
        ", and other models take %" BYTES ", of which %" BYTES
        " can be parked now",
        room->content.resident, room->content.idle);
  if (room->budget > 0)
    g_string_append_printf (text,
        "; memory-budget allows %" BYTES ", of which %" BYTES " are in use",
        room->budget, room->in_use);
  g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE, "%s: %s", text->str,
      advice (request, weights, less (room->needed + coming, room->lacking),
          room->content.kept));
}

/* --- moving models --- */

/* With the lock held, in which it is free meanwhile. */
static void
begin_move (GstH3Model *model)
{
  model->moving = TRUE;
  model->users++;
  g_mutex_unlock (&lock);
}

static void
end_move (GstH3Model *model)
{
  g_mutex_lock (&lock);
  model->moving = FALSE;
  model->users--;
  g_cond_broadcast (&changed);
}

/* Without the lock. FALSE when it was freed instead: the host has no room for
 * a copy, or its memory is the device's. */
static gboolean
park_or_free (GstH3Model *model, const H3Stop *stop, gboolean *cancelled,
    GError **error)
{
  GError *reason = NULL;

  *cancelled = FALSE;
  if (model->parking && h3_parking_park (model->parking, stop, &reason))
    return TRUE;
  if (g_error_matches (reason, H3_ERROR, H3_ERROR_CANCELLED)) {
    *cancelled = TRUE;
    g_propagate_error (error, reason);
    return FALSE;
  }
  if (reason)
    GST_WARNING ("cannot park the %s, it will be loaded again: %s",
        model->kind->name, reason->message);
  g_clear_error (&reason);
  g_clear_pointer (&model->parking, h3_parking_free);
  model->kind->unref (model->model);
  model->model = NULL;
  return FALSE;
}

/* With the lock held: the idle model leaves the device. FALSE when @stop asks
 * to end. */
static gboolean
park (GstH3Model *model, const H3Stop *stop, GError **error)
{
  gint64 start = g_get_monotonic_time ();
  gboolean parked, cancelled;

  begin_move (model);
  parked = park_or_free (model, stop, &cancelled, error);
  end_move (model);
  if (!cancelled) {
    model->parks++;
    GST_INFO ("%s the %s, %" BYTES " bytes, in %" G_GINT64_FORMAT " ms",
        parked ? "parked" : "freed", model->kind->name, model->weights,
        (g_get_monotonic_time () - start) / 1000);
  }
  gst_h3_runtime_drop_if_unused (model);
  return !cancelled;
}

typedef struct {
  GstH3Model *model;
  const GstH3Request *request;
} Load;

/* What has arrived is no longer to come. */
static void
load_progress (guint64 done, guint64 total, gpointer user_data)
{
  Load *load = user_data;
  GstH3Model *model = load->model;

  g_mutex_lock (&lock);
  model->entry->loading -= model->loading;
  model->loading = less (model->weights, done);
  model->entry->loading += model->loading;
  g_mutex_unlock (&lock);
  if (load->request->progress)
    load->request->progress (done, total, load->request->user_data);
}

/* Without the lock. */
static gboolean
load (GstH3Model *model, const GstH3Request *request, GError **error)
{
  Load data = { model, request };
  gint64 start = g_get_monotonic_time ();
  guint ms;

  model->model = model->kind->load (request->checkpoint, model->entry->device,
      request->stop, load_progress, &data, error);
  if (!model->model)
    return FALSE;
  if (model->kind->tensors && !model->entry->device->host_memory)
    model->parking = h3_parking_new (model->kind->tensors (model->model));
  ms = (g_get_monotonic_time () - start) / 1000;
  g_mutex_lock (&lock);
  model->loads++;
  model->load_ms = ms;
  g_mutex_unlock (&lock);
  GST_INFO ("loaded the %s in %u ms", model->kind->name, ms);
  return TRUE;
}

/* Without the lock. */
static gboolean
unpark (GstH3Model *model, const GstH3Request *request, GError **error)
{
  gint64 start = g_get_monotonic_time ();

  if (!h3_parking_unpark (model->parking, request->stop, error))
    return FALSE;
  GST_INFO ("brought the %s back, %" BYTES " bytes, in %" G_GINT64_FORMAT " ms",
      model->kind->name, model->weights,
      (g_get_monotonic_time () - start) / 1000);
  return TRUE;
}

/* With the lock held; there is room. */
static gboolean
bring (GstH3Model *model, const GstH3Request *request, GError **error)
{
  gboolean good;

  model->loading = model->weights;
  model->entry->loading += model->loading;
  begin_move (model);
  good = model->model ? unpark (model, request, error)
                      : load (model, request, error);
  end_move (model);
  model->entry->loading -= model->loading;
  model->loading = 0;
  return good;
}

/* With the lock held, which may be free meanwhile. When TRUE there was room at
 * the end. */
static gboolean
make_room (GstH3Model *me, const GstH3Request *request, gboolean has_turn,
    GError **error)
{
  for (;;) {
    Room room;
    guint64 coming;

    measure (me, request, &room);
    if (room.lacking == 0)
      return TRUE;
    coming = could_come (me->entry, &room, has_turn);
    if (room.lacking > coming) {
      set_no_space (me, request, &room, coming, error);
      return FALSE;
    }
    if (room.content.oldest) {
      if (!park (room.content.oldest, request->stop, error))
        return FALSE;
    } else if (!gst_h3_runtime_wait (request->stop, error)) {
      return FALSE;
    }
  }
}

/* With the lock held, which may be free meanwhile: the model is on the device
 * and there is room for the workspace. */
static gboolean
make_ready (GstH3Model *model, const GstH3Request *request, gboolean has_turn,
    GError **error)
{
  for (;;) {
    if (!h3_device_check (model->entry->device, error))
      return FALSE;
    if (model->moving) {
      if (!gst_h3_runtime_wait (request->stop, error))
        return FALSE;
    } else if (!make_room (model, request, has_turn, error)) {
      return FALSE;
    } else if (is_resident (model)) {
      return TRUE;
    } else if (!model->moving && !bring (model, request, error)) {
      return FALSE;
    }
  }
}

/* --- what users call --- */

static void
note_use (GstH3Model *model)
{
  static guint64 uses;

  model->last_used = ++uses;
}

gpointer
gst_h3_model_load (GstH3Model *model, const GstH3Request *request,
    GError **error)
{
  gpointer loaded = NULL;

  g_mutex_lock (&lock);
  model->weights = request->weights;
  if (make_ready (model, request, FALSE, error)) {
    loaded = model->model;
    model->entry->promised += less (request->workspace, request->held);
    note_use (model);
  }
  g_mutex_unlock (&lock);
  return loaded;
}

gpointer
gst_h3_model_begin (GstH3Model *model, const GstH3Request *request,
    GError **error)
{
  GstH3DeviceEntry *entry = model->entry;
  gpointer loaded = NULL;

  if (!gst_h3_runtime_take_turn (entry->device, request->stop, error))
    return NULL;
  g_mutex_lock (&lock);
  model->weights = request->weights;
  model->busy = TRUE; /* nobody parks it from here on */
  if (make_ready (model, request, TRUE, error)) {
    loaded = model->model;
    model->promised = less (request->workspace, request->held);
    entry->promised += model->promised;
    note_use (model);
  } else {
    model->busy = FALSE;
  }
  g_mutex_unlock (&lock);
  if (!loaded)
    gst_h3_runtime_end_turn (entry->device);
  return loaded;
}

static void
settle (GstH3Model *model)
{
  model->entry->promised -= model->promised;
  model->entry->taken += model->promised;
  model->taken += model->promised;
  model->promised = 0;
}

void
gst_h3_model_settle (GstH3Model *model, guint64 bytes)
{
  g_mutex_lock (&lock);
  if (model->kind->stage > 0)
    settle (model);
  else
    model->entry->promised -= bytes;
  g_cond_broadcast (&changed);
  g_mutex_unlock (&lock);
}

void
gst_h3_model_end (GstH3Model *model, GstH3Residency residency)
{
  H3Device *device = model->entry->device;

  g_mutex_lock (&lock);
  settle (model);
  model->entry->taken -= model->taken;
  model->taken = 0;
  model->busy = FALSE;
  note_use (model);
  if (residency == GST_H3_RESIDENCY_STAGE && is_parkable (model))
    park (model, NULL, NULL);
  g_cond_broadcast (&changed);
  g_mutex_unlock (&lock);
  gst_h3_runtime_end_turn (device);
}

/* --- the plan --- */

/* All that is planned on a device, each model once. */
typedef struct {
  H3MemoryPlan plan;
  guint64 kept;     /* of what stays, what could be parked */
  guint turns;      /* how many models could take turns */
  guint64 capacity; /* what there is for all of it */
  guint first;      /* the first stage that is planned */
  guint64 free, total, margin;
  GString *text; /* each model, for people */
} Sum;

static const GstH3Plan *
find_plan (const GstH3DeviceEntry *entry, const gchar *key, guint end)
{
  for (guint i = 0; i < end; i++) {
    const GstH3Plan *plan = g_ptr_array_index (entry->plans, i);

    if (g_str_equal (plan->key, key))
      return plan;
  }
  return NULL;
}

/* Whether it can be away while others need the room. */
static gboolean
may_leave (const GstH3Plan *plan)
{
  return plan->kind->passing ? plan->residency != GST_H3_RESIDENCY_PROCESS
                             : may_park (plan->residency);
}

static gboolean
takes_turns (const GstH3ModelKind *kind)
{
  return kind->stage > 0 || kind->passing;
}

/* All elements that share the model let it leave. */
static gboolean
is_planned_parkable (const GstH3DeviceEntry *entry, const GstH3Plan *of)
{
  for (guint i = 0; i < entry->plans->len; i++) {
    const GstH3Plan *plan = g_ptr_array_index (entry->plans, i);

    if (g_str_equal (plan->key, of->key) && !may_leave (plan))
      return FALSE;
  }
  return takes_turns (of->kind);
}

static guint64
largest_workspace (const GstH3DeviceEntry *entry, const gchar *key)
{
  guint64 workspace = 0;

  for (guint i = 0; i < entry->plans->len; i++) {
    const GstH3Plan *plan = g_ptr_array_index (entry->plans, i);

    if (g_str_equal (plan->key, key))
      workspace = MAX (workspace, plan->workspace);
  }
  return workspace;
}

static void
sum_plan (Sum *sum, const GstH3DeviceEntry *entry, const GstH3Plan *plan)
{
  guint64 workspace = largest_workspace (entry, plan->key);
  gboolean parkable = is_planned_parkable (entry, plan);
  GHashTable *models = gst_h3_runtime_models ();
  const GstH3Model *model =
      models ? g_hash_table_lookup (models, plan->key) : NULL;

  h3_memory_plan_add (&sum->plan, plan->weights, workspace, parkable);
  if (!parkable && takes_turns (plan->kind))
    sum->kept += plan->weights;
  sum->turns += takes_turns (plan->kind);
  if (plan->kind->stage > 0)
    sum->first =
        sum->first ? MIN (sum->first, plan->kind->stage) : plan->kind->stage;
  g_string_append_printf (sum->text,
      "%s%s %" BYTES " bytes of weights%s, %" BYTES " of workspace",
      sum->text->len > 0 ? "; " : "", plan->kind->name, plan->weights,
      model && is_resident (model) ? " (loaded)" : "", workspace);
}

typedef struct {
  const GstH3DeviceEntry *entry;
  Sum *sum;
  guint64 resident;
} Unplanned;

static void
add_unplanned (GstH3Model *model, gpointer user_data)
{
  Unplanned *data = user_data;

  if (!is_resident (model) && !model->moving)
    return;
  data->resident += model->weights - model->loading;
  if (find_plan (data->entry, model->key, data->entry->plans->len))
    return;
  h3_memory_plan_add (&data->sum->plan, model->weights, 0, FALSE);
  g_string_append_printf (data->sum->text, "%s%s %" BYTES " bytes (kept)",
      data->sum->text->len > 0 ? "; " : "", model->kind->name, model->weights);
}

/* With the lock held; free with sum_clear(). */
static void
sum_plans (const GstH3DeviceEntry *entry, Sum *sum)
{
  Unplanned unplanned = { .entry = entry, .sum = sum };

  *sum = (Sum){ .text = g_string_new (NULL) };
  for (guint i = 0; i < entry->plans->len; i++) {
    const GstH3Plan *plan = g_ptr_array_index (entry->plans, i);

    if (!find_plan (entry, plan->key, i))
      sum_plan (sum, entry, plan);
  }
  for_each_model (entry, NULL, add_unplanned, &unplanned);

  entry->device->ops->memory_info (entry->device, &sum->free, &sum->total);
  sum->margin = h3_memory_margin (sum->total);
  sum->capacity =
      sum->total == 0
          ? G_MAXUINT64
          : less (sum->free + unplanned.resident + entry->taken, sum->margin);
}

static void
sum_clear (Sum *sum)
{
  g_string_free (sum->text, TRUE);
}

static gboolean
fits_at_once (const Sum *sum)
{
  return h3_memory_plan_whole (&sum->plan) <= sum->capacity;
}

static gboolean
check_sum (const GstH3DeviceEntry *entry, const Sum *sum,
    const GstH3Request *request, GError **error)
{
  guint64 needed = h3_memory_plan_least (&sum->plan);
  guint64 capacity =
      request->budget ? MIN (sum->capacity, request->budget) : sum->capacity;

  if (needed <= capacity)
    return TRUE;
  g_set_error (error, H3_ERROR, H3_ERROR_NO_SPACE,
      "%" BYTES " bytes are needed at a time on %s (%s), and %" BYTES
      " can be used: %" BYTES " of %" BYTES " are free, of which %" BYTES
      " stay in reserve%s; %s",
      needed, entry->device->name, sum->text->str, capacity, sum->free,
      sum->total, sum->margin,
      capacity < sum->capacity ? ", but memory-budget is less" : "",
      advice (request, less (needed, request->workspace), capacity,
          sum->turns > 1 ? sum->kept : 0));
  return FALSE;
}

gboolean
gst_h3_plan_update (GstH3Plan *plan, GstH3Residency residency,
    const GstH3Request *request, GError **error)
{
  GstH3DeviceEntry *entry = plan->entry;
  gboolean fits;
  Sum sum;

  g_mutex_lock (&lock);
  entry->plan_changed |= plan->residency != residency ||
                         plan->weights != request->weights ||
                         plan->workspace != request->workspace;
  plan->residency = residency;
  plan->weights = request->weights;
  plan->workspace = request->workspace;
  sum_plans (entry, &sum);
  fits = check_sum (entry, &sum, request, error);
  sum_clear (&sum);
  g_mutex_unlock (&lock);
  return fits;
}

GstH3Plan *
gst_h3_plan_new (const GstH3ModelKind *kind, H3Device *device,
    GstH3Residency residency, const GstH3Request *request, GError **error)
{
  gchar *key =
      gst_h3_runtime_model_key (kind, request->checkpoint, device, error);
  GstH3Plan *plan;

  if (!key)
    return NULL;
  plan = g_new0 (GstH3Plan, 1);
  plan->kind = kind;
  plan->key = key;
  g_mutex_lock (&lock);
  plan->entry = gst_h3_runtime_find_device (device);
  plan->entry->plan_changed = TRUE;
  g_ptr_array_add (plan->entry->plans, plan);
  g_mutex_unlock (&lock);
  if (!gst_h3_plan_update (plan, residency, request, error))
    g_clear_pointer (&plan, gst_h3_plan_free);
  return plan;
}

void
gst_h3_plan_free (GstH3Plan *plan)
{
  g_mutex_lock (&lock);
  plan->entry->plan_changed = TRUE;
  g_ptr_array_remove (plan->entry->plans, plan);
  g_mutex_unlock (&lock);
  g_free (plan->key);
  g_free (plan);
}

void
gst_h3_plan_log (const GstH3Plan *plan)
{
  GstH3DeviceEntry *entry = plan->entry;
  Sum sum;

  g_mutex_lock (&lock);
  if (entry->plan_changed) {
    entry->plan_changed = FALSE;
    sum_plans (entry, &sum);
    GST_INFO ("plan for %s, %" BYTES " of %" BYTES " bytes free, %" BYTES
              " in reserve: %s: %s",
        entry->device->name, sum.free, sum.total, sum.margin, sum.text->str,
        fits_at_once (&sum) ? "all of it stays on the device"
                            : "what takes turns is parked when others need "
                              "the room");
    sum_clear (&sum);
  }
  g_mutex_unlock (&lock);
}

/* With the lock held: what is needed later must not be in the way. */
static gboolean
may_preload (const GstH3Model *model, const GstH3Request *request)
{
  Room room;
  Sum sum;
  gboolean good;

  measure (model, request, &room);
  if (room.lacking > 0)
    return FALSE;
  sum_plans (model->entry, &sum);
  if (request->budget)
    sum.capacity = MIN (sum.capacity, request->budget);
  good = fits_at_once (&sum) || model->kind->stage <= sum.first;
  sum_clear (&sum);
  return good;
}

gboolean
gst_h3_model_preload (GstH3Model *model, const GstH3Request *request,
    GError **error)
{
  gboolean good = TRUE;

  g_mutex_lock (&lock);
  model->weights = request->weights;
  while (good && model->moving)
    good = gst_h3_runtime_wait (request->stop, error);
  if (good && !is_resident (model) && !model->model) {
    if (may_preload (model, request))
      good = h3_device_check (model->entry->device, error) &&
             bring (model, request, error);
    else
      GST_INFO ("the %s is left for its first job: others need the room now",
          model->kind->name);
  }
  note_use (model);
  g_mutex_unlock (&lock);
  return good;
}
