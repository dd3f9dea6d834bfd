#include "backend/onednn/conv_cut.h"

#include <algorithm>
#include <utility>

#include "backend/native/call.h"

namespace snug::onednn {
namespace {

using native::ConvKind;
using native::ConvShape;

constexpr std::int64_t kPartWork = 4 << 20;  // multiply-adds: 100 to 200 us
constexpr std::int64_t kParts = 16;          // at most, unless there are many images
constexpr std::int64_t kChannels = 64;       // of a part are a multiple of this
constexpr std::int64_t kManyPixels = 512;    // of an image: it is cut by rows
constexpr std::int64_t kFewPixels = 256;     // of a part
constexpr std::int64_t kCached = 1 << 17;    // elements of filters that a cache holds
constexpr std::int64_t kRows = 4;            // of a part at least
constexpr std::int64_t kFewImages = 8;       // fewer are cut by channels
constexpr std::int64_t kSums = 1 << 20;      // elements of all sums by filters

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

enum class By : std::uint8_t { Images, Rows, Channels };

/// `each` images, rows or channels to a part.
struct Cut {
  By by = By::Images;
  std::int64_t each = 1;
};

/// A divisor of `count` that is at least `least`, if there is one that is not much larger: parts of
/// one size share their code.
std::int64_t even(std::int64_t count, std::int64_t least) {
  for (std::int64_t k = least; k < 2 * least && k <= count; ++k)
    if (count % k == 0) return k;
  return std::min(least, count);
}

std::int64_t wanted_parts(const ConvShape& s) {
  return std::clamp<std::int64_t>(s.work() / kPartWork, 1, std::max(kParts, s.n / 4));
}

Cut cut_by_pixels(const ConvShape& s, std::int64_t wanted, bool rows) {
  if (rows && s.n < wanted && s.plane() >= kManyPixels) {
    const std::int64_t each = std::max(kRows, up(s.oh, up(wanted, s.n)));
    if (each < s.oh) return {By::Rows, even(s.oh, each)};
  }
  return {By::Images, even(s.n, up(s.n, wanted))};
}

Cut choose(const ConvPart& p) {
  const ConvShape& s = p.shape;
  const std::int64_t wanted = wanted_parts(s);
  const bool plane = s.axes == 2, one_group = plane && s.groups == 1;
  const std::int64_t result = p.kind == ConvKind::GradInput ? s.c : s.o;
  const auto by_channels = [&](std::int64_t parts) {
    return Cut{By::Channels, up(up(result, parts), kChannels) * kChannels};
  };
  const bool wide = one_group && result >= 2 * kChannels;
  if (p.kind == ConvKind::GradWeight) {
    const std::int64_t filters = s.o * s.group_in() * s.taps();
    if (wide && wanted > 1 && (p.dtype != DType::F32 || filters * wanted > kSums))
      return by_channels(wanted);
    // Sums of bfloat16 would be rounded.
    const std::int64_t sums =
        p.dtype == DType::F32 ? std::clamp<std::int64_t>(4 * kSums / filters, 1, wanted) : 1;
    return cut_by_pixels(s, sums, plane && p.gather_h == 0);
  }
  const bool rows = plane && p.kind == ConvKind::Forward;
  const std::int64_t filters = s.o * s.group_in() * s.taps();
  const bool few = s.n < (filters > kCached ? wanted : std::min(wanted, kFewImages));
  if (wide && few && !(rows && s.plane() >= kManyPixels)) return by_channels(wanted);
  const Cut cut = cut_by_pixels(s, wanted, rows);
  // A few pixels would read filters that no cache holds, part by part.
  if (wide && wanted > 1 && cut.by == By::Images && cut.each * s.plane() < kFewPixels &&
      filters > kCached)
    return by_channels(wanted);
  return cut;
}

/// Filters of several taps and many channels are faster on images in blocks of 8 channels with
/// AVX2, reorders included; with AVX-512 they are not (benchmarks/README.md).
bool prefers_blocks(const ConvPart& p) {
  const ConvShape& s = p.shape;
  const std::int64_t least = p.kind == ConvKind::GradWeight ? 32 : 64;
  const bool strided_back = p.kind == ConvKind::GradInput && s.sh * s.sw > 1;
  return !has_avx512() && s.taps() > 1 && s.groups == 1 && std::min(s.c, s.o) >= least &&
         !strided_back;
}

/// Rows [first, last) of y of one image, and the rows of x they meet; the first of these.
std::int64_t take_rows(ConvShape& s, std::int64_t first, std::int64_t last) {
  const std::int64_t top = first * s.sh - s.top;
  const std::int64_t end = (last - 1) * s.sh - s.top + (s.kh - 1) * s.dh + 1;
  const std::int64_t begin = std::max<std::int64_t>(0, top);
  s.n = 1;
  s.oh = last - first;
  s.top = begin - top;
  s.bottom = std::max<std::int64_t>(0, end - s.h);
  s.h = std::min(end, s.h) - begin;
  return begin;
}

class Cutter {
 public:
  explicit Cutter(const ConvPart& whole) : whole_(whole) {}

