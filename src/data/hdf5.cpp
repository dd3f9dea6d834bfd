#include <algorithm>
#include <optional>

#include "data/file.h"
#include "data/hdf5_library.h"
#include "data/source.h"

namespace snug::data {
namespace {

constexpr std::int64_t kChunkedBlock = 1 << 16, kPlainBlock = 1 << 18;  // bytes, at least
constexpr std::int64_t kLargestChunk = 1 << 30;
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
};

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

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    Hdf5Lock h5;
    for (std::size_t f = 0; f < datasets_.size(); ++f) {
      if (!out[f] || fields_[f].bytes() == 0) continue;
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
          h5->H5Dread(set.object, set.memory_type, memory_space, file_space, H5P_DEFAULT, out[f]) <
              0)
        bad_file(path_, fmt::format("rows {} to {} of the dataset '{}' cannot be read: {}", begin,
                                    begin + count, fields_[f].name, h5.reason()));
    }
  }

 private:
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
    datasets_.push_back({std::move(object), std::move(native), sizes, chunk, *dtype});
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
};

}  // namespace

SourcePtr hdf5(const std::string& path, const std::vector<std::string>& names) {
  return std::make_shared<Hdf5Rows>(path, names);
}

}  // namespace snug::data
