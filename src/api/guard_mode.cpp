#include "api/guard_mode.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace snug {
namespace {

constexpr double kBig = 1e10;

/// The ops that a task computes with their lines: "log (a.py:3), add (a.py:4)".
std::string ops_of(const Graph& graph, const Task& task) {
  std::set<std::string> seen;
  std::string text;
  for (std::uint32_t id : task.covers) {
    const Node& n = graph.node(id);
    if (has(*n.op, kLeaf) || has(*n.op, kView)) continue;
    std::string one(n.op->name);
    if (std::string where = describe(n.origin); !where.empty()) one += fmt::format(" ({})", where);
    if (!seen.insert(one).second) continue;
    text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

}  // namespace

std::optional<std::string> StepGuard::find(const Array& value) const {
  if (is_complex(value.dtype)) return find(value.as_pairs());
  if (!is_float(value.dtype)) return {};
  for (std::int64_t k = 0, n = value.size(); k < n; ++k) {
    const double v = value.at_double(k);
    const bool bad = std::isnan(v)   ? guarded_.nan
                     : std::isinf(v) ? guarded_.inf
                                     : guarded_.big && std::fabs(v) > kBig;
    if (!bad) continue;
    Dims at = value.shape;
    std::int64_t rest = k;
    for (std::size_t axis = value.shape.size(); axis-- > 0; rest /= value.shape[axis])
      at[axis] = rest % value.shape[axis];
    const std::string text = std::isnan(v) ? "nan" : fmt::format("{}", v);
    return at.empty() ? text : fmt::format("{} at {}", text, describe_shape(at));
  }
  return {};
}

void StepGuard::check_input(const Array& value, const char* kind, std::size_t number,
                            const std::string& name) const {
  if (std::optional<std::string> bad = find(value))
    throw Error(Fault::Assertion,
                fmt::format("NanGuardMode: {} {} holds {}", kind,
                            name.empty() ? fmt::format("{}", number) : name, *bad));
}

void StepGuard::after(const RunState& state, std::uint32_t at) {
  const Schedule& schedule = executable_.planned->schedule;
  const Step& step = schedule.steps[at];
  if (step.commit_copy || late_) return;
  const Program& p = executable_.lowered->program;
  const Task& task = p.tasks[step.task];
  for (std::size_t k = 0; k < task.writes.size(); ++k) {
    const Value v = task.writes[k];
    const Type& t = p.type(v);
    if (!is_float(t.dtype) || v.node >= p.graph.nodes().size()) continue;
    const Place& place = p.places.at(v);
    Array a;
    a.dtype = t.dtype;
    for (SizeId d : t.dims) a.shape.push_back(state.sizes[d]);
    for (SizeId s : place.layout.strides) a.strides.push_back(state.sizes[s]);
    a.data = state.buffers[step.writes[k]] + state.sizes[place.layout.offset] * size_of(t.dtype);
    std::optional<std::string> bad = find(a);
    if (!bad) continue;
    const Node& n = p.graph.node(v);
    const std::string ops = ops_of(p.graph, task);
    Error error(Fault::Assertion,
                fmt::format("NanGuardMode: the result of {} holds {}", n.op->name, *bad),
                ops.empty() ? "" : fmt::format("it was computed in one step by {}", ops),
                n.origin ? n.origin : task.origin);
    if (at < schedule.commit) throw error;
    late_ = std::move(error);
    return;
  }
}

void StepGuard::throw_late() const {
  if (late_) throw *late_;
}

}  // namespace snug
