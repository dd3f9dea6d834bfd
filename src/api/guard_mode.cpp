#include "api/guard_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/origin_marks.h"
#include "graph/words.h"
#include "kernel/task_words.h"
#include "ops/host_calls.h"
#include "reference/interpret_graph.h"

namespace snug {
namespace {

constexpr double kBig = 1e10;

std::string text_of(double v) { return std::isnan(v) ? "nan" : fmt::format("{}", v); }

/// "-inf at (3, 1)", with the axes as the user has them.
std::string place_of(double v, std::int64_t element, const Dims& shape, OriginId origin) {
  if (shape.empty()) return text_of(v);
  Dims at = shape;
  for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis])
    at[axis] = element % shape[axis];
  if (is_channels_last(origin) && at.size() == 4) at = {at[0], at[3], at[1], at[2]};
  return fmt::format("{} at {}", text_of(v), describe_shape(at));
}

/// "log", or "log in categorical_crossentropy" if the user has called that.
std::string op_of(const Node& n) {
  const std::string word = word_for(n);
  const std::string name(n.op->name);
  return word == name || n.inner || word.starts_with(name) || name.starts_with(word)
             ? word
             : fmt::format("{} in {}", name, word);
}

using Tensors = std::unordered_map<Value, RefTensor, ValueHash>;

/// What an elementwise op computed an element of: "-1", "1 and 0".
std::string operands_of(const Node& node, const Tensors& known, const RefTensor& result,
                        std::int64_t element) {
  std::string text;
  for (std::size_t i = 0; i < data_inputs(node); ++i) {
    const RefTensor& x = known.at(node.inputs[i]);
    if (x.shape != result.shape && x.size() != 1) return "";
    const Number n = x.at(x.size() == 1 ? 0 : element);
    text += (text.empty() ? "" : " and ") + (x.floating() ? text_of(n.f) : fmt::format("{}", n.i));
  }
  return text;
}

}  // namespace

std::optional<StepGuard::Found> StepGuard::find(const Array& value, bool whole) const {
  if (is_complex(value.dtype)) return find(value.as_pairs(), whole);
  if (!is_float(value.dtype)) return {};
  for (std::int64_t k = 0, n = value.size(); k < n; ++k) {
    const double v = value.at_double(k);
    const bool bad = std::isnan(v)   ? guarded_.nan
                     : std::isinf(v) ? guarded_.inf
                                     : whole && guarded_.big && std::fabs(v) > kBig;
    if (bad) return Found{k, v};
  }
  return {};
}

void StepGuard::check_input(const Array& value, const char* kind, std::size_t number,
                            const std::string& name) const {
  const Array parts = is_complex(value.dtype) ? value.as_pairs() : value;
  if (const std::optional<Found> bad = find(parts))
    throw AssertionError(fmt::format("NanGuardMode: {} {} holds {}", kind,
                                     name.empty() ? fmt::format("{}", number) : name,
                                     place_of(bad->value, bad->element, parts.shape, 0)));
}

Dims StepGuard::shape_of(const RunState& state, Value v) const {
  Dims shape;
  for (SizeId d : executable_.lowered->program.type(v).dims) shape.push_back(state.sizes[d]);
  return shape;
}

Array StepGuard::view(const RunState& state, Value v, std::byte* data) const {
  const Program& p = executable_.lowered->program;
  const DType dtype = p.type(v).dtype;
  Array a;
  a.dtype = dtype;
  a.shape = shape_of(state, v);
  const auto place = p.places.find(v);
  if (place == p.places.end()) {  // partial results lie one after another
    a.strides = contiguous_strides(a.shape);
    a.data = data;
    return a;
  }
  for (SizeId s : place->second.layout.strides) a.strides.push_back(state.sizes[s]);
  a.data = data + state.sizes[place->second.layout.offset] * size_of(dtype);
  return a;
}

void StepGuard::before(const RunState& state, std::uint32_t at) {
  overwritten_.clear();
  const Schedule& schedule = executable_.planned->schedule;
  const Step& step = schedule.steps[at];
  if (step.commit_copy) return;
  if (executable_.lowered->program.tasks[step.task].kind != Task::Kind::Kernel) return;
  for (std::uint32_t b : step.reads)
    if (std::any_of(step.writes.begin(), step.writes.end(),
                    [&](std::uint32_t w) { return state.buffers[w] == state.buffers[b]; }) &&
        state.buffers[b]) {
      std::byte* const data = host_bytes(executable_, state, b, copy_);
      overwritten_[b].assign(data, data + schedule.buffers[b].bytes);
    }
}

void StepGuard::after(const RunState& state, std::uint32_t at) {
  const Schedule& schedule = executable_.planned->schedule;
  const Step& step = schedule.steps[at];
  if (step.commit_copy || late_) return;
  const Program& p = executable_.lowered->program;
  const Task& task = p.tasks[step.task];
  for (std::size_t k = 0; k < task.writes.size(); ++k) {
    const Value v = task.writes[k];
    if (!is_float(p.type(v).dtype) || !state.buffers[step.writes[k]]) continue;
    const bool whole = v.node < p.graph.nodes().size();
    const std::optional<Found> bad =
        find(view(state, v, host_bytes(executable_, state, step.writes[k], copy_)), whole);
    if (!bad) continue;
    AssertionError error = explain(state, at, v, *bad);
    if (at < schedule.commit) throw error;
    late_ = std::move(error);
    return;
  }
}