  bool cut(const Cut& how) {
    const ConvShape& s = whole_.shape;
    const std::int64_t x =
        whole_.gather_h > 0 ? s.c * whole_.gather_h * whole_.gather_w : s.c * s.image();
    const std::int64_t y = s.o * s.plane();
    ConvPart part = whole_;
    part.library_filters = how.by != By::Channels;
    if (how.by == By::Images) {
      for (std::int64_t n = 0; n < s.n; n += how.each) {
        part.shape.n = std::min(how.each, s.n - n);
        if (!add(part, n * x, 0, n * y)) return false;
      }
    } else if (how.by == By::Rows) {
      for (std::int64_t n = 0; n < s.n; ++n)
        for (std::int64_t row = 0; row < s.oh; row += how.each) {
          part.shape = s;
          const std::int64_t from = take_rows(part.shape, row, std::min(row + how.each, s.oh));
          if (part.shape.h < 1) return false;
          if (!add(part, n * x + from * s.w * s.c, 0, n * y + row * s.ow * s.o)) return false;
        }
    } else {
      const bool of_x = whole_.kind == ConvKind::GradInput;
      const std::int64_t all = of_x ? s.c : s.o, taps = s.taps();
      for (std::int64_t k = 0; k < all; k += how.each) {
        (of_x ? part.shape.c : part.shape.o) = std::min(how.each, all - k);
        const std::int64_t w = k * taps * (of_x || whole_.swapped ? 1 : whole_.filter_channels);
        if (!add(part, of_x ? k : 0, w, of_x ? 0 : k)) return false;
      }
    }
    return finish();
  }

  ConvCut result;

 private:
  bool add(const ConvPart& part, std::int64_t x, std::int64_t w, std::int64_t y) {
    auto chain = conv_chain(part);
    if (!chain) return false;
    PlacedPart placed;
    switch (part.kind) {
      case ConvKind::Forward: placed.in0 = x, placed.in1 = w, placed.out = y; break;
      case ConvKind::GradInput: placed.in0 = w, placed.in1 = y, placed.out = x; break;
      case ConvKind::GradWeight: placed.in0 = x, placed.in1 = y, placed.out = w; break;
    }
    if (part.library_filters) placed.layout = layout_of(*chain);
    auto found = std::find(result.chains.begin(), result.chains.end(), chain);
    placed.chain = static_cast<int>(found - result.chains.begin());
    result.slot_bytes = std::max(result.slot_bytes, chain->workspace());
    if (found == result.chains.end()) result.chains.push_back(std::move(chain));
    result.parts.push_back(placed);
    return true;
  }

  int layout_of(const ConvChain& chain) {
    for (std::size_t k = 0; k < result.layouts.size(); ++k)
      if (result.layouts[k].desc == chain.filters) return static_cast<int>(k);
    result.layouts.push_back({chain.filters, {}, 0});
    return static_cast<int>(result.layouts.size()) - 1;
  }

  /// False if sums have several layouts, or filters cannot be reordered.
  bool finish() {
    const bool by_filters = whole_.kind == ConvKind::GradWeight;
    if (by_filters && result.layouts.size() > 1) return false;
    for (FilterLayout& layout : result.layouts) {
      layout.slices = filter_slices(whole_, layout.desc, by_filters);
      const std::uint64_t bytes = native::align64(layout.desc.get_size());
      layout.offset = result.shared_bytes;
      if (by_filters && result.parts.size() > 1) {
        result.sums = static_cast<std::int64_t>(result.parts.size());
        result.sum_bytes = bytes;
        result.shared_bytes += bytes * result.parts.size();
      } else if (layout.slices.chain) {
        result.shared_bytes += bytes;
      }
      if (layout.slices.chain)
        result.slot_bytes = std::max(result.slot_bytes, layout.slices.chain->workspace());
      else if (!layout.slices.plain)
        return false;
    }
    result.slot_bytes = native::align64(result.slot_bytes);
    return true;
  }

  const ConvPart& whole_;
};

}  // namespace

std::optional<ConvCut> cut_convolution(const ConvPart& whole) {
  const auto by = [](const ConvPart& part, const Cut& how) -> std::optional<ConvCut> {
    Cutter cutter(part);
    if (!cutter.cut(how)) return std::nullopt;
    return std::move(cutter.result);
  };
  const bool plane = whole.shape.axes == 2;
  const bool prefers = plane && prefers_blocks(whole);
  for (const bool blocked : {prefers, !prefers}) {
    if (!blocked && !plane) continue;
    if (!prefers && blocked && whole.swapped) continue;  // done as a gradient instead
    ConvPart part = whole;
    part.blocked = blocked;
    const Cut how = choose(part);
    if (auto cut = by(part, how)) return cut;
    if (how.by != By::Images || how.each != part.shape.n)
      if (auto cut = by(part, {By::Images, part.shape.n})) return cut;
  }
  return std::nullopt;
}

}  // namespace snug::onednn
