#pragma once
#include "backend/native/conv.h"
#include "backend/native/parallel.h"
#include "base/elements.h"

namespace snug::native {

/// The tap of the stored weight that meets offset `tap` of the window.
inline std::int64_t stored_tap(const ConvShape& s, std::int64_t tap) {
  return s.flip ? s.taps() - 1 - tap : tap;
}

/// Where the element (image, channel, place) of images lies.
struct ImageSteps {
  std::int64_t image, channel, place;
  ImageSteps(std::int64_t channels, std::int64_t places, bool last)
      : image(channels * places), channel(last ? 1 : places), place(last ? channels : 1) {}
};

// One element of the result at a time, of any dtype; `last`: channels are the last axis of images.

template <class T>
void loop_forward(const ConvShape& s, bool last, const T* x, const T* w, T* y, int threads) {
  using E = Element<T>;
  const std::int64_t gi = s.group_in(), go = s.group_out();
  const ImageSteps from(s.c, s.image(), last), to(s.o, s.plane(), last);
  const std::int64_t rows = s.n * s.o * s.od * s.oh;
  parallel_ranges(rows, s.work(), threads, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const std::int64_t oy = row % s.oh, oz = row / s.oh % s.od;
      const std::int64_t o = row / s.oh / s.od % s.o, n = row / s.oh / s.od / s.o;
      const T* const image = x + n * from.image + o / go * gi * from.channel;
      T* const line = y + n * to.image + o * to.channel + row % (s.od * s.oh) * s.ow * to.place;
      const T* const weight = w + o * gi * s.taps();
      for (std::int64_t ox = 0; ox < s.ow; ++ox) {
        typename E::Acc acc{};
        for (std::int64_t k = 0; k < s.kd * s.kh; ++k) {
          const std::int64_t iz = oz * s.sd - s.front + k / s.kh * s.dd;
          const std::int64_t iy = oy * s.sh - s.top + k % s.kh * s.dh;
          if (iz < 0 || iz >= s.d || iy < 0 || iy >= s.h) continue;
          for (std::int64_t kx = 0; kx < s.kw; ++kx) {
            const std::int64_t ix = ox * s.sw - s.left + kx * s.dw;
            if (ix < 0 || ix >= s.w) continue;
            const std::int64_t tap = stored_tap(s, k * s.kw + kx);
            const std::int64_t at = (iz * s.h + iy) * s.w + ix;
            for (std::int64_t c = 0; c < gi; ++c)
              acc = E::add(acc, E::mul(E::load(image[c * from.channel + at * from.place]),
                                       E::load(weight[c * s.taps() + tap])));
          }
        }
        line[ox * to.place] = E::store(acc);
      }
    }
  });
}

template <class T>
void loop_grad_input(const ConvShape& s, bool last, const T* w, const T* dy, T* dx, int threads) {
  using E = Element<T>;
  const std::int64_t gi = s.group_in(), go = s.group_out();
  const ImageSteps from(s.o, s.plane(), last), to(s.c, s.image(), last);
  const std::int64_t rows = s.n * s.c * s.d * s.h;
  parallel_ranges(rows, s.work(), threads, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const std::int64_t iy = row % s.h, iz = row / s.h % s.d;
      const std::int64_t c = row / s.h / s.d % s.c, n = row / s.h / s.d / s.c;
      const std::int64_t first = c / gi * go;  // output channels of this group
      T* const line = dx + n * to.image + c * to.channel + row % (s.d * s.h) * s.w * to.place;
      for (std::int64_t ix = 0; ix < s.w; ++ix) {
        typename E::Acc acc{};
        for (std::int64_t k = 0; k < s.kd * s.kh; ++k) {
          const std::int64_t pz = iz + s.front - k / s.kh * s.dd;
          const std::int64_t py = iy + s.top - k % s.kh * s.dh;
          if (pz < 0 || pz % s.sd || pz / s.sd >= s.od) continue;
          if (py < 0 || py % s.sh || py / s.sh >= s.oh) continue;
          for (std::int64_t kx = 0; kx < s.kw; ++kx) {
            const std::int64_t px = ix + s.left - kx * s.dw;
            if (px < 0 || px % s.sw || px / s.sw >= s.ow) continue;
            const std::int64_t tap = stored_tap(s, k * s.kw + kx);
            const std::int64_t at = (pz / s.sd * s.oh + py / s.sh) * s.ow + px / s.sw;
            for (std::int64_t o = first; o < first + go; ++o)
              acc = E::add(acc,
                           E::mul(E::load(dy[n * from.image + o * from.channel + at * from.place]),
                                  E::load(w[(o * gi + c % gi) * s.taps() + tap])));
          }
        }
        line[ix * to.place] = E::store(acc);
      }
    }
  });
}

template <class T>
void loop_grad_weight(const ConvShape& s, bool last, const T* x, const T* dy, T* dw, int threads) {
  using E = Element<T>;
  const std::int64_t gi = s.group_in(), go = s.group_out();
  const ImageSteps xs(s.c, s.image(), last), ys(s.o, s.plane(), last);
  parallel_ranges(s.o * gi * s.taps(), s.work(), threads, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t tap = i % s.taps(), c = i / s.taps() % gi, o = i / s.taps() / gi;
      const std::int64_t window = stored_tap(s, tap), kx = window % s.kw;
      const std::int64_t ky = window / s.kw % s.kh, kz = window / s.kw / s.kh;
      typename E::Acc acc{};
      for (std::int64_t n = 0; n < s.n; ++n) {
        const T* const image = x + n * xs.image + (o / go * gi + c) * xs.channel;
        const T* const grad = dy + n * ys.image + o * ys.channel;
        for (std::int64_t row = 0; row < s.od * s.oh; ++row) {
          const std::int64_t iz = row / s.oh * s.sd - s.front + kz * s.dd;
          const std::int64_t iy = row % s.oh * s.sh - s.top + ky * s.dh;
          if (iz < 0 || iz >= s.d || iy < 0 || iy >= s.h) continue;
          const T* const line = image + (iz * s.h + iy) * s.w * xs.place;
          const T* const grads = grad + row * s.ow * ys.place;
          for (std::int64_t ox = 0; ox < s.ow; ++ox) {
            const std::int64_t ix = ox * s.sw - s.left + kx * s.dw;
            if (ix < 0 || ix >= s.w) continue;
            acc = E::add(acc, E::mul(E::load(line[ix * xs.place]), E::load(grads[ox * ys.place])));
          }
        }
      }
      dw[i] = E::store(acc);
    }
  });
}

}  // namespace snug::native
