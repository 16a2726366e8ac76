/* The arithmetic on piecewise-linear curves (polyline.py) in C. Optional: without this module the same arithmetic runs in
 * NumPy, which is the reference. Both compute the same numbers to the last bit: the same operations in the same order,
 * and no fused multiply-add (the compiler is told so).
 *
 * Arrays come in as buffers. What is new goes out as bytearrays, of which Python makes arrays.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 8              /* rows that running_total adds up before it continues with totals of blocks */
#define LEVEL_TOLERANCE 1e-12 /* relative: levels that are closer are the same level */
#define SHORT 12             /* runs up to this length are sorted by insertion */

/* --- arrays --------------------------------------------------------------------------------------------------- */

/* What an array of a function holds: 'q' int64, 'd' float64, '?' bool. A function names the arrays that it takes by
 * groups of these letters, one letter an array: the arrays of a group are as long as its first; in capitals, they are
 * changed; 'r' are rows of float64. */
static int take_array(PyObject *from, Py_buffer *into, char kind) {
    const char changed = kind == 'Q' || kind == 'D', *wanted = kind == 'Q' || kind == 'q' ? "lq" : kind == '?' ? "?" : "d";
    if (PyObject_GetBuffer(from, into, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (changed ? PyBUF_WRITABLE : 0)) < 0) return -1;
    const char *format = into->format ? into->format : "B";
    const int known = format[0] && !format[1] && strchr(wanted, format[0]) && into->itemsize == (kind == '?' ? 1 : 8);
    if (known && into->ndim == (kind == 'r' ? 2 : 1)) return 0;
    PyBuffer_Release(into);
    PyErr_SetString(PyExc_ValueError, "an array has another type or shape");
    return -1;
}

static void release(Py_buffer *arrays, Py_ssize_t many) {
    for (Py_ssize_t k = 0; k < many; k++) PyBuffer_Release(&arrays[k]);
}

/* Take the arrays of a function from its arguments, in groups that blanks separate; returns 0, or -1. */
static int take_arrays(PyObject *const *args, Py_ssize_t given, const char *groups, Py_buffer *into) {
    Py_ssize_t taken = 0, length = -1;
    for (const char *kind = groups; *kind; kind++) {
        if (*kind == ' ') {
            length = -1;
            continue;
        }
        if (taken == given) {
            PyErr_SetString(PyExc_TypeError, "more arrays are needed");
            goto failed;
        }
        if (take_array(args[taken], &into[taken], *kind) < 0) goto failed;
        const Py_ssize_t long_as = into[taken++].shape[0];
        if (length >= 0 && long_as != length) {
            PyErr_SetString(PyExc_ValueError, "an array has another length");
            goto failed;
        }
        length = long_as;
    }
    if (taken == given) return 0;
    PyErr_SetString(PyExc_TypeError, "fewer arrays are needed");
failed:
    release(into, taken);
    return -1;
}

/* A bytearray for so many numbers of 8 bytes. */
static PyObject *new_array(Py_ssize_t length) { return PyByteArray_FromStringAndSize(NULL, 8 * length); }

static void *numbers(PyObject *array) { return PyByteArray_AS_STRING(array); }

/* --- sorting -------------------------------------------------------------------------------------------------- */

typedef struct {
    double by;
    Py_ssize_t at;
} Key;

/* Sort keys; equal ones keep their order. `spare` has as much room. Runs that are in order already are not moved. */
static void sort_keys(Key *keys, Key *spare, Py_ssize_t many) {
    for (Py_ssize_t first = 0; first < many; first += SHORT) {
        const Py_ssize_t end = first + SHORT < many ? first + SHORT : many;
        for (Py_ssize_t i = first + 1; i < end; i++) {
            const Key key = keys[i];
            Py_ssize_t k = i;
            for (; k > first && keys[k - 1].by > key.by; k--) keys[k] = keys[k - 1];
            keys[k] = key;
        }
    }
    for (Py_ssize_t run = SHORT; run < many; run *= 2)
        for (Py_ssize_t first = 0; first + run < many; first += 2 * run) {
            const Py_ssize_t middle = first + run, end = middle + run < many ? middle + run : many;
            if (keys[middle - 1].by <= keys[middle].by) continue;
            memcpy(spare, keys + first, run * sizeof(Key));
            Py_ssize_t left = 0, right = middle, to = first;
            while (left < run && right < end) keys[to++] = keys[right].by < spare[left].by ? keys[right++] : spare[left++];
            memcpy(keys + to, spare + left, (run - left) * sizeof(Key));
        }
}

/* --- sums ----------------------------------------------------------------------------------------------------- */

/* As running_total in polyline.py, of one run. `spare` has room for an eighth of the rows, and an eighth of that, ... */
static void running_total(double *rows, Py_ssize_t many, Py_ssize_t width, double *spare) {
    for (Py_ssize_t step = 1; step < BLOCK && step < many; step *= 2)
        for (Py_ssize_t i = many - 1; i >= step; i--)
            if (i % BLOCK >= step)
                for (Py_ssize_t j = 0; j < width; j++) rows[i * width + j] += rows[(i - step) * width + j];
    const Py_ssize_t blocks = many / BLOCK;
    if (many <= BLOCK) return;
    for (Py_ssize_t b = 0; b < blocks; b++)
        memcpy(spare + b * width, rows + (b * BLOCK + BLOCK - 1) * width, width * sizeof(double));
    running_total(spare, blocks, width, spare + blocks * width);
    for (Py_ssize_t i = BLOCK; i < many; i++)
        for (Py_ssize_t j = 0; j < width; j++) rows[i * width + j] += spare[(i / BLOCK - 1) * width + j];
}

