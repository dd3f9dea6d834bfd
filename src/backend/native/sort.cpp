#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "base/elements.h"
#include "base/lines.h"

namespace snug::native {
namespace {

/// Unsigned integers in the order of the elements of a dtype; nan comes last.
template <std::size_t Bytes>
using Unsigned = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t,
                       std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;
template <class T>
struct SortKey {
  using Key = Unsigned<sizeof(T)>;
  static constexpr Key kSign = Key(Key{1} << (8 * sizeof(T) - 1));
  static constexpr bool kFloat =
      std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
  static constexpr Key kNan = Key(~Key{0});

  /// `same_zeros`: -0 and 0 are equal; else -0 comes first.
  static Key of(T x, bool same_zeros) {
    if constexpr (std::is_same_v<T, Bool>) return x.value != 0;
    const Key bits = std::bit_cast<Key>(x);
    if constexpr (kFloat) {
      if (Key(bits & ~kSign) > infinity()) return kNan;
      if (same_zeros && bits == kSign) return kSign;
      return bits & kSign ? Key(~bits) : Key(bits | kSign);
    } else {
      return std::is_signed_v<T> ? Key(bits ^ kSign) : bits;
    }
  }
  static T value(Key key) {
    if constexpr (std::is_same_v<T, Bool>) return {static_cast<std::uint8_t>(key)};
    if constexpr (kFloat) {
      // The key of nan is that of a nan without its sign.
      return std::bit_cast<T>(key & kSign ? Key(key ^ kSign) : Key(~key));
    } else {
      return std::bit_cast<T>(std::is_signed_v<T> ? Key(key ^ kSign) : key);
    }
  }

 private:
  static constexpr Key infinity() {
    if constexpr (std::is_same_v<T, Half>) return 0x7c00;
    if constexpr (std::is_same_v<T, BFloat>) return 0x7f80;
    if constexpr (sizeof(T) == 4) return Key(0x7f800000);
    return Key(0x7ff0000000000000);
  }
};

/// Keys and, where they are asked for, the places they come from.
template <class K>
struct Row {
  K* keys;
  std::int64_t* places;  // may be null
};

template <class K>
void insertion_sort(const Row<K>& row, std::int64_t n) {
  for (std::int64_t i = 1; i < n; ++i) {
    const K key = row.keys[i];
    const std::int64_t place = row.places ? row.places[i] : 0;
    std::int64_t j = i;
    for (; j > 0 && row.keys[j - 1] > key; --j) {
      row.keys[j] = row.keys[j - 1];
      if (row.places) row.places[j] = row.places[j - 1];
    }
    row.keys[j] = key;
    if (row.places) row.places[j] = place;
  }
}

/// Stable: by the last byte first, then by the one before it. Gives the row that holds the result.
template <class K>
Row<K> radix_sort(Row<K> row, Row<K> spare, std::int64_t n) {
  constexpr std::int64_t kShort = 32;
  if (n <= kShort) {
    insertion_sort(row, n);
    return row;
  }
  std::array<std::array<std::int64_t, 256>, sizeof(K)> counts{};
  for (std::int64_t i = 0; i < n; ++i)
    for (std::size_t byte = 0; byte < sizeof(K); ++byte)
      ++counts[byte][row.keys[i] >> (8 * byte) & 255];
  for (std::size_t byte = 0; byte < sizeof(K); ++byte) {
    auto& at = counts[byte];
    if (at[row.keys[0] >> (8 * byte) & 255] == n) continue;  // all have the same byte
    std::int64_t sum = 0;
    for (std::int64_t& c : at) sum += std::exchange(c, sum);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t to = at[row.keys[i] >> (8 * byte) & 255]++;
      spare.keys[to] = row.keys[i];
      if (row.places) spare.places[to] = row.places[i];
    }
    std::swap(row, spare);
  }
  return row;
}

class SortCall : public Call {
 public:
  SortCall(const CallSite& site, bool places)
      : Call(site),
        places_(places),
        axis_(static_cast<std::size_t>(site.node->attrs.integer("axis"))) {
    const ArgDesc& x = site.in[0];
    const Lines lines(x.shape, axis_);
    slot_ = align64(static_cast<std::uint64_t>(lines.length * size_of(x.dtype))) * 2;
    if (places) slot_ += align64(static_cast<std::uint64_t>(lines.length) * 8) * 2;
    workspace = slot_ * static_cast<std::uint64_t>(std::min<std::int64_t>(threads_, lines.count));
  }

