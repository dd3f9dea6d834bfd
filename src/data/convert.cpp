#include "data/convert.h"

#include <cstring>
#include <type_traits>

#include "base/elements.h"

namespace snug::data {
namespace {

template <class T>
constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

/// A number as C++ computes with it.
template <class T>
auto number_of(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return Element<T>::load(value);
}

template <class T, class N>
T made_of(N value) {
  if constexpr (is_small_float<T>) {
    return Element<T>::store(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Bool>) {
    return Element<T>::store(value != 0);
  } else if constexpr (std::is_floating_point_v<N> && std::is_integral_v<T>) {
    // As NumPy on x86: what does not fit becomes the smallest integer.
    if (std::is_same_v<T, std::uint64_t> && value >= 0x1p63 && value < 0x1p64)
      return static_cast<T>(static_cast<std::uint64_t>(value));
    const bool fits = value >= N(-0x1p63) && value < N(0x1p63);
    return static_cast<T>(fits ? static_cast<std::int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<T>(value);
  }
}

/// out[i] = f(in[i]) of numbers of type A and B. The memory need not be aligned.
template <class A, class B, class F>
void for_each_number(const std::byte* in, std::byte* out, std::int64_t count, F&& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    A element;
    std::memcpy(&element, in + i * sizeof(A), sizeof(A));
    const B made = made_of<B>(f(number_of(element)));
    std::memcpy(out + i * sizeof(B), &made, sizeof(B));
  }
}

void check_real(DType dtype) {
  if (is_complex(dtype)) fail(Fault::Type, fmt::format("{} is no real number", name_of(dtype)));
}

}  // namespace

void convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count) {
  if (from == to) {
    std::memcpy(out, in, count * size_of(from));
    return;
  }
  check_real(from);
  check_real(to);
  visit(from, [&]<class A>(A) {
    visit(to, [&]<class B>(B) { for_each_number<A, B>(in, out, count, [](auto x) { return x; }); });
  });
}

void scale(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
           double scale, double offset) {
  check_real(from);
  if (!is_float(to)) fail(Fault::Type, fmt::format("{} is no float", name_of(to)));
  visit(from, [&]<class A>(A) {
    visit(to, [&]<class B>(B) {
      if constexpr (is_small_float<B> || std::is_floating_point_v<B>) {
        using Number = std::conditional_t<std::is_same_v<B, double>, double, float>;
        const auto s = static_cast<Number>(scale), o = static_cast<Number>(offset);
        for_each_number<A, B>(in, out, count,
                              [=](auto x) { return static_cast<Number>(x) * s + o; });
      }
    });
  });
}

}  // namespace snug::data
