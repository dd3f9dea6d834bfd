#include "base/remedy.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/spelling.h"

namespace snug {
namespace {

/// --memory with an amount, or one for each device.
std::string memory_flags(const Remedy& r) {
  if (r.budgets.empty()) return "--memory " + amount_to_type(static_cast<std::uint64_t>(r.peak));
  std::string text;
  for (const auto& [device, bytes] : r.budgets)
    text += fmt::format("{}--memory {}={}", text.empty() ? "" : " ", device, amount_to_type(bytes));
  return text;
}

std::string memory_option(const Remedy& r) {
  if (language() == Language::Tool) return memory_flags(r);
  if (r.budgets.empty())
    return option("memory", amount_to_type(static_cast<std::uint64_t>(r.peak)));
  std::string text;
  for (const auto& [device, bytes] : r.budgets)
    text +=
        fmt::format(fmt::runtime(language() == Language::Python ? "{}\"{}\": \"{}\"" : "{}{}={}"),
                    text.empty()                     ? ""
                    : language() == Language::Python ? ", "
                                                     : ",",
                    device, amount_to_type(bytes));
  return language() == Language::Python ? fmt::format("memory={{{}}}", text)
                                        : option("memory", text);
}

}  // namespace

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
    case Kind::Host: return "--device cpu";
    case Kind::Memory:
      return memory_flags(*this) + (count > 1 ? " --fit" : recompute ? " --recompute" : "");
  }
  return "";
}

std::string Remedy::option() const {
  // `snug train` takes whatever technique its budget needs, so it is told the budget.
  if (language() == Language::Tool && kind != Kind::Memory)
    return kind == Kind::Recompute || kind == Kind::MicroBatches ? memory_option(*this) : flag();
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
    case Kind::Host: return snug::option("device", "cpu");
    case Kind::Memory: return memory_option(*this);
  }
  return "";
}

}  // namespace snug