  void run(const RunArgs& args) const override {
    visit(in(args, 0).dtype, [&](auto tag) { go<decltype(tag)>(args); });
  }

 private:
  template <class T>
  void go(const RunArgs& args) const {
    using S = SortKey<T>;
    using K = typename S::Key;
    const Dims& shape = in(args, 0).shape;
    const Lines lines(shape, axis_);
    const std::int64_t n = lines.length;
    const T* const x = reinterpret_cast<const T*>(args.in[0]);
    constexpr std::int64_t kWork = 8;  // per element, in passes over it
    parallel_slots(
        lines.count, product(shape) * kWork, threads_,
        [&](std::int64_t slot, std::int64_t line, std::int64_t end) {
          std::byte* room = args.workspace + static_cast<std::uint64_t>(slot) * slot_;
          const auto take = [&](std::uint64_t bytes) { return std::exchange(room, room + bytes); };
          const auto row = [&] {
            const auto count = static_cast<std::uint64_t>(n);
            K* const keys = reinterpret_cast<K*>(take(align64(count * sizeof(K))));
            return Row<K>{keys, places_ ? reinterpret_cast<std::int64_t*>(take(align64(count * 8)))
                                        : nullptr};
          };
          const Row<K> first = row(), second = row();
          for (; line < end; ++line) {
            const std::int64_t start = lines.start(line);
            for (std::int64_t i = 0; i < n; ++i) {
              first.keys[i] = S::of(x[start + i * lines.inner], places_);
              if (places_) first.places[i] = i;
            }
            const Row<K> sorted = radix_sort(first, second, n);
            if (places_) {
              std::int64_t* const y = reinterpret_cast<std::int64_t*>(args.out[0]) + start;
              for (std::int64_t i = 0; i < n; ++i) y[i * lines.inner] = sorted.places[i];
            } else {
              T* const y = reinterpret_cast<T*>(args.out[0]) + start;
              for (std::int64_t i = 0; i < n; ++i) y[i * lines.inner] = S::value(sorted.keys[i]);
            }
          }
        });
  }

  bool places_;
  std::size_t axis_;
  std::uint64_t slot_ = 0;
};

/// The key that `k` others (the first ones of equal keys) come before, and how many of its equals
/// are among the first k + 1. Goes from the first byte to the last, counting only keys that agree
/// with what is found so far.
template <class K>
struct Selected {
  K key = 0;
  std::int64_t equals = 0;
};
template <class K>
Selected<K> select(const K* keys, std::int64_t n, std::int64_t k) {
  Selected<K> s;
  K known = 0;  // the bits of the key that are found
  for (std::size_t byte = sizeof(K); byte-- > 0;) {
    std::array<std::int64_t, 256> counts{};
    for (std::int64_t i = 0; i < n; ++i)
      if ((keys[i] & known) == s.key) ++counts[keys[i] >> (8 * byte) & 255];
    std::size_t digit = 0;
    while (k >= counts[digit]) k -= counts[digit++];
    s.key = static_cast<K>(s.key | static_cast<K>(K(digit) << (8 * byte)));
    known = static_cast<K>(known | static_cast<K>(K(255) << (8 * byte)));
  }
  s.equals = k + 1;
  return s;
}

class TopCall : public Call {
 public:
  explicit TopCall(const CallSite& site)
      : Call(site), axis_(static_cast<std::size_t>(site.node->attrs.integer("axis"))) {
    const ArgDesc& x = site.in[0];
    const Lines lines(x.shape, axis_);
    const auto bytes = static_cast<std::uint64_t>(size_of(x.dtype));
    const auto n = static_cast<std::uint64_t>(lines.length);
    const auto k = static_cast<std::uint64_t>(site.out[0].shape[axis_]);
    slot_ = align64(n * bytes) + 2 * (align64(k * bytes) + align64(k * 8));
    workspace = slot_ * static_cast<std::uint64_t>(std::min<std::int64_t>(threads_, lines.count));
  }

