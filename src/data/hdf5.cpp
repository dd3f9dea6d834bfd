#include <algorithm>
#include <optional>

#include "data/file.h"
#include "data/gauge.h"
#include "data/hdf5_library.h"
#include "data/inflate.h"
#include "data/source.h"

namespace snug::data {
namespace {

constexpr std::int64_t kChunkedBlock = 1 << 16, kPlainBlock = 1 << 18;  // bytes, at least
constexpr std::int64_t kLargestChunk = 1 << 30;
constexpr std::size_t kSmallRow =
    1 << 10;                       // of which a packed chunk may have more than twice the bytes
constexpr unsigned kReadOnly = 0;  // H5F_ACC_RDONLY calls functions that the linker has not

/// An id of the library and how to close it; made and dropped under the lock.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle(const Handle&) = delete;
  ~Handle() { reset(); }
  operator hid_t() const { return id_; }
  bool valid() const { return id_ >= 0; }
  void reset() {
    if (id_ >= 0) close_(std::exchange(id_, -1));
  }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// One dataset of the file.
struct Dataset {
  Handle object, memory_type;
  std::vector<hsize_t> sizes;
  std::vector<hsize_t> chunk;  // empty: not in chunks
  DType dtype;
  /// Filters of rows that are one packed chunk each, in the order they were applied. Such rows are
  /// unpacked by us, at the same time by several threads: the library works for one alone.
  std::vector<H5Z_filter_t> row_filters;

  std::int64_t chunk_bytes() const {
    std::int64_t bytes = chunk.empty() ? 0 : size_of(dtype);
    for (hsize_t size : chunk) bytes *= static_cast<std::int64_t>(size);
    return bytes;
  }
};

/// Undoes the filter that puts the first bytes of all numbers first, then the second ones.
void join_bytes(std::span<const std::byte> from, std::int64_t width, std::byte* out) {
  const auto count = static_cast<std::int64_t>(from.size()) / width;
  for (std::int64_t b = 0; b < width; ++b)
    for (std::int64_t i = 0; i < count; ++i) out[i * width + b] = from[b * count + i];
}

std::optional<DType> dtype_of(const Hdf5Lock& h5, hid_t native) {
  const std::size_t size = h5->H5Tget_size(native);
  switch (h5->H5Tget_class(native)) {
    case H5T_FLOAT:
      if (size == 4) return DType::F32;
      if (size == 8) return DType::F64;
      return {};
    case H5T_INTEGER: {
      const bool is_signed = h5->H5Tget_sign(native) != H5T_SGN_NONE;
      for (DType t : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                      DType::U32, DType::U64})
        if (size_of(t) == static_cast<std::int64_t>(size) && is_signed_int(t) == is_signed)
          return t;
      return {};
    }
    case H5T_ENUM:  // how others write booleans
      if (size == 1) return DType::Bool;
      return {};
    default: return {};
  }
}

herr_t keep_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

class Hdf5Rows : public Source {
 public:
  Hdf5Rows(const std::string& path, const std::vector<std::string>& names)
      : path_(path), file_(open(path)) {
    Hdf5Lock h5;
    try {
      std::vector<std::string> wanted = names.empty() ? datasets_of(h5) : names;
      for (const std::string& name : wanted) add(h5, name);
      choose_block();
    } catch (...) {  // the handles close under the lock
      close_all();
      throw;
    }
  }

  ~Hdf5Rows() override {
    Hdf5Lock h5;
    close_all();
  }

  /// The library keeps chunks of every dataset, and has one packed while it unpacks it.
  std::int64_t own_bytes() const override {
    constexpr std::int64_t kCache = 1 << 20;
    std::int64_t bytes = memory_.peak();
    for (const Dataset& set : datasets_)
      if (!set.chunk.empty() && set.row_filters.empty())
        bytes += std::max(kCache, set.chunk_bytes()) + set.chunk_bytes();
    return bytes;
  }

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    for (std::size_t f = 0; f < datasets_.size(); ++f) {
      if (!out[f] || fields_[f].bytes() == 0) continue;
      if (datasets_[f].row_filters.empty()) {
        read_by_library(Hdf5Lock(), f, begin, count, out[f]);
      } else {
        for (std::int64_t i = 0; i < count; ++i)
          read_packed(
              f, begin + i,
              {out[f] + i * fields_[f].bytes(), static_cast<std::size_t>(fields_[f].bytes())});
      }
    }
  }

