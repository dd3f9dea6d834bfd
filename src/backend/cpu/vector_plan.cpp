#include "backend/cpu/vector_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace snug {

namespace {

using Mode = VectorPlan::Mode;
constexpr std::int64_t kMaxUnrolledPoints = 64;
constexpr int kMaxUnrolledWeight = 160, kMaskedOnlyWeight = 120, kMaxWideWeight = 120;
constexpr int kMaxStreamingWeight = 16, kMaxShortRowsWeight = 30;
constexpr std::int64_t kMaxTilePoints = 16;
constexpr int kLightWeight = 4;  // of reductions: so many accumulators still fit registers
constexpr int kMaxTurnedWeight = 60;
constexpr std::int64_t kShortTurnedRows = 32;
constexpr int kMaxPerRowWeight = 8;  // of what could be computed once for all rows

/// Instructions of the machine, roughly.
int weight(const Instr& in) {
  switch (in.prim) {
    case Prim::Const:
    case Prim::Index: return 0;
    case Prim::Pow: return 60;
    case Prim::FloorDiv:
    case Prim::Mod: return 30;
    case Prim::Div: return is_float(in.dtype) ? 2 : 20;
    case Prim::Philox: return 40;
    case Prim::Erf: return in.dtype == DType::F32 ? 25 : 50;
    case Prim::Erfc:
    case Prim::Erfcx: return 50;
    default: break;
  }
  if (is_special(in.prim)) return 200;
  return is_function(in.prim) ? 25 : 1;
}

int phase_weight(const KernelSpec& s, const KernelSpec::Phase& p) {
  int sum = 0;
  for (std::uint32_t i = p.begin; i < p.end; ++i) sum += weight(s.body[i]);
  return sum;
}

/// What the operands cost per vector if lanes run along `axis`.
double axis_cost(const KernelSpec& s, std::size_t axis, unsigned lanes) {
  double cost = 0;
  for (const KernelSpec::Operand& o : s.operands) {
    std::int64_t stride = o.strides[axis];
    cost += stride == 1 ? 1 : stride == 0 ? 0.5 : o.write ? 10 : 6;
  }
  std::int64_t extent = s.extents[axis];
  if (extent != KernelSpec::kRuntime && extent < lanes)
    cost *= static_cast<double>(lanes) / std::max<std::int64_t>(extent, 1);
  return cost;
}

/// The cheapest axis in [from, to), the last one among equals; `to` if there is none.
std::size_t best_axis(const KernelSpec& s, std::size_t from, std::size_t to, unsigned lanes) {
  std::size_t best = to;
  for (std::size_t axis = from; axis < to; ++axis)
    if (best == to || axis_cost(s, axis, lanes) <= axis_cost(s, best, lanes)) best = axis;
  return best;
}

/// The last two axes count as one if the last is short and some operand runs through both.
bool fits_flat(const KernelSpec& s, unsigned lanes) {
  if (s.outer < 2 || s.outer != s.rank()) return false;
  std::size_t last = s.outer - 1;
  std::int64_t c = s.extents[last];
  if (c < 2 || c > kMaxUnrolledPoints || c % lanes == 0) return false;
  int through = 0, other = 0;
  for (const KernelSpec::Operand& o : s.operands) {
    std::int64_t a = o.strides[last - 1], b = o.strides[last];
    if (b == 1 && a == c)
      ++through;
    else if (a == KernelSpec::Operand::kRuntimeStride || b == KernelSpec::Operand::kRuntimeStride)
      return false;
    else if (std::abs(a) > (1 << 20) || std::abs(b) > (1 << 20))
      return false;
    else if (a != 0 || b != 0)
      other += o.write ? 4 : a != 0;
  }
  return through > 0 && other <= 2 * through;
}

/// Rows of inner points, packed, one after the other along the vector axis.
bool is_tiled(const KernelSpec& s, std::size_t operand, std::size_t axis, std::int64_t points) {
  if (points < 2 || points > kMaxTilePoints) return false;
  const auto& strides = s.operands[operand].strides;
  std::int64_t packed = 1;
  for (std::size_t a = s.rank(); a-- > s.outer;) {
    if (s.extents[a] != 1 && strides[a] != packed) return false;
    packed *= s.extents[a];
  }
  return strides[axis] == points;
}

/// Loads and stores of part of a vector, as the ends of rows need them, are single instructions.
bool turns_well(DType t) { return size_of(t) == 4 || size_of(t) == 8; }

/// Per operand: it lies along `turn` and not along `axis`.
std::vector<bool> find_turned(const KernelSpec& s, std::size_t axis, std::size_t turn) {
  std::vector<bool> turned;
  for (const KernelSpec::Operand& o : s.operands) {
    std::int64_t along = o.strides[axis];
    turned.push_back(o.strides[turn] == 1 && along != 0 && along != 1 && turns_well(o.dtype));
  }
  return turned;
}

/// axis_cost if operands that lie along `turn` are turned.
double turned_cost(const KernelSpec& s, std::size_t axis, std::size_t turn) {
  double cost = 0;
  std::vector<bool> turned = find_turned(s, axis, turn);
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    std::int64_t stride = s.operands[o].strides[axis];
    cost += stride == 1 ? 1 : stride == 0 ? 0.5 : turned[o] ? 2 : s.operands[o].write ? 10 : 6;
  }
  return cost;
}

