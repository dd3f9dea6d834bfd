#include "base/remedy.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/spelling.h"

namespace snug {

std::string Remedy::flag() const {
  switch (kind) {
    case Kind::Contiguous: return "";  // arguments have no flags
    case Kind::Batch:
      return fmt::format("--batch {}{}", count,
                         accumulate > 1 ? fmt::format(" --accumulate {}", accumulate) : "");
    case Kind::Recompute: return "--recompute";
    case Kind::MicroBatches:
      return fmt::format("--micro-batch {}{}", count, recompute ? " --recompute" : "");
    case Kind::Offload: return "--offload";
    case Kind::Activations: return "--precision bfloat16-activations";
    case Kind::Memory:
      return fmt::format("--memory {}{}", amount_to_type(static_cast<std::uint64_t>(peak)),
                         count > 1   ? " --fit"
                         : recompute ? " --recompute"
                                     : "");
  }
  return "";
}

std::string Remedy::option() const {
  // `snug train` takes whatever technique its budget needs, so it is told the budget.
  if (language() == Language::Tool && kind != Kind::Memory) {
    if (kind != Kind::Recompute && kind != Kind::MicroBatches) return flag();
    return snug::option("memory", amount_to_type(static_cast<std::uint64_t>(peak)));
  }
  switch (kind) {
    case Kind::Contiguous: return "contiguous arguments";
    case Kind::Batch:
      return fmt::format("a batch of {}", count) +
             (accumulate > 1 ? ", " + snug::option("accumulate", accumulate) : "");
    case Kind::Recompute: return switched("recompute", true);
    case Kind::MicroBatches:
      return snug::option("micro_batches", count) +
             (recompute ? ", " + switched("recompute", true) : "");
    case Kind::Offload:
      return language() == Language::Cpp ? ".offload = DIRECTORY" : "offload=DIRECTORY";
    case Kind::Activations: return snug::option("activations", DType::BF16);
    case Kind::Memory:
      return snug::option("memory", amount_to_type(static_cast<std::uint64_t>(peak)));
  }
  return "";
}

}  // namespace snug
