#include <algorithm>
#include <cstring>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "backend/native/vectors.h"
#include "base/elements.h"
#include "base/lines.h"

namespace snug::native {
namespace {

enum class Way : std::uint8_t { Sum, Product, Recurrence };

/// The running value of a line: floats in double, rounded where they are stored.
template <class T>
struct Running : Element<T> {
  using Acc = typename Element<T>::Acc;
};
template <class T>
requires std::is_floating_point_v<typename Element<T>::Acc>
struct Running<T> {
  using Acc = double;
  static Acc load(T x) { return Element<T>::load(x); }
  static T store(Acc x) { return Element<T>::store(static_cast<typename Element<T>::Acc>(x)); }
};

/// One step along a line. `at` is a place in x, b and y.
template <class T, Way W>
struct Step {
  using R = Running<T>;
  using Acc = typename R::Acc;
  const T *x, *b;
  T* y;
  Acc start(std::int64_t at) const {
    const T* const from = W == Way::Recurrence ? b : x;
    y[at] = from[at];
    return R::load(from[at]);
  }
  Acc next(Acc last, std::int64_t at) const {
    if constexpr (W == Way::Sum)
      last = last + R::load(x[at]);
    else if constexpr (W == Way::Product)
      last = last * R::load(x[at]);
    else
      last = R::load(x[at]) * last + R::load(b[at]);
    y[at] = R::store(last);
    return last;
  }
};

/// `Count` lines that lie one after another go along together. One alone would wait for each of
/// its sums; more than four would share the ways of a cache where rows are as long as a page.
template <int Count, class T, Way W>
void together(const Step<T, W>& step, std::int64_t first, std::int64_t length, bool reverse) {
  typename Step<T, W>::Acc last[Count];
  const std::int64_t by = reverse ? -1 : 1;
  std::int64_t at = reverse ? first + length - 1 : first;
  for (int i = 0; i < Count; ++i) last[i] = step.start(at + i * length);
  for (std::int64_t k = 1; k < length; ++k) {
    at += by;
#pragma GCC unroll 4
    for (int i = 0; i < Count; ++i) last[i] = step.next(last[i], at + i * length);
  }
}

constexpr std::int64_t kSide = 512;

/// Lines that lie side by side, at most kSide of them, so that memory is read in order.
template <class T, Way W>
void side_by_side(const Step<T, W>& step, std::int64_t first, std::int64_t width,
                  std::int64_t inner, std::int64_t length, bool reverse) {
  typename Step<T, W>::Acc last[kSide];
  const auto row = [&](std::int64_t k) { return first + (reverse ? length - 1 - k : k) * inner; };
  for (std::int64_t i = 0; i < width; ++i) last[i] = step.start(row(0) + i);
  for (std::int64_t k = 1; k < length; ++k)
    for (std::int64_t i = 0; i < width; ++i) last[i] = step.next(last[i], row(k) + i);
}

// Sums of floats along rows are prefix sums of blocks of eight, to which what came before is added:
// one addition waits for another per block, not per element. In double none of them overflows, so
// where a sum is inf or nan is as in the sum one by one. Zeros that are added are -0, which changes
// nothing, not even a sign. What is left of a row goes one by one.

// Vectors of 32 bytes are two of 16 without AVX; none is passed in a register of a call.
#pragma GCC diagnostic ignored "-Wpsabi"

using Four = double __attribute__((vector_size(32)));
constexpr int kBlock = 8;
constexpr Four kNothing = {-0.0, -0.0, -0.0, -0.0};

[[gnu::always_inline]] inline Four prefix_sums(Four v) {
  v += __builtin_shufflevector(v, kNothing, 4, 0, 4, 2);
  return v + __builtin_shufflevector(v, kNothing, 4, 4, 1, 1);
}
[[gnu::always_inline]] inline Four last_of(Four v) {
  return __builtin_shufflevector(v, v, 3, 3, 3, 3);
}

/// Of a block of eight, in the order of the sum; `before` is the sum of all before it.
[[gnu::always_inline]] inline void sum_block(Four& low, Four& high, Four& before) {
  low = prefix_sums(low);
  high = prefix_sums(high) + last_of(low);
  low += before;
  const Four all = last_of(high);
  high += before;
  before += all;
}

template <bool Reverse>
[[gnu::always_inline]] inline Four in_order(Four v) {
  return Reverse ? __builtin_shufflevector(v, v, 3, 2, 1, 0) : v;
}

template <class T>
[[gnu::always_inline]] inline Four load_four(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    Lanes<float> part;
    std::memcpy(&part, from, sizeof part);
    return __builtin_convertvector(part, Four);
  } else {
    using R = Running<T>;
    return Four{R::load(from[0]), R::load(from[1]), R::load(from[2]), R::load(from[3])};
  }
}
template <class T>
[[gnu::always_inline]] inline void store_four(T* to, Four v) {
  if constexpr (std::is_same_v<T, float>) {
    const Lanes<float> part = __builtin_convertvector(v, Lanes<float>);
    std::memcpy(to, &part, sizeof part);
  } else {
    for (int i = 0; i < 4; ++i) to[i] = Running<T>::store(v[i]);
  }
}

template <bool Reverse, class T>
[[gnu::always_inline]] inline void sum_block_at(const T* x, T* y, Four& before) {
  constexpr int kFirst = Reverse ? 4 : 0, kSecond = 4 - kFirst;
  Four low = in_order<Reverse>(load_four(x + kFirst));
  Four high = in_order<Reverse>(load_four(x + kSecond));
  sum_block(low, high, before);
  store_four(y + kFirst, in_order<Reverse>(low));
  store_four(y + kSecond, in_order<Reverse>(high));
}

template <bool Reverse, class T>
[[gnu::always_inline]] inline void sum_row(const T* x, T* y, std::int64_t length) {
  Four before = kNothing;
  const std::int64_t whole = length / kBlock * kBlock, rest = length - whole;
  const std::int64_t skipped = Reverse ? rest : 0;
  for (std::int64_t i = 0; i < whole; i += kBlock) {
    const std::int64_t at = skipped + (Reverse ? whole - kBlock - i : i);
    sum_block_at<Reverse>(x + at, y + at, before);
  }
  double last = before[0];
  for (std::int64_t i = 0; i < rest; ++i) {
    const std::int64_t at = Reverse ? rest - 1 - i : whole + i;
    last += Running<T>::load(x[at]);
    y[at] = Running<T>::store(last);
  }
}

template <class T>
[[gnu::always_inline]] inline void sum_rows(const T* x, T* y, std::int64_t rows,
                                            std::int64_t length, bool reverse) {
  for (std::int64_t r = 0; r < rows; ++r)
    if (reverse)
      sum_row<true>(x + r * length, y + r * length, length);
    else
      sum_row<false>(x + r * length, y + r * length, length);
}
template <class T>
void sum_rows_plain(const T* x, T* y, std::int64_t rows, std::int64_t length, bool reverse) {
  sum_rows(x, y, rows, length, reverse);
}
/// The same bits: the vectors are those of the code above, in one register instead of two.
template <class T>
__attribute__((target("avx2"))) void sum_rows_avx2(const T* x, T* y, std::int64_t rows,
                                                   std::int64_t length, bool reverse) {
  sum_rows(x, y, rows, length, reverse);
}

template <class T>
constexpr bool kSumsInBlocks =
    std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

/// Threads take different lines, so the result is the same on any number of them; the order of the
/// additions in a line depends on nothing but its length.
class CumulativeCall : public Call {
 public:
  CumulativeCall(const CallSite& site, Way way)
      : Call(site),
        way_(way),
        axis_(static_cast<std::size_t>(site.node->attrs.integer("axis"))),
        reverse_(site.node->attrs.flag("reverse")) {}

