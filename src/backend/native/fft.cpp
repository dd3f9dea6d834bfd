#include <bit>
#include <cmath>
#include <complex>
#include <kissfft/kissfft.hh>
#include <memory>
#include <numbers>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "base/lines.h"

// kissfft transforms a line. Its factors above 5 take time in proportion to their square and share
// scratch between threads, so other lengths become a convolution of a length that is a power of 2
// (Bluestein). Lines are transformed in double: its factors of float32 would lose digits.

namespace snug::native {
namespace {

using Complex = std::complex<double>;

class LineTransform {
 public:
  LineTransform(std::int64_t length, bool inverse) : length_(length), inverse_(inverse) {
    std::int64_t rest = length;
    for (const std::int64_t factor : {2, 3, 5})
      while (rest > 1 && rest % factor == 0) rest /= factor;
    if (rest <= 1) {
      if (length > 1) plain_.emplace(static_cast<std::size_t>(length), inverse);
      return;
    }
    const std::int64_t padded = padded_length();
    forward_.emplace(static_cast<std::size_t>(padded), false);
    backward_.emplace(static_cast<std::size_t>(padded), true);
    chirp_.resize(static_cast<std::size_t>(length));
    std::vector<Complex> mirrored(static_cast<std::size_t>(padded));
    for (std::int64_t k = 0; k < length; ++k) {
      const auto turn = static_cast<double>(static_cast<unsigned __int128>(k) * k % (2 * length));
      const double angle = std::numbers::pi * turn / static_cast<double>(length);
      chirp_[k] = std::polar(1.0, inverse ? angle : -angle);
      mirrored[k] = mirrored[k == 0 ? 0 : padded - k] = std::conj(chirp_[k]);
    }
    spectrum_.resize(static_cast<std::size_t>(padded));
    forward_->transform(mirrored.data(), spectrum_.data());
    for (Complex& s : spectrum_) s /= static_cast<double>(padded);
  }

  /// How many elements `run` needs as scratch at most, for this length or a smaller one.
  std::int64_t scratch() const { return length_ <= 1 ? 0 : 2 * padded_length(); }

  /// y = the transform of x; both have `length` elements.
  void run(const Complex* x, Complex* y, Complex* scratch) const {
    if (plain_) return plain_->transform(x, y);
    if (length_ <= 1) {
      std::copy_n(x, length_, y);
      return;
    }
    const std::int64_t padded = padded_length();
    Complex *a = scratch, *b = scratch + padded;
    for (std::int64_t k = 0; k < length_; ++k) a[k] = x[k] * chirp_[k];
    std::fill(a + length_, a + padded, Complex());
    forward_->transform(a, b);
    for (std::int64_t k = 0; k < padded; ++k) b[k] *= spectrum_[k];
    backward_->transform(b, a);
    for (std::int64_t k = 0; k < length_; ++k) y[k] = a[k] * chirp_[k];
  }

  std::int64_t length() const { return length_; }
  bool inverse() const { return inverse_; }

 private:
  std::int64_t padded_length() const {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * length_ - 1)));
  }

  std::int64_t length_;
  bool inverse_;
  std::optional<kissfft<double>> plain_, forward_, backward_;
  std::vector<Complex> chirp_, spectrum_;
};

enum class Kind : std::uint8_t { Complex, Real, InverseReal };

class FftCall : public Call {
 public:
  FftCall(const CallSite& site, Kind kind)
      : Call(site),
        kind_(kind),
        axis_(static_cast<std::size_t>(site.node->attrs.integer("axis"))),
        transform_(length(in_[0].shape, out_[0].shape),
                   kind == Kind::InverseReal ||
                       (kind == Kind::Complex && site.node->attrs.flag("inverse"))) {
    workspace = align64(static_cast<std::uint64_t>(threads_ * slot() * sizeof(Complex)));
  }

  void run(const RunArgs& args) const override {
    if (out(args, 0).dtype == DType::F32)
      run_typed<float>(args);
    else
      run_typed<double>(args);
  }

 private:
  std::int64_t length(const Dims& x, const Dims& y) const {
    return kind_ == Kind::InverseReal ? y[axis_] : x[axis_];
  }
  /// Elements of workspace per thread: a line, its transform, and scratch.
  std::int64_t slot() const { return 2 * transform_.length() + transform_.scratch(); }

  template <class T>
  void run_typed(const RunArgs& args) const {
    const Dims &x = in(args, 0).shape, &y = out(args, 0).shape;
    // A length known only while running is at most the one planned for.
    std::optional<LineTransform> shorter;
    if (length(x, y) != transform_.length()) shorter.emplace(length(x, y), transform_.inverse());
    const LineTransform& transform = shorter ? *shorter : transform_;
    const std::int64_t n = transform.length();
    const std::size_t ndim = kind_ == Kind::Real ? x.size() : x.size() - 1;
    const Lines from(x, axis_, ndim), to(y, axis_, ndim);
    constexpr std::int64_t kWork = 16;  // per point
    parallel_slots(from.count, from.count * n * kWork, threads_,
                   [&](std::int64_t thread, std::int64_t begin, std::int64_t end) {
                     Complex* line = reinterpret_cast<Complex*>(args.workspace) + thread * slot();
                     Complex* result = line + n;
                     for (std::int64_t k = begin; k < end; ++k) {
                       read(reinterpret_cast<const T*>(args.in[0]), from, k, n, line);
                       transform.run(line, result, result + n);
                       write(reinterpret_cast<T*>(args.out[0]), to, k, result);
                     }
                   });
  }

  /// Line k as n points.
  template <class T>
  void read(const T* from, const Lines& lines, std::int64_t k, std::int64_t n,
            Complex* line) const {
    if (kind_ == Kind::Real) {
      for (std::int64_t i = 0; i < n; ++i) line[i] = from[lines.at(k, i)];
      return;
    }
    for (std::int64_t i = 0; i < lines.length; ++i) {
      const T* pair = from + 2 * lines.at(k, i);
      line[i] = {pair[0], pair[1]};
    }
    if (kind_ == Kind::InverseReal)
      for (std::int64_t i = n / 2 + 1; i < n; ++i) line[i] = std::conj(line[n - i]);
  }
  template <class T>
  void write(T* to, const Lines& lines, std::int64_t k, const Complex* line) const {
    for (std::int64_t i = 0; i < lines.length; ++i) {
      if (kind_ == Kind::InverseReal) {
        to[lines.at(k, i)] = static_cast<T>(line[i].real());
        continue;
      }
      T* pair = to + 2 * lines.at(k, i);
      pair[0] = static_cast<T>(line[i].real());
      pair[1] = static_cast<T>(line[i].imag());
    }
  }

  Kind kind_;
  std::size_t axis_;
  LineTransform transform_;
};

}  // namespace

Prepared prepare_fft(const CallSite& site) {
  return std::make_unique<FftCall>(site, Kind::Complex);
}
Prepared prepare_rfft(const CallSite& site) { return std::make_unique<FftCall>(site, Kind::Real); }
Prepared prepare_irfft(const CallSite& site) {
  return std::make_unique<FftCall>(site, Kind::InverseReal);
}

}  // namespace snug::native
