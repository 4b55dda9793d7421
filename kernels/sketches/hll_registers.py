"""HyperLogLog registers, and the estimates from them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import Narrow, kernel
from projseg.kernels.sketches.hll_coupons import Buckets
from projseg.kernels.sketches.sketch_rows import CouponRows


def fold_rows(
    registers: NDArray[np.uint8], rows: CouponRows, start: int = 0, end: int | None = None
) -> None:
    """Fold the rows [start, end) into `registers`, uint8[groups, 2**lg_k], in place."""
    if len(registers) != rows.group_count:
        raise _no_place(rows.group_count)
    group_ids = None if rows.group_ids is None else rows.group_ids[start:end]
    if rows.value_ids is None:
        _fold_rows(group_ids, None, rows.coupons[start:end], registers)
    else:
        _fold_rows(group_ids, rows.value_ids[start:end], rows.coupons, registers)


def occupied_counts(registers: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many registers of each row are not zero: int64[g]."""
    counts = np.empty(len(registers), np.int64)
    _count_occupied(registers, counts)
    return counts


def fold_buckets(registers: NDArray[np.uint8], slots: NDArray[np.int32], buckets: Buckets) -> None:
    """Fold the buckets of count -1 into their groups' rows of `registers`, in place."""
    groups = np.flatnonzero(buckets.counts < 0)
    if len(groups) == 0:
        return
    rows = slots[groups]
    if int(rows.min()) < 0 or int(rows.max()) >= len(registers):
        raise _no_place(int(groups[rows.argmin()]))
    _fold_buckets(buckets.starts, buckets.counts, buckets.coupons, slots, registers)


