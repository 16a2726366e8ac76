/* The inner loops of the node table (node_table.py) in C: follow changed nodes, score, find the best node, know which
 * shapes fit nowhere. Optional: without this module the same loops run in Python and NumPy, which are the reference.
 * Both compute the same numbers to the last bit (the same operations in the same order, and no fused multiply-add: the
 * compiler is told so) and choose the same witnesses.
 *
 * A Table holds idle capacity, one row of nodes per resource, and the journal of the nodes that changed. A View holds
 * what one shape asks for, its score on every node, its witness and its spares. The arrays belong to NumPy; Python
 * reads them too.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

/* Functions with this mark are compiled for several processors, and the loader takes the best: vectors of eight numbers
 * instead of two. The numbers are the same. */
#if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12 && !defined(__clang__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#define INLINE static inline __attribute__((always_inline))
#else
#define WIDE
#define INLINE static inline
#endif

#define BLOCK 64 /* nodes of which the highest score is kept, so that the best node is found without reading all */
#define ALL_PAYS 10 /* with more than a tenth of the nodes changed, one pass over all costs less than one at a time */
#define MOST_RESOURCES 64 /* more than a cluster has; with more, all is left to Python */
#define SPARES 32 /* as in node_table.py */

/* --- table ---------------------------------------------------------------------------------------------------- */

typedef struct View View;

typedef struct {
    Py_ssize_t resource;
    int64_t amount;
    int32_t next; /* the next amount reserved on the same node; -1: none */
} Reserved;

typedef struct {
    PyObject_HEAD
    PyObject *rooms;     /* per node, its list of idle amounts, as ClusterNode keeps it */
    Py_buffer idle;      /* int64, width rows of count nodes: the same amounts, as of `synced` */
    Py_buffer offered;   /* float64, as idle: allocatable amounts, infinite where they are zero */
    Py_ssize_t width, count;
    int32_t *journal;    /* nodes whose idle capacity changed, in order */
    Py_ssize_t size, room;
    Py_ssize_t synced;   /* the position in the journal that `idle` reflects */
    int64_t begin;       /* how many entries were dropped from the journal so far */
    View **watching;     /* per node, the first of the views of which it is the witness */
    Py_ssize_t *grown;   /* the nodes that grew last, ascending */
    Py_ssize_t grown_count;
    int64_t grown_number; /* how often nodes grew */
    Reserved *reserved;  /* what must stay idle; NULL: nothing */
    int32_t *reserved_on; /* per node, the first amount reserved there; -1: none */
} Table;

static int take_array(PyObject *from, Py_buffer *into, const char *format, Py_ssize_t length, int writable) {
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(from, into, flags) < 0) return -1;
    int known = into->format && into->format[0] && !into->format[1];
    if (known && strchr(format, into->format[0]) && into->len == length * into->itemsize) return 0;
    PyBuffer_Release(into);
    PyErr_SetString(PyExc_ValueError, "an array has another type or length");
    return -1;
}

