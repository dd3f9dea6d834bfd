#include "backend/opencl/spec_forms.h"

#include "backend/opencl/emit_opencl.h"

namespace snug {
namespace {

constexpr std::size_t kBlock = 128;  // bytes that a fill command carries

std::int64_t groups_of(std::int64_t count, std::int64_t each) { return (count + each - 1) / each; }

}  // namespace

SpecForms::SpecForms(const KernelSpec& spec, std::span<const std::int64_t> ints,
                     const OpenClFound& device, OpenClKernels& kernels)
    : spec_(spec), ints_(runtime_ints(spec)) {
  const auto add = [&](const OpenClMapping& m) {
    forms_.push_back({m, divisor_axes(spec, m), kernels.add(emit_opencl(spec, m))});
  };
  add(map_kernel(spec, ints, device));
  if (const auto vectors = map_to_vectors(spec, forms_[0].mapping, device)) add(*vectors);
}

std::uint64_t SpecForms::workspace() const {
  if (!forms_[0].mapping.ints_in_memory) return 0;
  return (ints_.size() * 8 + kBlock - 1) / kBlock * kBlock;
}

void SpecForms::make_ready() const {
  for (const Form& form : forms_) form.kernel->make_ready();
}

const SpecForms::Form& SpecForms::choose(std::span<const std::int64_t> ints,
                                         std::byte* const* operands) const {
  const bool vectors =
      forms_.size() > 1 && allows_vectors(spec_, forms_[1].mapping, ints, operands);
  return forms_[vectors ? 1 : 0];
}

void SpecForms::ask(OpenClQueues& queues, std::byte* const* operands,
                    std::span<const std::int64_t> ints, std::byte* workspace) const {
  const Form& form = choose(ints, operands);
  const OpenClMapping& m = form.mapping;
  std::vector<OpenClArg> all;
  all.reserve(spec_.operands.size() + ints_.size() + 2 * spec_.rank() + 2);
  for (std::size_t o = 0; o < spec_.operands.size(); ++o)
    all.push_back(OpenClArg::memory(operands[o], size_of(spec_.operands[o].dtype)));
  if (m.ints_in_memory) {
    write_ints(queues, ints, workspace);
    all.push_back(OpenClArg::memory(workspace, 8));
  } else {
    for (const std::uint32_t i : ints_)
      all.push_back(m.wide ? OpenClArg::int64(ints[i]) : OpenClArg::int32(ints[i]));
  }
  for (const std::uint32_t axis : form.divisors) {
    const bool in_vectors = axis + 1 == spec_.rank();
    const Divisor d = divisor_of(ints[axis] / (in_vectors ? m.vector : 1));
    all.push_back(OpenClArg::int32(static_cast<std::int32_t>(d.factor)));
    all.push_back(OpenClArg::int32(d.shift));
  }
  std::int64_t points = 1;
  for (std::size_t axis = 0; axis < spec_.outer; ++axis) points *= ints[axis];
  all.push_back(OpenClArg::int64(points / m.vector));
  queues.launch(*form.kernel, all, {groups(m, ints, points), 1, 1});
}

std::int64_t SpecForms::groups(const OpenClMapping& m, std::span<const std::int64_t> ints,
                               std::int64_t points) const {
  if (m.kind == OpenClMapping::Kind::Group || points == 0) return points;
  if (m.kind != OpenClMapping::Kind::Tile)
    return groups_of(points / m.vector, static_cast<std::int64_t>(m.items));
  constexpr std::int64_t kSide = OpenClMapping::kSide;
  const std::int64_t rows = ints[m.across], columns = ints[spec_.rank() - 1];
  return points / rows / columns * groups_of(rows, kSide) * groups_of(columns, kSide);
}

/// By fills, which take what they are given along.
void SpecForms::write_ints(OpenClQueues& queues, std::span<const std::int64_t> ints,
                           std::byte* workspace) const {
  for (std::size_t k = 0; k < ints_.size(); k += kBlock / 8) {
    std::int64_t block[kBlock / 8] = {};
    for (std::size_t j = 0; j < kBlock / 8 && k + j < ints_.size(); ++j)
      block[j] = ints[ints_[k + j]];
    queues.fill(workspace + k * 8, std::as_bytes(std::span(block)), kBlock);
  }
}

}  // namespace snug
