#include <algorithm>
#include <atomic>
#include <cstring>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/elements.h"
#include "backend/native/nest.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "base/label_error.h"

namespace snug::native {
namespace {

// --- check_index ------------------------------------------------------------------------------

class CheckIndexCall : public Call {
 public:
  explicit CheckIndexCall(const CallSite& site)
      : Call(site),
        what_(site.node->attrs.has("for") ? site.node->attrs.text("for") : ""),
        labels_(site.node->attrs.has("labels")) {}
  void run(const RunArgs& args) const override {
    const ArgDesc& index = in(args, 0);
    visit(index.dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_integral_v<T>)
        check<T>(args, index);
      else
        internal_error("check_index", fmt::format("indices of dtype {}", name_of(index.dtype)));
    });
  }

 private:
  template <class T>
  void check(const RunArgs& args, const ArgDesc& index) const {
    const std::int64_t size = *size_values(args, 0);
    const ArgDesc& result = out(args, 0);
    const Nest<2> nest(index.shape, {index.strides, result.strides});
    const T* const from = reinterpret_cast<const T*>(args.in[0]);
    std::int64_t* const to = reinterpret_cast<std::int64_t*>(args.out[0]);
    const std::int64_t total = nest.elements();
    const std::int64_t sf = nest.inner_stride(0), st = nest.inner_stride(1);
    std::atomic<std::int64_t> first_bad{INT64_MAX};  // element number
    parallel_ranges(total, total, threads_, [&](std::int64_t b, std::int64_t e) {
      std::int64_t bad = INT64_MAX;
      nest.each_run(b, e, [&](std::int64_t element, const auto& at, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          std::int64_t value = static_cast<std::int64_t>(from[at[0] + i * sf]);
          if (std::is_signed_v<T> && value < 0 && what_.empty()) value += size;
          if (static_cast<std::uint64_t>(value) >= static_cast<std::uint64_t>(size))
            bad = std::min(bad, element + i);
          to[at[1] + i * st] = value;
        }
      });
      std::int64_t seen = first_bad.load();
      while (bad < seen && !first_bad.compare_exchange_weak(seen, bad)) {
      }
    });
    if (first_bad.load() == INT64_MAX) return;
    const T value = from[Position(index.shape, index.strides)(first_bad.load())];
    if (labels_)
      fail_label(what_, static_cast<std::int64_t>(value), index.shape, first_bad.load(), size);
    if (std::is_signed_v<T> && value < T{} && !what_.empty())
      fail(Fault::Value, fmt::format("{}: {} is negative", what_, +value));
    fail(Fault::Index, fmt::format("{}{}index {} is outside an axis of size {}", what_,
                                   what_.empty() ? "" : ": ", +value, size));
  }

  std::string what_;  // the function that refuses negative indices; empty: they count from the end
  bool labels_;       // they are class numbers, for messages
};

// --- gather, scatter --------------------------------------------------------------------------

/// The index arrays of a gather or scatter: where, in an array with given strides, row `l` is.
class Places {
 public:
  Places(const Dims& array_strides, const ArgDesc* indices, std::byte* const* data,
         std::size_t count)
      : count_(count), strides_(array_strides), position_(indices[0].shape, indices[0].strides) {
    const Dims& shape = indices[0].shape;
    size_ = product(shape);
    shared_ = true;
    for (std::size_t i = 0; i < count; ++i) {
      SNUG_CHECK(indices[i].dtype == DType::I64 && indices[i].shape == shape,
                 "gather: indices of dtype {} and shape {}", name_of(indices[i].dtype),
                 describe_shape(indices[i].shape));
      data_[i] = reinterpret_cast<const std::int64_t*>(data[i]);
      descs_[i] = &indices[i];
      shared_ = shared_ && indices[i].strides == indices[0].strides;
    }
  }
  std::int64_t size() const { return size_; }
  /// Offset of the row that index tuple `l` names.
  std::int64_t operator()(std::int64_t l) const {
    const std::int64_t at = position_(l);
    std::int64_t offset = data_[0][at] * strides_[0];
    for (std::size_t i = 1; i < count_; ++i)
      offset +=
          data_[i][shared_ ? at : Position(descs_[i]->shape, descs_[i]->strides)(l)] * strides_[i];
    return offset;
  }

 private:
  std::size_t count_;
  const Dims& strides_;
  Position position_;
  std::array<const std::int64_t*, 8> data_{};
  std::array<const ArgDesc*, 8> descs_{};
  std::int64_t size_ = 0;
  bool shared_ = true;  // all index arrays have the same strides
};

