#include "place/place.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/bytes.h"
#include "cost/nodes.h"
#include "expr/evaluate_sizes.h"
#include "expr/loop_shape.h"
#include "ops/rows.h"

namespace snug {
namespace {

/// Integers that are known before running; the shape of a number has none.
bool is_known_size(const Graph& graph, std::uint32_t id) {
  if (!graph.elements({id, 0}).empty()) return true;
  const Type& t = graph.node(id).types[0];
  return !is_float(t.dtype) && t.ndim() == 1 && graph.sizes().is(t.dims[0], 0);
}

constexpr double kNever = std::numeric_limits<double>::infinity();

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

/// As is the number of iterations of a loop, and all that a size is made of, which is known before
/// running: nothing reads their memory.
bool decides_sizes_only(const Graph& graph, std::uint32_t id, std::size_t input) {
  const Node& node = graph.node(id);
  if (node.op == &transfer_op) return false;
  return input >= data_inputs(node) || (node.inner && input == 0) || is_known_size(graph, id);
}

/// The problem as numbers: what each node costs on each device, what it costs to move each value,
/// who uses what. Then a search over placements.
class Placer {
 public:
  /// `home`: where arguments and outputs are. If that is not the host, the graph is the body of a
  /// loop, whose first argument counts iterations on the host.
  Placer(const Graph& graph, const std::vector<DeviceInfo>& devices, const PlaceHints& hints,
         DeviceId home = 0)
      : graph_(graph), devices_(devices), hints_(hints), home_(home), n_(graph.nodes().size()) {
    sizes_.resize(graph.sizes().nodes().size());
    least_.resize(sizes_.size());
    for (const auto& [sizes, unknown] : {std::pair(&sizes_, hints.unknown), {&least_, 1}})
      evaluate_sizes(
          graph.sizes(), *sizes,
          [&, unknown = unknown](const Symbol& s, SizeId id, std::span<const std::int64_t> done) {
            return guess(s, id, done, unknown);
          });
    measure();
  }

  void solve() {
    // Chains pay only as a whole: begin with everything on each device in turn, and improve.
    double best = kNever;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      std::vector<DeviceId> at(n_, 0);
      for (std::uint32_t id = 0; id < n_; ++id)
        at[id] = pinned_[id]     ? *pinned_[id]
                 : can_be(id, d) ? static_cast<DeviceId>(d)
                                 : DeviceId{0};
      improve(at);
      double cost = total(at);
      if (cost < best) {
        best = cost;
        at_ = std::move(at);
      }
    }
    seconds_ = best;
  }

