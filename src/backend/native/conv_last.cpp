#include "backend/native/conv_last.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/native/blas_buffers.h"
#include "backend/native/call.h"
#include "backend/native/conv_loops.h"
#include "backend/native/convert.h"
#include "backend/native/gemm.h"
#include "backend/native/parallel.h"

namespace snug::native {
namespace {

constexpr std::int64_t kChunk = 64 * 1024;   // elements of columns at a time: half of an L2 cache
constexpr std::int64_t kChunkPixels = 32;    // but so many pixels, for products of some height
constexpr std::int64_t kPartWork = 4 << 20;  // multiply-adds that are worth a thread: 100 to 200 us
constexpr std::int64_t kParts = 16;          // at most, of what has no natural number
constexpr std::int64_t kSumElements = 1 << 20;  // of all partial sums of filters
constexpr std::int64_t kRun = 16;               // elements that are worth a copy of their own
constexpr std::int64_t kChannels = 32;          // a part has at least

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool moves_over_all_pixels(const ConvShape& s) {
  return s.taps() == 1 && s.sh == 1 && s.sw == 1 && s.oh == s.h && s.ow == s.w && s.top == 0 &&
         s.left == 0;
}

bool padded(const ConvShape& s) { return s.top + s.bottom + s.left + s.right > 0; }

/// Runs of a few elements are common: a call of memcpy takes longer than such a copy.
inline void copy_run(const float* from, float* to, std::int64_t count) {
  if (count >= 16) {
    std::memcpy(to, from, count * sizeof(float));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}
inline void zero_run(float* to, std::int64_t count) {
  if (count > 0) std::memset(to, 0, count * sizeof(float));
}
inline void add_run(const float* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// The taps [first, last) along an axis that lie inside of an image when the window starts at
/// `from`.
struct Inside {
  std::int64_t first, last;
  Inside(std::int64_t from, std::int64_t dilation, std::int64_t size, std::int64_t taps) {
    first = from >= 0 ? 0 : std::min(taps, up(-from, dilation));
    last = from >= size ? first : std::clamp((size - 1 - from) / dilation + 1, first, taps);
  }
};

/// Calls f(first row of the window, first column, image) for pixels of y in turn.
template <class F>
void each_window(const ConvShape& s, std::int64_t pixel, std::int64_t end, F&& f) {
  std::int64_t ox = pixel % s.ow, oy = pixel / s.ow % s.oh, n = pixel / s.ow / s.oh;
  for (; pixel < end; ++pixel) {
    f(oy * s.sh - s.top, ox * s.sw - s.left, n);
    if (++ox < s.ow) continue;
    ox = 0;
    if (++oy < s.oh) continue;
    oy = 0;
    ++n;
  }
}

bool all_finite(const float* values, std::int64_t count) {
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t end = std::min(count, at + kBlock);
    int bad = 0;
    for (std::int64_t i = at; i < end; ++i)
      bad |= !(std::fabs(values[i]) <= std::numeric_limits<float>::max());
    if (bad) return false;
  }
  return true;
}

const std::byte* bytes(const float* p) { return reinterpret_cast<const std::byte*>(p); }
std::byte* bytes(float* p) { return reinterpret_cast<std::byte*>(p); }

}  // namespace

bool ColumnConv::takes(const ConvShape& s) {
  return s.axes == 2 && std::max({s.group_in() * s.taps(), s.n * s.plane(), s.c, s.o}) <= INT_MAX;
}

ColumnConv::ColumnConv(ConvKind kind, const ConvShape& shape) : kind_(kind), s_(shape) {
  depth_ = s_.group_in() * s_.taps();
  pixels_ = s_.n * s_.plane();
  direct_ = moves_over_all_pixels(s_);
  // Turning filters is a pass over them; columns in their order are written with gaps.
  as_stored_ = s_.taps() == 1 || s_.group_in() == 1 ? !s_.flip || s_.taps() == 1
                                                    : pixels_ < 2 * s_.group_out();
  const std::int64_t run = s_.dw == 1 && s_.groups == 1 ? s_.kw * s_.c : s_.group_in();
  planes_ = !direct_ && run < kRun && !(as_stored_ && s_.group_in() > 1);
  const std::int64_t wanted = std::clamp<std::int64_t>(s_.work() / kPartWork, 1, kParts);
  const std::int64_t cuts =
      s_.groups > 1 ? s_.groups : std::max<std::int64_t>(1, s_.group_in() / kChannels);
  if (planes_) {
    as_stored_ = true;
    const bool sums = kind == ConvKind::GradWeight;
    pixel_parts_ =
        sums ? std::clamp<std::int64_t>(kSumElements / filters(), 1, std::min(wanted, s_.n)) : s_.n;
    if (s_.groups > 1 && pixel_parts_ < wanted)
      channel_parts_ = std::min(s_.groups, up(wanted, pixel_parts_));
    return;
  }
  switch (kind) {
    case ConvKind::Forward: {
      const std::int64_t chunk = std::max(kChunkPixels, kChunk / depth_);
      pixel_parts_ = std::clamp(up(pixels_, chunk), std::min(wanted, up(pixels_, kChunkPixels)),
                                std::max<std::int64_t>(1, s_.work() / kPartWork));
      break;
    }
    case ConvKind::GradInput:
      pixel_parts_ = s_.n;
      if (s_.n < wanted) channel_parts_ = std::min(cuts, up(wanted, s_.n));
      break;
    case ConvKind::GradWeight: {
      const std::int64_t sums = std::clamp<std::int64_t>(kSumElements / filters(), 1, wanted);
      channel_parts_ = std::min(cuts, sums < wanted ? wanted : 1);
      pixel_parts_ = channel_parts_ > 1 ? 1 : std::min(sums, pixels_);
      break;
    }
  }
}

ColumnConv::Channels ColumnConv::channels(std::int64_t part) const {
  const auto cut = [&](std::int64_t count, std::int64_t k) { return count * k / channel_parts_; };
  if (s_.groups > 1) return {cut(s_.groups, part), cut(s_.groups, part + 1), 0, s_.group_in()};
  return {0, 1, cut(s_.group_in(), part), cut(s_.group_in(), part + 1)};
}

std::int64_t ColumnConv::chunk_elements() const {
  if (direct_) return 0;
  return std::min(pixels_ * depth_, std::max(kChunk, kChunkPixels * depth_));
}

std::uint64_t ColumnConv::workspace(int threads) const {
  if (planes_) return planes_workspace(threads);
  std::int64_t elements = (chunk_elements() + 15) / 16 * 16 * threads;
  const std::int64_t all = (filters() + 15) / 16 * 16;
  if (kind_ == ConvKind::GradWeight)
    elements += as_stored_ && pixel_parts_ == 1 ? 0 : pixel_parts_ * all;
  else if (!as_stored_)
    elements += all;
  return elements * sizeof(float);
}

int ColumnConv::blas_buffers(int threads) const { return s_.work() < kParallelWork ? 1 : threads; }

double ColumnConv::cost() const {
  constexpr double kTurn = 32, kPlanes = 24, kRuns = 12;  // multiply-adds in the time of an element
  double columns = direct_ ? 0 : static_cast<double>(pixels_) * s_.c * s_.taps();
  columns *= planes_ ? kPlanes : kRuns;
  if (kind_ == ConvKind::GradInput) columns *= 1.5;
  const double turned = as_stored_ ? 0 : kTurn * static_cast<double>(filters());
  // Products are done in tiles: a few filters take the time of as many as a tile has. One filter
  // is a product with a vector, at half the rate.
  const std::int64_t out = s_.group_out();
  const double narrow =
      out == 1 ? 2 : static_cast<double>(up(out, 8) * 8) / static_cast<double>(out);
  return static_cast<double>(s_.work()) * narrow + columns + turned;
}

void ColumnConv::run(const float* in0, const float* in1, float* out, std::byte* workspace,
                     int threads) const {
  threads = BlasBuffers::threads_for(threads);
  float* const chunks = reinterpret_cast<float*>(workspace);
  float* const rest = chunks + (chunk_elements() + 15) / 16 * 16 * threads;
  // Padding takes no part: a nan or an infinity that meets it counts for nothing. Columns hold
  // zeros there, and 0 * nan is nan, so such products go by loops.
  if (padded(s_) && kind_ != ConvKind::GradInput &&
      !all_finite(in1, kind_ == ConvKind::Forward ? filters() : pixels_ * s_.o)) {
    if (kind_ == ConvKind::Forward) return loop_forward(s_, true, in0, in1, out, threads);
    return loop_grad_weight(s_, true, in0, in1, out, threads);
  }
  if (planes_) return run_planes(in0, in1, out, chunks, threads);
  switch (kind_) {
    case ConvKind::Forward:
      if (!as_stored_) turn_filters(in1, rest, threads);
      return forward(in0, as_stored_ ? in1 : rest, out, chunks, threads);
    case ConvKind::GradInput:
      if (!as_stored_) turn_filters(in0, rest, threads);
      return by_images(as_stored_ ? in0 : rest, in1, out, chunks, threads);
    case ConvKind::GradWeight:
      if (as_stored_ && pixel_parts_ == 1) return by_filters(in0, in1, out, chunks, threads);
      by_filters(in0, in1, rest, chunks, threads);
      return add_up(rest, out, threads);
  }
}

/// Turned filters: per group and part of its channels, (filters, taps, channels).
void ColumnConv::turn_filters(const float* from, float* to, int threads) const {
  const std::int64_t taps = s_.taps(), in = s_.group_in(), out = s_.group_out();
  const std::int64_t parts = s_.groups > 1 ? 1 : channel_parts_;
  parallel_ranges(s_.o, filters(), threads, [&](std::int64_t o, std::int64_t end) {
    for (; o < end; ++o)
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = s_.groups > 1 ? 0 : channels(part).first;
        const std::int64_t count = s_.groups > 1 ? in : channels(part).count();
        const float* const stored = from + (o * in + first) * taps;
        float* turned = to + (o / out * out * in + first * out + o % out * count) * taps;
        for (std::int64_t tap = 0; tap < taps; ++tap)
          for (std::int64_t c = 0; c < count; ++c)
            *turned++ = stored[c * taps + stored_tap(s_, tap)];
      }
  });
}

/// Sums of filters in the order of columns, added up in turn, in the order of the user.
void ColumnConv::add_up(const float* sums, float* dw, int threads) const {
  const std::int64_t taps = s_.taps(), in = s_.group_in(), out = s_.group_out();
  const std::int64_t all = (filters() + 15) / 16 * 16;
  parallel_ranges(s_.o, filters() * pixel_parts_, threads, [&](std::int64_t o, std::int64_t end) {
    for (; o < end; ++o)
      for (std::int64_t part = 0; part < (s_.groups > 1 ? 1 : channel_parts_); ++part) {
        const std::int64_t first = s_.groups > 1 ? 0 : channels(part).first;
        const std::int64_t count = s_.groups > 1 ? in : channels(part).count();
        const std::int64_t at =
            as_stored_ ? o * depth_ : (o / out * out * in + first * out + o % out * count) * taps;
        float* const stored = dw + (o * in + first) * taps;
        for (std::int64_t k = 0; k < count * taps; ++k) {
          float sum = sums[at + k];
          for (std::int64_t p = 1; p < pixel_parts_; ++p) sum += sums[p * all + at + k];
          stored[as_stored_ ? k : k % count * taps + stored_tap(s_, k / count)] = sum;
        }
      }
  });
}

/// Columns (pixels, depth) of the channels `c` of a group.
void ColumnConv::fill(const float* x, const Channels& c, std::int64_t group, std::int64_t pixel,
                      std::int64_t end, float* columns) const {
  const std::int64_t count = c.count(), taps = s_.taps();
  const std::int64_t channel = group * s_.group_in() + c.first;
  const bool runs = !as_stored_ || s_.group_in() == 1;  // taps of a row lie together
  const bool dense = runs && s_.dw == 1 && count == s_.c;
  const std::int64_t line = s_.kw * count;
  each_window(s_, pixel, end, [&](std::int64_t top, std::int64_t left, std::int64_t n) {
    const Inside ky(top, s_.dh, s_.h, s_.kh), kx(left, s_.dw, s_.w, s_.kw);
    const float* const image = x + n * s_.h * s_.w * s_.c + channel;
    if (!runs) {
      if (ky.first > 0 || ky.last < s_.kh || kx.first > 0 || kx.last < s_.kw)
        zero_run(columns, taps * count);
      for (std::int64_t y = ky.first; y < ky.last; ++y)
        for (std::int64_t k = kx.first; k < kx.last; ++k) {
          const float* const from = image + ((top + y * s_.dh) * s_.w + left + k * s_.dw) * s_.c;
          float* const to = columns + stored_tap(s_, y * s_.kw + k);
          for (std::int64_t i = 0; i < count; ++i) to[i * taps] = from[i];
        }
    } else {
      zero_run(columns, ky.first * line);
      for (std::int64_t y = ky.first; y < ky.last; ++y) {
        float* const to = columns + y * line;
        zero_run(to, kx.first * count);
        const float* from = image + ((top + y * s_.dh) * s_.w + left + kx.first * s_.dw) * s_.c;
        if (dense) {
          copy_run(from, to + kx.first * count, (kx.last - kx.first) * count);
        } else {
          for (std::int64_t k = kx.first; k < kx.last; ++k, from += s_.dw * s_.c)
            copy_run(from, to + k * count, count);
        }
        zero_run(to + kx.last * count, (s_.kw - kx.last) * count);
      }
      zero_run(columns + ky.last * line, (s_.kh - ky.last) * line);
    }
    columns += taps * count;
  });
}

/// Adds columns onto the places of x they stand for.
void ColumnConv::fold(const float* columns, const Channels& c, std::int64_t group,
                      std::int64_t pixel, std::int64_t end, float* x) const {
  const std::int64_t count = c.count(), taps = s_.taps();
  const std::int64_t channel = group * s_.group_in() + c.first;
  const bool runs = !as_stored_ || s_.group_in() == 1;
  const bool dense = runs && s_.dw == 1 && count == s_.c;
  each_window(s_, pixel, end, [&](std::int64_t top, std::int64_t left, std::int64_t n) {
    const Inside ky(top, s_.dh, s_.h, s_.kh), kx(left, s_.dw, s_.w, s_.kw);
    float* const image = x + n * s_.h * s_.w * s_.c + channel;
    for (std::int64_t y = ky.first; y < ky.last; ++y) {
      float* to = image + ((top + y * s_.dh) * s_.w + left + kx.first * s_.dw) * s_.c;
      const float* const from = columns + (y * s_.kw + kx.first) * count;
      if (dense) {
        add_run(from, to, (kx.last - kx.first) * count);
      } else if (runs) {
        for (std::int64_t k = 0; k < kx.last - kx.first; ++k, to += s_.dw * s_.c)
          add_run(from + k * count, to, count);
      } else {
        for (std::int64_t k = kx.first; k < kx.last; ++k, to += s_.dw * s_.c) {
          const float* const stored = columns + stored_tap(s_, y * s_.kw + k);
          for (std::int64_t i = 0; i < count; ++i) to[i] += stored[i * taps];
        }
      }
    }
    columns += taps * count;
  });
}

void ColumnConv::forward(const float* x, const float* w, float* y, float* chunks,
                         int threads) const {
  parallel_slots(pixel_parts_, s_.work(), threads,
                 [&](std::int64_t slot, std::int64_t part, std::int64_t last_part) {
                   float* const columns = chunks + slot * ((chunk_elements() + 15) / 16 * 16);
                   const std::int64_t chunk =
                       direct_ ? pixels_ : std::max<std::int64_t>(1, chunk_elements() / depth_);
                   for (; part < last_part; ++part) {
                     const std::int64_t end = pixels_ * (part + 1) / pixel_parts_;
                     for (std::int64_t p = pixels_ * part / pixel_parts_; p < end; p += chunk)
                       for (std::int64_t g = 0; g < s_.groups; ++g) {
                         const std::int64_t rows = std::min(chunk, end - p);
                         if (!direct_)
                           fill(x, {g, g + 1, 0, s_.group_in()}, g, p, p + rows, columns);
                         Gemm product;
                         product.m = rows, product.n = s_.group_out(), product.k = depth_;
                         product.a = bytes(direct_ ? x + p * s_.c + g * s_.group_in() : columns);
                         product.a_row = direct_ ? s_.c : depth_, product.a_col = 1;
                         product.b = bytes(w + g * s_.group_out() * depth_);
                         product.b_row = 1, product.b_col = depth_;
                         product.c = bytes(y + p * s_.o + g * s_.group_out());
                         product.c_row = s_.o, product.c_col = 1;
                         blas_gemm(product, 1);
                       }
                   }
                 });
}

void ColumnConv::by_images(const float* w, const float* dy, float* dx, float* chunks,
                           int threads) const {
  const std::int64_t plane = s_.plane(), go = s_.group_out(), taps = s_.taps();
  parallel_slots(pixel_parts_ * channel_parts_, s_.work(), threads,
                 [&](std::int64_t slot, std::int64_t part, std::int64_t last_part) {
                   float* const columns = chunks + slot * ((chunk_elements() + 15) / 16 * 16);
                   for (; part < last_part; ++part) {
                     const std::int64_t n = part / channel_parts_;
                     const Channels c = channels(part % channel_parts_);
                     const std::int64_t deep = c.count() * taps;
                     const std::int64_t chunk =
                         direct_ ? plane : std::max<std::int64_t>(1, chunk_elements() / deep);
                     for (std::int64_t g = c.group; g < c.group_end; ++g) {
                       const std::int64_t first = g * s_.group_in() + c.first;
                       if (!direct_)
                         for (std::int64_t p = n * s_.h * s_.w; p < (n + 1) * s_.h * s_.w; ++p)
                           zero_run(dx + p * s_.c + first, c.count());
                       const std::int64_t end = (n + 1) * plane;
                       for (std::int64_t p = n * plane; p < end; p += chunk) {
                         const std::int64_t rows = std::min(chunk, end - p);
                         Gemm product;
                         product.m = rows, product.n = deep, product.k = go;
                         product.a = bytes(dy + p * s_.o + g * go);
                         product.a_row = s_.o, product.a_col = 1;
                         product.b =
                             bytes(as_stored_ ? w + g * go * depth_ + c.first * taps
                                              : w + (g * s_.group_in() + c.first) * go * taps);
                         product.b_row = as_stored_ ? depth_ : deep, product.b_col = 1;
                         product.c = bytes(direct_ ? dx + p * s_.c + first : columns);
                         product.c_row = direct_ ? s_.c : deep, product.c_col = 1;
                         blas_gemm(product, 1);
                         if (!direct_) fold(columns, c, g, p, p + rows, dx);
                       }
                     }
                   }
                 });
}

void ColumnConv::by_filters(const float* x, const float* dy, float* sums, float* chunks,
                            int threads) const {
  const std::int64_t go = s_.group_out(), taps = s_.taps(), all = (filters() + 15) / 16 * 16;
  parallel_slots(pixel_parts_ * channel_parts_, s_.work(), threads,
                 [&](std::int64_t slot, std::int64_t part, std::int64_t last_part) {
                   float* const columns = chunks + slot * ((chunk_elements() + 15) / 16 * 16);
                   for (; part < last_part; ++part) {
                     const Channels c = channels(part % channel_parts_);
                     const std::int64_t piece = part / channel_parts_, deep = c.count() * taps;
                     const std::int64_t begin = pixels_ * piece / pixel_parts_;
                     const std::int64_t end = pixels_ * (piece + 1) / pixel_parts_;
                     const std::int64_t chunk =
                         direct_ ? pixels_ : std::max<std::int64_t>(1, chunk_elements() / deep);
                     for (std::int64_t p = begin; p < end; p += chunk)
                       for (std::int64_t g = c.group; g < c.group_end; ++g) {
                         const std::int64_t rows = std::min(chunk, end - p);
                         if (!direct_) fill(x, c, g, p, p + rows, columns);
                         float* const to = sums + piece * all +
                                           (as_stored_ ? g * go * depth_ + c.first * taps
                                                       : (g * s_.group_in() + c.first) * go * taps);
                         Gemm product;
                         product.m = go, product.n = deep, product.k = rows;
                         product.a = bytes(dy + p * s_.o + g * go);
                         product.a_row = 1, product.a_col = s_.o;
                         product.b =
                             bytes(direct_ ? x + p * s_.c + g * s_.group_in() + c.first : columns);
                         product.b_row = direct_ ? s_.c : deep, product.b_col = 1;
                         product.c = bytes(to);
                         product.c_row = as_stored_ ? depth_ : deep, product.c_col = 1;
                         blas_gemm(product, 1, p > begin);
                       }
                   }
                 });
}

namespace {

/// The shape of a convolution of plain images.
ArgDesc plain(const ArgDesc& last) {
  const Dims& d = last.shape;
  return {last.dtype, {d[0], d[3], d[1], d[2]}, {}};
}

class LastCall : public Call {
 public:
  LastCall(const CallSite& site, ConvKind kind)
      : Call(site), kind_(kind), attrs_(site.node->attrs) {
    const ConvShape s = shape(in_[0], in_[1], out_[0]);
    if (!by_columns(s)) return;
    const ColumnConv columns(kind, s);
    workspace = columns.workspace(threads_) + wide_bytes(in_[0], in_[1], out_[0]);
    blas_buffers = columns.blas_buffers(threads_);
  }

