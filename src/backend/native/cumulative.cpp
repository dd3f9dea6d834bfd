#include <algorithm>

#include "backend/native/call.h"
#include "backend/native/elements.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
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

/// Threads take different lines, so the result is the same on any number of them. Lines that lie
/// side by side go along together, so that memory is read in order.
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
  static constexpr std::int64_t kTogether = 128;

  template <class T, Way W>
  void go(const RunArgs& args) const {
    using R = Running<T>;
    const Dims& shape = out(args, 0).shape;
    const Lines lines(shape, axis_);
    const std::int64_t n = lines.length, inner = lines.inner;
    if (lines.count == 0) return;
    const T* const x = reinterpret_cast<const T*>(args.in[0]);
    const T* const b = W == Way::Recurrence ? reinterpret_cast<const T*>(args.in[1]) : nullptr;
    T* const y = reinterpret_cast<T*>(args.out[0]);
    const std::int64_t groups = (inner + kTogether - 1) / kTogether;
    const auto advance = [&](typename R::Acc& last, std::int64_t at) {
      if constexpr (W == Way::Sum)
        last = last + R::load(x[at]);
      else if constexpr (W == Way::Product)
        last = last * R::load(x[at]);
      else
        last = R::load(x[at]) * last + R::load(b[at]);
      y[at] = R::store(last);
    };
    parallel_ranges(lines.count / inner * groups, lines.count * n, threads_,
                    [&](std::int64_t group, std::int64_t end) {
                      for (; group < end; ++group) {
                        const std::int64_t first = group % groups * kTogether;
                        const std::int64_t width = std::min(kTogether, inner - first);
                        const std::int64_t base = group / groups * n * inner + first;
                        const auto row = [&](std::int64_t k) {
                          return base + (reverse_ ? n - 1 - k : k) * inner;
                        };
                        typename R::Acc last[kTogether];
                        const T* const start = W == Way::Recurrence ? b : x;
                        for (std::int64_t i = 0; i < width; ++i) {
                          last[i] = R::load(start[row(0) + i]);
                          y[row(0) + i] = start[row(0) + i];
                        }
                        for (std::int64_t k = 1; k < n; ++k)
                          for (std::int64_t i = 0; i < width; ++i) advance(last[i], row(k) + i);
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
