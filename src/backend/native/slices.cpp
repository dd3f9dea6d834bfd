#include <algorithm>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/nest.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "backend/native/slice_place.h"
#include "base/elements.h"

namespace snug::native {
namespace {

class ConcatenateCall : public Call {
 public:
  explicit ConcatenateCall(const CallSite& site)
      : Call(site), axis_(site.node->attrs.integer("axis")) {}

  void run(const RunArgs& args) const override {
    ArgDesc part = out(args, 0);
    const std::int64_t step = part.strides[axis_] * size_of(part.dtype);
    std::byte* to = args.out[0];
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const ArgDesc& from = in(args, i);
      part.shape[axis_] = from.shape[axis_];
      copy(part, to, from, args.in[i], threads_);
      to += part.shape[axis_] * step;
    }
  }

 private:
  std::int64_t axis_;
};

class PairCall : public Call {
 public:
  using Call::Call;

  void run(const RunArgs& args) const override {
    ArgDesc part = out(args, 0);
    const Dims packed = contiguous_strides(in(args, 0).shape);
    if (in(args, 0).strides == packed && in(args, 1).strides == packed)
      return part.dtype == DType::F32 ? interleave<float>(args) : interleave<double>(args);
    part.shape.pop_back();
    part.strides.pop_back();
    for (std::size_t i = 0; i < 2; ++i)
      copy(part, args.out[0] + i * static_cast<std::size_t>(size_of(part.dtype)), in(args, i),
           args.in[i], threads_);
  }

 private:
  template <class T>
  void interleave(const RunArgs& args) const {
    const T *re = reinterpret_cast<const T*>(args.in[0]),
            *im = reinterpret_cast<const T*>(args.in[1]);
    T* to = reinterpret_cast<T*>(args.out[0]);
    const std::int64_t count = product(in(args, 0).shape);
    parallel_ranges(count, count, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[2 * i] = re[i];
        to[2 * i + 1] = im[i];
      }
    });
  }
};

/// Python's slice over an axis of `size`: how many elements, from where.
struct Range {
  std::int64_t start, count;
};
Range python_range(std::int64_t size, const std::int64_t* start, const std::int64_t* stop,
                   std::int64_t step) {
  const auto clamped = [&](const std::int64_t* bound, std::int64_t absent) {
    if (!bound) return absent;
    const std::int64_t at = *bound < 0 ? std::max<std::int64_t>(*bound, -size - 1) + size : *bound;
    return step > 0 ? std::clamp<std::int64_t>(at, 0, size)
                    : std::clamp<std::int64_t>(at, -1, size - 1);
  };
  const std::int64_t first = clamped(start, step > 0 ? 0 : size - 1);
  const std::int64_t last = clamped(stop, step > 0 ? size : -1);
  // In unsigned numbers, as the step may be INT64_MIN.
  const std::uint64_t stride = step > 0 ? step : -static_cast<std::uint64_t>(step);
  const std::uint64_t span = std::max<std::int64_t>(0, step > 0 ? last - first : first - last);
  return {first, static_cast<std::int64_t>((span + stride - 1) / stride)};
}

}  // namespace

SlicePlace place_slice(const Attrs::Ints& spec, const ArgDesc& x,
                       const std::int64_t* const* bounds) {
  std::int64_t offset = 0;
  ArgDesc part{x.dtype, {}, {}};
  std::size_t next = 0;
  const auto bound = [&](std::int64_t code) { return code ? bounds[next++] : nullptr; };
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    const std::int64_t size = x.shape[axis], stride = x.strides[axis];
    if (axis * 4 >= spec.size()) {
      part.shape.push_back(size);
      part.strides.push_back(stride);
      continue;
    }
    const std::int64_t* const code = &spec[axis * 4];
    const std::int64_t* const start = bound(code[1]);
    const std::int64_t* const stop = bound(code[2]);
    const std::int64_t* const step = bound(code[3]);
    if (code[0] == 1) {
      const std::int64_t at = *start < 0 ? *start + size : *start;
      if (at < 0 || at >= size)
        fail(Fault::Index, fmt::format("index {} is outside an axis of size {}", *start, size));
      offset += at * stride;
      continue;
    }
    const std::int64_t by = step ? *step : 1;
    if (by == 0) fail(Fault::Value, "slice: the step is 0");
    const Range range = python_range(size, start, stop, by);
    if (range.count > 0) offset += range.start * stride;
    part.shape.push_back(range.count);
    part.strides.push_back(range.count > 1 ? by * stride : stride);
  }
  return {std::move(part), offset};
}