  void run(const RunArgs& args) const override {
    visit(in(args, 0).dtype, [&](auto tag) { go<decltype(tag)>(args); });
  }

 private:
  template <class T>
  void go(const RunArgs& args) const {
    using S = SortKey<T>;
    using K = typename S::Key;
    const Dims& shape = in(args, 0).shape;
    const Lines lines(shape, axis_), results(out(args, 0).shape, axis_);
    const std::int64_t n = lines.length, k = results.length;
    if (k == 0) return;
    // The first ones by key are the largest if keys are turned around.
    const K turn = *size_values(args, 0) > 0 ? static_cast<K>(~K{0}) : K{0};
    const T* const x = reinterpret_cast<const T*>(args.in[0]);
    std::int64_t* const y = reinterpret_cast<std::int64_t*>(args.out[0]);
    constexpr std::int64_t kWork = 4;  // per element, in passes over it
    parallel_slots(lines.count, product(shape) * kWork, threads_,
                   [&](std::int64_t slot, std::int64_t line, std::int64_t end) {
                     std::byte* room = args.workspace + static_cast<std::uint64_t>(slot) * slot_;
                     const auto take = [&](std::int64_t count, std::size_t size) {
                       return std::exchange(
                           room, room + align64(static_cast<std::uint64_t>(count) * size));
                     };
                     K* const keys = reinterpret_cast<K*>(take(n, sizeof(K)));
                     const auto row = [&] {
                       K* const found = reinterpret_cast<K*>(take(k, sizeof(K)));
                       return Row<K>{found, reinterpret_cast<std::int64_t*>(take(k, 8))};
                     };
                     const Row<K> first = row(), second = row();
                     for (; line < end; ++line) {
                       const std::int64_t start = lines.start(line);
                       for (std::int64_t i = 0; i < n; ++i)
                         keys[i] = static_cast<K>(S::of(x[start + i * lines.inner], true) ^ turn);
                       Selected<K> last = select(keys, n, k - 1);
                       std::int64_t count = 0;
                       for (std::int64_t i = 0; i < n; ++i) {
                         if (keys[i] > last.key || (keys[i] == last.key && last.equals-- <= 0))
                           continue;
                         first.keys[count] = keys[i];
                         first.places[count++] = i;
                       }
                       const Row<K> sorted = radix_sort(first, second, k);
                       std::int64_t* const to = y + results.start(line);
                       for (std::int64_t i = 0; i < k; ++i) to[i * lines.inner] = sorted.places[i];
                     }
                   });
  }

  std::size_t axis_;
  std::uint64_t slot_ = 0;
};

class SearchCall : public Call {
 public:
  explicit SearchCall(const CallSite& site) : Call(site), right_(site.node->attrs.flag("right")) {}

  void run(const RunArgs& args) const override {
    visit(in(args, 0).dtype, [&](auto tag) {
      using T = decltype(tag);
      using S = SortKey<T>;
      const T* const x = reinterpret_cast<const T*>(args.in[0]);
      const T* const v = reinterpret_cast<const T*>(args.in[1]);
      std::int64_t* const y = reinterpret_cast<std::int64_t*>(args.out[0]);
      const std::int64_t n = in(args, 0).shape[0], total = product(in(args, 1).shape);
      const std::int64_t steps = std::bit_width(static_cast<std::uint64_t>(n)) + 1;
      parallel_ranges(total, total * steps, threads_, [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) {
          const auto key = S::of(v[i], true);
          const auto before = [&](T element) {
            const auto k = S::of(element, true);
            return right_ ? k <= key : k < key;
          };
          y[i] = std::partition_point(x, x + n, before) - x;
        }
      });
    });
  }

 private:
  bool right_;
};

}  // namespace

Prepared prepare_argsort(const CallSite& site) { return std::make_unique<SortCall>(site, true); }
Prepared prepare_argtopk(const CallSite& site) { return std::make_unique<TopCall>(site); }
Prepared prepare_searchsorted(const CallSite& site) { return std::make_unique<SearchCall>(site); }
Prepared prepare_sort(const CallSite& site) { return std::make_unique<SortCall>(site, false); }

}  // namespace snug::native