 private:
  void read_by_library(const Hdf5Lock& h5, std::size_t f, std::int64_t begin, std::int64_t count,
                       std::byte* out) const {
    const Dataset& set = datasets_[f];
    const int rank = static_cast<int>(set.sizes.size());
    std::vector<hsize_t> start(rank, 0), counts = set.sizes;
    start[0] = static_cast<hsize_t>(begin);
    counts[0] = static_cast<hsize_t>(count);
    Handle file_space(h5->H5Dget_space(set.object), h5->H5Sclose);
    Handle memory_space(h5->H5Screate_simple(rank, counts.data(), nullptr), h5->H5Sclose);
    if (!file_space.valid() || !memory_space.valid() ||
        h5->H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, counts.data(),
                                nullptr) < 0 ||
        h5->H5Dread(set.object, set.memory_type, memory_space, file_space, H5P_DEFAULT, out) < 0)
      bad_file(path_, fmt::format("rows {} to {} of the dataset '{}' cannot be read: {}", begin,
                                  begin + count, fields_[f].name, h5.reason()));
  }

  /// One row that is a chunk: under the lock it is only read.
  void read_packed(std::size_t f, std::int64_t row, std::span<std::byte> out) const {
    const Dataset& set = datasets_[f];
    Gauge::Share memory(memory_);
    std::vector<std::byte> packed;
    std::uint32_t left_out = 0;  // a bit per filter that was not applied to this chunk
    {
      Hdf5Lock h5;
      std::vector<hsize_t> start(set.sizes.size(), 0);
      start[0] = static_cast<hsize_t>(row);
      hsize_t size = 0;
      // A chunk that was never written has no size; the library knows what stands for it.
      if (h5->H5Dget_chunk_storage_size(set.object, start.data(), &size) < 0 || size == 0 ||
          size > 2 * out.size() + kSmallRow)
        return read_by_library(h5, f, row, 1, out.data());
      memory.add(static_cast<std::int64_t>(size));
      packed.resize(size);
      if (h5->H5Dread_chunk(set.object, H5P_DEFAULT, start.data(), &left_out, packed.data()) < 0)
        bad_file(path_, fmt::format("row {} of the dataset '{}' cannot be read: {}", row,
                                    fields_[f].name, h5.reason()));
    }
    for (std::size_t i = set.row_filters.size(); i-- > 0;) {
      if (left_out >> i & 1) continue;
      memory.add(static_cast<std::int64_t>(out.size()));
      std::vector<std::byte> plain(out.size());
      if (set.row_filters[i] == H5Z_FILTER_DEFLATE ? !inflate_all(packed, plain)
                                                   : packed.size() != plain.size())
        damaged(f, row);
      if (set.row_filters[i] == H5Z_FILTER_SHUFFLE)
        join_bytes(packed, size_of(set.dtype), plain.data());
      packed = std::move(plain);
    }
    if (packed.size() != out.size()) damaged(f, row);
    std::memcpy(out.data(), packed.data(), out.size());
  }

  [[noreturn]] void damaged(std::size_t f, std::int64_t row) const {
    bad_file(path_, fmt::format("row {} of the dataset '{}' is damaged", row, fields_[f].name));
  }

  static Handle open(const std::string& path) {
    const File plain(path);  // says it clearly if there is none
    Hdf5Lock h5;
    Handle file(h5->H5Fopen(path.c_str(), kReadOnly, H5P_DEFAULT), h5->H5Fclose);
    if (!file.valid()) bad_file(path, fmt::format("cannot be read as HDF5: {}", h5.reason()));
    return file;
  }

  void close_all() {
    datasets_.clear();
    file_.reset();
  }

  std::vector<std::string> datasets_of(const Hdf5Lock& h5) const {
    std::vector<std::string> all, found;
    if (h5->H5Literate(file_, H5_INDEX_NAME, H5_ITER_INC, nullptr, keep_name, &all) < 0)
      bad_file(path_, fmt::format("its list of datasets cannot be read: {}", h5.reason()));
    for (const std::string& name : all) {
      Handle object(h5->H5Oopen(file_, name.c_str(), H5P_DEFAULT), h5->H5Oclose);
      if (object.valid() && h5->H5Iget_type(object) == H5I_DATASET) found.push_back(name);
    }
    if (found.empty())
      bad_file(path_, "has no dataset at its top", "give the names of datasets, as 'group/name'");
    return found;
  }

  void add(const Hdf5Lock& h5, const std::string& name) {
    Handle object(h5->H5Oopen(file_, name.c_str(), H5P_DEFAULT), h5->H5Oclose);
    if (!object.valid() || h5->H5Iget_type(object) != H5I_DATASET)
      bad_file(path_, fmt::format("there is no dataset '{}'", name));
    Handle space(h5->H5Dget_space(object), h5->H5Sclose);
    const int rank = space.valid() ? h5->H5Sget_simple_extent_ndims(space) : -1;
    if (rank < 1 || rank > 8)
      bad_file(path_, fmt::format("the dataset '{}' has {} dimensions; 1 to 8 are supported", name,
                                  std::max(rank, 0)));
    std::vector<hsize_t> sizes(rank);
    h5->H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
    Handle type(h5->H5Dget_type(object), h5->H5Tclose);
    Handle native(type.valid() ? h5->H5Tget_native_type(type, H5T_DIR_ASCEND) : -1, h5->H5Tclose);
    const std::optional<DType> dtype =
        native.valid() ? dtype_of(h5, native) : std::optional<DType>();
    if (!dtype) bad_file(path_, fmt::format("the dataset '{}' does not hold real numbers", name));

    Field field{name, *dtype, {}};
    Dims shape;
    for (hsize_t size : sizes)
      shape.push_back(static_cast<std::int64_t>(std::min<hsize_t>(size, INT64_MAX)));
    checked_product(shape, size_of(*dtype), fmt::format("{}: '{}'", path_, name));
    if (!datasets_.empty() && shape[0] != rows_)
      bad_file(path_,
               fmt::format("the dataset '{}' has {} rows, '{}' has {}", name, shape[0],
                           fields_[0].name, rows_),
               "give the names of datasets that have as many rows");
    rows_ = shape[0];
    field.shape = shape;
    field.shape.erase(0);
    fields_.push_back(field);
    std::vector<hsize_t> chunk = chunk_of(h5, object, sizes, name, size_of(*dtype));
    std::vector<H5Z_filter_t> filters;
    if (h5->H5Tequal(type, native) > 0) filters = row_filters_of(h5, object, sizes, chunk);
    datasets_.push_back({std::move(object), std::move(native), sizes, chunk, *dtype, filters});
  }

  /// Empty if rows are no chunks, are small, or have filters that we do not know.
  static std::vector<H5Z_filter_t> row_filters_of(const Hdf5Lock& h5, hid_t object,
                                                  const std::vector<hsize_t>& sizes,
                                                  const std::vector<hsize_t>& chunk) {
    if (chunk.empty() || chunk[0] != 1 ||
        !std::equal(chunk.begin() + 1, chunk.end(), sizes.begin() + 1))
      return {};
    Handle made(h5->H5Dget_create_plist(object), h5->H5Pclose);
    std::vector<H5Z_filter_t> filters;
    for (int i = 0; made.valid() && i < h5->H5Pget_nfilters(made); ++i) {
      unsigned flags = 0, config = 0;
      std::size_t values = 0;
      const H5Z_filter_t filter =
          h5->H5Pget_filter2(made, i, &flags, &values, nullptr, 0, nullptr, &config);
      if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE) return {};
      filters.push_back(filter);
    }
    return filters;
  }

  std::vector<hsize_t> chunk_of(const Hdf5Lock& h5, hid_t object, const std::vector<hsize_t>& sizes,
                                const std::string& name, std::int64_t width) const {
    Handle made(h5->H5Dget_create_plist(object), h5->H5Pclose);
    if (!made.valid() || h5->H5Pget_layout(made) != H5D_CHUNKED) return {};
    std::vector<hsize_t> chunk(sizes.size());
    if (h5->H5Pget_chunk(made, static_cast<int>(chunk.size()), chunk.data()) !=
        static_cast<int>(chunk.size()))
      bad_file(path_, fmt::format("the chunks of the dataset '{}' cannot be read", name));
    std::vector<std::int64_t> signed_sizes(chunk.begin(), chunk.end());
    if (checked_product(signed_sizes, width, path_) > kLargestChunk)
      bad_file(path_, fmt::format("the chunks of the dataset '{}' are larger than 1 GiB", name));
    return chunk;
  }

  /// The chunks of the field with the largest rows; small ones together.
  void choose_block() {
    std::size_t main = 0;
    for (std::size_t f = 1; f < fields_.size(); ++f)
      if (fields_[f].bytes() > fields_[main].bytes()) main = f;
    const Dataset& set = datasets_[main];
    const std::int64_t row = std::max<std::int64_t>(fields_[main].bytes(), 1);
    const std::int64_t rows = set.chunk.empty() ? 1 : static_cast<std::int64_t>(set.chunk[0]);
    const std::int64_t wanted = set.chunk.empty() ? kPlainBlock : kChunkedBlock;
    // The chunk is smaller than 1 GiB, its rows need not be.
    const std::int64_t bytes = rows > INT64_MAX / row ? INT64_MAX : rows * row;
    block_ = rows * std::max<std::int64_t>(wanted / bytes, 1);
    block_ = std::clamp<std::int64_t>(block_, 1, std::max<std::int64_t>(rows_, 1));
  }

  std::string path_;
  Handle file_;
  std::vector<Dataset> datasets_;
  mutable Gauge memory_;
};

}  // namespace

SourcePtr hdf5(const std::string& path, const std::vector<std::string>& names) {
  return std::make_shared<Hdf5Rows>(path, names);
}

}  // namespace snug::data
