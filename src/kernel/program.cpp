#include "kernel/program.h"

#include <fmt/format.h>

#include <unordered_set>

namespace snug {

void verify(const Program& p) {
  std::unordered_set<Value, ValueHash> written;
  for (std::uint32_t id = 0; id < p.graph.nodes().size(); ++id)
    if (has(*p.graph.node(id).op, kLeaf)) written.insert({id, 0});
  for (const Task& t : p.tasks) {
    SNUG_CHECK(t.kind != Task::Kind::Sizes || t.device == 0, "fuse: sizes of {} on a device",
               t.name);
    for (Value v : t.reads)
      SNUG_CHECK(written.count(v), "fuse: task {} reads %{} before it is written", t.name, v.node);
    for (Value v : t.writes)
      SNUG_CHECK(written.insert(v).second, "fuse: %{} is written twice", v.node);
  }
  auto has_memory = [&](Value v) {
    auto it = p.places.find(v);
    return it != p.places.end() && written.count(it->second.root);
  };
  for (Value v : p.graph.outputs())
    SNUG_CHECK(has_memory(v), "fuse: output %{} has no memory", v.node);
  for (const Update& u : p.graph.updates())
    SNUG_CHECK(has_memory(u.value), "fuse: update %{} has no memory", u.value.node);
  for (const Kernel& k : p.kernels) verify(k.spec);
}

std::string print(const Program& p) {
  std::string text;
  for (std::size_t i = 0; i < p.tasks.size(); ++i) {
    const Task& t = p.tasks[i];
    auto list = [](const std::vector<Value>& values) {
      std::string s;
      for (Value v : values)
        s += fmt::format("{}%{}{}", s.empty() ? "" : " ", v.node,
                         v.output ? fmt::format(".{}", v.output) : "");
      return s;
    };
    std::string how = "kernel";
    if (t.kind == Task::Kind::Library)
      how = std::string(find_library(p.libraries, p.graph.node(t.index))->library);
    else if (t.kind == Task::Kind::Sizes)
      how = "sizes";
    else if (t.kind == Task::Kind::Loop)
      how = "loop";
    else if (t.kind == Task::Kind::Copy)
      how = "copy";
    if (t.device) how += fmt::format("@{}", t.device);
    text += fmt::format("{:4} {:8} {:40} {} <- {}{}\n", i, how, t.name, list(t.writes),
                        list(t.reads), t.may_fail ? "   may fail" : "");
  }
  return text;
}

}  // namespace snug