/* --- leaves --------------------------------------------------------------------------------------------------- */

typedef struct {
    const double *weight, *held, *most, *rows;
    Py_ssize_t width;
    Key *keys, *spare;
    double *past, *slope, *sums;
} Leaves;

/* The signed amount by which an entry of a curve (see leaf_curves) counts, or its signed weight. Entries are numbered:
 * the leaves from `first` on, then those of them that have begun, and last the start of the curve. */
static Py_ssize_t leaf_of(const Py_ssize_t *begun, Py_ssize_t entry, Py_ssize_t first, Py_ssize_t many, double *sign) {
    *sign = entry < many ? 1.0 : -1.0;
    if (entry < many) return first + entry;
    if (begun[entry - many] >= 0) return begun[entry - many];
    *sign = 0.0;
    return first;
}

/* The points of the curve of these leaves; returns how many. */
static Py_ssize_t leaf_curve(Leaves *all, Py_ssize_t first, Py_ssize_t end, Py_ssize_t *begun, double *level, double *given) {
    const Py_ssize_t many = end - first, width = all->width;
    Py_ssize_t entries = many, points = 0;
    double lowest = INFINITY;
    for (Py_ssize_t i = first; i < end; i++) {
        all->keys[i - first] = (Key){all->most[i] / all->weight[i], i - first};
        const double start = all->held[i] / all->weight[i];
        if (start < lowest) lowest = start;
        if (all->held[i] > 0) {
            begun[entries - many] = i;
            all->keys[entries] = (Key){start, entries};
            entries++;
        }
    }
    begun[entries - many] = -1;
    all->keys[entries] = (Key){lowest, entries};
    entries++;
    sort_keys(all->keys, all->spare, entries);
    for (Py_ssize_t k = 0; k < entries; k++) {
        double sign;
        const Py_ssize_t entry = all->keys[k].at, leaf = leaf_of(begun, entry, first, many, &sign);
        const double bound = sign == 0.0 ? 0.0 : entry < many ? all->most[leaf] : all->held[leaf];
        const double amount = sign * bound, weight = sign * all->weight[leaf], *row = all->rows + leaf * width;
        double *past = all->past + k * width, *slope = all->slope + (entries - 1 - k) * width;
        for (Py_ssize_t j = 0; j < width; j++) past[j] = row[j] * amount, slope[j] = row[j] * weight;
    }
    running_total(all->past, entries, width, all->sums);
    running_total(all->slope, entries, width, all->sums);
    for (Py_ssize_t k = 0; k < entries; k++) {
        if (k + 1 < entries && all->keys[k].by == all->keys[k + 1].by) continue; /* one point per level */
        /* The slope beyond this point: what comes after it, so one entry less of the reversed sums. */
        const double *past = all->past + k * width, *slope = all->slope + (entries - 2 - k) * width;
        const double at = level[points] = all->keys[k].by;
        for (Py_ssize_t j = 0; j < width; j++) {
            const double sum = past[j] + at * (k + 1 < entries ? slope[j] : 0.0);
            given[points * width + j] = points && sum > 0.0 ? sum : 0.0;
        }
        points++;
    }
    return points;
}

static PyObject *leaf_curves(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[5];
    if (take_arrays(args, given, "qdddr", array) < 0) return NULL;
    const int64_t *of = array[0].buf;
    const Py_ssize_t count = array[0].len / 8, width = array[4].shape[1], most = 3 * count;
    Leaves all = {array[1].buf, array[2].buf, array[3].buf, array[4].buf, width, NULL, NULL, NULL, NULL, NULL};
    PyObject *made[3] = {new_array(most), new_array(most), new_array(most * width)}, *answer = NULL;
    Py_ssize_t *begun = PyMem_New(Py_ssize_t, count + 1), points = 0;
    all.keys = PyMem_New(Key, most), all.spare = PyMem_New(Key, most);
    all.past = PyMem_New(double, most * width), all.slope = PyMem_New(double, most * width);
    all.sums = PyMem_New(double, (most / (BLOCK - 1) + 1) * width);
    if (!made[0] || !made[1] || !made[2] || !begun || !all.keys || !all.spare || !all.past || !all.slope || !all.sums) {
        PyErr_NoMemory();
        goto done;
    }
    int64_t *owner = numbers(made[0]);
    double *level = numbers(made[1]), *sums = numbers(made[2]);
    for (Py_ssize_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && of[end] == of[first]; end++) {}
        const Py_ssize_t more = leaf_curve(&all, first, end, begun, level + points, sums + points * width);
        for (Py_ssize_t k = 0; k < more; k++) owner[points + k] = of[first];
        points += more;
    }
    if (PyByteArray_Resize(made[0], 8 * points) < 0 || PyByteArray_Resize(made[1], 8 * points) < 0 ||
        PyByteArray_Resize(made[2], 8 * points * width) < 0)
        goto done;
    answer = PyTuple_Pack(3, made[0], made[1], made[2]);