  void run(const RunArgs& args) const override {
    visit(out(args, 0).dtype, [&](auto tag) {
      using T = decltype(tag);
      switch (way_) {
        case Way::Sum: return go<T, Way::Sum>(args);
        case Way::Product: return go<T, Way::Product>(args);
        case Way::Recurrence: return go<T, Way::Recurrence>(args);
      }
    });
  }

 private:
  template <class T, Way W>
  void go(const RunArgs& args) const {
    const Lines lines(out(args, 0).shape, axis_);
    if (lines.count == 0) return;
    const Step<T, W> step{reinterpret_cast<const T*>(args.in[0]),
                          W == Way::Recurrence ? reinterpret_cast<const T*>(args.in[1]) : nullptr,
                          reinterpret_cast<T*>(args.out[0])};
    if (lines.inner == 1)
      along_rows(step, lines);
    else
      down_columns(step, lines);
  }

  template <class T, Way W>
  void along_rows(const Step<T, W>& step, const Lines& lines) const {
    const std::int64_t n = lines.length;
    const auto rows = [&](std::int64_t row, std::int64_t end) {
      if constexpr (W == Way::Sum && kSumsInBlocks<T>)
        if (n >= 2 * kBlock) {
          static const bool avx2 = __builtin_cpu_supports("avx2");
          const auto sum = avx2 ? sum_rows_avx2<T> : sum_rows_plain<T>;
          return sum(step.x + row * n, step.y + row * n, end - row, n, reverse_);
        }
      for (; row + 4 <= end; row += 4) together<4>(step, row * n, n, reverse_);
      for (; row < end; ++row) together<1>(step, row * n, n, reverse_);
    };
    parallel_ranges(lines.count, lines.count * n, threads_, rows);
  }

  template <class T, Way W>
  void down_columns(const Step<T, W>& step, const Lines& lines) const {
    const std::int64_t n = lines.length, inner = lines.inner;
    const std::int64_t groups = (inner + kSide - 1) / kSide;
    parallel_ranges(lines.count / inner * groups, lines.count * n, threads_,
                    [&](std::int64_t group, std::int64_t end) {
                      for (; group < end; ++group) {
                        const std::int64_t first = group % groups * kSide;
                        side_by_side(step, group / groups * n * inner + first,
                                     std::min(kSide, inner - first), inner, n, reverse_);
                      }
                    });
  }

  Way way_;
  std::size_t axis_;
  bool reverse_;
};

}  // namespace

Prepared prepare_cumsum(const CallSite& site) {
  return std::make_unique<CumulativeCall>(site, Way::Sum);
}
Prepared prepare_cumprod(const CallSite& site) {
  return std::make_unique<CumulativeCall>(site, Way::Product);
}
Prepared prepare_linear_recurrence(const CallSite& site) {
  return std::make_unique<CumulativeCall>(site, Way::Recurrence);
}

}  // namespace snug::native