bool any_of(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

std::vector<bool> find_varying(const KernelSpec& s, const VectorPlan& plan) {
  std::vector<bool> varying(s.body.size());
  for (const KernelSpec::Phase& phase : s.phases) {
    bool vector_phase = plan.mode == Mode::Inner ? phase.inner : plan.mode != Mode::Scalar;
    for (std::uint32_t i = phase.begin; i < phase.end && vector_phase; ++i) {
      const Instr& in = s.body[i];
      const std::uint32_t operands[] = {in.a, in.b, in.c};
      bool v = in.prim == Prim::FlatIndex;
      if (in.prim == Prim::Index) v = plan.is_vector_axis(in.integer);
      if (in.prim == Prim::Load)
        for (std::size_t axis = 0; axis < s.rank(); ++axis)
          v = v || (plan.is_vector_axis(axis) && s.operands[in.integer].strides[axis] != 0);
      for (int k = 0; k < operand_count(in.prim); ++k) v = v || varying[operands[k]];
      if (in.prim == Prim::Reduce && plan.mode == Mode::Inner) v = false;
      varying[i] = v;
    }
  }
  return varying;
}

/// Where each Reduce of partial reductions is stored, if that is all that follows them and each may
/// be accumulated there; else nothing.
std::vector<std::size_t> find_partials(const KernelSpec& s, const VectorPlan& plan) {
  const KernelSpec::Phase& last = s.phases.back();
  std::vector<std::size_t> stored(s.body.size(), SIZE_MAX);
  std::size_t reduces = 0, stores = 0;
  for (std::uint32_t i = 0; i < last.begin; ++i) {
    const Instr& in = s.body[i];
    if (in.prim != Prim::Reduce) continue;
    ++reduces;
    const bool arg = in.integer >= static_cast<std::int64_t>(ReduceOp::ArgMax);
    if (arg || in.dtype == DType::Bool || !plan.varying[i]) return {};
  }
  for (std::size_t phase = 0; phase + 1 < s.phases.size(); ++phase) {
    if (s.phases[phase].inner) continue;
    if (phase_weight(s, s.phases[phase]) > kMaxPerRowWeight) return {};
    for (std::uint32_t i = s.phases[phase].begin; i < s.phases[phase].end; ++i)
      if (s.body[i].prim == Prim::Store) return {};
  }
  for (std::uint32_t i = last.begin; i < last.end; ++i) {
    const Instr& in = s.body[i];
    if (in.prim != Prim::Store || s.body[in.a].prim != Prim::Reduce) return {};
    const KernelSpec::Operand& o = s.operands[in.integer];
    if (o.dtype != s.body[in.a].dtype || o.strides[plan.axis] != 1) return {};
    if (std::exchange(stored[in.a], static_cast<std::size_t>(in.integer)) != SIZE_MAX) return {};
    ++stores;
  }
  return !last.inner && reduces == stores ? stored : std::vector<std::size_t>{};
}

unsigned choose_unroll(int weight) { return weight <= 12 ? 4 : weight <= 40 ? 2 : 1; }

/// How many vectors share the constants of functions. Vectors of 512 bits have twice the registers
/// and read constants as part of an instruction.
unsigned choose_width(int weight, const HostCpu& host) {
  return weight <= kMaxWideWeight && host.vector_bits < 512 ? 4 : 2;
}

/// Whole vectors of 32 bits, unless a good part of the work is on 64: then those fill vectors, as
/// two of them would per instruction. Sums of float32 in float64 are such a small part behind exp.
unsigned choose_lanes(const KernelSpec& s, const HostCpu& host) {
  constexpr int kSmallPart = 8;
  int narrow = 0, wide = 0;
  bool indexed = false;
  for (const Instr& in : s.body)
    (size_of(in.dtype) <= 4 ? narrow : wide) += std::max(weight(in), 1);
  for (const Instr& in : s.body)
    indexed |= in.prim == Prim::Index || in.prim == Prim::FlatIndex || in.prim == Prim::Philox;
  return host.vector_bits / (wide == 0 || (!indexed && kSmallPart * wide <= narrow) ? 32 : 64);
}

/// As the inner loops need them: the place of a maximum is one number per row.
unsigned choose_lanes_across(const KernelSpec& s, const HostCpu& host) {
  bool narrow = true;
  for (const KernelSpec::Phase& p : s.phases)
    for (std::uint32_t i = p.begin; i < p.end && p.inner; ++i)
      narrow = narrow && (s.body[i].prim == Prim::Reduce || size_of(s.body[i].dtype) <= 4);
  return narrow ? host.vector_bits / 32 : choose_lanes(s, host);
}

/// Rows up to this length run faster side by side than each on its own. Those that only add up
/// numbers soon pay more for turning than for folding lanes; a place is dear to fold, and a
/// function of the result is dear if it has no vector.
std::int64_t longest_turned(const KernelSpec& s, const VectorPlan& plan, const HostCpu& host) {
  bool places = false;
  for (const Instr& in : s.body)
    places |= in.prim == Prim::Reduce && in.integer >= static_cast<std::int64_t>(ReduceOp::ArgMax);
  constexpr int kDear = 20;
  int once = 0;
  for (const KernelSpec::Phase& p : s.phases)
    if (!p.inner) once += phase_weight(s, p);
  if (places || once >= kDear) return kMaxTurnedInner;
  return static_cast<int>(plan.lanes) == host.vector_bits / 32 ? 31 : 15;
}

/// The two axes in [0, outer) that lanes run along and that is turned.
struct TurnedAxes {
  std::size_t axis, turn;
};

std::optional<TurnedAxes> best_turned(const KernelSpec& s) {
  std::optional<TurnedAxes> best;
  double least = 0;
  for (std::size_t axis = 0; axis < s.outer; ++axis)
    for (std::size_t turn = 0; turn < s.outer; ++turn) {
      if (turn == axis || !any_of(find_turned(s, axis, turn))) continue;
      double cost = turned_cost(s, axis, turn);
      if (best && cost > least) continue;
      best = {axis, turn};
      least = cost;
    }
  return best;
}

/// An elementwise kernel with lanes along `axis`.
VectorPlan turned_plan(const KernelSpec& s, const HostCpu& host, TurnedAxes axes) {
  VectorPlan plan;
  plan.mode = Mode::Outer;
  plan.lanes = choose_lanes(s, host);
  plan.axis = axes.axis;
  plan.turn_axis = axes.turn;
  plan.turned = find_turned(s, axes.axis, axes.turn);
  plan.varying = find_varying(s, plan);
  return plan;
}

bool may_turn(const KernelSpec& s) {
  int total = 0;
  for (const KernelSpec::Phase& p : s.phases) total += phase_weight(s, p);
  return s.outer >= 2 && s.outer == s.rank() && !s.block && total <= kMaxTurnedWeight;
}

}  // namespace