  Graph build(PlaceTrace& trace) {
    std::vector<std::vector<Value>> map;
    Builder b(graph_, map);
    std::unordered_map<std::string, std::uint32_t> interned;
    auto note = [&](std::uint32_t node, std::string text) {
      auto [it, fresh] = interned.try_emplace(text, trace.reasons.size());
      if (fresh) trace.reasons.push_back(std::move(text));
      if (trace.reason_of.size() <= node) trace.reason_of.resize(node + 1, 0);
      trace.reason_of[node] = it->second;
    };
    auto move_once = [&](Value v, DeviceId from, DeviceId to) {
      Value t = b.add_on(to, transfer_op, {v}, Attrs{{"device", static_cast<std::int64_t>(to)}});
      if (t.node >= trace.reason_of.size() || trace.reason_of[t.node] == 0)
        note(t.node,
             fmt::format("brings a value from {} to {}", devices_[from].name, devices_[to].name));
      return t;
    };
    auto moved = [&](Value v, DeviceId from, DeviceId to) {
      if (from == to) return v;
      if (from != 0) v = move_once(v, from, 0);
      return to == 0 ? v : move_once(v, 0, to);
    };
    // A value of the given graph on a device. Constants are made wherever they are used.
    auto on = [&](Value v, DeviceId to) {
      const Node& node = graph_.node(v.node);
      if (!is_constant(node)) return moved(map[v.node][v.output], at_[v.node], to);
      OriginOverride origin(node.origin);
      const Value made = b.keep(graph_, v.node, {}, nullptr, to);
      note(made.node, "a constant: where it is used");
      return made;
    };
    trace.reasons.clear();
    trace.reason_of.clear();
    note(0, "");  // nodes without a decision
    for (std::uint32_t id = 0; id < n_; ++id) {
      const Node& node = graph_.node(id);
      if (is_constant(node)) continue;
      OriginOverride origin(node.origin);
      const bool only_moves = is_on_device(node);
      if (only_moves) {
        map[id] = {on(node.inputs[0], at_[id])};
      } else if (map[id].empty()) {
        std::vector<Value> inputs;
        for (std::size_t k = 0; k < node.inputs.size(); ++k) {
          Value v = node.inputs[k];
          const bool anywhere =
              decides_sizes_only(graph_, id, k) && !is_constant(graph_.node(v.node));
          inputs.push_back(anywhere                            ? map[v.node][v.output]
                           : decides_sizes_only(graph_, id, k) ? on(v, 0)
                                                               : on(v, at_[id]));
        }
        Value v = b.keep(graph_, id, std::move(inputs), placed_body(id, trace), at_[id]);
        for (std::uint32_t k = 0; k < node.types.size(); ++k) map[id].push_back({v.node, k});
      }
      if (id < graph_.inputs().size()) b.set_device(map[id][0].node, at_[id]);
      if (!only_moves) note(map[id][0].node, reason(id));
      for (const Graph::RuntimeSource& s : graph_.runtime_sources())
        if (s.value.node == id)  // sizes are known on the host
          b.add_runtime_source({s.symbol, on(s.value, 0), s.extent, s.element});
    }
    std::vector<Value> outputs;
    for (Value v : graph_.outputs()) outputs.push_back(on(v, home_));
    std::vector<Update> updates;
    for (const Update& u : graph_.updates()) {
      DeviceId home = at_[graph_.inputs()[u.input].value.node];
      updates.push_back({u.input, on(u.value, home)});
    }
    trace.reason_of.resize(b.size(), 0);
    Graph placed = std::move(b).finish(std::move(outputs), std::move(updates));
    SNUG_CHECK(placed.nodes().size() == trace.reason_of.size(), "place: {} nodes came out of {}",
               placed.nodes().size(), trace.reason_of.size());
    for (const Node& node : placed.nodes()) trace.transfers += node.op == &transfer_op;
    trace.seconds = seconds_;
    return placed;
  }

 private:
  static bool is_constant(const Node& node) { return node.op->name == "constant"; }
  static bool is_on_device(const Node& node) { return node.op == &ops::on_device; }

  static constexpr std::uint32_t kHost = 0xffffffff, kNobody = 0xfffffffe;  // in place of a user

  std::int64_t guess(const Symbol& s, SizeId id, std::span<const std::int64_t> done,
                     std::int64_t unknown) const {
    if (s.kind == Symbol::Kind::Dim) {
      if (s.input < hints_.shapes.size() && s.index < hints_.shapes[s.input].size() &&
          hints_.shapes[s.input][s.index] >= 0)
        return hints_.shapes[s.input][s.index];
      if (const auto& shared = graph_.inputs()[s.input].shared) return shared->shape()[s.index];
    }
    if (s.kind == Symbol::Kind::Runtime && s.high < id) return done[s.high];
    return s.kind == Symbol::Kind::Element ? 0 : unknown;
  }

  void measure() {
    std::size_t count = devices_.size();
    work_.assign(n_ * count, 0.0);
    bytes_.assign(n_, 0.0);
    users_.assign(n_, {});
    kind_.assign(n_, Kind::Free);
    pinned_.assign(n_, std::nullopt);
    find_pins();
    for (std::uint32_t id = 0; id < n_; ++id) {
      const Node& node = graph_.node(id);
      std::vector<Dims> in, out;
      std::vector<DType> dtypes;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        Value v = node.inputs[k];
        in.push_back(eval_dims(graph_.type(v).dims, sizes_));
        dtypes.push_back(graph_.type(v).dtype);
        if (!decides_sizes_only(graph_, id, k)) users_[v.node].push_back(id);
      }
      for (const Type& type : node.types) {
        out.push_back(eval_dims(type.dims, sizes_));
        bytes_[id] += static_cast<double>(product(out.back()) * size_of(type.dtype));
      }
      classify(id, node);
      for (std::size_t d = 0; d < count; ++d)
        work_[id * count + d] = !can_be(id, d) ? kNever
                                : kind_[id] == Kind::Free
                                    ? predict_seconds(devices_[d], node, in, out, dtypes)
                                    : 0;
    }
    for (Value v : graph_.outputs()) users_[v.node].push_back(kHost);
    for (const Update& u : graph_.updates())
      users_[u.value.node].push_back(graph_.inputs()[u.input].value.node);
    for (auto& u : users_) {
      std::sort(u.begin(), u.end());
      u.erase(std::unique(u.begin(), u.end()), u.end());
    }
    if (hints_.home) keep_what_feeds_the_host();
  }