static void table_free(Table *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->rooms);
    if (self->idle.obj) PyBuffer_Release(&self->idle);
    if (self->offered.obj) PyBuffer_Release(&self->offered);
    PyMem_Free(self->journal);
    PyMem_Free(self->watching);
    PyMem_Free(self->grown);
    PyMem_Free(self->reserved);
    PyMem_Free(self->reserved_on);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *rooms, *idle, *offered;
    Py_ssize_t width;
    if (named && PyDict_GET_SIZE(named)) return PyErr_Format(PyExc_TypeError, "Table takes no named arguments");
    if (!PyArg_ParseTuple(args, "O!nOO", &PyList_Type, &rooms, &width, &idle, &offered)) return NULL;
    if (width < 0 || width > MOST_RESOURCES) return PyErr_Format(PyExc_ValueError, "too many resources");
    Table *self = (Table *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->count = PyList_GET_SIZE(rooms);
    self->width = width;
    self->rooms = Py_NewRef(rooms);
    if (take_array(idle, &self->idle, "lq", width * self->count, 1) < 0 ||
        take_array(offered, &self->offered, "d", width * self->count, 0) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    if (!(self->watching = PyMem_Calloc(self->count + 1, sizeof(View *)))) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

/* Record that a node changed. Its idle amounts are read when they are next needed. */
static PyObject *table_note(Table *self, PyObject *number) {
    Py_ssize_t node = PyLong_AsSsize_t(number);
    if (node == -1 && PyErr_Occurred()) return NULL;
    if (node < 0 || node >= self->count) return PyErr_Format(PyExc_IndexError, "there is no node %zd", node);
    if (self->size == self->room) {
        Py_ssize_t room = self->room ? 2 * self->room : 1024;
        int32_t *larger = PyMem_Resize(self->journal, int32_t, room);
        if (!larger) return PyErr_NoMemory();
        self->journal = larger;
        self->room = room;
    }
    self->journal[self->size++] = (int32_t)node;
    Py_RETURN_NONE;
}

/* Read the idle amounts of the nodes that changed. */
static int table_catch_up(Table *self) {
    int64_t *idle = self->idle.buf;
    for (; self->synced < self->size; self->synced++) {
        Py_ssize_t node = self->journal[self->synced];
        PyObject *room = PyList_GET_ITEM(self->rooms, node);
        if (!PyList_Check(room) || PyList_GET_SIZE(room) < self->width) {
            PyErr_SetString(PyExc_ValueError, "a node has fewer amounts than the table");
            return -1;
        }
        for (Py_ssize_t j = 0; j < self->width; j++) {
            int64_t amount = PyLong_AsLongLong(PyList_GET_ITEM(room, j));
            if (amount == -1 && PyErr_Occurred()) return -1;
            idle[j * self->count + node] = amount;
        }
    }
    return 0;
}

static PyObject *table_sync(Table *self, PyObject *unused) {
    (void)unused;
    if (table_catch_up(self) < 0) return NULL;
    Py_RETURN_NONE;
}

/* Drop the journal. A view that lags behind is scored anew when it is next read. */
static PyObject *table_forget(Table *self, PyObject *unused) {
    (void)unused;
    if (table_catch_up(self) < 0) return NULL;
    self->begin += self->size;
    self->size = self->synced = 0;
    Py_RETURN_NONE;
}

static Py_ssize_t table_length(Table *self) { return self->size; }

/* --- view ----------------------------------------------------------------------------------------------------- */

typedef struct {
    Py_ssize_t resource;
    int64_t amount;
} Ask;

typedef struct {
    int part;
    double weight;
} Weight;

struct View {
    PyObject_HEAD
    Table *table;
    /* What is read whenever the witness may be full: next to each other, because there are thousands of views. */
    View *next, *before; /* the neighbours among the views with the same witness */
    Py_ssize_t asks;
    Ask *ask;            /* what a node must have */
    const uint8_t *may;  /* per node: whether the shape may run there at all */
    int everywhere;      /* whether that is so on all nodes */
    int32_t witness;     /* a node where the shape fits; -1: none is known */
    int32_t *spares;     /* other nodes where it fitted when a witness was last searched, the next one last */
    Py_ssize_t spare_count;
    int64_t complete_at; /* if witness and spares were all of them: the value of `gains` then */
    int64_t found_number; /* the growth of nodes outside of which it fitted nowhere (0: unknown) */
    int64_t found_at;    /* the value of `growths` then */
    int64_t index;       /* that of the TaskShape */
    PyObject *shape;
    /* What is read when nodes are scored. */
    int64_t seen;        /* the position that the scores reflect, counted from the first entry ever; -1: none */
    double *tops;        /* the highest score of each block of nodes */
    Py_ssize_t parts, weights, evens;
    Ask *part;           /* what it is scored by: the part of a resource that stays idle beside the task */
    Weight *weight;      /* how much each part counts */
    int *even;           /* the parts that should be alike */
    double uneven;       /* what one unit of deviation between them costs */
    Py_buffer mask;      /* the array behind `may` */
    Py_buffer fixed;     /* float64 per node, or one for all: the part of the score that idle capacity does not affect */
    Py_buffer scores;    /* float64 per node */
};

/* Let a view have no witness. */
static void leave_witness(View *self) {
    if (self->witness < 0) return;
    if (self->next) self->next->before = self->before;
    if (self->before) self->before->next = self->next;
    else self->table->watching[self->witness] = self->next;
    self->witness = -1;
    self->next = self->before = NULL;
}

static void set_witness(View *self, Py_ssize_t node) {
    leave_witness(self);
    self->witness = (int32_t)node;
    self->next = self->table->watching[node];
    if (self->next) self->next->before = self;
    self->table->watching[node] = self;
}

static void view_free(View *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->table) leave_witness(self);
    Py_XDECREF(self->table);
    Py_XDECREF(self->shape);
    PyMem_Free(self->spares);
    if (self->mask.obj) PyBuffer_Release(&self->mask);
    if (self->fixed.obj) PyBuffer_Release(&self->fixed);
    if (self->scores.obj) PyBuffer_Release(&self->scores);
    PyMem_Free(self->tops);
    PyMem_Free(self->ask);
    PyMem_Free(self->part);
    PyMem_Free(self->weight);
    PyMem_Free(self->even);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Pairs of a resource and an amount; how many, or -1. */
static Py_ssize_t read_asks(PyObject *pairs, Ask **into, Py_ssize_t width) {
    Py_ssize_t many = PySequence_Size(pairs);
    if (many < 0) return -1;
    if (many > width) {
        PyErr_SetString(PyExc_ValueError, "more amounts than resources");
        return -1;
    }
    if (!(*into = PyMem_New(Ask, many))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < many; k++) {
        PyObject *pair = PySequence_GetItem(pairs, k);
        long long resource, amount;
        int read = pair && PyArg_ParseTuple(pair, "LL", &resource, &amount);
        Py_XDECREF(pair);
        if (!read) return -1;
        if (resource < 0 || resource >= width) {
            PyErr_SetString(PyExc_ValueError, "a resource is not in the table");
            return -1;
        }
        (*into)[k] = (Ask){resource, amount};
    }
    return many;
}

/* The position of a part, or -1. */
static int find_part(const View *self, long long resource, long long amount) {
    for (Py_ssize_t k = 0; k < self->parts; k++)
        if (self->part[k].resource == resource && self->part[k].amount == amount) return (int)k;
    PyErr_SetString(PyExc_ValueError, "a score depends on a part that is not listed");
    return -1;
}

static Py_ssize_t read_weights(View *self, PyObject *linear) {
    Py_ssize_t many = PySequence_Size(linear);
    if (many < 0) return -1;
    if (!(self->weight = PyMem_New(Weight, many))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < many; k++) {
        PyObject *entry = PySequence_GetItem(linear, k);
        long long resource, amount;
        int read = entry && PyArg_ParseTuple(entry, "LLd", &resource, &amount, &self->weight[k].weight);
        Py_XDECREF(entry);
        if (!read || (self->weight[k].part = find_part(self, resource, amount)) < 0) return -1;
    }
    return many;
}

static Py_ssize_t read_evens(View *self, PyObject *pairs) {
    Ask *even = NULL;
    Py_ssize_t many = read_asks(pairs, &even, self->table->width);
    if (many >= 0 && !(self->even = PyMem_New(int, many))) {
        PyErr_NoMemory();
        many = -1;
    }
    for (Py_ssize_t k = 0; k < many; k++)
        if ((self->even[k] = find_part(self, even[k].resource, even[k].amount)) < 0) many = -1;
    PyMem_Free(even);
    return many;
}

static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *table, *shape, *mask, *fixed, *scores, *items, *parts, *linear, *even;
    long long index;
    double uneven;
    if (named && PyDict_GET_SIZE(named)) return PyErr_Format(PyExc_TypeError, "View takes no named arguments");
    if (!PyArg_ParseTuple(args, "OOLOOOOOOOd", &table, &shape, &index, &mask, &fixed, &scores, &items, &parts, &linear,
                          &even, &uneven))
        return NULL;
    if (Py_TYPE(table)->tp_dealloc != (destructor)table_free)
        return PyErr_Format(PyExc_TypeError, "a View belongs to a Table");
    View *self = (View *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->table = (Table *)Py_NewRef(table);
    self->shape = Py_NewRef(shape);
    self->index = index;
    self->seen = self->witness = self->complete_at = self->found_at = -1;
    self->uneven = uneven;
    const Py_ssize_t count = self->table->count, width = self->table->width;
    const Py_ssize_t numbers = PyObject_Length(fixed) == 1 ? 1 : count;
    if (take_array(mask, &self->mask, "?", count, 0) < 0 || take_array(fixed, &self->fixed, "d", numbers, 0) < 0 ||
        take_array(scores, &self->scores, "d", count, 1) < 0 ||
        (self->asks = read_asks(items, &self->ask, width)) < 0 ||
        (self->parts = read_asks(parts, &self->part, width)) < 0 ||
        (self->weights = read_weights(self, linear)) < 0 || (self->evens = read_evens(self, even)) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    self->may = self->mask.buf;
    self->everywhere = !memchr(self->may, 0, count);
    if (!(self->tops = PyMem_New(double, (count + BLOCK - 1) / BLOCK))) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

INLINE int fits(const View *self, Py_ssize_t node) {
    const int64_t *idle = self->table->idle.buf;
    for (Py_ssize_t k = 0; k < self->asks; k++)
        if (idle[self->ask[k].resource * self->table->count + node] < self->ask[k].amount) return 0;
    /* Last, because all shapes share the idle amounts, and this may have to come from memory. */
    return self->everywhere || self->may[node];
}

/* The scores of the nodes from `first` on, at most BLOCK of them, as if all of them fitted. As NodeTable._score. */
INLINE void score_nodes(const View *self, Py_ssize_t first, Py_ssize_t many, double *total) {
    const Table *table = self->table;
    const double *fixed = self->fixed.buf;
    const int one_for_all = self->fixed.len == sizeof(double);
    double part[MOST_RESOURCES][BLOCK], mean[BLOCK], spread[BLOCK];
    for (Py_ssize_t k = 0; k < self->parts; k++) {
        const Py_ssize_t row = self->part[k].resource * table->count + first;
        const int64_t *idle = (const int64_t *)table->idle.buf + row, amount = self->part[k].amount;
        const double *offered = (const double *)table->offered.buf + row;
        for (Py_ssize_t i = 0; i < many; i++) part[k][i] = (double)(idle[i] - amount) / offered[i];
    }
    for (Py_ssize_t i = 0; i < many; i++) total[i] = one_for_all ? *fixed : fixed[first + i];
    for (Py_ssize_t k = 0; k < self->weights; k++) {
        const double weight = self->weight[k].weight, *one = part[self->weight[k].part];
        for (Py_ssize_t i = 0; i < many; i++) total[i] = total[i] + weight * one[i];
    }
    if (self->uneven == 0.0 || !self->evens) return;
    if (self->evens == 2) {
        const double *one = part[self->even[0]], *two = part[self->even[1]];
        for (Py_ssize_t i = 0; i < many; i++) total[i] = total[i] - self->uneven * (fabs(one[i] - two[i]) / 2.0);
        return;
    }
    for (Py_ssize_t i = 0; i < many; i++) mean[i] = part[self->even[0]][i], spread[i] = 0.0;
    for (Py_ssize_t k = 1; k < self->evens; k++)
        for (Py_ssize_t i = 0; i < many; i++) mean[i] = mean[i] + part[self->even[k]][i];
    for (Py_ssize_t i = 0; i < many; i++) mean[i] = mean[i] / (double)self->evens;
    for (Py_ssize_t k = 0; k < self->evens; k++)
        for (Py_ssize_t i = 0; i < many; i++) {
            const double off = part[self->even[k]][i] - mean[i];
            spread[i] = spread[i] + off * off;
        }
    for (Py_ssize_t i = 0; i < many; i++) total[i] = total[i] - self->uneven * sqrt(spread[i] / (double)self->evens);
}

/* Which of the nodes from `first` on, at most BLOCK of them, have room for the shape; returns how many. */
INLINE int find_room(const View *self, Py_ssize_t first, Py_ssize_t many, uint8_t *here) {
    const Table *table = self->table;
    const uint8_t *mask = self->may + first;
    memset(here, 1, many);
    for (Py_ssize_t k = 0; k < self->asks; k++) {
        const int64_t *idle = (const int64_t *)table->idle.buf + self->ask[k].resource * table->count + first;
        const int64_t amount = self->ask[k].amount;
        for (Py_ssize_t i = 0; i < many; i++) here[i] &= idle[i] >= amount;
    }
    int fitting = 0;
    for (Py_ssize_t i = 0; i < many; i++) fitting += here[i];
    if (!fitting || self->everywhere) return fitting;
    fitting = 0;
    for (Py_ssize_t i = 0; i < many; i++) fitting += here[i] &= mask[i];
    return fitting;
}

INLINE void find_top(const View *self, Py_ssize_t block) {
    const double *scores = self->scores.buf;
    Py_ssize_t end = (block + 1) * BLOCK < self->table->count ? (block + 1) * BLOCK : self->table->count;
    double top = -INFINITY;
    for (Py_ssize_t i = block * BLOCK; i < end; i++) top = scores[i] > top ? scores[i] : top;
    self->tops[block] = top;
}

WIDE static void score_all(const View *self) {
    const Table *table = self->table;
    double *scores = self->scores.buf, total[BLOCK];
    uint8_t here[BLOCK];
    for (Py_ssize_t first = 0; first < table->count; first += BLOCK) {
        const Py_ssize_t many = table->count - first < BLOCK ? table->count - first : BLOCK;
        const int fitting = find_room(self, first, many, here);
        if (fitting) score_nodes(self, first, many, total);
        for (Py_ssize_t i = 0; i < many; i++) scores[first + i] = fitting && here[i] ? total[i] : -INFINITY;
        find_top(self, first / BLOCK);
    }
}

/* All nodes with room for the shape, in order; returns how many. */
WIDE static Py_ssize_t find_all(const View *self, Py_ssize_t *fitting) {
    const Table *table = self->table;
    Py_ssize_t count = 0;
    uint8_t here[BLOCK];
    for (Py_ssize_t first = 0; first < table->count; first += BLOCK) {
        const Py_ssize_t many = table->count - first < BLOCK ? table->count - first : BLOCK;
        if (!find_room(self, first, many, here)) continue;
        for (Py_ssize_t i = 0; i < many; i++)
            if (here[i]) fitting[count++] = first + i;
    }
    return count;
}

static void score_changed(const View *self, Py_ssize_t from) {
    const Table *table = self->table;
    double *scores = self->scores.buf, after;
    for (Py_ssize_t k = from; k < table->size; k++) {
        const Py_ssize_t node = table->journal[k];
        const double before = scores[node];
        if (fits(self, node)) score_nodes(self, node, 1, &after);
        else after = -INFINITY;
        scores[node] = after;
        double *top = &self->tops[node / BLOCK];
        if (after >= *top) *top = after;
        else if (before == *top) find_top(self, node / BLOCK);
    }
}

static int view_catch_up(View *self) {
    Table *table = self->table;
    const int64_t end = table->begin + table->size;
    if (self->seen == end) return 0;
    if (table_catch_up(table) < 0) return -1;
    const Py_ssize_t from = self->seen < table->begin ? -1 : (Py_ssize_t)(self->seen - table->begin);
    if (from < 0 || table->size - from > table->count / ALL_PAYS) score_all(self);
    else score_changed(self, from);
    self->seen = end;
    return 0;
}

static PyObject *view_follow(View *self, PyObject *unused) {
    (void)unused;
    if (view_catch_up(self) < 0) return NULL;
    Py_RETURN_NONE;
}

/* The first node with the highest score; -1: there is none. */
static PyObject *view_best(View *self, PyObject *unused) {
    (void)unused;
    if (view_catch_up(self) < 0) return NULL;
    const double *scores = self->scores.buf;
    double top = -INFINITY;
    Py_ssize_t best = -1;
    for (Py_ssize_t block = 0; block * BLOCK < self->table->count; block++)
        if (self->tops[block] > top) top = self->tops[block], best = block * BLOCK;
    if (best < 0) return PyLong_FromLong(-1);
    while (scores[best] != top) best++;
    return PyLong_FromSsize_t(best);
}

/* The first of the allowed nodes with the highest score among them; -1: there is none. */
static PyObject *view_best_among(View *self, PyObject *mask) {
    Py_buffer allowed;
    if (take_array(mask, &allowed, "?", self->table->count, 0) < 0) return NULL;
    PyObject *answer = NULL;
    if (view_catch_up(self) == 0) {
        const uint8_t *may = allowed.buf;
        const double *scores = self->scores.buf;
        double top = -INFINITY;
        Py_ssize_t best = -1;
        for (Py_ssize_t first = 0; first < self->table->count; first += BLOCK) {
            if (!(self->tops[first / BLOCK] > top)) continue;
            const Py_ssize_t end = first + BLOCK < self->table->count ? first + BLOCK : self->table->count;
            for (Py_ssize_t i = first; i < end; i++)
                if (may[i] && scores[i] > top) top = scores[i], best = i;
        }
        answer = PyLong_FromSsize_t(best);
    }
    PyBuffer_Release(&allowed);
    return answer;
}

/* --- witnesses ------------------------------------------------------------------------------------------------- */

/* Whether a task would use what is reserved on a node. */
static int uses_reserved(const View *self, Py_ssize_t node) {
    const Table *table = self->table;
    const int64_t *idle = table->idle.buf;
    for (int32_t at = table->reserved_on[node]; at >= 0; at = table->reserved[at].next)
        for (Py_ssize_t k = 0; k < self->asks; k++)
            if (self->ask[k].resource == table->reserved[at].resource &&
                idle[self->ask[k].resource * table->count + node] - self->ask[k].amount < table->reserved[at].amount)
                return 1;
    return 0;
}

INLINE int has_room(const View *self, Py_ssize_t node) {
    return fits(self, node) && !(self->table->reserved && uses_reserved(self, node));
}

/* Take one of the nodes where a shape fits as witness, others as spares; whether there is one, or -1. */
static int choose_witness(View *self, const Py_ssize_t *fitting, Py_ssize_t count, int64_t gains) {
    self->complete_at = count <= SPARES ? gains : -1;
    if (!count) return 0;
    const Py_ssize_t step = count > SPARES ? count / SPARES : 1, many = (count + step - 1) / step;
    const Py_ssize_t chosen = (Py_ssize_t)(self->index * 7919 % many);
    int32_t *spares = PyMem_Resize(self->spares, int32_t, many);
    if (!spares) {
        PyErr_NoMemory();
        return -1;
    }
    self->spares = spares;
    self->spare_count = 0;
    for (Py_ssize_t k = 0; k < many; k++)
        if (k != chosen) spares[self->spare_count++] = (int32_t)fitting[k * step];
    set_witness(self, fitting[chosen * step]);
    return 1;
}

/* Find another node where a shape fits after its witness is full, among the spares first; whether there is one, or -1.
 * `fitting` has room for all nodes. */
static int find_witness(View *self, Py_ssize_t *fitting, int64_t gains, int64_t growths) {
    const Table *table = self->table;
    while (self->spare_count) {
        const Py_ssize_t node = self->spares[--self->spare_count];
        if (has_room(self, node)) {
            set_witness(self, node);
            return 1;
        }
    }
    if (self->complete_at == gains) return 0;
    Py_ssize_t count = 0;
    if (self->found_number && self->found_number == table->grown_number && self->found_at == growths) {
        for (Py_ssize_t k = 0; k < table->grown_count; k++)
            if (fits(self, table->grown[k])) fitting[count++] = table->grown[k];
    } else
        count = find_all(self, fitting);
    if (table->reserved) {
        Py_ssize_t kept = 0;
        for (Py_ssize_t k = 0; k < count; k++)
            if (!uses_reserved(self, fitting[k])) fitting[kept++] = fitting[k];
        count = kept;
    }
    return choose_witness(self, fitting, count, gains);
}

/* Whether a shape fits anywhere now; finds another witness if the old one is full. */
static PyObject *view_fits_somewhere(View *self, PyObject *const *args, Py_ssize_t given) {
    if (given != 2) return PyErr_Format(PyExc_TypeError, "fits_somewhere takes two numbers");
    const int64_t gains = PyLong_AsLongLong(args[0]), growths = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred() || table_catch_up(self->table) < 0) return NULL;
    if (self->witness >= 0 && has_room(self, self->witness)) Py_RETURN_TRUE;
    leave_witness(self);
    Py_ssize_t *fitting = PyMem_New(Py_ssize_t, self->table->count);
    if (!fitting) return PyErr_NoMemory();
    const int found = find_witness(self, fitting, gains, growths);
    PyMem_Free(fitting);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

/* The shapes that fit nowhere now that a node has less idle capacity, in no particular order. */
static PyObject *table_lose(Table *self, PyObject *const *args, Py_ssize_t given) {
    if (given != 3) return PyErr_Format(PyExc_TypeError, "lose takes three numbers");
    const Py_ssize_t node = PyLong_AsSsize_t(args[0]);
    const int64_t gains = PyLong_AsLongLong(args[1]), growths = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (node < 0 || node >= self->count) return PyErr_Format(PyExc_IndexError, "there is no node %zd", node);
    PyObject *full = PyList_New(0);
    if (!full || !self->watching[node]) return full;
    Py_ssize_t *fitting = PyMem_New(Py_ssize_t, self->count);
    int failed = table_catch_up(self) < 0;
    if (!fitting) failed = 1, PyErr_NoMemory();
    for (View *view = self->watching[node], *next; view && !failed; view = next) {
        next = view->next;
        if (has_room(view, node)) continue;
        leave_witness(view);
        const int found = find_witness(view, fitting, gains, growths); /* any node but this one */
        failed = found < 0 || (!found && PyList_Append(full, view->shape) < 0);
    }
    PyMem_Free(fitting);
    if (failed) Py_CLEAR(full);
    return full;
}

static int compare_nodes(const void *one, const void *other) {
    const Py_ssize_t a = *(const Py_ssize_t *)one, b = *(const Py_ssize_t *)other;
    return (a > b) - (a < b);
}

/* Those nodes of a list on which a shape has room, in order; returns how many. `idle` are the amounts of these nodes
 * alone, as rows; `mask` the mask of the view for them. */
WIDE static Py_ssize_t find_among(const View *self, const Py_ssize_t *nodes, Py_ssize_t many, const int64_t *idle,
                                  const uint8_t *mask, Py_ssize_t *fitting) {
    Py_ssize_t count = 0;
    uint8_t here[BLOCK];
    for (Py_ssize_t first = 0; first < many; first += BLOCK) {
        const Py_ssize_t some = many - first < BLOCK ? many - first : BLOCK;
        memset(here, 1, some);
        for (Py_ssize_t k = 0; k < self->asks; k++) {
            const int64_t *row = idle + self->ask[k].resource * many + first, amount = self->ask[k].amount;
            for (Py_ssize_t i = 0; i < some; i++) here[i] &= row[i] >= amount;
        }
        for (Py_ssize_t i = 0; i < some; i++) here[i] &= mask[first + i];
        for (Py_ssize_t i = 0; i < some; i++) {
            fitting[count] = nodes[first + i];
            count += here[i];
        }
    }
    return count;
}

/* Those of the shapes that fit on one of these nodes, which becomes their witness. */
static PyObject *table_grow(Table *self, PyObject *const *args, Py_ssize_t given) {
    if (given != 5 || !PyList_Check(args[0]) || !PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "grow takes views, nodes, whether no other node grew, and two numbers");
    PyObject *views = args[0];
    const Py_ssize_t many = PyList_GET_SIZE(args[1]);
    const int nowhere_else = args[2] == Py_True;
    const int64_t gains = PyLong_AsLongLong(args[3]), growths = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred() || table_catch_up(self) < 0) return NULL;
    PyObject *found = PyList_New(0);
    Py_ssize_t *nodes = PyMem_New(Py_ssize_t, many), *fitting = PyMem_New(Py_ssize_t, many + 1);
    int64_t *idle = PyMem_New(int64_t, self->width * many);
    uint8_t *mask = PyMem_New(uint8_t, many);
    const uint8_t *mask_of = NULL;
    int failed = 1;
    if (!found || !nodes || !fitting || !idle || !mask) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t k = 0; k < many; k++) {
        nodes[k] = PyLong_AsSsize_t(PyList_GET_ITEM(args[1], k));
        if (nodes[k] == -1 && PyErr_Occurred()) goto done;
        if (nodes[k] < 0 || nodes[k] >= self->count) {
            PyErr_Format(PyExc_IndexError, "there is no node %zd", nodes[k]);
            goto done;
        }
        for (Py_ssize_t j = 0; j < self->width; j++)
            idle[j * many + k] = ((const int64_t *)self->idle.buf)[j * self->count + nodes[k]];
    }
    int64_t number = 0;
    if (nowhere_else && !self->reserved) {
        Py_ssize_t *grown = PyMem_Resize(self->grown, Py_ssize_t, many);
        if (!grown) {
            PyErr_NoMemory();
            goto done;
        }
        memcpy(grown, nodes, many * sizeof(Py_ssize_t));
        qsort(grown, many, sizeof(Py_ssize_t), compare_nodes);
        self->grown = grown;
        self->grown_count = many;
        number = ++self->grown_number;
    }
    for (Py_ssize_t v = 0; v < PyList_GET_SIZE(views); v++) {
        View *view = (View *)PyList_GET_ITEM(views, v);
        if (Py_TYPE(view)->tp_dealloc != (destructor)view_free || view->table != self) {
            PyErr_SetString(PyExc_TypeError, "not a View of this Table");
            goto done;
        }
        if (mask_of != view->may) { /* most shapes have the same */
            mask_of = view->may;
            for (Py_ssize_t k = 0; k < many; k++) mask[k] = mask_of[nodes[k]];
        }
        Py_ssize_t count = find_among(view, nodes, many, idle, mask, fitting);
        if (self->reserved) {
            Py_ssize_t kept = 0;
            for (Py_ssize_t k = 0; k < count; k++)
                if (!uses_reserved(view, fitting[k])) fitting[kept++] = fitting[k];
            count = kept;
        }
        const int fits_here = choose_witness(view, fitting, count, gains);
        if (fits_here < 0 || (fits_here && PyList_Append(found, view->shape) < 0)) goto done;
        view->found_number = number;
        view->found_at = growths;
        if (!nowhere_else) view->complete_at = -1;
    }
    failed = 0;
done:
    PyMem_Free(nodes);
    PyMem_Free(fitting);
    PyMem_Free(idle);
    PyMem_Free(mask);
    if (failed) Py_CLEAR(found);
    return found;
}

/* Keep amounts idle on nodes: a dictionary of lists of items; with an empty one nothing is reserved any more. */
static PyObject *table_reserve(Table *self, PyObject *room) {
    if (!PyDict_Check(room)) return PyErr_Format(PyExc_TypeError, "not a dictionary");
    PyMem_Free(self->reserved);
    PyMem_Free(self->reserved_on);
    self->reserved = NULL;
    self->reserved_on = NULL;
    if (!PyDict_GET_SIZE(room)) Py_RETURN_NONE;
    Py_ssize_t at = 0, size = 0;
    int32_t many = 0;
    PyObject *number, *needs;
    Reserved *reserved = PyMem_New(Reserved, 1);
    int32_t *reserved_on = PyMem_New(int32_t, self->count);
    if (!reserved || !reserved_on) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < self->count; i++) reserved_on[i] = -1;
    while (PyDict_Next(room, &at, &number, &needs)) {
        const Py_ssize_t node = PyLong_AsSsize_t(number);
        if (node == -1 && PyErr_Occurred()) goto failed;
        if (node < 0 || node >= self->count || !PyList_Check(needs)) {
            PyErr_SetString(PyExc_ValueError, "reserved are lists of amounts, by node");
            goto failed;
        }
        for (Py_ssize_t n = 0; n < PyList_GET_SIZE(needs); n++) {
            Ask *ask = NULL;
            const Py_ssize_t asks = read_asks(PyList_GET_ITEM(needs, n), &ask, self->width);
            Reserved *larger = asks < 0 ? NULL : PyMem_Resize(reserved, Reserved, size + asks + 1);
            if (!larger) {
                PyMem_Free(ask);
                if (!PyErr_Occurred()) PyErr_NoMemory();
                goto failed;
            }
            reserved = larger;
            size += asks;
            for (Py_ssize_t k = 0; k < asks; k++) {
                reserved[many] = (Reserved){ask[k].resource, ask[k].amount, reserved_on[node]};
                reserved_on[node] = many++;
            }
            PyMem_Free(ask);
        }
    }
    self->reserved = reserved;
    self->reserved_on = reserved_on;
    Py_RETURN_NONE;
failed:
    PyMem_Free(reserved);
    PyMem_Free(reserved_on);
    return NULL;
}

/* The witness, the spares and `complete_at`, for tests. */
static PyObject *view_search(View *self, PyObject *unused) {
    (void)unused;
    PyObject *spares = PyList_New(self->spare_count);
    for (Py_ssize_t k = 0; spares && k < self->spare_count; k++) {
        PyObject *node = PyLong_FromLong(self->spares[k]);
        if (!node) Py_CLEAR(spares);
        else PyList_SET_ITEM(spares, k, node);
    }
    return spares ? Py_BuildValue("iNL", (int)self->witness, spares, (long long)self->complete_at) : NULL;
}

/* --- module --------------------------------------------------------------------------------------------------- */

static PyMethodDef table_methods[] = {
    {"note", (PyCFunction)table_note, METH_O, "Record that the idle capacity of a node changed."},
    {"sync", (PyCFunction)table_sync, METH_NOARGS, "Bring the idle array up to date."},
    {"forget", (PyCFunction)table_forget, METH_NOARGS, "Drop the journal."},
    {"lose", (PyCFunction)(void (*)(void))table_lose, METH_FASTCALL, "The shapes that fit nowhere any more."},
    {"grow", (PyCFunction)(void (*)(void))table_grow, METH_FASTCALL, "The shapes that fit on some nodes."},
    {"reserve", (PyCFunction)table_reserve, METH_O, "Keep amounts idle."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot table_slots[] = {
    {Py_tp_doc, "Idle capacity of all nodes, and the journal of those that changed."},
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_free},
    {Py_tp_methods, table_methods},
    {Py_sq_length, table_length},
    {0, NULL},
};
static PyType_Spec table_spec = {
    "pumice.engine.placement.node_kernel.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, table_slots};

static PyMethodDef view_methods[] = {
    {"follow", (PyCFunction)view_follow, METH_NOARGS, "Bring the scores up to date."},
    {"best", (PyCFunction)view_best, METH_NOARGS, "The first node with the highest score; -1: there is none."},
    {"best_among", (PyCFunction)view_best_among, METH_O, "The same among some nodes."},
    {"fits_somewhere", (PyCFunction)(void (*)(void))view_fits_somewhere, METH_FASTCALL, "Whether a task fits now."},
    {"search", (PyCFunction)view_search, METH_NOARGS, "The witness, the spares, and when they were all there are."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot view_slots[] = {
    {Py_tp_doc, "The nodes as seen by one shape."},
    {Py_tp_new, view_new},
    {Py_tp_dealloc, view_free},
    {Py_tp_methods, view_methods},
    {0, NULL},
};
static PyType_Spec view_spec = {
    "pumice.engine.placement.node_kernel.View", sizeof(View), 0, Py_TPFLAGS_DEFAULT, view_slots};

static int add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static int fill_module(PyObject *module) {
    if (add_type(module, &table_spec) < 0 || add_type(module, &view_spec) < 0) return -1;
    return PyModule_AddIntConstant(module, "MOST_RESOURCES", MOST_RESOURCES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pumice.engine.placement.node_kernel",
    .m_doc = "The inner loops of the node table.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_node_kernel(void) { return PyModuleDef_Init(&definition); }