ArgDesc stretch(const ArgDesc& y, const Dims& shape) {
  ArgDesc all{y.dtype, shape, Dims(shape.size(), 0)};
  SNUG_CHECK(y.shape.size() <= shape.size(), "slice_set: {} into {}", describe_shape(y.shape),
             describe_shape(shape));
  const std::size_t lead = shape.size() - y.shape.size();
  for (std::size_t i = 0; i < y.shape.size(); ++i) {
    SNUG_CHECK(y.shape[i] == shape[lead + i] || y.shape[i] == 1, "slice_set: {} into {}",
               describe_shape(y.shape), describe_shape(shape));
    if (y.shape[i] == shape[lead + i]) all.strides[lead + i] = y.strides[i];
  }
  return all;
}

namespace {

/// slice_set and slice_inc: output 0 is x with y written or added where the slice is.
class SliceCall : public Call {
 public:
  SliceCall(const CallSite& site, bool add)
      : Call(site), add_(add), spec_(site.node->attrs.ints("spec")) {}

  void run(const RunArgs& args) const override {
    const ArgDesc& x = out(args, 0);
    if (!args.in_place) copy(x, args.out[0], in(args, 0), args.in[0], threads_);
    const std::int64_t* bounds[kMostSizes];
    for (std::size_t i = 0; i < sizes_.size(); ++i) bounds[i] = size_values(args, i);
    const auto [part, offset] = place_slice(spec_, x, bounds);
    std::byte* const to = args.out[0] + offset * size_of(x.dtype);
    const ArgDesc y = stretch(in(args, 1), part.shape);
    SNUG_CHECK(y.dtype == x.dtype, "slice_set: {} into {}", name_of(y.dtype), name_of(x.dtype));
    if (product(part.shape) == 0) return;
    if (add_)
      add(part, to, y, args.in[1]);
    else
      copy(part, to, y, args.in[1], threads_);
  }

 private:
  void add(const ArgDesc& part, std::byte* to, const ArgDesc& y, const std::byte* from) const {
    const Nest<2> nest(part.shape, {part.strides, y.strides});
    const std::int64_t st = nest.inner_stride(0), sf = nest.inner_stride(1);
    visit(part.dtype, [&](auto tag) {
      using T = decltype(tag);
      using E = Element<T>;
      T* const t = reinterpret_cast<T*>(to);
      const T* const f = reinterpret_cast<const T*>(from);
      const auto run = [&](T* p, const T* q, std::int64_t count) {
        if (st == 1 && sf == 1)
          for (std::int64_t i = 0; i < count; ++i)
            p[i] = E::store(E::add(E::load(p[i]), E::load(q[i])));
        else
          for (std::int64_t i = 0; i < count; ++i)
            p[i * st] = E::store(E::add(E::load(p[i * st]), E::load(q[i * sf])));
      };
      parallel_ranges(nest.elements(), nest.elements(), threads_,
                      [&](std::int64_t b, std::int64_t e) {
                        nest.each_run(b, e, [&](std::int64_t, const auto& at, std::int64_t count) {
                          run(t + at[0], f + at[1], count);
                        });
                      });
    });
  }

  static constexpr std::size_t kMostSizes = 128;
  bool add_;
  Attrs::Ints spec_;
};

}  // namespace

Prepared prepare_concatenate(const CallSite& site) {
  return std::make_unique<ConcatenateCall>(site);
}
Prepared prepare_pair(const CallSite& site) { return std::make_unique<PairCall>(site); }
Prepared prepare_slice_set(const CallSite& site) {
  return std::make_unique<SliceCall>(site, false);
}
Prepared prepare_slice_inc(const CallSite& site) { return std::make_unique<SliceCall>(site, true); }

}  // namespace snug::native
