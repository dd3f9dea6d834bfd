#include "api/memory_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/origin_marks.h"
#include "expr/loop_shape.h"
#include "graph/words.h"
#include "kernel/task_words.h"
#include "place/place.h"

namespace snug {
namespace {

/// Whether autodiff made a value. A loop over the slices of a batch does forward and backward work,
/// so its body says it for each result.
bool derivative(const Graph& g, Value v) {
  if (v.node >= g.nodes().size()) return false;  // a partial sum
  const Node& n = g.node(v);
  if (!n.inner || !LoopShape::of(n.attrs).blocks) return is_derivative(n.origin);
  return is_derivative(n.inner->node(n.inner->outputs()[v.output]).origin);
}

bool any_derivative(const Graph& g, std::uint32_t node) {
  for (std::uint32_t k = 0; k < g.node(node).types.size(); ++k)
    if (derivative(g, {node, k})) return true;
  return false;
}

/// Marks all that the marked nodes depend on; nodes of `border` are marked, but not those behind.
void mark_ancestors(const Graph& g, std::vector<bool>& marked,
                    const std::vector<bool>& border = {}) {
  for (auto id = static_cast<std::uint32_t>(g.nodes().size()); id-- > 0;)
    if (marked[id] && (border.empty() || !border[id]))
      for (Value v : g.node(id).inputs) marked[v.node] = true;
}

/// Which values of a graph are gradients of parameters: those derivatives that updates are made of,
/// and the parts of the same size that they are sums or rearrangements of.
class Gradients {
 public:
  /// `counts`: per update of the graph, whether it is one of a parameter.
  Gradients(const Graph& g, std::span<const std::int64_t> sizes, const std::vector<bool>& counts)
      : g_(g), sizes_(sizes), derivative_(g_.nodes().size()) {
    std::vector<bool> feeds(g_.nodes().size());
    for (std::uint32_t id = 0; id < derivative_.size(); ++id)
      derivative_[id] = any_derivative(g_, id);
    for (std::size_t i = 0; i < g_.updates().size(); ++i)
      if (counts[i]) take(g_.updates()[i].value, feeds);
    for (auto id = static_cast<std::uint32_t>(g_.nodes().size()); id-- > 0;)
      if (feeds[id] && !derivative_[id])
        for (std::size_t k = 0; k < data_inputs(g_.node(id)); ++k)
          take(g_.node(id).inputs[k], feeds);
    find_join(feeds);
    find_parts();
  }

  bool contains(Value v) const { return found_.count(v) != 0; }
  bool backward(std::uint32_t node) const { return derivative_[node]; }
  /// The first node that needs several gradients at once, or -1.
  std::int64_t join() const { return join_; }

 private:
  std::int64_t elements(Value v) const {
    std::int64_t n = 1;
    for (SizeId d : g_.type(v).dims) n *= sizes_[d];
    return n;
  }

  void take(Value v, std::vector<bool>& feeds) {
    feeds[v.node] = true;
    if (derivative(g_, v)) found_.insert(v);
  }

  void find_join(const std::vector<bool>& feeds) {
    constexpr std::int64_t kNone = -1, kMany = -2;
    std::vector<std::int64_t> of(g_.nodes().size(), kNone);  // the one gradient it depends on
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) {
      if (!feeds[id] || derivative_[id]) continue;
      const Node& n = g_.node(id);
      for (std::size_t k = 0; k < data_inputs(n); ++k) {
        Value v = n.inputs[k];
        std::int64_t other =
            found_.count(v) ? static_cast<std::int64_t>(v.node) * 256 + v.output : of[v.node];
        if (other == kNone || other == of[id]) continue;
        of[id] = of[id] == kNone ? other : kMany;
      }
      if (of[id] == kMany && join_ < 0) join_ = id;
    }
  }

  void find_parts() {
    std::vector<Value> open(found_.begin(), found_.end());
    while (!open.empty()) {
      Value v = open.back();
      open.pop_back();
      const Node& n = g_.node(v);
      if (!has(*n.op, kElementwise | kView)) continue;
      for (std::size_t k = 0; k < data_inputs(n); ++k)
        if (Value x = n.inputs[k]; derivative(g_, x) && !has(*g_.node(x).op, kLeaf) &&
                                   elements(x) == elements(v) && found_.insert(x).second)
          open.push_back(x);
    }
  }

