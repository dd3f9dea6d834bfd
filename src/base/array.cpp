#include "base/array.h"

#include <cmath>
#include <cstdlib>

#include "base/kept_blocks.h"

namespace snug {
namespace {

std::atomic<std::int64_t> live_bytes{0}, shared_bytes{0};

template <class F>
auto visit(DType dtype, std::byte* p, F&& f) {
  switch (dtype) {
    case DType::Bool: return f(reinterpret_cast<std::uint8_t*>(p));
    case DType::I8: return f(reinterpret_cast<std::int8_t*>(p));
    case DType::I16: return f(reinterpret_cast<std::int16_t*>(p));
    case DType::I32: return f(reinterpret_cast<std::int32_t*>(p));
    case DType::I64: return f(reinterpret_cast<std::int64_t*>(p));
    case DType::U8: return f(reinterpret_cast<std::uint8_t*>(p));
    case DType::U16: return f(reinterpret_cast<std::uint16_t*>(p));
    case DType::U32: return f(reinterpret_cast<std::uint32_t*>(p));
    case DType::U64: return f(reinterpret_cast<std::uint64_t*>(p));
    case DType::F32: return f(reinterpret_cast<float*>(p));
    default: return f(reinterpret_cast<double*>(p));
  }
}

[[noreturn]] void fail_complex(DType dtype) {
  fail(Fault::Type, fmt::format("a {} is no real number", name_of(dtype)),
       "take its real part, imaginary part or absolute value");
}

std::int64_t truncate(double v) {
  // As NumPy on x86: what does not fit becomes the smallest integer.
  if (!(v >= -0x1p63 && v < 0x1p63)) return INT64_MIN;
  return static_cast<std::int64_t>(v);
}

}  // namespace

std::int64_t live_storage_bytes() { return live_bytes; }
std::int64_t shared_storage_bytes() { return shared_bytes; }

void Storage::count_as_shared() {
  if (!foreign() && !shared_.exchange(true)) shared_bytes += bytes_;
}

std::shared_ptr<Storage> Storage::allocate(std::int64_t bytes) {
  std::shared_ptr<Storage> s(new Storage);
  if (bytes >= kBlockBytes) {
    const Block block = take_block(bytes);
    s->data_ = block.data;
    s->zero_ = block.zero;
  } else if (bytes >= 0) {
    const auto rounded =
        static_cast<std::size_t>((std::max<std::int64_t>(bytes, 1) + 63) / 64 * 64);
    s->data_ = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  }
  if (!s->data_)
    fail_memory({.needed = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0))},
                fmt::format("cannot allocate {} bytes", bytes),
                "the system refused; free memory or use smaller arrays");
  s->bytes_ = bytes;
  live_bytes += bytes;
  return s;
}

std::shared_ptr<Storage> Storage::wrap(std::byte* data, std::int64_t bytes,
                                       std::shared_ptr<void> keep) {
  std::shared_ptr<Storage> s(new Storage);
  s->data_ = data;
  s->bytes_ = bytes;
  s->keep_ = keep ? std::move(keep) : std::make_shared<int>(0);
  return s;
}