done:
    for (int k = 0; k < 3; k++) Py_XDECREF(made[k]);
    PyMem_Free(begun), PyMem_Free(all.keys), PyMem_Free(all.spare);
    PyMem_Free(all.past), PyMem_Free(all.slope), PyMem_Free(all.sums);
    release(array, 5);
    return answer;
}

/* --- sums of curves ------------------------------------------------------------------------------------------- */

/* A curve while curves are added: the places of its points in the common order of its group, and what is given there. */
typedef struct {
    Py_ssize_t many;
    Py_ssize_t *place;
    double *rows;
} Curve;

/* The places that the points of a group have in common. */
typedef struct {
    double *level, *sliver;
} Places;

/* The fraction of a position on the segment from a to b; 0 if b equals a. */
static double way_between(double level, double sliver, double level_a, double sliver_a, double level_b, double sliver_b) {
    const int halted = level_a == level_b;
    const double span = halted ? sliver_b - sliver_a : level_b - level_a;
    const double gone = halted ? sliver - sliver_a : level - level_a;
    if (!(span > 0)) return 0.0;
    const double way = gone / span;
    return way < 0.0 ? 0.0 : way > 1.0 ? 1.0 : way;
}

/* Add to a row what a curve gives at a place: between its point `before` (-1: it has not begun) and the next. */
static void add_row(const Places *common, const Curve *curve, Py_ssize_t before, Py_ssize_t place, Py_ssize_t width, double *row) {
    if (before < 0) return;
    const Py_ssize_t after = before + 1 < curve->many ? before + 1 : before;
    const Py_ssize_t a = curve->place[before], b = curve->place[after];
    const double way = way_between(
        common->level[place], common->sliver[place], common->level[a], common->sliver[a], common->level[b], common->sliver[b]);
    const double *low = curve->rows + before * width, *high = curve->rows + after * width;
    for (Py_ssize_t j = 0; j < width; j++) {
        double given = way * (high[j] - low[j]);
        given = low[j] + given;
        row[j] = given + row[j];
    }
}

/* The sum of two curves, with one point for each place where one of them has points. `right` may be empty. */
static void add_two(const Places *common, const Curve *left, const Curve *right, Py_ssize_t width, Curve *sum) {
    Py_ssize_t l = -1, r = -1;
    sum->many = 0;
    while (l + 1 < left->many || r + 1 < right->many) {
        Py_ssize_t place = l + 1 < left->many ? left->place[l + 1] : PY_SSIZE_T_MAX;
        if (r + 1 < right->many && right->place[r + 1] < place) place = right->place[r + 1];
        while (l + 1 < left->many && left->place[l + 1] == place) l++;
        while (r + 1 < right->many && right->place[r + 1] == place) r++;
        const int from_right = r >= 0 && right->place[r] == place;
        double *row = sum->rows + sum->many * width;
        memcpy(row, from_right ? right->rows + r * width : left->rows + l * width, width * sizeof(double));
        add_row(common, from_right ? left : right, from_right ? l : r, place, width, row);
        sum->place[sum->many++] = place;
    }
}

typedef struct {
    const int64_t *curve;
    const double *level, *rows;
    Py_ssize_t width;
    double *at_level, *at_sliver; /* of every point */
    Py_ssize_t *number, *place;   /* of every point: its level, and its place, counted from 0 in each group */
    Key *keys, *spare;
    Curve *curves;
    Py_ssize_t *free_place[2];
    double *free_rows[2];
} Points;

/* Settle the levels of a group's points, number them, and set the slivers of those that share a level with others. */
static void settle_levels(Points *all, Py_ssize_t first, Py_ssize_t end) {
    const Py_ssize_t many = end - first;
    for (Py_ssize_t i = first; i < end; i++) all->keys[i - first] = (Key){all->level[i], i};
    sort_keys(all->keys, all->spare, many);
    Py_ssize_t number = 0;
    double settled = 0.0;
    for (Py_ssize_t k = 0; k < many; k++) {
        const Py_ssize_t i = all->keys[k].at;
        const double level = all->keys[k].by;
        if (!k || level - all->keys[k - 1].by > LEVEL_TOLERANCE * level) settled = level, number += k > 0;
        all->number[i] = number;
        all->at_level[i] = settled;
    }
    double halt = 0.0, before = 0.0;
    for (Py_ssize_t i = first; i < end; i++) {
        const double dominant = all->rows[i * all->width + all->width - 1];
        if (i == first || all->curve[i] != all->curve[i - 1] || all->number[i] != all->number[i - 1])
            halt = dominant, before = 0.0;
        const double sliver = dominant - halt;
        before = all->at_sliver[i] = sliver > before ? sliver : before;
    }
}

/* Number the places of a group's points, whose keys are in the order of their levels; returns how many places. */
static Py_ssize_t number_places(Points *all, Py_ssize_t many, Places *common) {
    Py_ssize_t places = 0;
    for (Py_ssize_t first = 0, end; first < many; first = end) {
        const Py_ssize_t number = all->number[all->keys[first].at];
        int halts = 0;
        for (end = first; end < many && all->number[all->keys[end].at] == number; end++) {
            all->keys[end].by = all->at_sliver[all->keys[end].at];
            halts |= all->keys[end].by > 0;
        }
        if (halts) sort_keys(all->keys + first, all->spare, end - first);
        for (Py_ssize_t k = first; k < end; k++) {
            const Py_ssize_t i = all->keys[k].at;
            if (k == first || all->keys[k].by != all->keys[k - 1].by) {
                common->level[places] = all->at_level[i];
                common->sliver[places] = all->at_sliver[i];
                places++;
            }
            all->place[i] = places - 1;
        }
    }
    return places;
}

