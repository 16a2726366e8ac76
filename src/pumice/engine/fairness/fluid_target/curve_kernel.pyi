"""The arithmetic on curves in C; see ``curve_kernel.c`` and, for what each function does, ``polyline``."""

from pumice.engine.fairness.fluid_target.polyline import BoolArray, FloatArray, IntArray

def leaf_curves(
    of: IntArray, weight: FloatArray, held: FloatArray, most: FloatArray, rows: FloatArray, /
) -> tuple[bytearray, bytearray, bytearray]: ...
def add_up(
    curve: IntArray, group: IntArray, level: FloatArray, rows: FloatArray, /
) -> tuple[bytearray, bytearray, bytearray, bytearray, bytearray, bytearray]: ...
def sum_children(
    leaf_of: IntArray,
    leaf_level: FloatArray,
    leaf_rows: FloatArray,
    node: IntArray,
    level: FloatArray,
    rows: FloatArray,
    parent: IntArray,
    node_class: IntArray,
    classes: IntArray,
    /,
) -> tuple[bytearray, bytearray, bytearray, bytearray, bytearray, bytearray]: ...
def shares(
    node: IntArray,
    rows: FloatArray,
    base: FloatArray,
    is_job: BoolArray,
    weight: FloatArray,
    counted: BoolArray,
    /,
) -> bytearray: ...
def paths_within(
    of: IntArray, level: FloatArray, sliver: FloatArray, rows: FloatArray, room: FloatArray, classes: IntArray, /
) -> tuple[bytearray, bytearray, bytearray, bytearray, bytearray]: ...
def add_crossings(
    node: IntArray,
    rows: FloatArray,
    turn: IntArray,
    level: FloatArray,
    sliver: FloatArray,
    base: FloatArray,
    is_job: BoolArray,
    counted: BoolArray,
    /,
) -> tuple[bytearray, bytearray, bytearray, bytearray, bytearray] | None: ...
def locate(
    start: IntArray, asked_level: FloatArray, asked_sliver: FloatArray, level: FloatArray, sliver: FloatArray, /
) -> tuple[bytearray, bytearray, bytearray]: ...
def descend(
    turn: IntArray,
    level: FloatArray,
    sliver: FloatArray,
    parent: IntArray,
    node_class: IntArray,
    node: IntArray,
    turn_at: IntArray,
    inner_level: FloatArray,
    inner_sliver: FloatArray,
    outer_level: FloatArray,
    outer_sliver: FloatArray,
    /,
) -> None: ...