AssertionError StepGuard::explain(const RunState& state, std::uint32_t at, Value result,
                                  Found found) const {
  const Program& p = executable_.lowered->program;
  const Graph& g = p.graph;
  const Step& step = executable_.planned->schedule.steps[at];
  const Task& task = p.tasks[step.task];
  const auto error = [&](const Node& n, const std::string& what, std::string hint) {
    return AssertionError(fmt::format("NanGuardMode: the result of {} holds {}", op_of(n), what),
                          std::move(hint), n.origin & kStackMask ? n.origin : task.origin);
  };
  // The ops one by one, on what the step has read, each rounded as it is stored.
  Tensors known;
  const auto from_memory = [&](Value v) {
    const Node& n = g.node(v);
    if (n.op->name == "constant") {
      known[v] = RefTensor::from(*n.attrs.array("value"));
      return true;
    }
    if (const auto e = g.elements(v); !e.empty()) {
      Dims shape;
      for (SizeId d : g.type(v).dims) shape.push_back(state.sizes[d]);
      RefTensor& t = known[v] = RefTensor::zeros(g.type(v).dtype, shape);
      for (std::size_t k = 0; k < e.size(); ++k)
        t.set(static_cast<std::int64_t>(k), {0, state.sizes[e[k]]});
      return true;
    }
    const auto place = p.places.find(v);
    if (place == p.places.end()) return false;
    const auto read = std::find(task.reads.begin(), task.reads.end(), place->second.root);
    if (read == task.reads.end()) return false;
    const std::uint32_t b = step.reads[static_cast<std::size_t>(read - task.reads.begin())];
    const auto kept = overwritten_.find(b);
    std::byte* const data = kept == overwritten_.end()
                                ? host_bytes(executable_, state, b, copy_)
                                : const_cast<std::byte*>(kept->second.data());
    known[v] = RefTensor::from(view(state, v, data));
    return true;
  };
  const auto bad_in = [&](Value v) -> std::optional<Found> {
    const auto it = known.find(v);
    return it == known.end() || !it->second.floating() ? std::nullopt : find(it->second.to_array());
  };
  bool all_known = task.kind == Task::Kind::Kernel;
  std::vector<std::uint32_t> covers = task.covers;
  std::sort(covers.begin(), covers.end());
  for (std::size_t i = 0; i < covers.size() && all_known; ++i) {
    const Node& n = g.node(covers[i]);
    std::vector<const RefTensor*> inputs;
    for (Value x : n.inputs) all_known &= known.count(x) || from_memory(x);
    if (!all_known) break;
    for (Value x : n.inputs) inputs.push_back(&known.at(x));
    std::vector<Dims> shapes;
    for (const Type& t : n.types) {
      shapes.emplace_back();
      for (SizeId d : t.dims) shapes.back().push_back(state.sizes[d]);
    }
    const NoHostCalls repeated;
    std::vector<RefTensor> outputs = interpret_node(n, inputs, shapes);
    for (std::uint32_t k = 0; k < outputs.size(); ++k)
      known[{covers[i], k}] = RefTensor::from(outputs[k].to_array());
  }
  // From the result, or the last value of a step that makes parts of it, back to the first.
  std::optional<Value> at_fault;
  if (all_known && result.node < g.nodes().size() && bad_in(result)) at_fault = result;
  for (std::size_t i = covers.size(); all_known && !at_fault && i-- > 0;)
    if (bad_in({covers[i], 0})) at_fault = Value{covers[i], 0};
  if (!at_fault) {
    const bool node = result.node < g.nodes().size();
    const Node& n = g.node(node ? result.node : task.covers.back());
    const std::string where =
        node ? place_of(found.value, found.element, shape_of(state, result), n.origin)
             : text_of(found.value);
    return error(n, where,
                 task.covers.size() > 1
                     ? fmt::format("it was computed in one step: {}", words_for(p, task))
                     : "");
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Value x : g.node(*at_fault).inputs)
      if (std::binary_search(covers.begin(), covers.end(), x.node) && bad_in(x)) {
        at_fault = x;
        moved = true;
        break;
      }
  }
  const Node& n = g.node(*at_fault);
  const RefTensor& made = known.at(*at_fault);
  const Found first = *bad_in(*at_fault);
  const std::string of = has(*n.op, kElementwise) ? operands_of(n, known, made, first.element) : "";
  return error(n, place_of(first.value, first.element, made.shape, n.origin),
               of.empty() ? "" : fmt::format("there it is given {}", of));
}

void StepGuard::throw_late() const {
  if (late_) throw *late_;
}

}  // namespace snug
