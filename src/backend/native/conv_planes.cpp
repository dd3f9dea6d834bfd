#include <algorithm>

#include "backend/native/conv_last.h"
#include "backend/native/conv_unfold.h"
#include "backend/native/gemm.h"

namespace snug::native {
namespace {

constexpr std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

/// Channels [first, first + count) of an image, one plane after the other, or back.
void turn_planes(const float* from, float* to, std::int64_t places, std::int64_t channels,
                 std::int64_t first, std::int64_t count, bool to_planes) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t c0 = 0; c0 < count; c0 += kBlock)
    for (std::int64_t p = 0, end = std::min(count, c0 + kBlock); p < places; ++p)
      for (std::int64_t c = c0; c < end; ++c) {
        const std::int64_t plane = c * places + p, last = p * channels + first + c;
        to[to_planes ? plane : last] = from[to_planes ? last : plane];
      }
}

}  // namespace

/// Per thread: the planes of a part's channels, and the columns of a group.
std::uint64_t ColumnConv::planes_workspace(int threads) const {
  const std::int64_t each = aligned(s_.c * s_.image()) + aligned(depth_ * s_.plane());
  const bool sums = kind_ == ConvKind::GradWeight && pixel_parts_ > 1;
  return (each * threads + (sums ? pixel_parts_ * aligned(filters()) : 0)) * sizeof(float);
}

void ColumnConv::run_planes(const float* in0, const float* in1, float* out, float* workspace,
                            int threads) const {
  const std::int64_t plane = s_.plane(), gi = s_.group_in(), go = s_.group_out();
  const std::int64_t each = aligned(s_.c * s_.image()) + aligned(depth_ * plane);
  const bool by_filters = kind_ == ConvKind::GradWeight, summed = by_filters && pixel_parts_ > 1;
  float* const sums = workspace + each * threads;
  const auto bytes = [](const float* p) { return reinterpret_cast<const std::byte*>(p); };
  const auto target = [](float* p) { return reinterpret_cast<std::byte*>(p); };
  const auto image_of_part = [&](float* planes, float* columns, std::int64_t n, const Channels& c,
                                 float* filters, bool first) {
    const std::int64_t channels = (c.group_end - c.group) * gi, from = c.group * gi;
    const std::int64_t at = n * s_.image() * s_.c;
    if (kind_ != ConvKind::GradInput)
      turn_planes(in0 + at, planes, s_.image(), s_.c, from, channels, true);
    for (std::int64_t g = c.group; g < c.group_end; ++g) {
      float* const image = planes + (g - c.group) * gi * s_.image();
      const std::int64_t y = n * plane * s_.o + g * go, w = g * go * depth_;
      Gemm product;
      if (kind_ == ConvKind::Forward) {
        unfold(s_, image, columns, 0, s_.lines(), 1);
        product.m = plane, product.n = go, product.k = depth_;
        product.a = bytes(columns), product.a_row = 1, product.a_col = plane;
        product.b = bytes(in1 + w), product.b_row = 1, product.b_col = depth_;
        product.c = target(out + y), product.c_row = s_.o, product.c_col = 1;
        blas_gemm(product, 1);
      } else if (by_filters) {
        unfold(s_, image, columns, 0, s_.lines(), 1);
        product.m = go, product.n = depth_, product.k = plane;
        product.a = bytes(in1 + y), product.a_row = 1, product.a_col = s_.o;
        product.b = bytes(columns), product.b_row = 1, product.b_col = plane;
        product.c = target(filters + w), product.c_row = depth_, product.c_col = 1;
        blas_gemm(product, 1, !first);
      } else {
        product.m = depth_, product.n = plane, product.k = go;
        product.a = bytes(in0 + w), product.a_row = 1, product.a_col = depth_;
        product.b = bytes(in1 + y), product.b_row = 1, product.b_col = s_.o;
        product.c = target(columns), product.c_row = plane, product.c_col = 1;
        blas_gemm(product, 1);
        native::fold(s_, columns, image, 1);
      }
    }
    if (kind_ == ConvKind::GradInput)
      turn_planes(planes, out + at, s_.image(), s_.c, from, channels, false);
  };
  parallel_slots(pixel_parts_ * channel_parts_, s_.work(), threads,
                 [&](std::int64_t slot, std::int64_t part, std::int64_t end) {
                   float* const planes = workspace + slot * each;
                   float* const columns = planes + aligned(s_.c * s_.image());
                   for (; part < end; ++part) {
                     const std::int64_t piece = part / channel_parts_;
                     const std::int64_t begin = s_.n * piece / pixel_parts_;
                     float* const filters = summed ? sums + piece * aligned(this->filters()) : out;
                     for (std::int64_t n = begin; n < s_.n * (piece + 1) / pixel_parts_; ++n)
                       image_of_part(planes, columns, n, channels(part % channel_parts_), filters,
                                     n == begin);
                   }
                 });
  if (summed) add_up(sums, out, threads);
}

}  // namespace snug::native
