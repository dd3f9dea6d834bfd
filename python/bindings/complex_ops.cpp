// Complex numbers and Fourier transforms.
#include "arguments.h"

namespace snug::python {

template <>
struct Parameter<Points> {
  using From = nb::handle;
  static Points get(nb::handle h, std::string_view what) {
    return h.is_none() ? Points() : Points(as_tensor(h, what));
  }
};

void bind_complex(nb::module_& m) {
  define(m, "complex", snug::complex, tensor_arg("real"), tensor_arg("imag"), "real + 1j * imag.");
  define(m, "complex_from_polar", complex_from_polar, tensor_arg("abs"), tensor_arg("angle"),
         "The complex number of this absolute value and angle.");
  define(m, "real", snug::real, tensor_arg("z"), "The real part of z; z itself if it is real.");
  define(m, "imag", snug::imag, tensor_arg("z"), "The imaginary part of z; 0 if it is real.");
  define(m, "angle", angle, tensor_arg("z"), "The angle of z, from -pi to pi.");
  define(m, "conj", snug::conj, tensor_arg("z"),
         "The complex conjugate of z; z itself if it is real.");
  define(m, "view_as_real", snug::view_as_real, tensor_arg("z"));
  define(m, "view_as_complex", snug::view_as_complex, tensor_arg("x"));
}

void bind_fft(nb::module_& m) {
  using Transform = Expr (*)(const Arg&, const Points&, std::int64_t, const std::string&);
  const std::tuple<const char*, Transform, const char*> transforms[] = {
      {"fft", snug::fft, "The discrete Fourier transform along an axis, complex."},
      {"ifft", ifft, "The inverse of fft."},
      {"rfft", snug::rfft, "The first n // 2 + 1 elements of the transform of real values."},
      {"irfft", snug::irfft, "The inverse of rfft; n is the number of real values."},
  };
  for (auto [name, f, doc] : transforms)
    define(m, name, f, tensor_arg("a"), nb::arg("n") = nb::none(), nb::arg("axis") = -1,
           nb::arg("norm") = "backward", doc);
  define(m, "fftn", fftn, tensor_arg("a"), nb::arg("s") = nb::list(), nb::arg("axes") = nb::list(),
         nb::arg("norm") = "backward", "The transform along several axes.");
  define(m, "ifftn", ifftn, tensor_arg("a"), nb::arg("s") = nb::list(),
         nb::arg("axes") = nb::list(), nb::arg("norm") = "backward", "The inverse of fftn.");
  define(m, "fftshift", fftshift, tensor_arg("x"), nb::arg("axes") = nb::list(),
         "Moves the element of frequency 0 to the middle of the axes.");
  define(m, "ifftshift", ifftshift, tensor_arg("x"), nb::arg("axes") = nb::list(),
         "The inverse of fftshift.");
}

}  // namespace snug::python