Storage::~Storage() {
  if (keep_ || !data_) return;
  live_bytes -= bytes_;
  if (shared_) shared_bytes -= bytes_;
  if (bytes_ >= kBlockBytes)
    give_block(data_, bytes_, !shared_);
  else
    std::free(data_);
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string describe_shape(const Dims& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string describe_element(const Array& a, std::int64_t i) {
  if (is_complex(a.dtype)) {
    const std::complex<double> z = a.at_complex(i);
    return fmt::format("{}{:+}j", z.real(), z.imag());
  }
  return is_float(a.dtype) ? fmt::format("{}", a.at_double(i)) : fmt::format("{}", a.at_int(i));
}

Array Array::empty(DType dtype, const Dims& shape) {
  Array a;
  a.dtype = dtype;
  a.shape = shape;
  a.strides = contiguous_strides(shape);
  std::int64_t bytes = size_of(dtype);
  for (std::int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes))
      fail(Fault::Shape, fmt::format("an array of shape {} is impossible", describe_shape(shape)));
  a.storage = Storage::allocate(bytes);
  a.data = a.storage->data();
  return a;
}

Array Array::zeros(DType dtype, const Dims& shape) {
  Array a = empty(dtype, shape);
  if (!a.storage->zero_at_first()) std::memset(a.data, 0, a.bytes());
  return a;
}

Array Array::checked(std::string_view what) const {
  if (!(strides.empty() || strides.size() == shape.size()))
    fail(Fault::Type,
         fmt::format("{}: the array has {} strides for {} dimensions", what, strides.size(),
                     shape.size()),
         "give one per dimension, or none if it is contiguous");
  for (std::int64_t d : shape)
    if (d < 0) fail(Fault::Shape, fmt::format("{}: an array has the size {}", what, d));
  if (!data && size() != 0)
    fail(Fault::Type, fmt::format("{}: the array is empty: it has no data", what),
         "make one with Array::from, Array::zeros or Array::scalar");
  Array out = *this;
  if (out.strides.empty()) out.strides = contiguous_strides(shape);
  return out;
}

void Array::fail_typed(DType asked) const {
  fail(Fault::Type,
       fmt::format("typed: the elements are {}, not {}", name_of(dtype), name_of(asked)),
       "convert the array: array.to(dtype)");
}

bool Array::contiguous() const {
  if (strides.empty()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::byte* Array::unchecked_address(std::int64_t k) const {
  if (strides.empty()) return data + k * size_of(dtype);
  std::int64_t offset = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    offset += k % shape[i] * strides[i];
    k /= shape[i];
  }
  return data + offset * size_of(dtype);
}

std::byte* Array::address(std::int64_t k) const {
  if (!data || (!strides.empty() && strides.size() != shape.size())) checked("array");
  if (k < 0 || k >= size())
    fail(Fault::Index, fmt::format("element {} of an array of {}", k, size()));
  return unchecked_address(k);
}

double Array::at_double(std::int64_t k) const {
  if (is_complex(dtype)) fail_complex(dtype);
  std::byte* p = address(k);
  if (dtype == DType::F16) return half_to_float(*reinterpret_cast<std::uint16_t*>(p));
  if (dtype == DType::BF16) return bfloat_to_float(*reinterpret_cast<std::uint16_t*>(p));
  return visit(dtype, p, [](auto* q) { return static_cast<double>(*q); });
}

std::int64_t Array::at_int(std::int64_t k) const {
  if (is_continuous(dtype)) return truncate(at_double(k));
  return visit(dtype, address(k), [](auto* q) { return static_cast<std::int64_t>(*q); });
}

std::complex<double> Array::at_complex(std::int64_t k) const {
  if (dtype == DType::C64) return *reinterpret_cast<std::complex<float>*>(address(k));
  if (dtype == DType::C128) return *reinterpret_cast<std::complex<double>*>(address(k));
  return at_double(k);
}

void Array::set_complex(std::int64_t k, std::complex<double> value) {
  if (dtype == DType::C64)
    *reinterpret_cast<std::complex<float>*>(address(k)) = std::complex<float>(value);
  else if (dtype == DType::C128)
    *reinterpret_cast<std::complex<double>*>(address(k)) = value;
  else
    fail(Fault::Type, fmt::format("{} holds no complex number", name_of(dtype)));
}

void Array::set_double(std::int64_t k, double value) {
  if (is_complex(dtype)) return set_complex(k, value);
  std::byte* p = address(k);
  if (dtype == DType::F16)
    *reinterpret_cast<std::uint16_t*>(p) = float_to_half(static_cast<float>(value));
  else if (dtype == DType::BF16)
    *reinterpret_cast<std::uint16_t*>(p) = float_to_bfloat(static_cast<float>(value));
  else if (dtype == DType::F32)
    *reinterpret_cast<float*>(p) = static_cast<float>(value);
  else if (dtype == DType::F64)
    *reinterpret_cast<double*>(p) = value;
  else if (dtype == DType::Bool)
    *reinterpret_cast<std::uint8_t*>(p) = value != 0;
  else if (dtype == DType::U64 && value >= 0x1p63 && value < 0x1p64)
    *reinterpret_cast<std::uint64_t*>(p) = static_cast<std::uint64_t>(value);
  else
    set_int(k, truncate(value));
}

void Array::set_int(std::int64_t k, std::int64_t value) {
  if (is_continuous(dtype)) return set_double(k, static_cast<double>(value));
  std::byte* p = address(k);
  if (dtype == DType::Bool)
    *reinterpret_cast<std::uint8_t*>(p) = value != 0;
  else
    visit(dtype, p, [&](auto* q) { *q = static_cast<std::remove_pointer_t<decltype(q)>>(value); });
}

Array Array::contiguous_copy() const {
  checked("contiguous_copy");
  Array a = empty(dtype, shape);
  std::int64_t n = size(), width = size_of(dtype);
  if (contiguous()) {
    if (n) std::memcpy(a.data, data, n * width);
    return a;
  }
  for (std::int64_t k = 0; k < n; ++k) std::memcpy(a.data + k * width, unchecked_address(k), width);
  return a;
}

Array Array::to(DType target) const {
  if (target == dtype) return contiguous_copy();
  Array a = empty(target, shape);
  for (std::int64_t k = 0, n = size(); k < n; ++k) {
    if (is_complex(dtype) && is_complex(target))
      a.set_complex(k, at_complex(k));
    else if (is_continuous(dtype))
      a.set_double(k, at_double(k));
    else if (dtype == DType::U64 && is_continuous(target))
      a.set_double(k, static_cast<double>(static_cast<std::uint64_t>(at_int(k))));
    else
      a.set_int(k, at_int(k));
  }
  return a;
}

Array Array::as_pairs() const {
  if (!is_complex(dtype))
    fail(Fault::Type, fmt::format("as_pairs: the array is {}, not complex", name_of(dtype)));
  Array a = checked("as_pairs");
  a.dtype = real_of(dtype);
  for (std::int64_t& s : a.strides) s *= 2;
  a.shape.push_back(2);
  a.strides.push_back(1);
  return a;
}

Array Array::as_complex() const {
  Array a = checked("as_complex");
  if ((dtype != DType::F32 && dtype != DType::F64) || shape.empty() || shape.back() != 2 ||
      a.strides.back() != 1)
    fail(Fault::Type, fmt::format("as_complex: {} {} has no pairs of floats on its last axis",
                                  name_of(dtype), describe_shape(shape)));
  a.dtype = complex_of(dtype);
  a.shape.pop_back();
  a.strides.pop_back();
  for (std::int64_t& s : a.strides) s /= 2;
  return a;
}

bool same_bits(const Array& a, const Array& b) {
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return false;
  const auto whole = [](const Array& c) {
    return c.contiguous() ? c.checked("same_bits") : c.contiguous_copy();
  };
  const Array x = whole(a), y = whole(b);
  return a.size() == 0 || std::memcmp(x.data, y.data, a.bytes()) == 0;
}

}  // namespace snug