Dims from_axis(const Dims& dims, std::size_t axis) {
  return Dims(std::span<const std::int64_t>(dims.data() + axis, dims.size() - axis));
}

class GatherCall : public Call {
 public:
  using Call::Call;
  void run(const RunArgs& args) const override {
    const ArgDesc& x = in(args, 0);
    const std::size_t k = in_.size() - 1;
    const Places places(x.strides, args.in_desc ? args.in_desc + 1 : in_.data() + 1, args.in + 1,
                        k);
    visit_bytes(size_of(x.dtype), [&](auto tag) {
      using T = decltype(tag);
      gather(places, from_axis(x.shape, k), from_axis(x.strides, k),
             reinterpret_cast<const T*>(args.in[0]), reinterpret_cast<T*>(args.out[0]));
    });
  }

 private:
  template <class T>
  void gather(const Places& places, const Dims& shape, const Dims& strides, const T* from,
              T* to) const {
    const Nest<2> nest(shape, {contiguous_strides(shape), strides});
    const std::int64_t block = nest.elements(), n = nest.inner(), stride = nest.inner_stride(1);
    if (block == 0) return;
    parallel_ranges(places.size(), places.size() * block, threads_,
                    [&](std::int64_t l, std::int64_t end) {
                      for (; l < end; ++l) {
                        const T* const row = from + places(l);
                        T* const out = to + l * block;
                        if (block == 1)
                          *out = *row;
                        else if (nest.rank() == 1 && stride == 1)
                          std::memcpy(out, row, block * sizeof(T));
                        else
                          nest.each_row(0, nest.rows(), [&](std::int64_t, const auto& at) {
                            for (std::int64_t i = 0; i < n; ++i)
                              out[at[0] + i] = row[at[1] + i * stride];
                          });
                      }
                    });
  }
};

/// Threads never share a destination: each takes a range of columns, or a range of destinations if
/// rows are short, and goes through the indices in order. So repeated indices give the same result
/// on any number of threads.
class ScatterCall : public Call {
 public:
  ScatterCall(const CallSite& site, bool add) : Call(site), add_(add) {}

  void run(const RunArgs& args) const override {
    const ArgDesc& x = out(args, 0);
    const ArgDesc& y = in(args, 1);
    const std::size_t k = in_.size() - 2;
    if (!args.in_place) copy(x, args.out[0], in(args, 0), args.in[0], threads_);
    const Places places(x.strides, args.in_desc ? args.in_desc + 2 : in_.data() + 2, args.in + 2,
                        k);
    const Dims shape = from_axis(x.shape, k);
    if (product(shape) == 0 || places.size() == 0) return;
    SNUG_CHECK(y.shape.size() >= shape.size() &&
                   from_axis(y.shape, y.shape.size() - shape.size()) == shape,
               "scatter: {} into {}", describe_shape(y.shape), describe_shape(x.shape));
    const std::size_t lead = y.shape.size() - shape.size();
    ArgDesc rows{y.dtype, {}, {}};
    for (std::size_t i = 0; i < lead; ++i) {
      rows.shape.push_back(y.shape[i]);
      rows.strides.push_back(y.strides[i]);
    }
    const Position row_of(rows.shape, rows.strides);
    const Nest<2> nest(shape, {from_axis(x.strides, k), from_axis(y.strides, lead)});
    const std::int64_t destinations = product(x.shape) / product(shape);
    const auto with = [&](auto tag, auto put) {
      using T = decltype(tag);
      scatter(places, row_of, nest, destinations, reinterpret_cast<T*>(args.out[0]),
              reinterpret_cast<const T*>(args.in[1]), put);
    };
    if (add_)
      visit(x.dtype, [&](auto tag) {
        using E = Element<decltype(tag)>;
        with(tag, [](auto& to, auto from) { to = E::store(E::add(E::load(to), E::load(from))); });
      });
    else
      visit_bytes(size_of(x.dtype),
                  [&](auto tag) { with(tag, [](auto& to, auto from) { to = from; }); });
  }

