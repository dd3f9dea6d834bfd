#include "api/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fork.h"
#include "base/origin_marks.h"
#include "exec/kept_plans.h"
#include "expr/evaluate_sizes.h"
#include "graph/substitute_sizes.h"

namespace snug {
namespace {

constexpr std::size_t kMaxExecutables = 64, kMinExecutables = 4;
constexpr std::int64_t kMaxExecutableBytes = std::int64_t{32} << 20;  // of more than the fewest
/// While all functions together have more, each one that makes another keeps the fewest.
constexpr std::int64_t kMaxExecutableBytesOfAll = std::int64_t{64} << 20;
constexpr std::size_t kMaxPlans = 16;
constexpr std::size_t kMaxPrograms = 8;  // for sizes of shared variables, besides the current one

/// A program made with these options is one made with those.
bool same_program(const CompileOptions& a, const CompileOptions& b) {
  return a.place_on == b.place_on && a.devices == b.devices && a.home == b.home &&
         a.micro_batches == b.micro_batches && a.bfloat16_products == b.bfloat16_products &&
         (a.round == RoundActivations::Always) == (b.round == RoundActivations::Always);
}

}  // namespace

bool serves_shape(const Dims& assumed, const Dims& shape) {
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (assumed[k] >= 0 && assumed[k] != shape[k]) return false;
  return true;
}

Compiled::Compiled(std::shared_ptr<const FunctionGraph> function, CompileOptions options, Code code,
                   std::shared_ptr<FrontierUser> frontiers)
    : function_(std::move(function)),
      options_(std::move(options)),
      code_(code),
      frontiers_(std::move(frontiers)) {
  made_.assumed = function_->shared_shapes();
}

Compiled::Compiled(const Compiled& other, const CompileOptions& options)
    : function_(other.function_),
      options_(options),
      code_(Code::None),
      frontiers_(other.frontiers_) {
  made_.assumed = other.made_.assumed;
  if (same_program(options, other.options_))
    made_.lowered = other.made_.lowered;  // planned otherwise, but the same tasks
  else
    program_for(made_.assumed);  // sizes that vary are -1 there, and stay open
}

void Compiled::make_code() {
  if (code_ == Code::Now) return;
  generate_code(*made_.lowered, made_.trace);
  const NoFork whole;
  made_.executables.clear();  // they have no code
  others_.clear();
  code_ = Code::Now;
}

void Compiled::use_threads(int threads) {
  if (!made_.lowered || threads >= made_.lowered->threads) return;
  options_.threads = threads;
  std::list<Made> old;  // those die after the step
  Made next = lower_for(made_.assumed);
  const NoFork whole;
  others_.swap(old);
  std::swap(made_, next);
}

Graph Compiled::with_sizes(const std::vector<Dims>& assumed) const {
  const Graph& graph = function_->graph;
  std::unordered_map<SizeId, SizeId> known;
  SizeTable& table = graph.mutable_sizes();
  for (std::size_t i = 0; i < function_->shared.size(); ++i) {
    const std::uint32_t input = function_->shared[i].input;
    const Type& t = graph.type(graph.inputs()[input].value);
    for (std::size_t k = 0; k < assumed[i].size(); ++k) {
      SizeId d = t.dims[k];
      // A size shared with an argument stays open: the argument may be wrong, and then says so.
      if (assumed[i][k] < 0 || table.node(d).op != SizeOp::Symbol) continue;
      const Symbol& s = table.symbol_of(d);
      if (s.kind == Symbol::Kind::Dim && s.input == input) known[d] = table.constant(assumed[i][k]);
    }
  }
  return substitute_sizes(graph, known);
}

std::vector<Dims> Compiled::assumed_for(const std::vector<Dims>& shapes) const {
  std::vector<Dims> assumed = shapes;
  const NoFork whole;  // graphs share their tables of sizes
  const Graph graph = with_sizes(assumed);
  const auto& shared = function_->shared;
  for (const Update& u : graph.updates()) {
    const auto s = std::find_if(shared.begin(), shared.end(),
                                [&](const auto& v) { return v.input == u.input; });
    if (s == shared.end()) continue;
    Dims& dims = assumed[static_cast<std::size_t>(s - shared.begin())];
    const Type& next = graph.type(u.value);
    for (std::size_t k = 0; k < dims.size(); ++k)
      if (graph.sizes().known(next.dims[k]) != dims[k]) dims[k] = -1;
  }
  return assumed;
}

std::shared_ptr<const Lowered> Compiled::program_for(const std::vector<Dims>& shapes) {
  const auto serves = [&](const Made& m) {
    if (!m.lowered) return false;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      if (!serves_shape(m.assumed[i], shapes[i])) return false;
    return true;
  };
  if (serves(made_)) return made_.lowered;
  const auto earlier = std::find_if(others_.begin(), others_.end(), serves);
  Made next, dropped;  // what dies does so after the step
  if (earlier == others_.end()) next = lower_for(assumed_for(shapes));
  const NoFork whole;
  if (earlier != others_.end()) {
    next = std::move(*earlier);
    others_.erase(earlier);
  }
  std::swap(made_, next);
  if (next.lowered) others_.push_front(std::move(next));
  if (others_.size() > kMaxPrograms) {
    dropped = std::move(others_.back());
    others_.pop_back();
  }
  return made_.lowered;
}

Compiled::Made Compiled::lower_for(std::vector<Dims> assumed) {
  const DeviceMarkScope nowhere(
      "");  // a call may be inside of a block that puts things on a device
  Made made;
  made.assumed = std::move(assumed);
  const MadeCode before = made_code();
  {
    const NoFork whole;  // graphs share their tables of sizes
    made.lowered = lower(with_sizes(made.assumed), options_, made.trace);
  }
  if (code_ == Code::Now) generate_code(*made.lowered, made.trace);
  const MadeCode after = made_code();
  counters_.kernels_compiled += static_cast<std::int64_t>(after.kernels - before.kernels);
  counters_.kernels_from_cache +=
      static_cast<std::int64_t>(after.kernels_from_disk - before.kernels_from_disk);
  ++counters_.programs;
  return made;
}

std::vector<std::uint64_t> Compiled::fixed_bytes(const Graph& g,
                                                 std::span<const std::int64_t> sizes) const {
  std::vector<std::uint64_t> total(options_.devices ? options_.devices->size() : 1, 0);
  auto add = [&](const Type& t, DeviceId device) {
    std::int64_t bytes = size_of(t.dtype);
    for (SizeId d : t.dims) bytes *= sizes[d];
    total[device] += static_cast<std::uint64_t>(bytes);
  };
  for (const FunctionGraph::Shared& s : function_->shared) {
    const Value v = g.inputs()[s.input].value;
    add(g.type(v), g.node(v).device);
    if (g.node(v).device != 0 && s.written && options_.snapshots) add(g.type(v), 0);
  }
  for (Value v : g.outputs()) add(g.type(v), 0);
  for (const Node& n : g.nodes())
    if (n.op->name == "constant") add(n.types[0], n.device);
  return total;
}

std::shared_ptr<const Executable> Compiled::executable_for(const std::shared_ptr<const Lowered>& l,
                                                           std::span<const std::int64_t> symbols,
                                                           std::span<const std::int64_t> sizes,
                                                           const std::vector<bool>& copied) {
  auto matches = [&](const Executable& e) {
    if (e.planned->kind.copied != copied) return false;
    for (std::size_t i = 0; i < l->key.size(); ++i)
      if (e.key[i] != sizes[l->key[i]]) return false;
    return true;
  };
  for (auto it = made_.executables.begin(); it != made_.executables.end(); ++it)
    if (matches(**it)) {
      if (it != made_.executables.begin()) {
        const NoFork whole;
        made_.executables.splice(made_.executables.begin(), made_.executables, it);
      }
      return made_.executables.front();
    }
  const Graph& g = l->program.graph;
  SizeBounds bounds = bound_sizes(g.sizes(), symbols, symbols);
  CallKind kind{{}, copied};
  for (const Update& u : g.updates()) {
    const Type &a = g.type(g.inputs()[u.input].value), &b = g.type(u.value);
    bool same = true;
    for (std::size_t k = 0; k < a.dims.size(); ++k)
      same &= bounds.high[a.dims[k]] == bounds.high[b.dims[k]] &&
              bounds.low[b.dims[k]] == bounds.high[b.dims[k]];
    kind.same_shape.push_back(same);
  }
  std::vector<std::uint64_t> fixed = fixed_bytes(g, bounds.high);
  add_body_constants(*l, fixed);
  if (options_.budgets.host() == 0) fixed[0] = 0;
  // A variable that changes its shape has its old and its new memory at once.
  for (std::size_t i = 0; i < g.updates().size(); ++i)
    if (const Value v = g.updates()[i].value; !kind.same_shape[i])
      fixed[g.node(v).device] += bytes_of(l->program, bounds.high, v);
  std::shared_ptr<const Executable> e = counted(instantiate(
      *l, std::move(bounds), std::move(kind), fixed, options_,
      code_ == Code::None ? std::span<const std::shared_ptr<const Planned>>{} : made_.plans,
      frontiers_));
  const NoFork whole;
  if (std::find(made_.plans.begin(), made_.plans.end(), e->planned) == made_.plans.end()) {
    made_.plans.insert(made_.plans.begin(), e->planned);
    if (made_.plans.size() > kMaxPlans) made_.plans.pop_back();
    ++counters_.plans;
  }
  ++counters_.instances;
  made_.executables.push_front(e);
  std::int64_t bytes = 0;
  for (const auto& kept : made_.executables) bytes += bytes_of(*kept);
  const auto too_many = [&] {
    return bytes > kMaxExecutableBytes || kept_plan_bytes() > kMaxExecutableBytesOfAll;
  };
  while (made_.executables.size() > kMaxExecutables ||
         (made_.executables.size() > kMinExecutables && too_many())) {
    bytes -= bytes_of(*made_.executables.back());
    made_.executables.pop_back();
  }
  return e;
}

std::vector<std::int64_t> Compiled::symbols_for(const Lowered& l, const SizeSources& from,
                                                std::string& assumed) const {
  const FunctionGraph& f = *function_;
  const Graph& g = l.program.graph;
  // The symbols that the plan or a requirement depends on.
  std::vector<SizeId> asked(l.key);
  for (std::uint32_t r : l.early_requirements) {
    asked.push_back(g.requirements()[r].a);
    asked.push_back(g.requirements()[r].b);
  }
  std::vector<bool> needed(g.sizes().nodes().size(), false);
  g.sizes().walk(std::move(asked), [&](SizeId id) { return needed[id] = true; });
  std::vector<std::int64_t> symbols(g.sizes().symbols().size(), 0);
  for (SizeId id = 0; id < needed.size(); ++id) {
    const SizeNode& n = g.sizes().node(id);
    if (n.op != SizeOp::Symbol) continue;
    const Symbol& s = g.sizes().symbol_of(id);
    std::int64_t& value = symbols[static_cast<std::size_t>(n.value)];
    if (s.kind == Symbol::Kind::Dim) {
      value = from.shapes[s.input][s.index];
    } else if (s.kind == Symbol::Kind::Element && s.input >= f.argument_count) {
      value = from.shared_values[s.input - f.argument_count].value_or(0);
    } else if (s.kind == Symbol::Kind::Element && s.input < from.values.size() &&
               from.values[s.input]) {
      value = *from.values[s.input];
    } else if (s.kind == Symbol::Kind::Element && s.input < f.input_names.size() && needed[id]) {
      assumed += (assumed.empty() ? "" : ", ") + f.name_of_input(s.input);
    }
  }
  return symbols;
}

std::shared_ptr<const Executable> Compiled::plan_for(const SizeSources& from,
                                                     std::string& assumed) {
  const std::shared_ptr<const Lowered> l = program_for(function_->shared_shapes(from));
  const Graph& g = l->program.graph;
  const std::vector<std::int64_t> symbols = symbols_for(*l, from, assumed);
  std::vector<std::int64_t> sizes(g.sizes().nodes().size());
  evaluate_sizes(g.sizes(), sizes, symbols);
  try {
    check_requirements(g, l->early_requirements, sizes);
  } catch (Error& e) {
    if (!assumed.empty())
      e.reword(e.message(), fmt::format("{} was taken as 0; give its value to memory", assumed));
    throw;
  }
  return executable_for(l, symbols, sizes, from.copied);
}

void Compiled::forget_plans() {
  decltype(made_.executables) executables;  // those die after the step
  decltype(made_.plans) plans;
  decltype(others_) others;
  const NoFork whole;
  made_.executables.swap(executables);
  made_.plans.swap(plans);
  others_.swap(others);
}

void Compiled::visit_graphs(const std::function<void(const Graph&)>& visit) const {
  visit(made_.trace.placed);
  for (const Made& m : others_) visit(m.trace.placed);
}

void Compiled::visit_programs(const std::function<void(const Lowered&)>& visit) const {
  if (made_.lowered) visit(*made_.lowered);
  for (const Made& m : others_) visit(*m.lowered);
}

}  // namespace snug