  const Graph& g_;
  std::span<const std::int64_t> sizes_;
  std::vector<bool> derivative_;
  std::unordered_set<Value, ValueHash> found_;
  std::int64_t join_ = -1;
};

/// A buffer for the steps in which it has its bytes: one that takes over those of another begins
/// where that one ends.
struct Tenant {
  std::uint32_t buffer = 0, first = 0, last = 0;
  std::uint64_t bytes = 0;
};

/// The tenants of an arena. At every step the sum of their bytes is that of the live blocks.
std::vector<Tenant> tenants_of(const Schedule& s, Space space) {
  constexpr std::uint32_t kNone = 0xffffffff;
  std::vector<std::uint32_t> tenant_of(s.buffers.size(), kNone), chain(s.buffers.size(), kNone);
  std::vector<std::uint64_t> chain_bytes(s.buffers.size(), 0);
  std::vector<Tenant> tenants;
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where != Where::Arena || buf.space != space || buf.bytes == 0) continue;
    chain[b] = b;
    if (buf.in_place_of >= 0) {
      auto from = static_cast<std::uint32_t>(buf.in_place_of);
      if (tenant_of[from] != kNone) {
        chain[b] = chain[from];
        tenants[tenant_of[from]].last = buf.first - 1;  // may end before it begins: never alone
      }
    }
    const std::uint64_t bytes = arena_aligned(buf.bytes);
    chain_bytes[chain[b]] = std::max(chain_bytes[chain[b]], bytes);
    tenant_of[b] = static_cast<std::uint32_t>(tenants.size());
    tenants.push_back({b, buf.first, buf.last, 0});
  }
  for (Tenant& t : tenants) t.bytes = chain_bytes[chain[t.buffer]];
  return tenants;
}

/// A value as a piece.
ArenaPiece piece_of(const Program& p, const Executable& exe, Value v) {
  ArenaPiece piece;
  const Type& t = p.type(v);
  piece.dtype = t.dtype;
  for (SizeId d : t.dims) piece.shape.push_back(exe.bounds.high[d]);
  const bool node = v.node < p.graph.nodes().size();
  if (!node) {
    piece.op = "partial sums";
    return piece;
  }
  const Node& n = p.graph.node(v);
  piece.op = n.op == &kCopyOp || n.op == &transfer_op ? "copy" : word_for(n);
  piece.origin = n.origin;
  return piece;
}

/// The arena of a plan; none where it has none.
ArenaPlan arena_in(const Executable& exe, Space space) {
  const std::vector<ArenaPlan>& arenas = exe.planned->plan.arenas;
  return space < arenas.size() ? arenas[space] : ArenaPlan{};
}

/// Tells the buffers of one arena apart.
class Classes {
 public:
  Classes(const Executable& exe, Space space, const std::vector<bool>& counts)
      : exe_(exe),
        space_(space),
        p_(exe.lowered->program),
        s_(exe.planned->schedule),
        gradients_(p_.graph, exe.bounds.high, counts),
        for_backward_(s_.buffers.size(), false),
        step_of_(s_.buffers.size(), 0) {
    for (const Transfer& t : s_.transfers)
      if (!t.store) step_of_[t.buffer] = kFromFile;
    for (std::uint32_t at = 0; at < s_.steps.size(); ++at) {
      const Step& step = s_.steps[at];
      if (step.workspace >= 0) step_of_[static_cast<std::size_t>(step.workspace)] = at;
      for (std::uint32_t b : step.elsewhere) step_of_[b] = at;
      for (std::uint32_t b : step.writes) step_of_[b] = at;
      if (step.commit_copy) continue;
      const auto& covers = p_.tasks[step.task].covers;
      if (std::any_of(covers.begin(), covers.end(),
                      [&](std::uint32_t id) { return gradients_.backward(id); }))
        for (std::uint32_t b : step.reads) for_backward_[b] = true;
    }
  }

