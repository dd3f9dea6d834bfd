#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// Memory of a shared variable that others hold: a borrowed value, a DLPack export. It stays when
/// the variable is gone or has new memory.
struct Export {
  std::string name;  // of the variable, "" if it has none
  std::int64_t bytes = 0;
  bool current = true;  // the variable is there and still has this memory
};
std::vector<Export> live_exports();

}  // namespace snug