  /// Pins, and what follows from them.
  void find_pins() {
    pins_.assign(n_, std::nullopt);
    for_inside_.assign(n_, false);
    if (!hints_.pin) return;
    std::vector<std::optional<DeviceId>> draws(n_);  // those that read it
    for (std::uint32_t id = 0; id < n_; ++id) {
      const Node& node = graph_.node(id);
      pins_[id] = hints_.pin(id, node);
      if (pins_[id]) {
        const bool is_variable = id < graph_.inputs().size() && graph_.inputs()[id].shared;
        if (is_on_device(node) || is_variable) draws[id] = pins_[id];
        continue;
      }
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const std::uint32_t from = node.inputs[k].node;
        if (draws[from] && !decides_sizes_only(graph_, id, k) && (!pins_[id] || pins_[id] == 0))
          pins_[id] = draws[id] = draws[from];
      }
      if (!node.inner || pins_[id]) continue;
      pins_[id] = pin_inside(*node.inner);
      for_inside_[id] = pins_[id].has_value();
    }
    pin_views_of_constants();
  }

  /// They are where they are used, as constants are.
  void pin_views_of_constants() {
    std::vector<bool> fixed(n_, false);
    for (std::uint32_t id = 0; id < n_; ++id) {
      const Node& node = graph_.node(id);
      const bool view = has(*node.op, kView) && data_inputs(node) == 1 && !pins_[id];
      fixed[id] = is_constant(node) || (view && fixed[node.inputs[0].node]);
    }
    std::vector<std::optional<DeviceId>> wanted(n_);
    for (auto id = static_cast<std::uint32_t>(n_); id-- > 0;) {
      if (fixed[id]) pins_[id] = wanted[id];
      if (pins_[id])
        for (const Value v : graph_.node(id).inputs)
          if (fixed[v.node] && !wanted[v.node]) wanted[v.node] = pins_[id];
    }
  }

  /// A loop is where something in it has to be.
  std::optional<DeviceId> pin_inside(const Graph& body) const {
    for (std::uint32_t id = 0; id < body.nodes().size(); ++id) {
      const Node& node = body.node(id);
      std::optional<DeviceId> pin = hints_.pin(id, node);
      if (!pin && node.inner) pin = pin_inside(*node.inner);
      if (pin && *pin != 0) return pin;
    }
    return {};
  }

  /// Nodes that the host alone reads, made of what it has, are there: as many as there can be.
  void keep_what_feeds_the_host() {
    const auto is_computed = [&](std::uint32_t id) {
      return id >= graph_.inputs().size() && kind_[id] == Kind::Free && !graph_.node(id).inner &&
             !is_constant(graph_.node(id)) && !users_[id].empty() && !pins_[id];
    };
    std::vector<bool> feeds(n_, false);
    std::vector<std::uint32_t> doubtful;
    for (std::uint32_t id = 0; id < n_; ++id)
      if ((feeds[id] = is_computed(id))) doubtful.push_back(id);
    const auto holds = [&](std::uint32_t id) {
      for (const std::uint32_t user : users_[id])
        if (user == kHost || user < graph_.inputs().size() ||
            (kind_[user] != Kind::Host && !feeds[user]))
          return false;
      const Node& node = graph_.node(id);
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const std::uint32_t from = node.inputs[k].node;
        if (!feeds[from] && kind_[from] == Kind::Free && !decides_sizes_only(graph_, id, k) &&
            !is_constant(graph_.node(from)))
          return false;
      }
      return true;
    };
    // One that is not takes along what it reads and what reads it.
    while (!doubtful.empty()) {
      const std::uint32_t id = doubtful.back();
      doubtful.pop_back();
      if (!feeds[id] || holds(id)) continue;
      feeds[id] = false;
      for (const Value v : graph_.node(id).inputs) doubtful.push_back(v.node);
      for (const std::uint32_t user : users_[id])
        if (user < n_) doubtful.push_back(user);
    }
    for (std::uint32_t id = 0; id < n_; ++id) {
      if (!feeds[id]) continue;
      pinned_[id] = 0;
      for (std::size_t d = 0; d < devices_.size(); ++d)
        work_[id * devices_.size() + d] = d == 0 ? 0 : kNever;
    }
  }

  /// Where the nodes of a loop on `device` are that are put nowhere: there, too, unless the loop is
  /// there for the others alone.
  DeviceId home_inside(std::uint32_t loop, DeviceId device) const {
    return for_inside_[loop] && hints_.home == DeviceId{0} ? DeviceId{0} : device;
  }

  /// The body of a loop that is on a device, all on it but for what must be elsewhere.
  std::shared_ptr<const Graph> placed_body(std::uint32_t loop, PlaceTrace& trace) const {
    const DeviceId device = at_[loop];
    if (!graph_.node(loop).inner || device == 0) return nullptr;
    PlaceHints hints = hints_;
    if (hints_.home)
      hints.home = home_inside(loop, device);
    else
      hints.pin = [device](std::uint32_t, const Node&) { return device; };
    Placer body(*graph_.node(loop).inner, devices_, hints, device);
    body.solve();
    PlaceTrace inside{.devices = trace.devices};
    auto placed = std::make_shared<const Graph>(body.build(inside));
    trace.bodies.emplace_back(placed, std::move(inside));
    return placed;
  }

  /// Whether a device may have a loop: no size in it waits for a value that is not known before,
  /// and it does what need not be elsewhere. `home`: where its nodes are that are put nowhere.
  bool may_have(std::size_t d, const Graph& around, const Node& loop, DeviceId home) const {
    const Graph& body = *loop.inner;
    if (!body.runtime_sources().empty()) return false;
    for (const Symbol& s : body.sizes().symbols())
      if (s.kind == Symbol::Kind::Element && s.input != 0 &&
          (s.input < LoopShape::of(loop.attrs).first_seen_by_all() ||
           around.elements(loop.inputs[s.input]).empty()))
        return false;
    for (std::uint32_t id = 0; id < body.nodes().size(); ++id) {
      const Node& n = body.node(id);
      if (n.inner && !may_have(d, body, n, home)) return false;
      // Sizes, and what may fail, are on the host in the body, too, as is what is pinned there.
      if (is_known_size(body, id) || has(*n.op, kMayFail) || !hints_.runs) continue;
      if (hints_.home && hints_.pin && hints_.pin(id, n).value_or(home) != d) continue;
      if (!hints_.runs(static_cast<DeviceId>(d), body, n)) return false;
    }
    return true;
  }

  enum class Kind : std::uint8_t { Free, Argument, Size, Host };
  void classify(std::uint32_t id, const Node& node) {
    const bool is_input = id < graph_.inputs().size();
    if (is_input && !graph_.inputs()[id].shared)
      kind_[id] = Kind::Argument;
    else if (is_known_size(graph_, id) && (is_input || !has(*node.op, kLeaf)))
      kind_[id] = Kind::Size;
    else if (has(*node.op, kMayFail))
      kind_[id] = Kind::Host;
    for (const Graph::RuntimeSource& s : graph_.runtime_sources())
      if (s.extent && s.value.node == id) kind_[id] = Kind::Host;
    if (kind_[id] == Kind::Argument && id > 0) pinned_[id] = home_;
    if (kind_[id] != Kind::Free) return;
    // What is pinned has shared variables where they are used.
    const bool floats = hints_.pin && (is_input || has(*node.op, kView));
    const std::optional<DeviceId> pin = pins_[id] ? pins_[id] : floats ? std::nullopt : hints_.home;
    if (pin && allowed(id, *pin)) pinned_[id] = pin;
  }

  bool allowed(std::uint32_t id, std::size_t d) const {
    if (d == 0) return true;
    if (kind_[id] != Kind::Free) return false;
    const Node& node = graph_.node(id);
    const auto device = static_cast<DeviceId>(d);
    if (node.inner && !may_have(d, graph_, node, home_inside(id, device))) return false;
    if (hints_.runs && !hints_.runs(device, graph_, node)) return false;
    // By what is known: sizes that nobody knows yet may be small.
    const std::int64_t limits[] = {devices_[d].largest_allocation, devices_[d].memory_bytes};
    return std::all_of(std::begin(limits), std::end(limits), [&](std::int64_t limit) {
      return limit == 0 || least_bytes(node) <= static_cast<double>(limit);
    });
  }

  /// Of what is not allowed.
  std::string why_not(std::uint32_t id, DeviceId d) const {
    const Node& node = graph_.node(id);
    const std::string& name = devices_[d].name;
    if (node.inner) return fmt::format("on the host: {} cannot do the whole loop", name);
    if (hints_.runs && !hints_.runs(d, graph_, node))
      return fmt::format("on the host: {} has no code for {} of {}", name, node.op->name,
                         name_of(node.types[0].dtype));
    return fmt::format("on the host: {} are more than {} has room for at a time",
                       describe_bytes(static_cast<std::uint64_t>(least_bytes(node))), name);
  }

  double least_bytes(const Node& node) const {
    double sum = 0;
    for (const Type& type : node.types)
      sum += static_cast<double>(product(eval_dims(type.dims, least_)) * size_of(type.dtype));
    return sum;
  }

  bool can_be(std::uint32_t id, std::size_t d) const {
    return pinned_[id] ? *pinned_[id] == d : allowed(id, d);
  }

  double move_seconds(std::uint32_t node, DeviceId from, DeviceId to) const {
    if (from == to) return 0;
    double seconds = 0;
    for (DeviceId d : {from, to})  // through the host, where it lies on the way for nothing
      if (d != 0)
        seconds += devices_[d].transfer_latency + bytes_[node] / devices_[d].transfer_bandwidth;
    return seconds;
  }
  DeviceId place_of(std::uint32_t user, const std::vector<DeviceId>& at) const {
    return user == kHost ? home_ : at[user];
  }

  /// What it costs to have `node`'s value wherever it is used, if it is made on `from`; `leave_out`
  /// is not counted as a user.
  double spread(std::uint32_t node, DeviceId from, const std::vector<DeviceId>& at,
                std::uint32_t leave_out) const {
    double seconds = 0;
    std::uint64_t seen = std::uint64_t{1} << from;
    for (std::uint32_t user : users_[node]) {
      if (user == leave_out) continue;
      DeviceId d = place_of(user, at);
      if (seen >> d & 1) continue;
      seen |= std::uint64_t{1} << d;
      seconds += move_seconds(node, from, d);
    }
    return seconds;
  }

  /// Transfers that `id` on `d` needs: of its operands, as far as nobody else needs them there, and
  /// of its value.
  double transfers(std::uint32_t id, DeviceId d, const std::vector<DeviceId>& at) const {
    double seconds = spread(id, d, at, id);
    const Node& node = graph_.node(id);
    std::vector<std::uint32_t> seen;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      std::uint32_t from = node.inputs[k].node;
      if (decides_sizes_only(graph_, id, k) || at[from] == d) continue;
      if (std::find(seen.begin(), seen.end(), from) != seen.end()) continue;
      seen.push_back(from);
      bool there = false;
      for (std::uint32_t user : users_[from]) there |= user != id && place_of(user, at) == d;
      if (!there) seconds += move_seconds(from, at[from], d);
    }
    return seconds;
  }

  void improve(std::vector<DeviceId>& at) const {
    constexpr int kMaxSweeps = 20;
    for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
      bool changed = false;
      for (std::uint32_t k = 0; k < n_; ++k) {
        std::uint32_t id = sweep % 2 ? static_cast<std::uint32_t>(n_ - 1 - k) : k;
        if (kind_[id] != Kind::Free || pinned_[id]) continue;
        DeviceId best = at[id];
        double least = work(id, best) + transfers(id, best, at);
        for (std::size_t d = 0; d < devices_.size(); ++d) {
          if (d == at[id] || !allowed(id, d)) continue;
          auto device = static_cast<DeviceId>(d);
          double cost = work(id, device) + transfers(id, device, at);
          if (cost < least * (1 - 1e-9)) {
            least = cost;
            best = device;
          }
        }
        changed |= best != at[id];
        at[id] = best;
      }
      if (!changed) return;
    }
  }

  double work(std::uint32_t id, DeviceId d) const { return work_[id * devices_.size() + d]; }

  double total(const std::vector<DeviceId>& at) const {
    double seconds = 0;
    for (std::uint32_t id = 0; id < n_; ++id)
      seconds += work(id, at[id]) + spread(id, at[id], at, kNobody);
    return seconds;
  }

  std::string reason(std::uint32_t id) const {
    if (devices_.size() == 1) return "the only device";
    const Node& node = graph_.node(id);
    if (kind_[id] == Kind::Argument) return "an argument: on the host";
    if (kind_[id] == Kind::Size) return "a size: known on the host";
    if (kind_[id] == Kind::Host) return "on the host: it may fail, calls back or decides a size";
    if (pins_[id] && pins_[id] == pinned_[id])
      return fmt::format("put on {} by the program", devices_[*pins_[id]].name);
    if (pinned_[id] && pinned_[id] == hints_.home)
      return fmt::format("on {}, as the function", devices_[*pinned_[id]].name);
    if (pinned_[id])
      return fmt::format("on {}: it feeds nothing but that", devices_[*pinned_[id]].name);
    const std::optional<DeviceId> asked = pins_[id] ? pins_[id] : hints_.home;
    if (asked && !allowed(id, *asked)) return why_not(id, *asked);
    DeviceId here = at_[id];
    if (id < graph_.inputs().size())
      return fmt::format("a shared variable: lives on {}, where it is used", devices_[here].name);
    if (has(*node.op, kLeaf)) return "a constant: where it is used";
    if (has(*node.op, kView)) return "a view: with its operand or its user";
    DeviceId other = here;
    double least = kNever;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (d == here || !allowed(id, d)) continue;
      double cost =
          work(id, static_cast<DeviceId>(d)) + transfers(id, static_cast<DeviceId>(d), at_);
      if (cost < least) least = cost, other = static_cast<DeviceId>(d);
    }
    if (other == here)
      return fmt::format("on {}: the only device that runs it", devices_[here].name);
    double faster = work(id, other) - work(id, here);
    double moving = transfers(id, other, at_) - transfers(id, here, at_);
    if (faster < 0)
      return fmt::format("stays on {}: {} of transfers for {} saved on {}", devices_[here].name,
                         time_text(moving), time_text(-faster), devices_[other].name);
    return fmt::format("on {}: {} less work than on {}, {} {} of transfers", devices_[here].name,
                       time_text(faster), devices_[other].name, time_text(std::fabs(moving)),
                       moving < 0 ? "more" : "less");
  }

  const Graph& graph_;
  const std::vector<DeviceInfo>& devices_;
  const PlaceHints& hints_;
  DeviceId home_;
  std::size_t n_;
  std::vector<std::int64_t> sizes_, least_;  // as guessed; with 1 for what nobody knows
  std::vector<double> work_, bytes_;
  std::vector<std::vector<std::uint32_t>> users_;
  std::vector<Kind> kind_;
  std::vector<std::optional<DeviceId>> pins_;    // as they are asked for
  std::vector<std::optional<DeviceId>> pinned_;  // as they are obeyed
  std::vector<bool> for_inside_;                 // loops that are pinned by something inside
  std::vector<DeviceId> at_;
  double seconds_ = 0;
};

}  // namespace