VectorPlan plan_vectors(const KernelSpec& s, const HostCpu& host) {
  VectorPlan plan;
  bool has_inner = false;
  int total = 0, inner_weight = 0;
  for (const KernelSpec::Phase& p : s.phases) {
    has_inner = has_inner || p.inner;
    total += phase_weight(s, p);
    if (p.inner) inner_weight += phase_weight(s, p);
  }
  unsigned lanes = choose_lanes(s, host);

  // Blocks are axis 0 and few; lanes never run along them.
  std::size_t first = s.block ? 1 : 0;
  std::size_t outer = best_axis(s, first, s.outer, lanes);
  std::size_t inner = has_inner ? best_axis(s, s.outer, s.rank(), lanes) : s.rank();
  std::int64_t points = 1;  // of the inner axes, 0 if not known or many
  for (std::size_t axis = s.outer; axis < s.rank(); ++axis) {
    std::int64_t e = s.extents[axis];
    points = e == KernelSpec::kRuntime || points * e > kMaxUnrolledPoints ? 0 : points * e;
  }
  bool short_inner = has_inner && points > 0 && !s.block;

  if (outer == s.outer && inner == s.rank()) {
    plan.varying = find_varying(s, plan);
    return plan;
  }
  plan.lanes = lanes;
  if (!has_inner && may_turn(s))
    if (auto axes = best_turned(s);
        axes && turned_cost(s, axes->axis, axes->turn) < axis_cost(s, outer, lanes))
      return turned_plan(s, host, *axes);
  if (!has_inner && fits_flat(s, lanes)) {
    plan.mode = Mode::Flat;
    plan.axis = s.outer - 1;
    plan.period = s.extents[plan.axis];
    auto repeats = static_cast<unsigned>(plan.period / std::gcd<std::int64_t>(plan.period, lanes));
    plan.unroll = repeats <= 16 && repeats * total <= 200 ? repeats : 1;
    plan.streaming = total <= kMaxStreamingWeight;
  } else if (outer != s.outer && (!has_inner || short_inner || inner == s.rank() ||
                                  axis_cost(s, outer, lanes) < axis_cost(s, inner, lanes))) {
    plan.mode = Mode::Outer;
    plan.axis = outer;
    plan.unroll_inner = short_inner && points * inner_weight <= kMaxUnrolledWeight;
    int body = plan.unroll_inner ? static_cast<int>(points) * inner_weight + total : total;
    plan.unroll = has_inner && !short_inner && body <= kLightWeight ? 8 : choose_unroll(body);
    plan.inner_points = short_inner ? points : 0;
    bool tiles = false;
    for (std::size_t o = 0; o < s.operands.size(); ++o) {
      plan.tiled.push_back(short_inner && is_tiled(s, o, plan.axis, points));
      tiles = tiles || plan.tiled[o];
    }
    if (tiles) plan.unroll = 1;
    plan.varying = find_varying(s, plan);
    if (s.block && has_inner) plan.partial_of = find_partials(s, plan);
    plan.rows = !plan.partial_of.empty();
    plan.masked_only = has_inner && !tiles && plan.unroll == 1 && body > kMaskedOnlyWeight;
    plan.streaming = !has_inner && body <= kMaxStreamingWeight;
    plan.prefetch = has_inner && !short_inner && body <= kMaxStreamingWeight;
    if (!has_inner && !plan.streaming) {
      plan.unroll = 1;
      plan.width = choose_width(body, host);
    }
  } else {
    plan.mode = Mode::Inner;
    plan.axis = inner;
    plan.unroll = inner_weight <= 16 ? 4 : inner_weight <= 60 ? 2 : 1;
    plan.prefetch = inner_weight <= kMaxStreamingWeight;
  }
  plan.varying = find_varying(s, plan);
  return plan;
}

