#include "data/convert.h"

#include <cstring>
#include <type_traits>

namespace snug::data {
namespace {

struct Half {
  std::uint16_t bits;
  Half() = default;
  explicit Half(float value) : bits(float_to_half(value)) {}
  explicit operator float() const { return half_to_float(bits); }
};
struct Bfloat {
  std::uint16_t bits;
  Bfloat() = default;
  explicit Bfloat(float value) : bits(float_to_bfloat(value)) {}
  explicit operator float() const { return bfloat_to_float(bits); }
};
struct Truth {
  std::uint8_t value;
};

template <class T>
constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;

/// A number as C++ computes with it.
template <class T>
auto number_of(T value) {
  if constexpr (is_small_float<T>)
    return static_cast<float>(value);
  else if constexpr (std::is_same_v<T, Truth>)
    return static_cast<std::uint8_t>(value.value != 0);
  else
    return value;
}

template <class T, class N>
T made_of(N value) {
  if constexpr (is_small_float<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Truth>) {
    return Truth{static_cast<std::uint8_t>(value != 0)};
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

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// Calls f with a value of the C++ type of a real dtype.
template <class F>
void visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Bool: return f(Truth{});
    case DType::I8: return f(std::int8_t{});
    case DType::I16: return f(std::int16_t{});
    case DType::I32: return f(std::int32_t{});
    case DType::I64: return f(std::int64_t{});
    case DType::U8: return f(std::uint8_t{});
    case DType::U16: return f(std::uint16_t{});
    case DType::U32: return f(std::uint32_t{});
    case DType::U64: return f(std::uint64_t{});
    case DType::F16: return f(Half{});
    case DType::BF16: return f(Bfloat{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    default: fail(Fault::Type, fmt::format("{} is no real number", name_of(dtype)));
  }
}

template <class F>
void visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F16: return f(Half{});
    case DType::BF16: return f(Bfloat{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    default: fail(Fault::Type, fmt::format("{} is no float", name_of(dtype)));
  }
}

}  // namespace

void convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count) {
  if (from == to) {
    std::memcpy(out, in, count * size_of(from));
    return;
  }
  visit(from, [&]<class A>(A) {
    visit(to, [&]<class B>(B) {
      for (std::int64_t i = 0; i < count; ++i) {
        const B value = made_of<B>(number_of(load<A>(in + i * sizeof(A))));
        std::memcpy(out + i * sizeof(B), &value, sizeof value);
      }
    });
  });
}

void scale(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
           double scale, double offset) {
  visit(from, [&]<class A>(A) {
    visit_float(to, [&]<class B>(B) {
      using Number = std::conditional_t<std::is_same_v<B, double>, double, float>;
      const auto s = static_cast<Number>(scale), o = static_cast<Number>(offset);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto x = static_cast<Number>(number_of(load<A>(in + i * sizeof(A))));
        const B value = made_of<B>(x * s + o);
        std::memcpy(out + i * sizeof(B), &value, sizeof value);
      }
    });
  });
}

}  // namespace snug::data
