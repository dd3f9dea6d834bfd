#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "schedule/schedule.h"

namespace snug {

std::string find_fault(const Program& p, const Schedule& s) {
  auto at_step = [&](std::uint32_t at, std::string what) {
    return fmt::format("step {} ({}): {}", at,
                       s.steps[at].commit_copy ? "copy" : p.tasks[s.steps[at].task].name, what);
  };
  // Which version of each shared variable its storage holds: false = old, true = new.
  std::unordered_map<std::uint32_t, bool> renewed;
  std::vector<bool> written(s.buffers.size(), false);
  std::vector<bool> task_ran(p.tasks.size(), false);
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    bool leaf = s.buffers[b].value.node < p.graph.nodes().size() && !s.buffers[b].workspace &&
                has(*p.graph.node(s.buffers[b].value).op, kLeaf);
    if (leaf) written[b] = true;
  }
  for (std::uint32_t at = 0; at < s.steps.size(); ++at) {
    const Step& step = s.steps[at];
    for (std::uint32_t b : step.reads) {
      const Buffer& buf = s.buffers[b];
      if (!written[b])
        return at_step(at, fmt::format("reads %{} before it is written", buf.value.node));
      if (at > buf.last || at < buf.first)
        return at_step(at, "reads a buffer outside its lifetime");
      if (buf.where == Where::Shared) {
        bool old = has(*p.graph.node(buf.value).op, kLeaf);
        if (old == renewed[buf.index])
          return at_step(at, "reads the wrong version of a shared variable");
      }
      if (!step.commit_copy &&
          std::find(p.tasks[step.task].reads.begin(), p.tasks[step.task].reads.end(), buf.value) ==
              p.tasks[step.task].reads.end())
        return at_step(at, "reads a buffer of another value");
    }
    for (std::uint32_t b : step.writes) {
      if (s.buffers[b].first > at || s.buffers[b].last < at)
        return at_step(at, "writes outside a lifetime");
      if (s.buffers[b].where == Where::Shared) {
        if (at < s.commit) return at_step(at, "writes shared storage before the commit point");
        if (renewed[s.buffers[b].index]) return at_step(at, "writes a shared variable twice");
        renewed[s.buffers[b].index] = true;
      }
      written[b] = true;
    }
    if (!step.commit_copy) {
      if (p.tasks[step.task].may_fail && at >= s.commit)
        return at_step(at, "may fail after the commit point");
      task_ran[step.task] = true;
    }
  }
  for (std::size_t t = 0; t < task_ran.size(); ++t)
    if (!task_ran[t]) return fmt::format("task {} never runs", p.tasks[t].name);
  for (const Update& u : p.graph.updates()) {
    bool done = renewed[u.input];
    for (const Buffer& b : s.buffers) done |= b.where == Where::Fresh && b.index == u.input;
    if (!done) return fmt::format("the update of {} is lost", p.graph.inputs()[u.input].name);
  }
  return {};
}

void verify(const Program& p, const Schedule& s) {
  if (std::string fault = find_fault(p, s); !fault.empty()) internal_error("schedule", fault);
}

}  // namespace snug