/* Add up the curves of a group in pairs, then their sums in pairs, until one is left: what is given at each place. */
static void add_group(Points *all, Py_ssize_t first, Py_ssize_t end, const Places *common, double *given) {
    const Py_ssize_t width = all->width;
    Py_ssize_t curves = 0;
    for (Py_ssize_t i = first; i < end; i++) {
        if (i == first || all->curve[i] != all->curve[i - 1])
            all->curves[curves++] = (Curve){0, all->place + i, (double *)all->rows + i * width};
        all->curves[curves - 1].many++;
    }
    const Curve none = {0, NULL, NULL};
    for (int turn = 0; curves > 1; turn = !turn) {
        Py_ssize_t used = 0, pairs = (curves + 1) / 2;
        for (Py_ssize_t p = 0; p < pairs; p++) {
            const Curve left = all->curves[2 * p], right = 2 * p + 1 < curves ? all->curves[2 * p + 1] : none;
            Curve sum = {0, all->free_place[turn] + used, all->free_rows[turn] + used * width};
            add_two(common, &left, &right, width, &sum);
            used += sum.many;
            all->curves[p] = sum;
        }
        curves = pairs;
    }
    const Curve *whole = &all->curves[0];
    for (Py_ssize_t k = 0; k < whole->many; k++) /* of several points of a single curve for one place, the last */
        memcpy(given + whole->place[k] * width, whole->rows + k * width, width * sizeof(double));
}

/* As add_up in polyline.py: owner, level, sliver and row of the points of the sums, level and sliver of each point. */
static PyObject *sum_up(const int64_t *curve, const int64_t *group, const double *points, const double *given, Py_ssize_t count, Py_ssize_t width) {
    Points all = {.curve = curve, .level = points, .rows = given, .width = width};
    PyObject *made[6], *answer = NULL;
    for (int k = 0; k < 6; k++) made[k] = new_array(k == 3 ? count * width : count);
    Py_ssize_t places = 0;
    all.number = PyMem_New(Py_ssize_t, count), all.place = PyMem_New(Py_ssize_t, count);
    all.keys = PyMem_New(Key, count), all.spare = PyMem_New(Key, count), all.curves = PyMem_New(Curve, count + 1);
    int enough = all.number && all.place && all.keys && all.spare && all.curves;
    for (int k = 0; k < 6; k++) enough = enough && made[k];
    for (int k = 0; k < 2; k++) {
        all.free_place[k] = PyMem_New(Py_ssize_t, count), all.free_rows[k] = PyMem_New(double, count * width);
        enough = enough && all.free_place[k] && all.free_rows[k];
    }
    if (!enough) {
        PyErr_NoMemory();
        goto done;
    }
    int64_t *owner = numbers(made[0]);
    double *level = numbers(made[1]), *sliver = numbers(made[2]), *rows = numbers(made[3]);
    all.at_level = numbers(made[4]), all.at_sliver = numbers(made[5]);
    for (Py_ssize_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && group[end] == group[first]; end++) {}
        Places common = {level + places, sliver + places};
        settle_levels(&all, first, end);
        const Py_ssize_t more = number_places(&all, end - first, &common);
        add_group(&all, first, end, &common, rows + places * width);
        for (Py_ssize_t k = 0; k < more; k++) owner[places + k] = group[first];
        places += more;
    }
    for (int k = 0; k < 4; k++)
        if (PyByteArray_Resize(made[k], 8 * places * (k == 3 ? width : 1)) < 0) goto done;
    answer = PyTuple_Pack(6, made[0], made[1], made[2], made[3], made[4], made[5]);
done:
    for (int k = 0; k < 6; k++) Py_XDECREF(made[k]);
    PyMem_Free(all.number), PyMem_Free(all.place), PyMem_Free(all.keys), PyMem_Free(all.spare), PyMem_Free(all.curves);
    for (int k = 0; k < 2; k++) PyMem_Free(all.free_place[k]), PyMem_Free(all.free_rows[k]);
    return answer;
}

static PyObject *add_up(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[4];
    if (take_arrays(args, given, "qqdr", array) < 0) return NULL;
    PyObject *answer = NULL;
    if (array[3].shape[1] < 1) PyErr_SetString(PyExc_ValueError, "rows need a column");
    else answer = sum_up(array[0].buf, array[1].buf, array[2].buf, array[3].buf, array[0].shape[0], array[3].shape[1]);
    release(array, 4);
    return answer;
}

typedef struct {
    int64_t group;
    Py_ssize_t at;
} Member;

static int by_group(const void *one, const void *other) {
    const Member *a = one, *b = other;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at; /* so that equal ones keep their order */
}

/* Bring the points of leaves (whose groups ascend) and of nodes below into the order of their groups. The points of a node
 * are a curve, and so are those of the leaves of a group. */
