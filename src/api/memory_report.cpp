#include "api/memory_report.h"

#include <fmt/format.h>

#include <map>

#include "base/bytes.h"
#include "base/spelling.h"

namespace snug {
namespace {

std::string amount(std::int64_t bytes) { return describe_bytes(static_cast<std::uint64_t>(bytes)); }

std::string row(std::string_view what, std::int64_t bytes, std::string_view remark = {}) {
  return fmt::format("  {:<18} {:>11}{}{}\n", what, amount(bytes), remark.empty() ? "" : "   ",
                     remark);
}

std::string gap_remark(const MemoryUse& r) {
  if (r.gap == 0) return "none: the packing is proved optimal";
  return fmt::format("{:.2f} % above the bound of any packing",
                     100.0 * static_cast<double>(r.gap) / static_cast<double>(r.arena - r.gap));
}

std::string gradients_remark(const MemoryUse& r) {
  if (!r.gradients_wait.empty()) return "all alive at once: " + r.gradients_wait;
  return fmt::format("of {}, freed as each update is applied", amount(r.all_gradients));
}

/// Each name once, with its count: "add, conv2d_last x 3".
std::string counted(const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  for (const std::string& name : names) ++counts[name];
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name,
                        count > 1 ? fmt::format(" x {}", count) : "");
  return text;
}

/// The largest buffers, and what the others sum up to.
std::string list_alive(const std::vector<MemoryReport::Alive>& alive) {
  constexpr std::size_t kShown = 8;
  std::string text = "  the largest buffers there:\n";
  std::size_t ops = 0, shapes = 0;
  for (std::size_t i = 0; i < alive.size() && i < kShown; ++i) {
    ops = std::max(ops, alive[i].op.size());
    shapes = std::max(shapes, alive[i].shape.size());
  }
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < alive.size(); ++i) {
    const MemoryReport::Alive& a = alive[i];
    if (i >= kShown) {
      rest += a.bytes;
      continue;
    }
    std::string line = fmt::format("    {:>11}   {:<13}  {:<{}}  {:<{}}  {}", amount(a.bytes),
                                   name_of(a.what), a.op, ops, a.shape, shapes, a.where);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (alive.size() > kShown)
    text += fmt::format("    {:>11}   in {} more\n", amount(rest), alive.size() - kShown);
  return text;
}

}  // namespace

std::string_view name_of(ArenaClass c) {
  switch (c) {
    case ArenaClass::Gradients: return "gradients";
    case ArenaClass::Activations: return "activations";
    case ArenaClass::Temporaries: return "temporaries";
    case ArenaClass::Workspace: return "workspace";
    case ArenaClass::Copies: return "layout copies";
  }
  return "";
}

std::vector<std::pair<std::string_view, std::int64_t>> MemoryReport::bytes() const {
  std::vector<std::pair<std::string_view, std::int64_t>> all{{"inputs", inputs},
                                                             {"outputs", outputs},
                                                             {"parameters", parameters},
                                                             {"optimizer", optimizer},
                                                             {"constants", constants},
                                                             {"gradients", gradients},
                                                             {"activations", activations},
                                                             {"temporaries", temporaries},
                                                             {"workspace", workspace},
                                                             {"copies", copies},
                                                             {"gap", gap},
                                                             {"arena", arena},
                                                             {"peak", peak},
                                                             {"floor", floor},
                                                             {"not_planned", not_planned}};
  if (smallest) all.emplace_back("smallest", smallest);
  if (staging) all.emplace_back("staging", staging);
  if (copies_kept) all.emplace_back("copies_kept", copies_kept);
  return all;
}