  void run(const RunArgs& args) const override {
    const ArgDesc& result = out(args, 0);
    const ConvShape s = shape(in(args, 0), in(args, 1), result);
    const std::int64_t count = product(result.shape);
    if (count == 0) return;
    if (s.work() == 0) {
      std::memset(args.out[0], 0, count * size_of(result.dtype));
      return;
    }
    if (by_columns(s) && run_columns(ColumnConv(kind_, s), args)) return;
    visit(result.dtype, [&](auto tag) {
      using T = decltype(tag);
      const T* const a = reinterpret_cast<const T*>(args.in[0]);
      const T* const b = reinterpret_cast<const T*>(args.in[1]);
      T* const c = reinterpret_cast<T*>(args.out[0]);
      switch (kind_) {
        case ConvKind::Forward: return loop_forward(s, true, a, b, c, threads_);
        case ConvKind::GradInput: return loop_grad_input(s, true, a, b, c, threads_);
        case ConvKind::GradWeight: return loop_grad_weight(s, true, a, b, c, threads_);
      }
    });
  }

 private:
  bool by_columns(const ConvShape& s) const {
    const DType t = out_[0].dtype;
    return (t == DType::F32 || t == DType::F16 || t == DType::BF16) && s.work() > 0 &&
           ColumnConv::takes(s);
  }
  /// Operands of 16 bits are widened.
  std::uint64_t wide_bytes(const ArgDesc& in0, const ArgDesc& in1, const ArgDesc& result) const {
    if (out_[0].dtype == DType::F32) return 0;
    std::uint64_t bytes = 0;
    for (const ArgDesc* a : {&in0, &in1, &result})
      bytes += align64(product(a->shape) * sizeof(float));
    return bytes;
  }
  /// False if the workspace is too small, as it may be for sizes of the run.
  bool run_columns(const ColumnConv& columns, const RunArgs& args) const {
    const ArgDesc operands[] = {in(args, 0), in(args, 1), out(args, 0)};
    const std::uint64_t wide = wide_bytes(operands[0], operands[1], operands[2]);
    if (wide + columns.workspace(threads_) > workspace) return false;
    std::byte* at[] = {args.in[0], args.in[1], args.out[0]};
    std::byte* free = args.workspace;
    for (int i = 0; i < 3 && wide > 0; ++i) {
      const std::int64_t count = product(operands[i].shape);
      const std::byte* const narrow = std::exchange(at[i], free);
      if (i < 2) widen(operands[i].dtype, narrow, reinterpret_cast<float*>(free), count, threads_);
      free += align64(count * sizeof(float));
    }
    columns.run(reinterpret_cast<const float*>(at[0]), reinterpret_cast<const float*>(at[1]),
                reinterpret_cast<float*>(at[2]), free, threads_);
    if (wide > 0)
      narrow(operands[2].dtype, reinterpret_cast<const float*>(at[2]), args.out[0],
             product(operands[2].shape), threads_);
    return true;
  }
  ConvShape shape(const ArgDesc& in0, const ArgDesc& in1, const ArgDesc& result) const {
    const bool filters0 = kind_ == ConvKind::GradInput, filters1 = kind_ == ConvKind::Forward;
    return attrs_.sizes(kind_, filters0 ? in0 : plain(in0), filters1 ? in1 : plain(in1),
                        kind_ == ConvKind::GradWeight ? result : plain(result));
  }

  ConvKind kind_;
  ConvAttrs attrs_;
};

}  // namespace

std::unique_ptr<PreparedCall> prepare_conv_last(const CallSite& site, ConvKind kind) {
  return std::make_unique<LastCall>(site, kind);
}

}  // namespace snug::native