static void collect_points(const Py_buffer *leaf, const Py_buffer *below, const Member *members, int64_t nodes,
                           int64_t *curve, int64_t *group, double *level, double *rows, Py_ssize_t *back) {
    const Py_ssize_t leaves = leaf[0].shape[0], inner = below[0].shape[0], width = leaf[2].shape[1];
    const int64_t *of = leaf[0].buf, *node = below[0].buf;
    for (Py_ssize_t to = 0, l = 0, m = 0; to < leaves + inner; to++) {
        const int from_leaf = l < leaves && (m == inner || of[l] <= members[m].group);
        const Py_ssize_t at = from_leaf ? l : members[m].at;
        group[to] = from_leaf ? of[l] : members[m].group;
        curve[to] = from_leaf ? of[l] : node[at] + nodes;
        level[to] = ((const double *)(from_leaf ? leaf[1].buf : below[1].buf))[at];
        memcpy(rows + to * width, (const double *)(from_leaf ? leaf[2].buf : below[2].buf) + at * width, width * sizeof(double));
        if (from_leaf) l++;
        else back[at] = to, m++;
    }
}

/* The sums over children, leaves and nodes below, of each node and class; and the positions of the points below. */
static PyObject *sum_children(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[9];
    if (take_arrays(args, given, "qdr qdr qq q", array) < 0) return NULL;
    const int64_t *node = array[3].buf, *parent = array[6].buf, *node_class = array[7].buf;
    const Py_ssize_t inner = array[3].shape[0], count = array[0].shape[0] + inner, width = array[2].shape[1];
    const Py_ssize_t nodes = array[6].shape[0];
    const int64_t classes = array[8].shape[0] ? *(int64_t *)array[8].buf : 0;
    PyObject *sums = NULL, *answer = NULL, *outer[2] = {new_array(inner), new_array(inner)};
    Member *members = PyMem_New(Member, inner);
    int64_t *curve = PyMem_New(int64_t, count), *group = PyMem_New(int64_t, count);
    double *level = PyMem_New(double, count), *rows = PyMem_New(double, count * width);
    Py_ssize_t *back = PyMem_New(Py_ssize_t, inner);
    if (!outer[0] || !outer[1] || !members || !curve || !group || !level || !rows || !back) {
        PyErr_NoMemory();
        goto done;
    }
    if (classes < 1 || width < 1 || array[5].shape[1] != width) {
        PyErr_SetString(PyExc_ValueError, "rows of leaves and nodes differ, or there are no classes");
        goto done;
    }
    int in_order = 1;
    for (Py_ssize_t i = 0; i < inner; i++) {
        if (node[i] < 0 || node[i] >= nodes) {
            PyErr_SetString(PyExc_IndexError, "a point belongs to no node");
            goto done;
        }
        members[i] = (Member){parent[node[i]] * classes + node_class[node[i]], i};
        in_order &= !i || members[i - 1].group <= members[i].group;
    }
    if (!in_order) qsort(members, inner, sizeof(Member), by_group);
    collect_points(array, array + 3, members, nodes * classes, curve, group, level, rows, back);
    if (!(sums = sum_up(curve, group, level, rows, count, width))) goto done;
    for (int k = 0; k < 2; k++) {
        const double *at = numbers(PyTuple_GET_ITEM(sums, 4 + k));
        double *to = numbers(outer[k]);
        for (Py_ssize_t i = 0; i < inner; i++) to[i] = at[back[i]];
    }
    answer = PyTuple_Pack(6, PyTuple_GET_ITEM(sums, 0), PyTuple_GET_ITEM(sums, 1), PyTuple_GET_ITEM(sums, 2),
                          PyTuple_GET_ITEM(sums, 3), outer[0], outer[1]);
done:
    Py_XDECREF(sums), Py_XDECREF(outer[0]), Py_XDECREF(outer[1]);
    PyMem_Free(members), PyMem_Free(curve), PyMem_Free(group), PyMem_Free(level), PyMem_Free(rows), PyMem_Free(back);
    release(array, 9);
    return answer;
}

/* --- positions ------------------------------------------------------------------------------------------------ */

static Py_ssize_t largest(const double *row, Py_ssize_t width) {
    Py_ssize_t best = 0;
    for (Py_ssize_t j = 1; j < width; j++)
        if (row[j] > row[best]) best = j;
    return best;
}

/* The crossings on one segment; returns how many, in `found` with the fractions in order. */
static Py_ssize_t crossings_between(const double *a, const double *b, Py_ssize_t width, double *there, Key *found, Key *spare) {
    Py_ssize_t many = 0;
    for (Py_ssize_t p = 0; p < width; p++)
        for (Py_ssize_t q = p + 1; q < width; q++) {
            const double lead_a = a[p] - a[q], lead_b = b[p] - b[q];
            if (!(lead_a * lead_b < 0)) continue;
            const double way = lead_a / (lead_a - lead_b);
            for (Py_ssize_t j = 0; j < width; j++) {
                const double gone = way * (b[j] - a[j]);
                there[j] = a[j] + gone;
            }
            if (there[p] >= there[largest(there, width)] * (1 - LEVEL_TOLERANCE)) found[many++] = (Key){way, 0};
        }
    sort_keys(found, spare, many);
    return many;
}

/* The amounts by which the share of a node is measured, at points of its path: what it held before and has received. Of
 * resources that are not exhausted; for jobs with heterogeneous tasks, of all. */
