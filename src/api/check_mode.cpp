#include "api/check_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "kernel/cluster.h"
#include "ops/host_calls.h"
#include "reference/interpret_graph.h"

namespace snug {
namespace {

/// Of one rounding.
double epsilon_of(DType t) {
  switch (t) {
    case DType::F64: return 0x1p-53;
    case DType::F32: return 0x1p-24;
    case DType::F16: return 0x1p-11;
    default: return 0x1p-8;
  }
}
/// Functions of several roundings, and their order.
constexpr double kRoundings = 64;

/// A sum of products of its inputs: its rounding follows the sum of their magnitudes, and their
/// number.
bool is_sum(const Node& n) {
  if (has(*n.op, kReduction))
    return static_cast<ReduceOp>(n.attrs.integer("reduce")) == ReduceOp::Sum;
  constexpr std::string_view kProducts[] = {"affine",
                                            "average_pool",
                                            "average_pool_grad",
                                            "batched_dot",
                                            "conv2d",
                                            "conv2d_grad_input",
                                            "conv2d_grad_weight",
                                            "conv3d",
                                            "conv3d_grad_input",
                                            "conv3d_grad_weight",
                                            "cumsum",
                                            "dot",
                                            "max_unpool",
                                            "scatter_add",
                                            "slice_inc"};
  std::string_view name = n.op->name;
  if (name.ends_with("_last")) name.remove_suffix(5);  // the same op with channels last
  return std::find(std::begin(kProducts), std::end(kProducts), name) != std::end(kProducts);
}

/// How many factors a product of elements has at most; 1 for other ops.
std::int64_t factors_of(const Node& n, const RefTensor& x, const RefTensor& y) {
  if (has(*n.op, kReduction) && static_cast<ReduceOp>(n.attrs.integer("reduce")) == ReduceOp::Prod)
    return x.size() / std::max<std::int64_t>(y.size(), 1);
  return n.op->name == "cumprod" ? x.shape[static_cast<std::size_t>(n.attrs.integer("axis"))] : 1;
}

/// Rounding anywhere in it reaches every element.
bool mixes(const Node& n) {
  constexpr std::string_view kMixing[] = {"eigvalsh", "fft", "irfft", "rfft", "svdvals"};
  return n.inner ||
         std::find(std::begin(kMixing), std::end(kMixing), n.op->name) != std::end(kMixing);
}

/// 1 or -1, as if by chance.
double chance_sign(std::uint32_t node, std::size_t element) {
  const std::uint64_t mixed = (node * 0x9e3779b97f4a7c15u) ^ (element * 0xc2b2ae3d27d4eb4fu);
  return (mixed * 0x9e3779b97f4a7c15u) >> 63 ? 1 : -1;
}

double largest_of(const RefTensor& t) {
  double largest = 0;
  for (double f : t.f)
    if (std::isfinite(f)) largest = std::max(largest, std::fabs(f));
  return largest;
}

RefTensor magnitude(RefTensor t) {
  for (double& f : t.f) f = std::fabs(f);
  return t;
}
RefTensor ones(RefTensor t) {
  for (double& f : t.f) f = 1;
  return t;
}

/// Of n terms or factors: an order of them may lose as much as all others, n roundings of the sum
/// of magnitudes. Results may differ by kRoundings times this.
double growth(double n) { return std::max(1.0, n / kRoundings); }

constexpr int kPoison = 0xff;  // NaN for floats, far out of range for indices

}  // namespace

void StepChecker::start(const RunState& state) {
  if (executable_.planned->plan.host().bytes)
    std::memset(state.arenas[kHostSpace], kPoison, executable_.planned->plan.host().bytes);
}

RefTensor StepChecker::read(const RunState& state, Value v, std::uint32_t buffer) const {
  const Program& p = executable_.lowered->program;
  const Place& place = p.places.at(v);
  const Type& t = p.type(v);
  Array a;
  a.dtype = t.dtype;
  for (SizeId d : t.dims) a.shape.push_back(state.sizes[d]);
  for (SizeId s : place.layout.strides) a.strides.push_back(state.sizes[s]);
  std::vector<std::byte> copy;
  a.data = host_bytes(executable_, state, buffer, copy) +
           state.sizes[place.layout.offset] * size_of(t.dtype);
  return RefTensor::from(a);
}

std::vector<RefTensor> StepChecker::run(const Node& n, const Tensors& known,
                                        const RunState& state) const {
  std::vector<const RefTensor*> inputs;
  for (Value x : n.inputs) inputs.push_back(&known.at(x));
  std::vector<Dims> shapes;  // a size that the node itself decides stands at its bound
  for (const Type& t : n.types) {
    Dims& shape = shapes.emplace_back();
    for (SizeId d : t.dims) shape.push_back(state.sizes[d]);
  }
  NoHostCalls repeated;
  return interpret_node(n, inputs, shapes);
}

/// Special functions of another device are not those of the reference: beside their zeros they
/// differ as if their operand were off by its last bit.
bool StepChecker::has_own_text(const Graph& graph, const Node& n) {
  if (n.device == 0 || !n.op->scalar) return false;
  const std::vector<Instr> body = scalar_body(graph, n).instrs;
  return std::any_of(body.begin(), body.end(), [](const Instr& in) { return is_special(in.prim); });
}

StepChecker::Tensors StepChecker::one_ulp_off(const Node& n, const Tensors& known) {
  Tensors moved;
  for (const Value x : n.inputs) moved[x] = known.at(x);
  for (double& x : moved.at(n.inputs.back()).f) x *= 1 + 0x1p-52;
  return moved;
}

void StepChecker::evaluate(const RunState& state, std::uint32_t at,
                           const std::vector<Value>& wanted) {
  const Program& p = executable_.lowered->program;
  const Graph& g = p.graph;
  const Step& step = executable_.planned->schedule.steps[at];
  const Task& task = p.tasks[step.task];
  auto buffer_of = [&](Value root) -> std::optional<std::uint32_t> {
    auto it = std::find(task.reads.begin(), task.reads.end(), root);
    if (it != task.reads.end())
      return step.reads[static_cast<std::size_t>(it - task.reads.begin())];
    // The first half of a blocked reduction stands for both: the second may read other buffers.
    const auto& buffers = executable_.planned->schedule.buffers;
    for (std::uint32_t b = 0; b < buffers.size(); ++b) {
      bool leaf = root.node < g.nodes().size() && has(*g.node(root).op, kLeaf);
      bool alive = buffers[b].first < at && buffers[b].last >= at;
      if (buffers[b].value == root && !buffers[b].workspace && (leaf || alive)) return b;
    }
    return std::nullopt;
  };
  Tensors known;
  auto leaf_value = [&](Value v) -> bool {  // read from memory, from sizes, or a constant
    const Node& n = g.node(v);
    if (n.op->name == "constant") {
      known[v] = RefTensor::from(*n.attrs.array("value"));
      return true;
    }
    if (auto place = p.places.find(v); place != p.places.end())
      if (std::optional<std::uint32_t> buffer = buffer_of(place->second.root)) {
        known[v] = read(state, v, *buffer);
        return true;
      }
    if (auto e = g.elements(v); !e.empty()) {
      Dims shape;
      for (SizeId d : g.type(v).dims) shape.push_back(state.sizes[d]);
      RefTensor t = RefTensor::zeros(g.type(v).dtype, shape);
      for (std::size_t k = 0; k < e.size(); ++k)
        t.set(static_cast<std::int64_t>(k), {0, state.sizes[e[k]]});
      known[v] = std::move(t);
      return true;
    }
    return false;
  };
  std::set<std::uint32_t> nodes;  // to run, in order of id
  std::vector<Value> stack = wanted;
  while (!stack.empty()) {
    Value v = stack.back();
    stack.pop_back();
    bool target = std::find(wanted.begin(), wanted.end(), v) != wanted.end();
    if (known.count(v) || nodes.count(v.node)) continue;
    if (!target && leaf_value(v)) continue;
    nodes.insert(v.node);
    for (Value x : g.node(v).inputs) stack.push_back(x);
  }
  // Once in double, and once rounded after each node: the difference shows what rounding does.
  Tensors rounded = known;
  for (std::uint32_t id : nodes) {
    const Node& n = g.node(id);
    std::vector<RefTensor> exact = run(n, known, state), sums, terms;
    std::vector<RefTensor> near =
        run(n, has_own_text(g, n) ? one_ulp_off(n, rounded) : rounded, state);
    if (is_sum(n) && is_float(n.types[0].dtype)) {
      Tensors magnitudes, units;
      for (Value x : n.inputs) {
        magnitudes[x] = magnitude(known.at(x));
        units[x] = ones(known.at(x));
      }
      sums = run(n, magnitudes, state);
      terms = run(n, units, state);
    }
    for (std::uint32_t k = 0; k < exact.size(); ++k) {
      near[k] = RefTensor::from(near[k].to_array());
      double everywhere = mixes(n) ? largest_of(exact[k]) : 0;
      // The interpreter computes in double: what a double loses is made up, to show where values
      // cancel.
      if (near[k].dtype == DType::F64 && has(*n.op, kElementwise))
        for (std::size_t e = 0; e < near[k].f.size(); ++e)
          near[k].f[e] *= 1 + chance_sign(id, e) * 0x1p-52;
      const double factors = n.inputs.empty() ? 1 : factors_of(n, known.at(n.inputs[0]), near[k]);
      for (std::size_t e = 0; e < near[k].f.size(); ++e) {
        double spread = everywhere;
        if (!sums.empty()) spread += sums[k].f[e] * growth(terms[k].f[e]);
        if (factors > kRoundings) spread += std::fabs(exact[k].f[e]) * growth(factors);
        near[k].f[e] += epsilon_of(near[k].dtype) * spread;
      }
      known[{id, k}] = std::move(exact[k]);
      rounded[{id, k}] = std::move(near[k]);
    }
  }
  for (Value v : wanted) {
    const RefTensor &exact = known.at(v), &near = rounded.at(v);
    Expected& e = expected_[v];
    e.value = RefTensor::from(exact.to_array());
    e.spread.clear();
    for (std::size_t k = 0; k < exact.f.size(); ++k)
      e.spread.push_back(k < near.f.size() ? std::fabs(exact.f[k] - near.f[k]) : 0);
  }
}

void StepChecker::before(const RunState& state, std::uint32_t at) {
  const Program& p = executable_.lowered->program;
  const Step& step = executable_.planned->schedule.steps[at];
  if (step.commit_copy) return;
  const Task& task = p.tasks[step.task];
  std::size_t graph_nodes = p.graph.nodes().size();
  // The second half of a blocked reduction sees partial results only: its values are computed with
  // the first half.
  for (Value v : task.reads)
    if (v.node >= graph_nodes) return;
  std::vector<Value> wanted;
  if (task.kind == Task::Kind::Kernel) {
    for (std::uint32_t id : task.covers)
      if (auto it = p.places.find({id, 0}); it != p.places.end() && it->second.root == Value{id, 0})
        wanted.push_back({id, 0});
  } else {
    wanted = task.writes;
  }
  if (task.kind == Task::Kind::Library && p.graph.node(task.index).op->residual) {
    const Node& n = p.graph.node(task.index);
    auto& problem = problems_[at];
    for (Value x : n.inputs) {
      const Value root = p.places.at(x).root;
      const auto it = std::find(task.reads.begin(), task.reads.end(), root);
      problem.push_back(
          read(state, x, step.reads[static_cast<std::size_t>(it - task.reads.begin())]));
    }
    return;
  }
  evaluate(state, at, wanted);
}

void StepChecker::compare(const RunState& state, std::uint32_t at, Value v,
                          std::uint32_t buffer) const {
  const Program& p = executable_.lowered->program;
  const RefTensor& want = expected_.at(v).value;
  RefTensor got = read(state, v, buffer);
  const Task& task = p.tasks[executable_.planned->schedule.steps[at].task];
  auto bad = [&](std::int64_t k, std::string a, std::string b) {
    throw InternalError(
        fmt::format("step {} ({}): element {} of %{} is {}, the reference has {}", at, task.name, k,
                    v.node, a, b),
        "this is a fault of Snug, not of your program; please report it with this text",
        task.origin);
  };
  if (got.size() != want.size()) bad(0, describe_shape(got.shape), describe_shape(want.shape));
  bool float_inputs = false;
  for (Value r : task.reads) float_inputs |= is_float(p.type(r).dtype);
  const double tolerance = kRoundings * epsilon_of(want.dtype);
  std::int64_t different = 0;
  for (std::int64_t k = 0; k < want.size(); ++k) {
    if (!want.floating()) {
      if (got.i[k] == want.i[k]) continue;
      // Comparisons of rounded floats may differ where the values are equal but for rounding.
      if (!float_inputs || ++different > 1 + want.size() / 100)
        bad(k, std::to_string(got.i[k]), std::to_string(want.i[k]));
      continue;
    }
    double a = got.f[k], b = want.f[k];
    double spread = expected_.at(v).spread[static_cast<std::size_t>(k)];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    // Where rounding on the way may overflow, nothing can be said.
    if (!std::isfinite(spread)) continue;
    if (std::fabs(a - b) <= tolerance * std::fabs(b) + kRoundings * spread + 1e-30) continue;
    bad(k, fmt::format("{}", a), fmt::format("{}", b));
  }
}

void StepChecker::check_residual(const RunState& state, std::uint32_t at) {
  const Program& p = executable_.lowered->program;
  const Step& step = executable_.planned->schedule.steps[at];
  const Task& task = p.tasks[step.task];
  const auto problem = problems_.find(at);
  if (problem == problems_.end()) return;
  const Node& n = p.graph.node(task.index);
  std::vector<const RefTensor*> inputs;
  for (const RefTensor& x : problem->second) inputs.push_back(&x);
  std::vector<RefTensor> outputs;
  double eps = 0;
  for (std::size_t k = 0; k < task.writes.size(); ++k) {
    outputs.push_back(read(state, task.writes[k], step.writes[k]));
    if (outputs.back().floating()) eps = std::max(eps, epsilon_of(outputs.back().dtype));
    expected_.erase(task.writes[k]);
  }
  const double residual = n.op->residual({n.attrs, inputs, outputs, {}});
  problems_.erase(problem);
  if (residual <= kRoundings * eps) return;
  throw InternalError(
      fmt::format("step {} ({}): the residual of %{} is {}, rounding explains {}", at, task.name,
                  task.index, residual, kRoundings * eps),
      "this is a fault of Snug, not of your program; please report it with this text", task.origin);
}

void StepChecker::poison_dead(const RunState& state, std::uint32_t at) const {
  const Schedule& s = executable_.planned->schedule;
  std::vector<bool> handed(s.buffers.size(), false);
  for (const Buffer& b : s.buffers)
    if (b.in_place_of >= 0) handed[static_cast<std::size_t>(b.in_place_of)] = true;
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b)
    if (s.buffers[b].where == Where::Arena && s.buffers[b].last == at && !handed[b] &&
        s.buffers[b].bytes)
      write_back(executable_, state, b, std::vector(s.buffers[b].bytes, std::byte{kPoison}).data(),
                 s.buffers[b].bytes);
}

void StepChecker::after(const RunState& state, std::uint32_t at) {
  const Step& step = executable_.planned->schedule.steps[at];
  if (!step.commit_copy) {
    const Task& task = executable_.lowered->program.tasks[step.task];
    check_residual(state, at);
    for (std::size_t k = 0; k < task.writes.size(); ++k)
      if (expected_.count(task.writes[k])) {
        compare(state, at, task.writes[k], step.writes[k]);
        expected_.erase(task.writes[k]);
      }
  }
  poison_dead(state, at);
}

}  // namespace snug
