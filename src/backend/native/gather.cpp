#include <algorithm>
#include <array>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/nest.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "backend/native/row_loops.h"
#include "base/elements.h"

namespace snug::native {
namespace {

/// Rows are found in groups of this many: their offsets are a loop of their own, and known ahead.
constexpr std::int64_t kGroup = 256;
using Offsets = std::array<std::int64_t, kGroup>;

/// The numbers put(old, offset of an element) of a strided array for `count` elements from `first`
/// on.
template <class Put>
void each_offset(const Nest<1>& nest, std::int64_t first, std::int64_t count, Offsets& to,
                 Put put) {
  const std::int64_t stride = nest.inner_stride(0);
  nest.each_run(first, first + count, [&](std::int64_t l, const auto& at, std::int64_t n) {
    std::int64_t* const out = to.data() + (l - first);
    if (stride == 1)
      for (std::int64_t i = 0; i < n; ++i) put(out[i], at[0] + i);
    else
      for (std::int64_t i = 0; i < n; ++i) put(out[i], at[0] + i * stride);
  });
}

/// Where, in an array with given strides, the rows are that index arrays name.
class Places {
 public:
  Places(const Dims& array_strides, const ArgDesc* indices, std::byte* const* data,
         std::size_t count)
      : size_(product(indices[0].shape)) {
    for (std::size_t i = 0; i < count; ++i) {
      SNUG_CHECK(indices[i].dtype == DType::I64 && indices[i].shape == indices[0].shape,
                 "gather: indices of dtype {} and shape {}", name_of(indices[i].dtype),
                 describe_shape(indices[i].shape));
      axes_.push_back({reinterpret_cast<const std::int64_t*>(data[i]), array_strides[i],
                       Nest<1>(indices[i].shape, {indices[i].strides})});
    }
  }
  std::int64_t size() const { return size_; }

  /// The offsets of `count` rows from index tuple `first` on.
  void find(std::int64_t first, std::int64_t count, Offsets& to) const {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::int64_t* const index = axes_[i].data;
      const std::int64_t stride = axes_[i].stride;
      if (i == 0)
        each_offset(axes_[i].nest, first, count, to,
                    [=](std::int64_t& out, std::int64_t at) { out = index[at] * stride; });
      else
        each_offset(axes_[i].nest, first, count, to,
                    [=](std::int64_t& out, std::int64_t at) { out += index[at] * stride; });
    }
  }

 private:
  struct Axis {
    const std::int64_t* data = nullptr;
    std::int64_t stride = 0;  // of the array that is indexed
    Nest<1> nest{{}, {}};
  };
  InlineVec<Axis, 8> axes_;
  std::int64_t size_ = 0;
};

/// Asks for rows before they are moved. A row is fetched by one thread's window of instructions
/// only if it is short; of long ones, the next would wait for the last.
class Ahead {
 public:
  explicit Ahead(std::int64_t row_bytes)
      : bytes_(std::min<std::int64_t>(row_bytes, kMostBytes)),
        rows_(row_bytes < kLeastBytes ? 0 : std::clamp<std::int64_t>(kBytes / bytes_, 1, 16)) {}
  template <class T>
  [[gnu::always_inline]] void operator()(const T* data, const Offsets& offset, std::int64_t k,
                                         std::int64_t count) const {
    if (rows_ == 0 || k + rows_ >= count) return;
    const auto* const row = reinterpret_cast<const std::byte*>(data + offset[k + rows_]);
    for (std::int64_t at = 0; at < bytes_; at += kLine) __builtin_prefetch(row + at);
  }

 private:
  static constexpr std::int64_t kLine = 64, kLeastBytes = 64, kMostBytes = 1024, kBytes = 2048;
  std::int64_t bytes_, rows_;
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
    // Calls use(offsets, first row, number of rows) for groups of rows.
    const auto in_groups = [&](auto&& use) {
      parallel_ranges(places.size(), places.size() * block, threads_,
                      [&](std::int64_t l, std::int64_t end) {
                        Offsets offset;
                        for (std::int64_t count; l < end; l += count) {
                          count = std::min(end - l, kGroup);
                          places.find(l, count, offset);
                          use(static_cast<const Offsets&>(offset), l, count);
                        }
                      });
    };
    if (block == 1) {
      in_groups([&](const Offsets& offset, std::int64_t l, std::int64_t count) {
        for (std::int64_t k = 0; k < count; ++k) to[l + k] = from[offset[k]];
      });
    } else if (nest.rank() == 1 && stride == 1) {
      const Ahead ahead(block * sizeof(T));
      with_moved_row(block * sizeof(T), [&](auto move) {
        in_groups([&, move](const Offsets& offset, std::int64_t l, std::int64_t count) {
          for (std::int64_t k = 0; k < count; ++k) {
            ahead(from, offset, k, count);
            move(to + (l + k) * block, from + offset[k]);
          }
        });
      });
    } else {
      in_groups([&](const Offsets& offset, std::int64_t l, std::int64_t count) {
        for (std::int64_t k = 0; k < count; ++k) {
          const T* const row = from + offset[k];
          T* const out = to + (l + k) * block;
          nest.each_row(0, nest.rows(), [&](std::int64_t, const auto& at) {
            for (std::int64_t i = 0; i < n; ++i) out[at[0] + i] = row[at[1] + i * stride];
          });
        }
      });
    }
  }
};

