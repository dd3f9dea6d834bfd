#include "api/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/words.h"
#include "kernel/task_words.h"

namespace snug {

void StepTimes::add(const Executable& executable, const RunState& state,
                    std::span<const double> seconds) {
  const Program& program = executable.lowered->program;
  std::lock_guard lock(mutex_);
  ++calls_;
  for (std::size_t at = 0; at < seconds.size(); ++at) {
    const Step& step = executable.planned->schedule.steps[at];
    std::string name = "copy to shared", result, where;
    if (!step.commit_copy) {
      const Task& task = program.tasks[step.task];
      name = words_for(program, task);
      where = describe(task.origin);
      if (!task.writes.empty()) {
        const Type& type = program.type(task.writes[0]);
        Dims shape;
        for (SizeId d : type.dims) shape.push_back(state.sizes[d]);
        const Value v = task.writes[0];
        const bool node = v.node < program.graph.nodes().size();
        result = describe_value(type.dtype, shape, node ? program.graph.node(v).origin : 0);
      }
    }
    Sum& sum = sums_[{name, result, where}];
    ++sum.count;
    sum.seconds += seconds[at];
    sum.predicted += executable.steps[at].seconds;
  }
}

ProfileReport StepTimes::report() const {
  std::lock_guard lock(mutex_);
  ProfileReport report;
  report.calls = calls_;
  for (const auto& [key, sum] : sums_) {
    report.steps.push_back({key[0], key[1], key[2], sum.count, sum.seconds, sum.predicted});
    report.seconds += sum.seconds;
  }
  std::stable_sort(report.steps.begin(), report.steps.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return report;
}

std::string ProfileReport::describe(std::size_t most) const {
  if (calls == 0) return "no call yet\n";
  const double per_call = 1e3 / static_cast<double>(calls);
  auto row = [&](double seconds_of, std::int64_t count, const std::string& text) {
    return fmt::format("  {:>5.1f} % {:>10.3f} ms {:>7} x  {}\n",
                       seconds > 0 ? 100 * seconds_of / seconds : 0.0, per_call * seconds_of,
                       (count + calls - 1) / calls, text);
  };
  std::map<std::string, std::pair<double, std::int64_t>> kinds;
  std::size_t name_width = 0, result_width = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto& kind = kinds[steps[i].name];
    kind.first += steps[i].seconds;
    kind.second += steps[i].count;
    if (i >= most) continue;
    name_width = std::max(name_width, steps[i].name.size());
    result_width = std::max(result_width, steps[i].result.size());
  }
  std::string text = fmt::format("{} call{}, {:.3f} ms in steps per call; of each call:\n", calls,
                                 calls == 1 ? "" : "s", per_call * seconds);
  std::vector<std::pair<std::string, std::pair<double, std::int64_t>>> sorted(kinds.begin(),
                                                                              kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  text += "\nby kind\n";
  for (std::size_t i = 0; i < sorted.size() && i < most; ++i)
    text += row(sorted[i].second.first, sorted[i].second.second, sorted[i].first);
  if (sorted.size() > most) text += fmt::format("  and {} more\n", sorted.size() - most);
  text += "\nby step\n";
  for (std::size_t i = 0; i < steps.size() && i < most; ++i) {
    const StepTime& s = steps[i];
    std::string line =
        fmt::format("{:<{}}  {:<{}}  {}", s.name, name_width, s.result, result_width, s.where);
    line.erase(line.find_last_not_of(' ') + 1);
    text += row(s.seconds, s.count, line);
  }
  if (steps.size() > most) text += fmt::format("  and {} more\n", steps.size() - most);
  return text;
}

}  // namespace snug
