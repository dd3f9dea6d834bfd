#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "schedule/schedule.h"

namespace snug {

namespace {

/// Whether what runs a step reaches a buffer: its own memory, and if it copies, that of the host.
bool reaches(const Program& p, const Step& step, const Buffer& b) {
  if (!step.commit_copy && p.tasks[step.task].kind == Task::Kind::Loop)
    return p.tasks[step.task].device == 0 ? on_host(b.space)
                                          : b.space == own_space(p.tasks[step.task].device);
  const DeviceId device = device_of_queue(step.queue);
  if (device == 0) return on_host(b.space);
  const bool copies = step.commit_copy || p.tasks[step.task].kind == Task::Kind::Copy;
  return b.space == own_space(device) || (copies && on_host(b.space));
}

/// Every value read from the file was written there before, from a buffer that held it until then.
std::string find_transfer_fault(const Schedule& s) {
  std::vector<std::uint32_t> made(s.buffers.size(), UINT32_MAX);  // the step that writes a buffer
  for (std::uint32_t at = 0; at < s.steps.size(); ++at)
    for (std::uint32_t b : s.steps[at].writes) made[b] = at;
  std::map<std::uint64_t, const Buffer*> file;  // by offset
  std::uint32_t begin = 0;
  for (const Transfer& t : s.transfers) {
    const Buffer& b = s.buffers[t.buffer];
    const std::string what = fmt::format("transfer of %{}", b.value.node);
    if (t.begin < begin || t.end < t.begin) return what + " is out of order";
    begin = t.begin;
    if (b.where != Where::Arena || b.workspace) return what + " is not of the arena";
    if (t.offset + b.bytes > s.file_bytes) return what + " leaves the file";
    if (t.store) {
      if (made[t.buffer] >= t.begin) return what + " writes what is not there yet";
      if (t.end > b.last + 1) return what + " writes a buffer that is given up";
      for (const Buffer& other : s.buffers)
        if (other.in_place_of == static_cast<std::int32_t>(t.buffer) && other.first < t.end)
          return what + " writes a buffer that is overwritten";
      const auto next = file.lower_bound(t.offset);
      if (next != file.end() && next->first < t.offset + b.bytes) return what + " overlaps";
      if (next != file.begin() &&
          std::prev(next)->first + std::prev(next)->second->bytes > t.offset)
        return what + " overlaps";
      file[t.offset] = &b;
    } else {
      const auto stored = file.find(t.offset);
      if (stored == file.end() || stored->second->value != b.value)
        return what + " reads what is not in the file";
      if (made[t.buffer] != UINT32_MAX) return what + " reads into a buffer that a step writes";
      if (b.first > t.begin) return what + " reads into a buffer before its time";
    }
  }
  return {};
}

}  // namespace

std::string find_fault(const Program& p, const Schedule& s) {
  if (std::string fault = find_transfer_fault(s); !fault.empty()) return fault;
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
    for (const Transfer& t : s.transfers)
      if (!t.store && t.end == at) written[t.buffer] = true;
    for (std::uint32_t b : step.reads) {
      const Buffer& buf = s.buffers[b];
      if (!written[b])
        return at_step(at, fmt::format("reads %{} before it is written", buf.value.node));
      if (at > buf.last || at < buf.first)
        return at_step(at, "reads a buffer outside its lifetime");
      if (!reaches(p, step, buf)) return at_step(at, "reads memory of another device");
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
      if (!reaches(p, step, s.buffers[b])) return at_step(at, "writes memory of another device");
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
