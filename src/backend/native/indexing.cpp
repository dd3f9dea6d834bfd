#include <algorithm>
#include <atomic>

#include "backend/native/call.h"
#include "backend/native/nest.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "base/elements.h"
#include "base/label_error.h"

namespace snug::native {
namespace {

// --- check_index ------------------------------------------------------------------------------

class CheckIndexCall : public Call {
 public:
  explicit CheckIndexCall(const CallSite& site)
      : Call(site),
        what_(site.node->attrs.has("for") ? site.node->attrs.text("for") : ""),
        labels_(site.node->attrs.has("labels")) {}
  void run(const RunArgs& args) const override {
    const ArgDesc& index = in(args, 0);
    visit(index.dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_integral_v<T>)
        check<T>(args, index);
      else
        internal_error("check_index", fmt::format("indices of dtype {}", name_of(index.dtype)));
    });
  }

 private:
  template <class T>
  void check(const RunArgs& args, const ArgDesc& index) const {
    const std::int64_t size = *size_values(args, 0);
    const ArgDesc& result = out(args, 0);
    const Nest<2> nest(index.shape, {index.strides, result.strides});
    const T* const from = reinterpret_cast<const T*>(args.in[0]);
    std::int64_t* const to = reinterpret_cast<std::int64_t*>(args.out[0]);
    const std::int64_t total = nest.elements();
    const std::int64_t sf = nest.inner_stride(0), st = nest.inner_stride(1);
    std::atomic<std::int64_t> first_bad{INT64_MAX};  // element number
    parallel_ranges(total, total, threads_, [&](std::int64_t b, std::int64_t e) {
      std::int64_t bad = INT64_MAX;
      nest.each_run(b, e, [&](std::int64_t element, const auto& at, std::int64_t count) {
        const bool good = sf == 1 && st == 1
                              ? place<T, true>(from + at[0], 1, to + at[1], 1, count, size)
                              : place<T, false>(from + at[0], sf, to + at[1], st, count, size);
        if (good || bad < element) return;
        std::int64_t i = 0;
        while (place<T, false>(from + at[0] + i * sf, 1, to + at[1] + i * st, 1, 1, size)) ++i;
        bad = element + i;
      });
      std::int64_t seen = first_bad.load();
      while (bad < seen && !first_bad.compare_exchange_weak(seen, bad)) {
      }
    });
    if (first_bad.load() == INT64_MAX) return;
    const T value = from[Position(index.shape, index.strides)(first_bad.load())];
    if (labels_)
      fail_label(what_, static_cast<std::int64_t>(value), index.shape, first_bad.load(), size);
    if (std::is_signed_v<T> && value < T{} && !what_.empty())
      fail(Fault::Value, fmt::format("{}: {} is negative", what_, +value));
    fail(Fault::Index, fmt::format("{}{}index {} is outside an axis of size {}", what_,
                                   what_.empty() ? "" : ": ", +value, size));
  }

  /// Whether all of the indices are on the axis; `to` gets them without signs. There is no branch
  /// in the loop: v and size - 1 - v are both not negative if and only if v is on the axis.
  template <class T, bool Packed>
  bool place(const T* from, std::int64_t sf, std::int64_t* to, std::int64_t st, std::int64_t count,
             std::int64_t size) const {
    const auto last = static_cast<std::uint64_t>(size) - 1;
    const std::int64_t wrap = std::is_signed_v<T> && what_.empty() ? size : 0;
    std::uint64_t any = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      auto value = static_cast<std::int64_t>(from[Packed ? i : i * sf]);
      if constexpr (std::is_signed_v<T>) value += value >> 63 & wrap;
      const auto v = static_cast<std::uint64_t>(value);
      any |= v | (last - v);
      to[Packed ? i : i * st] = value;
    }
    return static_cast<std::int64_t>(any) >= 0;
  }

  std::string what_;  // the function that refuses negative indices; empty: they count from the end
  bool labels_;       // they are class numbers, for messages
};

// --- nonzero ----------------------------------------------------------------------------------

class NonzeroCall : public Call {
 public:
  explicit NonzeroCall(const CallSite& site) : Call(site) {
    workspace = align64(sizeof(std::int64_t) * kBlocks);
  }

  void run(const RunArgs& args) const override {
    const ArgDesc& x = in(args, 0);
    visit(x.dtype, [&](auto tag) { find<decltype(tag)>(args, x); });
  }

 private:
  /// Elements are counted in this many blocks at most, then each block writes at its own place.
  static constexpr std::int64_t kBlocks = 256;

  template <class T>
  static bool holds(T x) {
    if constexpr (std::is_same_v<T, Bool>)
      return x.value != 0;
    else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>)
      return (x.bits & 0x7fff) != 0;
    else
      return x != T{};
  }

  template <class T>
  void find(const RunArgs& args, const ArgDesc& x) const {
    const T* const data = reinterpret_cast<const T*>(args.in[0]);
    const Nest<1> nest(x.shape, {x.strides});
    const std::int64_t total = nest.elements(), stride = nest.inner_stride(0);
    const std::int64_t blocks = std::clamp<std::int64_t>(total / 4096, 1, kBlocks);
    std::int64_t* const counts = reinterpret_cast<std::int64_t*>(args.workspace);
    parallel_ranges(blocks, total, threads_, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        std::int64_t count = 0;
        nest.each_run(total * b / blocks, total * (b + 1) / blocks,
                      [&](std::int64_t, const auto& at, std::int64_t length) {
                        for (std::int64_t i = 0; i < length; ++i)
                          count += holds(data[at[0] + i * stride]);
                      });
        counts[b] = count;
      }
    });
    std::int64_t sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) sum += std::exchange(counts[b], sum);
    args.extents[0] = sum;
    const auto write = [&](std::int64_t element, std::int64_t at) {
      for (std::size_t axis = x.shape.size(); axis-- > 0; element /= x.shape[axis])
        reinterpret_cast<std::int64_t*>(args.out[axis])[at] = element % x.shape[axis];
    };
    parallel_ranges(blocks, total, threads_, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        std::int64_t at = counts[b];
        nest.each_run(total * b / blocks, total * (b + 1) / blocks,
                      [&](std::int64_t element, const auto& offset, std::int64_t length) {
                        for (std::int64_t i = 0; i < length; ++i)
                          if (holds(data[offset[0] + i * stride])) write(element + i, at++);
                      });
      }
    });
  }
};

}  // namespace

Prepared prepare_check_index(const CallSite& site) {
  return std::make_unique<CheckIndexCall>(site);
}
Prepared prepare_nonzero(const CallSite& site) { return std::make_unique<NonzeroCall>(site); }

}  // namespace snug::native