Graph place(const Graph& graph, const std::vector<DeviceInfo>& devices, PlaceTrace& trace,
            const PlaceHints& hints) {
  if (devices.empty()) fail(Fault::Device, "place: there is no device");
  if (devices.size() > 64)
    fail(Fault::Device, fmt::format("place: {} devices, at most 64", devices.size()));
  trace = {};
  for (const DeviceInfo& d : devices) trace.devices.push_back(d.name);
  if (devices.size() == 1) {
    trace.reasons = {"the only device"};
    trace.reason_of.assign(graph.nodes().size(), 0);
    return graph;  // nodes are on device 0 from the start
  }
  Placer placer(graph, devices, hints);
  placer.solve();
  Graph placed = placer.build(trace);
  verify_placement(placed, "place");
  for (Value v : placed.outputs())
    if (placed.node(v).device != 0)
      internal_error("place", fmt::format("output %{} is not on the host", v.node));
  return placed;
}

void verify_placement(const Graph& graph, std::string_view where) {
  for (std::uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == &transfer_op) {
      if (node.device != node.attrs.integer("device"))
        internal_error(where, fmt::format("node %{}: a transfer that is not on its device", id));
      if ((node.device == 0) == (graph.node(node.inputs[0]).device == 0))
        internal_error(where, fmt::format("node %{}: a transfer without one end on the host", id));
      continue;
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (!decides_sizes_only(graph, id, k) && graph.node(node.inputs[k]).device != node.device)
        internal_error(where, fmt::format("node %{} ({}) on device {} reads %{} on device {}", id,
                                          node.op->name, node.device, node.inputs[k].node,
                                          graph.node(node.inputs[k]).device));
  }
  for (Value v : graph.outputs())
    if (graph.node(v).device != graph.node(graph.outputs()[0]).device)
      internal_error(where, fmt::format("output %{} is on another device than the first", v.node));
  for (const Graph::RuntimeSource& s : graph.runtime_sources())
    if (graph.node(s.value).device != 0)
      internal_error(where, fmt::format("%{} decides sizes and is not on the host", s.value.node));
  for (const Update& u : graph.updates())
    if (graph.node(u.value).device != graph.node(graph.inputs()[u.input].value).device)
      internal_error(where,
                     fmt::format("update %{} is not on the device of its variable", u.value.node));
}

}  // namespace snug