 private:
  template <class T, class Put>
  void scatter(const Places& places, const Position& row_of, const Nest<2>& nest,
               std::int64_t destinations, T* to, const T* from, Put put) const {
    const std::int64_t n = nest.inner(), st = nest.inner_stride(0), sf = nest.inner_stride(1);
    const std::int64_t block = nest.elements(), work = places.size() * block;
    const auto put_run = [&](T* t, const T* f, std::int64_t count) {
      if (st == 1 && sf == 1)
        for (std::int64_t i = 0; i < count; ++i) put(t[i], f[i]);
      else
        for (std::int64_t i = 0; i < count; ++i) put(t[i * st], f[i * sf]);
    };
    constexpr std::int64_t kShortRow = 32;  // elements per thread worth a split by columns
    if (nest.rank() == 1 && n >= kShortRow * threads_) {
      parallel_ranges(n, work, threads_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t l = 0; l < places.size(); ++l)
          put_run(to + places(l) + begin * st, from + row_of(l) + begin * sf, end - begin);
      });
      return;
    }
    parallel_ranges(destinations, work, threads_, [&](std::int64_t begin, std::int64_t end) {
      const bool all = begin == 0 && end == destinations;
      for (std::int64_t l = 0; l < places.size(); ++l) {
        const std::int64_t place = places(l);
        if (!all && (place < begin * block || place >= end * block)) continue;
        if (block == 1) {
          put(to[place], from[row_of(l)]);
          continue;
        }
        nest.each_row(0, nest.rows(), [&](std::int64_t, const auto& at) {
          put_run(to + place + at[0], from + row_of(l) + at[1], n);
        });
      }
    });
  }

  bool add_;
};

// --- nonzero ----------------------------------------------------------------------------------

class NonzeroCall : public Call {
 public:
  explicit NonzeroCall(const CallSite& site) : Call(site) {
    workspace = align64(sizeof(std::int64_t) * kBlocks);
  }

  void run(const RunArgs& args) const override {
    const ArgDesc& x = in(args, 0);
    visit(x.dtype, [&](auto tag) { find<decltype(tag)>(args, x); });
  }

 private:
  /// Elements are counted in this many blocks at most, then each block writes at its own place.
  static constexpr std::int64_t kBlocks = 256;

  template <class T>
  static bool holds(T x) {
    if constexpr (std::is_same_v<T, Bool>)
      return x.value != 0;
    else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>)
      return (x.bits & 0x7fff) != 0;
    else
      return x != T{};
  }

  template <class T>
  void find(const RunArgs& args, const ArgDesc& x) const {
    const T* const data = reinterpret_cast<const T*>(args.in[0]);
    const Nest<1> nest(x.shape, {x.strides});
    const std::int64_t total = nest.elements(), stride = nest.inner_stride(0);
    const std::int64_t blocks = std::clamp<std::int64_t>(total / 4096, 1, kBlocks);
    std::int64_t* const counts = reinterpret_cast<std::int64_t*>(args.workspace);
    parallel_ranges(blocks, total, threads_, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        std::int64_t count = 0;
        nest.each_run(total * b / blocks, total * (b + 1) / blocks,
                      [&](std::int64_t, const auto& at, std::int64_t length) {
                        for (std::int64_t i = 0; i < length; ++i)
                          count += holds(data[at[0] + i * stride]);
                      });
        counts[b] = count;
      }
    });
    std::int64_t sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) sum += std::exchange(counts[b], sum);
    args.extents[0] = sum;
    const auto write = [&](std::int64_t element, std::int64_t at) {
      for (std::size_t axis = x.shape.size(); axis-- > 0; element /= x.shape[axis])
        reinterpret_cast<std::int64_t*>(args.out[axis])[at] = element % x.shape[axis];
    };
    parallel_ranges(blocks, total, threads_, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        std::int64_t at = counts[b];
        nest.each_run(total * b / blocks, total * (b + 1) / blocks,
                      [&](std::int64_t element, const auto& offset, std::int64_t length) {
                        for (std::int64_t i = 0; i < length; ++i)
                          if (holds(data[offset[0] + i * stride])) write(element + i, at++);
                      });
      }
    });
  }
};

}  // namespace

Prepared prepare_check_index(const CallSite& site) {
  return std::make_unique<CheckIndexCall>(site);
}
Prepared prepare_gather(const CallSite& site) { return std::make_unique<GatherCall>(site); }
Prepared prepare_scatter_add(const CallSite& site) {
  return std::make_unique<ScatterCall>(site, true);
}
Prepared prepare_scatter_set(const CallSite& site) {
  return std::make_unique<ScatterCall>(site, false);
}
Prepared prepare_nonzero(const CallSite& site) { return std::make_unique<NonzeroCall>(site); }

}  // namespace snug::native