namespace {

std::string describe_variables(const MemoryUse& use) {
  std::string text = row("parameters", use.parameters);
  if (use.optimizer) text += row("optimizer state", use.optimizer);
  if (use.constants) text += row("constants", use.constants);
  return text;
}

std::string describe_arena(const MemoryUse& use, std::string_view pieces) {
  if (!use.arena) return row("arena", 0);
  std::string text = row("arena", use.arena, fmt::format("{}; at its fullest:", pieces));
  auto part = [&](ArenaClass c, std::int64_t bytes, std::string_view remark = {}) {
    const std::int64_t at_most = use.most[static_cast<std::size_t>(c)];
    if (!at_most) return;
    std::string text_of = at_most > bytes ? fmt::format("at most {}", amount(at_most)) : "";
    text_of += text_of.empty() || remark.empty() ? "" : "; ";
    text += row(fmt::format("  {}", name_of(c)), bytes, text_of + std::string(remark));
  };
  if (use.all_gradients) part(ArenaClass::Gradients, use.gradients, gradients_remark(use));
  part(ArenaClass::Activations, use.activations, "kept for the backward part");
  part(ArenaClass::Temporaries, use.temporaries);
  part(ArenaClass::Workspace, use.workspace, "of library calls and loops");
  part(ArenaClass::Copies, use.copies);
  return text + row("  gap", use.gap, gap_remark(use));
}

std::string describe_floor(const MemoryUse& use) {
  std::string text =
      row("floor", use.floor, "what stays and the largest step: no plan of these steps is lower");
  if (use.smallest)
    text += row("smallest plan", use.smallest,
                use.smallest == use.floor ? "proved: it is the floor"
                                          : "the lowest found; tasks run again");
  return text;
}

std::string describe_device(const MemoryReport::OnDevice& use) {
  std::string text = fmt::format("\n  on {}:\n", use.name) + describe_variables(use);
  text += describe_arena(use, "in one block, or in as few as the device allows");
  text += row("peak", use.peak, use.peak_step.empty() ? "" : "at " + use.peak_step);
  if (!use.alive.empty()) text += list_alive(use.alive);
  return text + describe_floor(use);
}

}  // namespace

std::vector<std::pair<std::string_view, std::int64_t>> bytes_of(const MemoryReport::OnDevice& use) {
  std::vector<std::pair<std::string_view, std::int64_t>> all{{"variables", use.variables()},
                                                             {"parameters", use.parameters},
                                                             {"optimizer", use.optimizer},
                                                             {"constants", use.constants},
                                                             {"gradients", use.gradients},
                                                             {"activations", use.activations},
                                                             {"temporaries", use.temporaries},
                                                             {"workspace", use.workspace},
                                                             {"copies", use.copies},
                                                             {"gap", use.gap},
                                                             {"arena", use.arena},
                                                             {"peak", use.peak},
                                                             {"floor", use.floor}};
  if (use.smallest) all.emplace_back("smallest", use.smallest);
  return all;
}

std::string MemoryReport::describe(bool process) const {
  std::string text;
  text += row("inputs", inputs, "the caller's, not in the peak");
  text += row("outputs", outputs);
  text += describe_variables(*this);
  if (copies_kept) text += row("copies", copies_kept, "kept of variables on other devices");
  text += describe_arena(*this, "one block");
  if (staging) text += row("staging", staging, "what devices copy from and to");
  text += row("peak", peak, peak_step.empty() ? "" : "at " + peak_step);
  if (!alive.empty()) text += list_alive(alive);
  if (best_order && steps > 1) text += "  proved: no other order of these steps needs less\n";
  text += describe_floor(*this);
  if (process)
    text += row("not planned", not_planned,
                spelled("process, code, libraries; as now",
                        "process, code, libraries, Python and its arrays; as now"));
  if (slices > 0)
    text += fmt::format(
        "  the batch runs in {} slices of {} rows; what they sum up takes {}, live throughout\n",
        slices, slice_rows, amount(accumulators));
  if (rounded)
    text += fmt::format(
        "  {} in bfloat16 to save memory: lossy, derivatives change\n",
        rounded == 1 ? "1 activation is kept" : fmt::format("{} activations are kept", rounded));
  if (!recomputed.empty())
    text +=
        fmt::format("  {} run again to save memory: {}\n",
                    recomputed.size() == 1 ? "1 task" : fmt::format("{} tasks", recomputed.size()),
                    counted(recomputed));
  if (offloaded)
    text += fmt::format("  {} go to a file while nothing reads them, to save memory\n",
                        amount(offloaded));
  for (const OnDevice& d : devices) text += describe_device(d);
  for (const std::string& e : exported)
    text +=
        fmt::format("  held by others: {}; an update leaves it to them and takes new memory\n", e);
  if (!note.empty()) text += "  " + note + "\n";
  return text;
}

}  // namespace snug
