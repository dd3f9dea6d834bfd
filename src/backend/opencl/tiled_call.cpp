#include "backend/opencl/tiled_call.h"

#include <bit>

#include "backend/opencl/tile_times.h"

namespace snug {
namespace {

constexpr double kWorthMeasuring = 1 << 24;                    // multiply-adds
constexpr double kMostOfATrial = 1LL << 33;                    // likewise
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;  // of a trial

double work_of(const ProductSizes& s) {
  return static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
         static_cast<double>(s.batches);
}

/// A few classes of sizes.
int class_of(std::int64_t n) {
  return std::bit_width(static_cast<std::uint64_t>(std::clamp<std::int64_t>(n, 1, 1024) - 1) >> 3);
}

/// Of a memory that begins with its first element; to the next place for another one.
std::uint64_t bytes_of(const ArgDesc& d) {
  std::int64_t elements = 1;
  for (std::size_t k = 0; k < d.shape.size(); ++k)
    elements += std::max<std::int64_t>(d.shape[k] - 1, 0) * std::abs(d.strides[k]);
  constexpr std::uint64_t kStep = 256;
  return (static_cast<std::uint64_t>(elements * size_of(d.dtype)) + kStep - 1) / kStep * kStep;
}

}  // namespace

void TiledCall::set_up(TiledProduct product, const ProductSizes& bounds, const std::string& kind) {
  product_ = std::move(product);
  bounds_ = bounds;
  kind_ = fmt::format("{} {} {} {} {} {}", product_.name, name_of(product_.dtype), kind,
                      class_of(bounds.m), class_of(bounds.n), class_of(bounds.k));
  tiles_ = candidate_tiles(found(), product_.dtype, bounds);
  workspace = bytes_of_parts(found(), product_.dtype, bounds);
  in_parts_ = workspace > 0;
  if (in_parts_) join_ = device().kernels().add(join_text(product_));
  TileTimes& times = device().tiles();
  auto tile = times.forced();
  if (!tile && work_of(bounds) >= kWorthMeasuring) tile = times.known(kind_, tiles_);
  is_chosen_ = tile || tiles_.size() < 2 || work_of(bounds) < kWorthMeasuring;
  form_ = form_of(tile ? *tile : choose_tile(found(), product_.dtype, bounds));
}

const TiledCall::Form* TiledCall::form_of(const ProductTile& tile) const {
  for (const Form& f : forms_)
    if (f.tile == tile) return &f;
  forms_.push_back({tile, device().kernels().add(tiled_text(product_, tile, found(), in_parts_))});
  return &forms_.back();
}

void TiledCall::make_ready() const {
  const std::lock_guard lock(mutex_);
  if (!is_chosen_) {
    if (const auto tile = measure()) form_ = form_of(*tile);
    is_chosen_ = true;
  }
  form_.load()->kernel->make_ready();
  if (join_) join_->make_ready();
}

std::optional<ProductTile> TiledCall::measure() const {
  const Trial trial = this->trial();
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> in, out;
  for (const ArgDesc& d : trial.in) in.push_back(bytes), bytes += bytes_of(d);
  for (const ArgDesc& d : trial.out) out.push_back(bytes), bytes += bytes_of(d);
  const std::uint64_t partial = bytes;
  bytes += workspace;
  if (bytes > kMostBytes || work_of(sizes(trial.in.data(), trial.out.data())) > kMostOfATrial)
    return {};
  const auto ask_for = [&](std::size_t k, OpenClQueues& queues, std::byte* memory) {
    const auto places = [&](const std::vector<std::uint64_t>& offsets) {
      std::vector<std::byte*> all;
      for (const std::uint64_t offset : offsets) all.push_back(memory + offset);
      return all;
    };
    const std::vector<std::byte*> from = places(in), to = places(out);
    RunArgs args;
    args.in = from.data();
    args.out = to.data();
    args.workspace = memory + partial;
    args.in_desc = trial.in.data();
    args.out_desc = trial.out.data();
    args.in_count = static_cast<std::uint32_t>(in.size());
    args.out_count = static_cast<std::uint32_t>(out.size());
    ask(queues, args, *form_of(tiles_[k]));
  };
  return device().tiles().measure(kind_, tiles_,
                                  {.bytes = bytes,
                                   .ready =
                                       [&](std::size_t k) {
                                         // All together: that takes half the time.
                                         for (const ProductTile& t : tiles_) form_of(t);
                                         form_of(tiles_[k])->kernel->make_ready();
                                         if (join_) join_->make_ready();
                                       },
                                   .ask = ask_for});
}

void TiledCall::ask(OpenClQueues& queues, const RunArgs& args) const {
  ask(queues, args, *form_.load());
}

void TiledCall::ask(OpenClQueues& queues, const RunArgs& args, const Form& form) const {
  const ProductSizes s = sizes(args.in_desc, args.out_desc);
  const ProductParts parts = in_parts_ ? choose_parts(found(), s) : ProductParts{1, s.k};
  std::vector<OpenClArg> all = arguments(args);
  if (in_parts_) {
    all.push_back(OpenClArg::memory(args.workspace, product_.dtype == DType::F64 ? 8 : 4));
    all.push_back(OpenClArg::int64(std::max<std::int64_t>(parts.length, 1)));
    all.push_back(OpenClArg::int32(parts.count));
    all.push_back(OpenClArg::int32(s.batches));
  }
  all.push_back(OpenClArg::int32(0));
  queues.launch(
      *form.kernel, all,
      {groups_of(s.n, form.tile.columns), groups_of(s.m, form.tile.rows), s.batches * parts.count});
  if (parts.count > 1) queues.launch(*join_, all, {groups_of(s.m * s.n, kJoinItems), 1, s.batches});
}

}  // namespace snug
