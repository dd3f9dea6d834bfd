#include "kernel/task_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/words.h"

namespace snug {

std::string words_for(const Program& program, const Task& task) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> words;
  // Views and conversions count where there is nothing else.
  for (const bool all : {false, true}) {
    for (std::uint32_t id : task.covers) {
      const Node& n = program.graph.node(id);
      if (!all && (has(*n.op, kLeaf | kView) || n.op->name == "cast")) continue;
      std::string word = n.op == &kCopyOp ? "copy" : word_for(n);
      if (std::find(words.begin(), words.end(), word) == words.end())
        words.push_back(std::move(word));
    }
    if (!words.empty()) break;
  }
  const std::size_t more = words.size() > kNamed + 1 ? words.size() - kNamed : 0;
  words.resize(words.size() - more);
  return fmt::format("{}{}", fmt::join(words, ", "), more ? fmt::format(" and {} more", more) : "");
}

}  // namespace snug