  ArenaUse run() {
    ArenaUse use;
    const ArenaPlan arena = arena_in(exe_, space_);
    const std::uint32_t peak = arena.peak_step;
    use.gap = arena.gap();
    std::array<std::vector<std::int64_t>, kArenaClasses> change;
    for (auto& c : change) c.assign(s_.steps.size() + 2, 0);
    for (const Tenant& t : tenants_of(s_, space_)) {
      if (t.last + 1 == t.first) continue;
      if (new_gradient(t.buffer)) use.all_gradients += t.bytes;
      std::vector<ArenaPiece> pieces{piece(t)};
      std::uint64_t inner_gap = 0;
      if (s_.buffers[t.buffer].workspace) add_body(t, pieces, inner_gap, use);
      for (ArenaPiece& x : pieces) {
        auto& c = change[static_cast<std::size_t>(x.what)];
        c[t.first] += static_cast<std::int64_t>(x.bytes);
        c[t.last + 1] -= static_cast<std::int64_t>(x.bytes);
        if (t.first <= peak && peak <= t.last) {
          use.at_peak[static_cast<std::size_t>(x.what)] += x.bytes;
          use.alive.push_back(std::move(x));
        }
      }
      if (t.first <= peak && peak <= t.last) use.gap += inner_gap;
    }
    for (std::size_t c = 0; c < kArenaClasses; ++c) {
      std::int64_t now = 0;
      for (std::int64_t d : change[c]) {
        now += d;
        use.most[c] = std::max(use.most[c], static_cast<std::uint64_t>(now));
      }
    }
    // Inside a loop there are also the parts of one iteration.
    constexpr auto kGradients = static_cast<std::size_t>(ArenaClass::Gradients);
    use.all_gradients = std::max(use.all_gradients, use.most[kGradients]);
    std::uint64_t sum = use.gap;
    for (std::uint64_t bytes : use.at_peak) sum += bytes;
    SNUG_CHECK(sum == arena.bytes, "the classes sum up to {} bytes, the arena has {}", sum,
               arena.bytes);
    std::stable_sort(use.alive.begin(), use.alive.end(),
                     [](const ArenaPiece& a, const ArenaPiece& b) { return a.bytes > b.bytes; });
    if (use.gradients_wait.empty() && gradients_.join() >= 0) {
      const Node& n = p_.graph.node(static_cast<std::uint32_t>(gradients_.join()));
      std::string where = describe(n.origin);
      use.gradients_wait = fmt::format("{}{} needs them before the first update", word_for(n),
                                       where.empty() ? "" : fmt::format(" ({})", where));
    }
    return use;
  }

 private:
  ArenaClass class_of(std::uint32_t b) const {
    const Buffer& buf = s_.buffers[b];
    if (buf.workspace) return ArenaClass::Workspace;
    if (buf.value.node >= p_.graph.nodes().size()) return ArenaClass::Temporaries;
    const OpDef& op = *p_.graph.node(buf.value).op;
    if (&op == &kCopyOp || has(op, kLeaf)) return ArenaClass::Copies;
    if (gradients_.contains(buf.value)) return ArenaClass::Gradients;
    if (for_backward_[b] && !derivative(p_.graph, buf.value)) return ArenaClass::Activations;
    return ArenaClass::Temporaries;
  }

  /// A gradient that does not take over the bytes of another or of its first computation.
  bool new_gradient(std::uint32_t b) const {
    const Buffer& buf = s_.buffers[b];
    return class_of(b) == ArenaClass::Gradients && step_of_[b] != kFromFile &&
           !s_.steps[step_of_[b]].again &&
           (buf.in_place_of < 0 ||
            class_of(static_cast<std::uint32_t>(buf.in_place_of)) != ArenaClass::Gradients);
  }

  ArenaPiece piece(const Tenant& t) const {
    const Buffer& buf = s_.buffers[t.buffer];
    ArenaPiece piece;
    if (buf.workspace) {
      const Task& task = p_.tasks[s_.steps[step_of_[t.buffer]].task];
      piece.op = words_for(p_, task);
      piece.origin = task.origin;
      piece.dtype = DType::U8;
      piece.shape = {static_cast<std::int64_t>(buf.bytes)};
    } else {
      piece = piece_of(p_, exe_, buf.value);
    }
    piece.bytes = t.bytes;
    piece.what = class_of(t.buffer);
    return piece;
  }