typedef struct {
    const int64_t *node;
    const double *rows, *base;
    const uint8_t *is_job;
    Py_ssize_t row_width, width, many;
    Py_ssize_t *column; /* the columns that are looked at */
    const uint8_t *counted;
    int with_jobs;
} Tops;

/* Read "qr" node and rows of points, "r?" base and is_job of nodes, "?" counted. 0, or -1. */
static int read_tops(const Py_buffer *array, Tops *tops) {
    const Py_ssize_t points = array[0].shape[0], nodes = array[2].shape[0];
    *tops = (Tops){.node = array[0].buf, .rows = array[1].buf, .base = array[2].buf, .is_job = array[3].buf};
    tops->row_width = array[1].shape[1], tops->width = array[2].shape[1], tops->counted = array[4].buf;
    if (tops->row_width < tops->width || array[4].shape[0] != tops->width) {
        PyErr_SetString(PyExc_ValueError, "rows have too few columns");
        return -1;
    }
    for (Py_ssize_t i = 0; i < points; i++) {
        if (tops->node[i] < 0 || tops->node[i] >= nodes) {
            PyErr_SetString(PyExc_IndexError, "a point belongs to no node");
            return -1;
        }
        tops->with_jobs |= tops->is_job[tops->node[i]];
    }
    if (!(tops->column = PyMem_New(Py_ssize_t, tops->width + 1))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t j = 0; j < tops->width; j++)
        if (tops->counted[j] || tops->with_jobs) tops->column[tops->many++] = j;
    return 0;
}

static void tops_at(const Tops *tops, Py_ssize_t point, double *into) {
    const Py_ssize_t node = tops->node[point];
    const double *base = tops->base + node * tops->width, *row = tops->rows + point * tops->row_width;
    for (Py_ssize_t k = 0; k < tops->many; k++) {
        const Py_ssize_t j = tops->column[k];
        into[k] = tops->counted[j] || tops->is_job[node] ? base[j] + row[j] : 0.0;
    }
}

static PyObject *shares(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[6];
    if (take_arrays(args, given, "qr r?d ?", array) < 0) return NULL;
    Py_buffer read[5] = {array[0], array[1], array[2], array[3], array[5]};
    const double *weight = array[4].buf;
    const Py_ssize_t points = array[0].shape[0];
    Tops tops = {0};
    PyObject *made = NULL;
    double *at = NULL;
    if (read_tops(read, &tops) < 0 || !(made = new_array(points))) goto done;
    if (!(at = PyMem_New(double, tops.many + 1))) {
        Py_CLEAR(made);
        PyErr_NoMemory();
        goto done;
    }
    double *share = numbers(made);
    for (Py_ssize_t i = 0; i < points; i++) {
        double top = 0.0;
        tops_at(&tops, i, at);
        for (Py_ssize_t k = 0; k < tops.many; k++) top = at[k] > top ? at[k] : top;
        share[i] = top / weight[tops.node[i]];
    }
done:
    PyMem_Free(tops.column), PyMem_Free(at);
    release(array, 6);
    return made;
}

typedef struct {
    Py_ssize_t after;
    double way;
} Crossing;

/* All segments on which another amount becomes the largest, in order; returns how many, or -1. */
static Py_ssize_t find_crossings(const Tops *tops, const int64_t *turn, Py_ssize_t points, Crossing **into) {
    const Py_ssize_t width = tops->many, pairs = width * (width - 1) / 2;
    Py_ssize_t many = 0, room = 0;
    Key *found = PyMem_New(Key, 2 * pairs + 1);
    double *at = PyMem_New(double, 3 * width + 1), *before = at, *here = at + width, *there = at + 2 * width;
    if (!found || !at) goto failed;
    for (Py_ssize_t i = 0; i < points && width > 1; i++) {
        double *last = before;
        before = here, here = last;
        tops_at(tops, i, here);
        if (!i || tops->node[i] != tops->node[i - 1] || turn[i] != turn[i - 1]) continue;
        if (largest(here, width) == largest(before, width)) continue;
        const Py_ssize_t more = crossings_between(before, here, width, there, found, found + pairs);
        if (many + more > room) {
            room = 2 * (many + more);
            Crossing *larger = PyMem_Resize(*into, Crossing, room);
            if (!larger) goto failed;
            *into = larger;
        }
        for (Py_ssize_t k = 0; k < more; k++) (*into)[many++] = (Crossing){i - 1, found[k].by};
    }
    PyMem_Free(found), PyMem_Free(at);
    return many;
failed:
    PyMem_Free(found), PyMem_Free(at);
    PyErr_NoMemory();
    return -1;
}

typedef struct {
    double level, sliver;
} Position;

static Position place_between(Position a, Position b, double way) {
    const double gone = way * (b.level - a.level), level = a.level + gone < b.level ? a.level + gone : b.level;
    if (a.level == b.level) {
        const double more = way * (b.sliver - a.sliver);
        return (Position){level, a.sliver + more};
    }
    return (Position){level, level > a.level ? 0.0 : a.sliver};
}