def fold_pairs(
    registers: NDArray[np.uint8], slots: NDArray[np.int32], pairs: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Fold the pairs of groups that have registers into them, and return the other pairs.

    slots[i] is group i's row of `registers`, uint8[p, 2**lg_k], -1 for none.
    """
    if len(pairs) == 0 or len(registers) == 0:
        return pairs
    largest_group = int(pairs.max() >> np.uint64(32))
    if largest_group >= len(slots) or int(slots.max()) >= len(registers):
        raise _no_place(largest_group)
    others = np.empty(len(pairs), np.uint64)
    return others[: _fold_pairs(pairs, slots, registers, others)]


def _no_place(group: int) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_GROUP_IDS", f"group {group} has no place in the registers"
    )


@kernel
def _fold_rows(
    group_ids: Narrow | None,
    value_ids: Narrow | None,
    coupons: NDArray[np.uint32],
    registers: NDArray[np.uint8],
) -> None:
    """Fold all rows, without a branch on their values.

    Half of all coupons can raise a register of a group with few rows, so a test whether one does
    would be mispredicted more often than the store costs.

    Shapes: group_ids, value_ids [n]; coupons [m]; registers [g, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    row_count = len(coupons) if value_ids is None else len(value_ids)
    mask = np.uint32(registers.shape[1] - 1)
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        index = coupon & mask
        rank = np.uint8(coupon >> np.uint32(26))
        registers[group, index] = max(registers[group, index], rank)


@kernel
def _count_occupied(registers: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
    """Write how many registers of each row are not zero.

    Shapes: registers [r, k]; counts [r].
    Oracle: tests/oracle/hll.py::registers.
    """
    for row in range(len(registers)):
        ranks = registers[row]
        count = 0
        for i in range(len(ranks)):
            count += ranks[i] != 0
        counts[row] = count


@kernel
def register_sums(ranks: NDArray[np.uint8]) -> Any:
    """Return (sum of 2**-rank below rank 32, that sum from 32 on, registers of rank 0), exactly.

    The sums are gathered as integers, which the compiler vectorises: multiples of 2**-31 and of
    2**-63 that fit a double.

    Shapes: ranks [k].
    Oracle: tests/oracle/hll.py::sketch.
    """
    low = np.uint64(0)
    high = np.uint64(0)
    for i in range(len(ranks)):
        rank = np.uint64(ranks[i] & np.uint8(63))
        low += np.uint64(1 << 31) >> rank
        high += (np.uint64(1 << 63) >> rank) & np.uint64(0xFFFFFFFF)
    zero_count = 0
    for i in range(len(ranks)):
        zero_count += ranks[i] == 0
    return low * 2.0**-31, high * 2.0**-63, zero_count


@kernel
def _fold_buckets(
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    buckets: NDArray[np.uint32],
    slots: NDArray[np.int32],
    registers: NDArray[np.uint8],
) -> None:
    """Fold large buckets into registers.

    Shapes: starts [g + 1]; counts, slots [g]; buckets [n]; registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    for group in range(len(counts)):
        if counts[group] < 0:
            for i in range(starts[group], starts[group + 1]):
                _raise_register(registers, slots[group], buckets[i])


@kernel
def _fold_pairs(
    pairs: NDArray[np.uint64],
    slots: NDArray[np.int32],
    registers: NDArray[np.uint8],
    others: NDArray[np.uint64],
) -> Any:
    """Fold or keep each pair; return how many are kept.

    Shapes: pairs, others [p]; slots [g]; registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    count = 0
    for i in range(len(pairs)):
        slot = slots[pairs[i] >> np.uint64(32)]
        if slot >= 0:
            _raise_register(registers, slot, np.uint32(pairs[i] & np.uint64(0xFFFFFFFF)))
        else:
            others[count] = pairs[i]
            count += 1
    return count


@kernel
def _raise_register(registers: NDArray[np.uint8], row: int, coupon: np.uint32) -> None:
    """Let one coupon count in a row of registers.

    Shapes: registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    index = np.int64(coupon & np.uint32(registers.shape[1] - 1))
    rank = np.uint8(coupon >> np.uint32(26))
    registers[row, index] = max(registers[row, index], rank)


# Distinct counts out of HyperLogLog parts, as Apache DataSketches estimates them, for lgK 12.
#
# Coupons: n coupons of 32 bits estimate n + n (n - 1) / (3 * 2**27) values, the expected number of
# collisions added. Registers: the composite estimator. The raw HyperLogLog estimate is corrected
# for bias by a cubic through measured knots, and exchanged for linear counting where registers are
# still empty enough. The knots are the raw estimates at which the datasketches library answers 0,
# 160, 320, ... 40,960, found by asking it.

ESTIMATE_LG_K: Final = 12

_K: Final = 1 << ESTIMATE_LG_K
_RAW_FACTOR: Final = 0.7213 / (1.0 + 1.079 / _K) * _K * _K
_CROSSOVER: Final = 0.64 * _K
_LINEAR_MAX: Final = 3.0 * _K
_KNOT_STEP: Final = 160.0
# fmt: off
_KNOTS: Final = np.array(
    [
        2953.666722, 3031.310137, 3110.389526, 3190.908699, 3272.86541, 3356.267166, 3441.114376,
        3527.404284, 3615.136846, 3704.310976, 3794.924283, 3886.973846, 3980.451903,
        4075.355844, 4171.681168, 4269.423939, 4368.569738, 4469.11176, 4571.043603, 4674.35637,
        4779.038117, 4885.076002, 4992.460659, 5101.176875, 5211.214098, 5322.553631,
        5435.184633, 5549.088369, 5664.258175, 5780.673987, 5898.312682, 6017.158593,
        6137.195815, 6258.397951, 6380.761679, 6504.26163, 6628.870413, 6754.585867, 6881.374325,
        7009.206926, 7138.080376, 7267.979175, 7398.866805, 7530.722851, 7663.53158, 7797.269872,
        7931.90734, 8067.451667, 8203.855692, 8341.091306, 8479.155031, 8618.026003, 8757.682272,
        8898.095612, 9039.253787, 9181.124777, 9323.694329, 9466.944202, 9610.861899,
        9755.403639, 9900.578346, 10046.356477, 10192.71877, 10339.635914, 10487.081762,
        10635.066232, 10783.56013, 10932.549371, 11082.024055, 11231.949071, 11382.332885,
        11533.122831, 11684.327555, 11835.935533, 11987.926999, 12140.281619, 12292.994375,
        12446.046449, 12599.411083, 12753.088314, 12907.079745, 13061.355923, 13215.895621,
        13370.722085, 13525.795736, 13681.095971, 13836.645692, 13992.405906, 14148.380716,
        14304.56686, 14460.959382, 14617.539754, 14774.296125, 14931.214508, 15088.271748,
        15245.49387, 15402.867309, 15560.380994, 15718.035423, 15875.801492, 16033.687891,
        16191.701231, 16349.808763, 16508.026001, 16666.336068, 16824.745049, 16983.259302,
        17141.848044, 17300.504517, 17459.240272, 17618.060296, 17776.914688, 17935.84801,
        18094.852645, 18253.914288, 18413.023567, 18572.168358, 18731.376016, 18890.631505,
        19049.948196, 19209.27926, 19368.638871, 19528.04386, 19687.498901, 19846.941765,
        20006.443084, 20165.973535, 20325.525957, 20485.10952, 20644.729917, 20804.363876,
        20964.021778, 21123.698687, 21283.379344, 21443.080536, 21602.821439, 21762.568135,
        21922.305338, 22082.065878, 22241.856145, 22401.629436, 22561.435266, 22721.262644,
        22881.080478, 23040.916036, 23200.734053, 23360.583255, 23520.433188, 23680.275065,
        23840.132678, 24000.012847, 24159.886135, 24319.788338, 24479.654024, 24639.540316,
        24799.466449, 24959.369335, 25119.276072, 25279.186502, 25439.091982, 25599.020083,
        25758.930671, 25918.847522, 26078.77306, 26238.704021, 26398.647566, 26558.603366,
        26718.539855, 26878.464425, 27038.402892, 27198.344989, 27358.270906, 27518.203448,
        27678.169545, 27838.133625, 27998.11163, 28158.064264, 28318.032491, 28477.994153,
        28637.950838, 28797.910362, 28957.884994, 29117.86191, 29277.814384, 29437.774223,
        29597.762256, 29757.729819, 29917.688497, 30077.675371, 30237.667941, 30397.639431,
        30557.644527, 30717.622991, 30877.622641, 31037.598941, 31197.601527, 31357.599118,
        31517.585221, 31677.569983, 31837.556138, 31997.52788, 32157.500622, 32317.491709,
        32477.504936, 32637.501123, 32797.51633, 32957.547336, 33117.541765, 33277.561207,
        33437.554332, 33597.564988, 33757.565321, 33917.56118, 34077.580598, 34237.597132,
        34397.598246, 34557.617536, 34717.623318, 34877.649722, 35037.645029, 35197.681143,
        35357.700478, 35517.701804, 35677.734383, 35837.736494, 35997.737103, 36157.732045,
        36317.741539, 36477.735602, 36637.761491, 36797.742508, 36957.734137, 37117.742952,
        37277.789218, 37437.793798, 37597.779066, 37757.796449, 37917.794116, 38077.804399,
        38237.797507, 38397.788049, 38557.768583, 38717.768279, 38877.752553, 39037.747349,
        39197.737646, 39357.774395, 39517.752643, 39677.753347, 39837.740038, 39997.719486,
        40157.709578, 40317.708657, 40477.719261, 40637.726978, 40797.711139, 40957.707784,
    ]
)
# fmt: on
# Harmonic numbers H(0) ... H(k): linear counting estimates k (H(k) - H(zero registers)).
_HARMONIC: Final = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, _K + 1))])


def coupon_estimates(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the estimate of sketches that hold `counts` coupons."""
    exact = counts.astype(np.float64)
    return exact + exact * (exact - 1) / (3 << 27)


def register_estimates(registers: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the composite estimate of each row of registers, uint8[n, 4096], as float64[n]."""
    if registers.ndim != 2 or registers.shape[1] != _K:
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"registers of shape {registers.shape} are not of lgK 12"
        )
    estimates = np.empty(len(registers))
    _estimate(registers, _KNOTS, _HARMONIC, estimates)
    return estimates


@kernel
def _estimate(
    registers: NDArray[np.uint8],
    knots: NDArray[np.float64],
    harmonic: NDArray[np.float64],
    estimates: NDArray[np.float64],
) -> None:
    """Write each row's estimate.

    Shapes: registers [n, 4096]; knots [knots]; harmonic [4097]; estimates [n].
    Oracle: tests/oracle/hll.py::estimate.
    """
    for row in range(len(registers)):
        low, high, zero_count = register_sums(registers[row])
        raw = _RAW_FACTOR / (low + high)
        if raw < knots[0]:
            estimates[row] = 0.0
            continue
        adjusted = _adjusted(raw, knots)
        estimates[row] = adjusted
        if adjusted <= _LINEAR_MAX:
            linear = _K * np.log(2.0 * _K)
            if zero_count:
                linear = _K * (harmonic[_K] - harmonic[zero_count])
            if (adjusted + linear) / 2.0 <= _CROSSOVER:
                estimates[row] = linear


@kernel
def _adjusted(raw: float, knots: NDArray[np.float64]) -> Any:
    """Return the cubic through the four knots around `raw`.

    Beyond the last knot the estimate is proportional to the raw one.

    Shapes: knots [knots].
    Oracle: tests/oracle/hll.py::estimate.
    """
    last = len(knots) - 1
    if raw >= knots[last]:
        return raw * (_KNOT_STEP * last / knots[last])
    start: Any = min(max(np.searchsorted(knots, raw, side="right") - 2, 0), last - 3)
    total = 0.0
    for i in range(start, start + 4):
        weight = 1.0
        for j in range(start, start + 4):
            if i != j:
                weight *= (raw - knots[j]) / (knots[i] - knots[j])
        total += weight * _KNOT_STEP * i
    return total
