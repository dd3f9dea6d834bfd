#include "kernel/library.h"

#include <algorithm>

namespace snug {

const LibraryEntry* find_library(LibraryTable table, const Node& node) {
  const std::string_view name = node.op->name;
  auto entry = std::lower_bound(table.begin(), table.end(), name,
                                [](const LibraryEntry& e, std::string_view n) { return e.op < n; });
  for (; entry != table.end() && entry->op == name; ++entry)
    if (!entry->takes || entry->takes(node)) return &*entry;
  return nullptr;
}

}  // namespace snug
