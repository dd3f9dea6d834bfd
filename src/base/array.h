#pragma once
#include <atomic>
#include <complex>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/inline_vec.h"

namespace snug {

/// Bytes with an owner. Those of 1 MiB and more are blocks of base/kept_blocks.h: a freed one may
/// be kept for the next array, but the memory of a shared variable returns to the system at once.
class Storage {
 public:
  /// Fresh, 64-byte aligned, not initialised. Throws a Memory error that says how much was asked.
  static std::shared_ptr<Storage> allocate(std::int64_t bytes);
  /// Foreign memory; `keep` holds its owner.
  static std::shared_ptr<Storage> wrap(std::byte* data, std::int64_t bytes,
                                       std::shared_ptr<void> keep);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  bool foreign() const { return keep_ != nullptr; }
  bool zero_at_first() const { return zero_; }  // all bytes were 0 when it was allocated
  /// From now on it counts as memory of a shared variable, until it is freed.
  void count_as_shared();

 private:
  Storage() = default;
  std::atomic<bool> shared_{false};
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  bool zero_ = false;
  std::shared_ptr<void> keep_;
};

/// Bytes of live, owned storage in this process, and of that what shared variables have or had.
std::int64_t live_storage_bytes();
std::int64_t shared_storage_bytes();

/// The dtype of arrays of a C++ type: float is F32, std::complex<double> C128.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::Bool;
  else if constexpr (std::is_same_v<T, float>)
    return DType::F32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::F64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::C64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return DType::C128;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 1   ? DType::I8
           : sizeof(T) == 2 ? DType::I16
           : sizeof(T) == 4 ? DType::I32
                            : DType::I64;
  else if constexpr (std::is_integral_v<T>)
    return sizeof(T) == 1   ? DType::U8
           : sizeof(T) == 2 ? DType::U16
           : sizeof(T) == 4 ? DType::U32
                            : DType::U64;
  else
    static_assert(sizeof(T) == 0, "no dtype for this C++ type");
}

/// Whether elements of a dtype are stored as that C++ type: those of Bool are also uint8_t, those
/// of F16 and BF16 are uint16_t.
template <class T>
constexpr bool stores(DType dtype) {
  constexpr DType own = dtype_of<std::remove_cv_t<T>>();
  return dtype == own || (own == DType::U8 && dtype == DType::Bool) ||
         (own == DType::U16 && (dtype == DType::F16 || dtype == DType::BF16));
}

/// An n-dimensional array on the host. Copying an Array shares its storage. One without data, as
/// Array{} is, stands for none: what takes an array refuses it with a Type error.
struct Array {
  DType dtype = DType::F32;
  Dims shape;
  Dims strides;  // in elements; may be 0 or negative; empty: contiguous
  std::byte* data = nullptr;
  std::shared_ptr<Storage> storage;

  /// Fresh and contiguous, not initialised.
  static Array empty(DType dtype, const Dims& shape);
  static Array zeros(DType dtype, const Dims& shape);
  template <class T>
  static Array scalar(T value);
  template <class T>
  static Array from(const std::vector<T>& values, const Dims& shape);

  /// The same with its strides filled in. A Type error that begins with `what` if there are no data
  /// or another number of strides than of dimensions, a Shape error for a negative size.
  Array checked(std::string_view what) const;

  std::int64_t size() const { return product(shape); }
  std::int64_t bytes() const { return size() * size_of(dtype); }
  bool contiguous() const;
  Array contiguous_copy() const;  // always a fresh copy
  Array to(DType dtype) const;    // converts as NumPy's astype; a fresh copy
  Array as_pairs() const;         // complex (...) as floats (..., 2); shares the storage
  Array as_complex() const;       // floats (..., 2), pairs together, as complex (...)
  /// The elements, as they lie in memory. A Type error if they are no T.
  template <class T>
  T* typed() const {
    if (!stores<T>(dtype)) fail_typed(dtype_of<std::remove_cv_t<T>>());
    return reinterpret_cast<T*>(data);
  }
  /// The value of an array of one element, converted to T.
  template <class T>
  T item() const {
    return static_cast<T>(item_as_double_or_int<T>());
  }

  /// Element `i` in C order, as a double or exactly as an integer; of a real dtype. An Index error
  /// if there is none.
  double at_double(std::int64_t i) const;
  std::int64_t at_int(std::int64_t i) const;
  void set_double(std::int64_t i, double value);
  void set_int(std::int64_t i, std::int64_t value);
  std::complex<double> at_complex(std::int64_t i) const;  // of any dtype
  void set_complex(std::int64_t i, std::complex<double> value);

 private:
  std::byte* address(std::int64_t i) const;  // checked
  std::byte* unchecked_address(std::int64_t i) const;
  [[noreturn]] void fail_typed(DType asked) const;
  template <class T>
  auto item_as_double_or_int() const {
    if (size() != 1 && data)
      fail(Fault::Shape, fmt::format("item: the array has {} elements", size()));
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
      return at_complex(0);
    else if constexpr (std::is_floating_point_v<T>)
      return at_double(0);
    else
      return at_int(0);
  }
};

Dims contiguous_strides(const Dims& shape);
std::string describe_shape(const Dims& shape);  // "(32, 10)", "(3,)", "()"
/// An element as a number: "2.5", "-3", "1+2j".
std::string describe_element(const Array& array, std::int64_t i = 0);
/// Equal dtype, shape and bits.
bool same_bits(const Array& a, const Array& b);

template <class T>
Array Array::scalar(T value) {
  Array a = empty(dtype_of<T>(), {});
  *a.typed<T>() = value;
  return a;
}

template <class T>
Array Array::from(const std::vector<T>& values, const Dims& shape) {
  Array a = empty(dtype_of<T>(), shape);
  if (a.size() != static_cast<std::int64_t>(values.size()))
    fail(Fault::Shape,
         fmt::format("Array::from: {} values for shape {}", values.size(), describe_shape(shape)));
  T* const out = a.typed<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return a;
}

}  // namespace snug