/// Threads never share a destination: each takes a range of columns, or some of the destinations if
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
    Dims lead_shape, lead_strides;
    for (std::size_t i = 0; i < lead; ++i) {
      lead_shape.push_back(y.shape[i]);
      lead_strides.push_back(y.strides[i]);
    }
    const Rows rows{places, Nest<1>(lead_shape, {lead_strides}),
                    Nest<2>(shape, {from_axis(x.strides, k), from_axis(y.strides, lead)})};
    if (add_)
      visit(x.dtype, [&](auto tag) {
        using T = decltype(tag);
        using E = Element<T>;
        scatter<T>(rows, args,
                   [](T& to, T from) { to = E::store(E::add(E::load(to), E::load(from))); });
      });
    else
      visit_bytes(size_of(x.dtype), [&](auto tag) {
        using T = decltype(tag);
        scatter<T>(rows, args, [](T& to, T from) { to = from; });
      });
  }

 private:
  struct Rows {
    const Places& places;
    Nest<1> given;  // rows of y
    Nest<2> row;    // a row, in x and in y
  };

  /// Destinations are dealt out by where they are, in pieces of this many bytes and in no order, so
  /// that rows which are often named are not all in one part.
  class Share {
   public:
    static constexpr std::int64_t kPiece = 4096;
    Share(std::int64_t begin, std::int64_t end, std::int64_t parts)
        : begin_(static_cast<std::uint64_t>(begin)),
          end_(static_cast<std::uint64_t>(end)),
          parts_(static_cast<std::uint64_t>(parts)) {}
    bool all() const { return begin_ == 0 && end_ == parts_; }
    template <class T>
    bool has(std::int64_t offset) const {
      const auto piece = static_cast<std::uint32_t>(offset / (kPiece / std::int64_t{sizeof(T)}));
      const std::uint64_t part = std::uint64_t{piece * 0x9e3779b1u} * parts_ >> 32;
      return part >= begin_ && part < end_;
    }

   private:
    std::uint64_t begin_, end_, parts_;
  };

  template <class T, class Put>
  void scatter(const Rows& rows, const RunArgs& args, Put put) const {
    T* const to = reinterpret_cast<T*>(args.out[0]);
    const T* const from = reinterpret_cast<const T*>(args.in[1]);
    const std::int64_t n = rows.row.inner(), work = rows.places.size() * rows.row.elements();
    // Elements per thread worth a split by columns. By rows, each thread looks at all indices.
    constexpr std::int64_t kShortRow = 256;
    constexpr int kManyThreads = 8;
    if (rows.row.rank() == 1 && n >= kShortRow * threads_)
      parallel_ranges(n, work, threads_, [&](std::int64_t begin, std::int64_t end) {
        T* const t = to + begin * rows.row.inner_stride(0);
        const T* const f = from + begin * rows.row.inner_stride(1);
        with_row<T>(rows.row, end - begin, put,
                    [&](auto row) { in_order(rows, Share(0, 1, 1), t, f, end - begin, row); });
      });
    else
      parallel_ranges(threads_, threads_ < kManyThreads ? 0 : work, threads_,
                      [&](std::int64_t begin, std::int64_t end) {
                        with_row<T>(rows.row, n, put, [&](auto row) {
                          in_order(rows, Share(begin, end, threads_), to, from, n, row);
                        });
                      });
  }

  /// Calls use(row) with the code that puts one row, or `columns` of it if it has one axis:
  /// row(to, from).
  template <class T, class Put, class Use>
  void with_row(const Nest<2>& nest, std::int64_t columns, Put put, Use use) const {
    const std::int64_t st = nest.inner_stride(0), sf = nest.inner_stride(1);
    const bool packed = nest.rank() == 1 && st == 1 && sf == 1;
    if (nest.rank() == 1 && columns == 1)
      return use([&](T* to, const T* from) { put(*to, *from); });
    if (packed && !add_) return with_moved_row(columns * std::int64_t{sizeof(T)}, use);
    if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4)
      if (packed) return with_added_row<typename Element<T>::Acc>(columns, use);
    use([&](T* to, const T* from) {
      nest.each_row(0, nest.rows(), [&](std::int64_t, const auto& at) {
        for (std::int64_t i = 0; i < columns; ++i) put(to[at[0] + i * st], from[at[1] + i * sf]);
      });
    });
  }

  /// Puts the rows of y whose destinations are in a share.
  template <class T, class Row>
  static void in_order(const Rows& rows, const Share& share, T* to, const T* from,
                       std::int64_t columns, Row row) {
    const Ahead ahead(columns * std::int64_t{sizeof(T)});
    Offsets place, given;
    std::int64_t count = 0;
    for (std::int64_t l = 0; l < rows.places.size(); l += count) {
      count = std::min(rows.places.size() - l, kGroup);
      rows.places.find(l, count, place);
      each_offset(rows.given, l, count, given,
                  [](std::int64_t& out, std::int64_t at) { out = at; });
      std::int64_t mine = count;
      if (!share.all()) {
        mine = 0;
        for (std::int64_t k = 0; k < count; ++k) {
          const bool put = share.has<T>(place[k]);
          place[mine] = place[k];
          given[mine] = given[k];
          mine += put;
        }
      }
      for (std::int64_t k = 0; k < mine; ++k) {
        ahead(to, place, k, mine);
        row(to + place[k], from + given[k]);
      }
    }
  }

  bool add_;
};

}  // namespace

Prepared prepare_gather(const CallSite& site) { return std::make_unique<GatherCall>(site); }
Prepared prepare_scatter_add(const CallSite& site) {
  return std::make_unique<ScatterCall>(site, true);
}
Prepared prepare_scatter_set(const CallSite& site) {
  return std::make_unique<ScatterCall>(site, false);
}

}  // namespace snug::native