  /// The workspace of a loop is the arena of its body: its buffers instead of the whole.
  void add_body(const Tenant& t, std::vector<ArenaPiece>& pieces, std::uint64_t& gap,
                ArenaUse& use) const {
    const std::uint32_t at = step_of_[t.buffer];
    const Task& task = p_.tasks[s_.steps[at].task];
    const PreparedCall* const call = exe_.steps[at].call;
    const Executable* const body = call ? loop_body(*call) : nullptr;
    if (!body) return;
    // The states are the first results of the loop.
    const Graph& inner = body->lowered->program.graph;
    const Node& loop = p_.graph.node(task.index);
    const LoopShape shape = LoopShape::of(loop.attrs);
    const auto first = static_cast<std::uint32_t>(shape.state(0));
    const auto first_output = static_cast<std::uint32_t>(shape.states);
    std::vector<bool> counts;
    bool sums_gradients = false;
    for (const Update& u : inner.updates()) {
      counts.push_back(gradients_.contains({task.index, u.input - first}));
      sums_gradients |= counts.back();
    }
    ArenaUse inside = Classes(*body, space_, counts).run();
    gap = inside.gap;
    ArenaPiece& tables = pieces[0];
    tables.bytes -= arena_in(*body, space_).bytes;
    if (tables.bytes == 0) pieces.clear();  // they are on the host
    for (ArenaPiece& x : inside.alive) pieces.push_back(std::move(x));
    use.slices = slices_of(*call);
    if (use.slices.count == 0) return;
    if (sums_gradients) use.gradients_wait = "they are sums over the micro-batches";
    for (std::uint32_t k = 0; k < first_output; ++k)
      use.accumulators += bytes_of(p_, exe_.bounds.high, {task.index, k});
  }

  const Executable& exe_;
  const Space space_;
  const Program& p_;
  const Schedule& s_;
  Gradients gradients_;
  std::vector<bool> for_backward_;  // by buffer: a backward step reads it
  static constexpr std::uint32_t kFromFile = UINT32_MAX;
  std::vector<std::uint32_t> step_of_;  // by buffer: the step that makes it
};

}  // namespace

ArenaUse arena_use(const Executable& exe, Space space) {
  const std::vector<bool> all(exe.lowered->program.graph.updates().size(), true);
  return Classes(exe, space, all).run();
}

namespace {

/// Per node: the value follows from this input alone, constants aside.
std::vector<bool> made_of_alone(const Graph& g, Value input) {
  std::vector<bool> alone(g.nodes().size());
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id) {
    const Node& n = g.node(id);
    alone[id] = id == input.node ||
                (id >= g.inputs().size() && std::all_of(n.inputs.begin(), n.inputs.end(),
                                                        [&](Value v) { return alone[v.node]; }));
  }
  return alone;
}

}  // namespace

std::vector<bool> optimizer_state(const Graph& g) {
  const std::size_t n = g.nodes().size();
  std::vector<bool> derivatives(n), read(n), changed_by_derivatives(n);
  for (std::uint32_t id = 0; id < n; ++id) derivatives[id] = any_derivative(g, id);
  // What outputs and derivatives are made of is part of the model.
  read = derivatives;
  for (Value v : g.outputs()) read[v.node] = true;
  mark_ancestors(g, read);
  for (std::uint32_t id = 0; id < n; ++id) {
    changed_by_derivatives[id] = derivatives[id];
    for (Value v : g.node(id).inputs)
      if (changed_by_derivatives[v.node]) changed_by_derivatives[id] = true;
  }
  std::vector<bool> serves(n);
  for (const Update& u : g.updates())
    if (changed_by_derivatives[u.value.node]) serves[u.value.node] = true;
  mark_ancestors(g, serves, derivatives);
  std::vector<bool> state(g.inputs().size(), false);
  for (const GraphInput& in : g.inputs())
    if (in.shared) state[&in - g.inputs().data()] = serves[in.value.node] && !read[in.value.node];
  // Its old value need not be read to be written.
  for (const Update& u : g.updates())
    if (!read[g.inputs()[u.input].value.node] && changed_by_derivatives[u.value.node])
      state[u.input] = true;
  // What counts on from itself, as states of random numbers do, is no parameter, whoever reads it.
  for (const Update& u : g.updates())
    if (const Value v = g.inputs()[u.input].value;
        is_discrete(g.type(v).dtype) && made_of_alone(g, v)[u.value.node])
      state[u.input] = true;
  return state;
}

}  // namespace snug