/* Paths with a point more wherever another amount becomes the largest; None: there is no such place. */
static PyObject *add_crossings(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[8];
    if (take_arrays(args, given, "qrqdd r? ?", array) < 0) return NULL;
    Py_buffer read[5] = {array[0], array[1], array[5], array[6], array[7]};
    const int64_t *node = array[0].buf, *turn = array[2].buf;
    const double *rows = array[1].buf, *level = array[3].buf, *sliver = array[4].buf;
    const Py_ssize_t points = array[0].shape[0], width = array[1].shape[1];
    Tops tops = {0};
    Crossing *found = NULL;
    PyObject *made[5] = {NULL}, *answer = NULL;
    Py_ssize_t many = -1;
    if (read_tops(read, &tops) < 0 || (many = find_crossings(&tops, turn, points, &found)) < 0) goto done;
    if (!many) {
        answer = Py_NewRef(Py_None);
        goto done;
    }
    for (int k = 0; k < 5; k++)
        if (!(made[k] = new_array((points + many) * (k == 4 ? width : 1)))) goto done;
    int64_t *node_to = numbers(made[0]), *turn_to = numbers(made[1]);
    double *level_to = numbers(made[2]), *sliver_to = numbers(made[3]), *rows_to = numbers(made[4]);
    for (Py_ssize_t i = 0, next = 0, to = 0; i < points; i++) {
        node_to[to] = node[i], turn_to[to] = turn[i], level_to[to] = level[i], sliver_to[to] = sliver[i];
        memcpy(rows_to + to++ * width, rows + i * width, width * sizeof(double));
        for (; next < many && found[next].after == i; next++, to++) {
            const double way = found[next].way, *a = rows + i * width, *b = a + width;
            const Position at = place_between((Position){level[i], sliver[i]}, (Position){level[i + 1], sliver[i + 1]}, way);
            node_to[to] = node[i], turn_to[to] = turn[i], level_to[to] = at.level, sliver_to[to] = at.sliver;
            for (Py_ssize_t j = 0; j < width; j++) {
                const double gone = way * (b[j] - a[j]);
                rows_to[to * width + j] = a[j] + gone;
            }
        }
    }
    answer = PyTuple_Pack(5, made[0], made[1], made[2], made[3], made[4]);
done:
    for (int k = 0; k < 5; k++) Py_XDECREF(made[k]);
    PyMem_Free(tops.column), PyMem_Free(found);
    release(array, 8);
    return answer;
}

/* The sums over the children of nodes, class by class (of = node * classes + class), as the paths of the nodes: one class
 * after the other, up to the first point beyond what is left of a resource. */
static PyObject *paths_within(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[6];
    if (take_arrays(args, given, "qddr d q", array) < 0) return NULL;
    const int64_t *of = array[0].buf;
    const double *level = array[1].buf, *sliver = array[2].buf, *rows = array[3].buf, *room = array[4].buf;
    const Py_ssize_t points = array[0].shape[0], width = array[3].shape[1], watched = array[4].shape[0];
    PyObject *made[5] = {NULL}, *answer = NULL;
    double *done = PyMem_New(double, 2 * points * width + width + 1), *spare = done ? done + points * width : NULL;
    const Py_ssize_t classes = array[5].shape[0] ? *(int64_t *)array[5].buf : 0;
    if (classes < 1 || watched > width) {
        PyErr_SetString(PyExc_ValueError, "there are no classes, or too many limits");
        goto done;
    }
    for (int k = 0; k < 5; k++)
        if (!(made[k] = new_array(points * (k == 4 ? width : 1)))) goto done;
    if (!done) {
        PyErr_NoMemory();
        goto done;
    }
    int64_t *node_to = numbers(made[0]), *turn_to = numbers(made[1]);
    double *level_to = numbers(made[2]), *sliver_to = numbers(made[3]), *rows_to = numbers(made[4]);
    Py_ssize_t to = 0;
    for (Py_ssize_t first = 0, end; first < points; first = end) {
        const int64_t node = of[first] / classes;
        Py_ssize_t turns = 0;
        for (end = first; end < points && of[end] / classes == node; end++)
            if (end + 1 == points || of[end + 1] != of[end])
                memcpy(done + turns++ * width, rows + end * width, width * sizeof(double));
        if (turns > 1) running_total(done, turns, width, spare);
        int beyond = 0;
        Py_ssize_t turn = -1;
        for (Py_ssize_t i = first; i < end; i++) {
            if (i == first || of[i] != of[i - 1]) turn++;
            double *row = rows_to + to * width;
            for (Py_ssize_t j = 0; j < width; j++)
                row[j] = rows[i * width + j] + (turn ? done[(turn - 1) * width + j] : 0.0);
            const int kept = i == first || !beyond;
            beyond = 0;
            for (Py_ssize_t j = 0; j < watched; j++) beyond |= row[j] > room[j];
            if (!kept) continue;
            node_to[to] = node, turn_to[to] = of[i] % classes, level_to[to] = level[i], sliver_to[to] = sliver[i];
            to++;
        }
    }
    for (int k = 0; k < 5; k++)
        if (PyByteArray_Resize(made[k], 8 * to * (k == 4 ? width : 1)) < 0) goto done;
    answer = PyTuple_Pack(5, made[0], made[1], made[2], made[3], made[4]);
done:
    for (int k = 0; k < 5; k++) Py_XDECREF(made[k]);
    PyMem_Free(done);
    release(array, 6);
    return answer;
}