namespace {

/// A reduction over rows, with lanes across them.
std::optional<KernelForm> plan_short_inner(const KernelSpec& s, const HostCpu& host) {
  if (s.outer == 0 || s.rank() != s.outer + 1 || s.block) return std::nullopt;
  if (s.extents[s.outer] != KernelSpec::kRuntime) return std::nullopt;
  std::optional<std::size_t> best;
  for (std::size_t axis = 0; axis < s.outer; ++axis)
    if (any_of(find_turned(s, axis, s.outer)) &&
        (!best || turned_cost(s, axis, s.outer) <= turned_cost(s, *best, s.outer)))
      best = axis;
  if (!best) return std::nullopt;
  KernelForm form;
  VectorPlan& plan = form.plan;
  plan.mode = Mode::Outer;
  plan.lanes = choose_lanes_across(s, host);
  plan.axis = *best;
  plan.turn_axis = s.outer;
  plan.turned = find_turned(s, *best, s.outer);
  plan.varying = find_varying(s, plan);
  form.short_axis = s.outer;
  form.longest = longest_turned(s, plan, host);
  return form;
}

}  // namespace

std::optional<KernelForm> plan_turned_rows(const KernelSpec& s, const HostCpu& host) {
  if (plan_vectors(s, host).mode == Mode::Inner) return plan_short_inner(s, host);
  VectorPlan usual = plan_vectors(s, host);
  if (!usual.turns()) return std::nullopt;
  // The same with the axes exchanged, for results whose rows are short.
  TurnedAxes axes{usual.turn_axis, usual.axis};
  if (!any_of(find_turned(s, axes.axis, axes.turn))) return std::nullopt;
  return KernelForm{turned_plan(s, host, axes), axes.turn, kShortTurnedRows};
}

std::optional<VectorPlan> plan_short_rows(const KernelSpec& s, const HostCpu& host) {
  if (s.rank() < 2 || s.outer != s.rank() || s.block) return std::nullopt;
  std::size_t last = s.rank() - 1;
  if (s.extents[last] != KernelSpec::kRuntime) return std::nullopt;
  bool repeated = false;
  for (const KernelSpec::Operand& o : s.operands) {
    bool row = o.strides[last - 1] == 0, one = o.strides[last] == 0;
    if (row || one ? o.write : o.strides[last] != 1) return std::nullopt;
    repeated |= row != one;
  }
  int total = 0;
  for (const Instr& in : s.body) {
    if (in.prim == Prim::Index || in.prim == Prim::FlatIndex) return std::nullopt;
    total += weight(in);
  }
  // Heavy kernels lose little by vectors that are partly empty, and are not worth more code.
  if (total > kMaxShortRowsWeight || !repeated) return std::nullopt;
  VectorPlan plan;
  plan.mode = Mode::Flat;
  plan.lanes = choose_lanes(s, host);
  plan.axis = last;
  plan.unroll = choose_unroll(total);
  plan.streaming = total <= kMaxStreamingWeight;
  plan.varying = find_varying(s, plan);
  return plan;
}

}  // namespace snug
