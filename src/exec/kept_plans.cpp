#include "exec/kept_plans.h"

#include <malloc.h>

#include <atomic>

namespace snug {
namespace {

std::atomic<std::int64_t> living{0}, died{0};

void note_death(std::int64_t bytes) {
  constexpr std::int64_t kTrimAfter = std::int64_t{1} << 20;
  living -= bytes;
  if ((died += bytes) < kTrimAfter) return;
  died = 0;
  malloc_trim(0);
}

template <class T>
std::int64_t size(const std::vector<T>& v) {
  return static_cast<std::int64_t>(v.capacity() * sizeof(T));
}

}  // namespace

std::int64_t bytes_of(const Executable& e) {
  std::int64_t sum = sizeof e + size(e.key) + size(e.bounds.low) + size(e.bounds.high) +
                     size(e.steps) + size(e.transfers);
  for (const BoundStep& s : e.steps) {
    sum += size(s.buffers) + size(s.offsets) + size(s.widths) + size(s.descs) + size(s.layouts) +
           size(s.size_inputs) + size(s.extents) + size(s.elements) + size(s.requirements) +
           size(s.waits) + size(s.elsewhere);
    for (const auto& input : s.size_inputs) sum += size(input);
  }
  return sum;
}

std::shared_ptr<const Executable> counted(std::unique_ptr<Executable> executable) {
  const std::int64_t bytes = bytes_of(*executable);
  living += bytes;
  return {executable.release(), [bytes](const Executable* e) {
            delete e;
            note_death(bytes);
          }};
}

std::int64_t kept_plan_bytes() { return living; }

}  // namespace snug