/* The position of a curve at a level and sliver: its points around it, and the fraction between them. */
static double find_place(const double *level, const double *sliver, Py_ssize_t start, Py_ssize_t stop, Position asked,
                         Py_ssize_t *a, Py_ssize_t *b) {
    Py_ssize_t passed = 0;
    for (Py_ssize_t i = start; i < stop; i++)
        passed += level[i] < asked.level || (level[i] == asked.level && sliver[i] <= asked.sliver);
    *a = start + (passed > 1 ? passed - 1 : 0);
    *b = *a + 1 < stop ? *a + 1 : stop - 1;
    /* A curve that has not begun is at its start whatever the sliver: the sliver belongs to another level. */
    if (!passed) return 0.0;
    return way_between(asked.level, asked.sliver, level[*a], sliver[*a], level[*b], sliver[*b]);
}

static PyObject *locate(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[5];
    if (take_arrays(args, given, "qdd dd", array) < 0) return NULL;
    const int64_t *start = array[0].buf;
    const double *asked_level = array[1].buf, *asked_sliver = array[2].buf, *level = array[3].buf, *sliver = array[4].buf;
    const Py_ssize_t curves = array[0].len / 8, count = array[3].len / 8;
    PyObject *made[3] = {new_array(curves), new_array(curves), new_array(curves)}, *answer = NULL;
    if (!made[0] || !made[1] || !made[2]) goto done;
    int64_t *a = numbers(made[0]), *b = numbers(made[1]);
    double *way = numbers(made[2]);
    for (Py_ssize_t k = 0; k < curves; k++) {
        const Py_ssize_t stop = k + 1 < curves ? start[k + 1] : count;
        if (start[k] < 0 || start[k] >= stop || stop > count) {
            PyErr_SetString(PyExc_ValueError, "a curve has no points");
            goto done;
        }
        Py_ssize_t before, after;
        way[k] = find_place(level, sliver, start[k], stop, (Position){asked_level[k], asked_sliver[k]}, &before, &after);
        a[k] = before, b[k] = after;
    }
    answer = PyTuple_Pack(3, made[0], made[1], made[2]);
done:
    for (int k = 0; k < 3; k++) Py_XDECREF(made[k]);
    release(array, 5);
    return answer;
}

/* Derive the positions of the nodes of a depth from those of their parents: SolverPhase._descend of one depth. */
static PyObject *descend(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    Py_buffer array[11];
    if (take_arrays(args, given, "QDDqq qqdddd", array) < 0) return NULL;
    int64_t *turn = array[0].buf;
    double *level = array[1].buf, *sliver = array[2].buf;
    const int64_t *parent = array[3].buf, *node_class = array[4].buf, *node = array[5].buf, *turn_at = array[6].buf;
    const double *inner_level = array[7].buf, *inner_sliver = array[8].buf;
    const double *outer_level = array[9].buf, *outer_sliver = array[10].buf;
    const Py_ssize_t nodes = array[0].shape[0], points = array[5].shape[0];
    PyObject *answer = NULL;
    for (Py_ssize_t first = 0, end; first < points; first = end) {
        const int64_t here = node[first];
        for (end = first + 1; end < points && node[end] == here; end++) {}
        if (here < 0 || here >= nodes || parent[here] < 0 || parent[here] >= nodes) {
            PyErr_SetString(PyExc_IndexError, "a point belongs to no node below another");
            goto done;
        }
        const int64_t above = parent[here];
        Position asked = {level[above], sliver[above]};
        if (turn[above] != node_class[here]) asked.level = turn[above] < node_class[here] ? -1.0 : INFINITY;
        Py_ssize_t a, b;
        double way = find_place(outer_level, outer_sliver, first, end, asked, &a, &b);
        /* Rounding may leave a gap between the end of one class and the start of the next; the gap is empty. */
        if (way == 1.0 || (way > 0.0 && turn_at[a] != turn_at[b])) a = b, way = 0.0;
        /* At the end of a class the next point starts the next class: its position is meaningless here. */
        if (way == 0.0) b = a;
        const Position at = place_between(
            (Position){inner_level[a], inner_sliver[a]}, (Position){inner_level[b], inner_sliver[b]}, way);
        turn[here] = turn_at[a], level[here] = at.level, sliver[here] = at.sliver;
    }
    answer = Py_NewRef(Py_None);
done:
    release(array, 11);
    return answer;
}

/* --- module --------------------------------------------------------------------------------------------------- */

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL
static PyMethodDef methods[] = {
    {"leaf_curves", FAST(leaf_curves), "One curve for all leaves of each parent."},
    {"add_up", FAST(add_up), "The sum of the curves of each group, and the position of every point."},
    {"sum_children", FAST(sum_children), "The sums over the children of each node, class by class."},
    {"shares", FAST(shares), "The weighted share of a node at each point of its path."},
    {"paths_within", FAST(paths_within), "The sums over children as the paths of their parents."},
    {"add_crossings", FAST(add_crossings), "Paths with a point more where another resource becomes dominant."},
    {"locate", FAST(locate), "The points of each curve around a position, and the fraction between them."},
    {"descend", FAST(descend), "The positions of the nodes of a depth, given those of their parents."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pumice.engine.fairness.fluid_target.curve_kernel",
    .m_doc = "Arithmetic on piecewise-linear curves.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_curve_kernel(void) { return PyModuleDef_Init(&definition); }
