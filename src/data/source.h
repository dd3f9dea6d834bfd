#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/array.h"

namespace snug::data {

/// One of the things that every row has: the name, and dtype and shape of one row of it.
struct Field {
  std::string name;
  DType dtype = DType::F32;
  Dims shape;
  std::int64_t bytes() const { return product(shape) * size_of(dtype); }
  bool operator==(const Field&) const = default;
};
std::string describe(const Field& field);  // "image: uint8 (3, 32, 32)"

/// Rows of data that need not be in memory. Reading is safe from several threads.
class Source {
 public:
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  const std::vector<Field>& fields() const { return fields_; }
  std::int64_t rows() const { return rows_; }
  /// Rows that are read together at little more than the cost of one; 1: rows in any order cost the
  /// same. Blocks begin at row `phase()`, the rows before it being the rest of one.
  std::int64_t block() const { return block_; }
  std::int64_t phase() const { return phase_; }
  /// The names of the classes that labels count; empty if the source has none.
  const std::vector<std::string>& classes() const { return classes_; }

  /// Bytes that the source takes for itself: what it keeps unpacked, caches, and the most that
  /// decoders took at once so far.
  virtual std::int64_t own_bytes() const { return 0; }

  /// Writes rows [begin, begin + count) of field f to out[f]; null: the field is not wanted.
  /// Errors: rows that are not there, damaged data, named with the file and the place.
  void read(std::int64_t begin, std::int64_t count, std::span<std::byte* const> out) const;
  /// The same in fresh arrays.
  std::vector<Array> read(std::int64_t begin, std::int64_t count) const;
  /// The number of a field by name.
  std::size_t field(std::string_view name) const;

 protected:
  Source() = default;
  virtual void read_rows(std::int64_t begin, std::int64_t count,
                         std::span<std::byte* const> out) const = 0;

  std::vector<Field> fields_;
  std::int64_t rows_ = 0, block_ = 1, phase_ = 0;
  std::vector<std::string> classes_;
};
using SourcePtr = std::shared_ptr<const Source>;

/// A Type error that begins with `what` if there is no source.
SourcePtr required(const char* what, SourcePtr source);

/// Sizes that came from a file or a user, multiplied; a Value error that begins with `what` if the
/// product is negative or no number of bytes that a machine has.
std::int64_t checked_product(std::span<const std::int64_t> sizes, std::int64_t width,
                             std::string_view what);

// ---- sources

/// Arrays with one row per element of their first axis, without a copy. Names: "0", "1", ...
/// unless given.
SourcePtr arrays(const std::vector<Array>& arrays, const std::vector<std::string>& names = {});
/// An array in a .npy file, read piece by piece. The name of the field is "data".
SourcePtr npy(const std::string& path);
/// Arrays of a .npz file with equally many rows, all or those of these names.
SourcePtr npz(const std::string& path, const std::vector<std::string>& names = {});
/// Datasets of an HDF5 file with equally many rows, all at its top or those of these names.
SourcePtr hdf5(const std::string& path, const std::vector<std::string>& names = {});
/// A file of the MNIST family, gzipped or not. The name of the field is "data".
SourcePtr idx(const std::string& path);

struct ImageOptions {
  std::int64_t height = 0, width = 0;
  bool grey = false;     // one channel instead of three
  bool stretch = false;  // the whole image, its proportions lost; else the largest middle part
};
/// JPEG and PNG images of a folder as "image", uint8 (channels, height, width). Folders in it are
/// classes, in the order of their names, counted by "label"; files with the paths in `without` are
/// left out. Errors name the image.
SourcePtr images(const std::string& folder, const ImageOptions& options,
                 const std::vector<std::string>& without = {});
/// The same of these files, without labels.
SourcePtr image_files(const std::vector<std::string>& paths, const ImageOptions& options);

struct BrokenFile {
  std::string path, why;
};
/// The images of a folder that cannot be decoded: all are read, by as many threads as there are
/// cores.
std::vector<BrokenFile> broken_images(const std::string& folder);

struct CsvOptions {
  bool header = true;                     // the first line has names; else they are "0", "1", ...
  std::vector<std::string> columns = {};  // empty: all but the label
  std::string label = {};                 // integers, or texts that become classes
  char separator = ',';
};
/// A table of numbers as "data", float32, an empty cell being nan, and "label", int64.
SourcePtr csv(const std::string& path, const CsvOptions& options = {});

// ---- sources made of sources

/// Rows [begin, end); negative numbers count from the end, as in Python.
SourcePtr slice(SourcePtr source, std::int64_t begin, std::int64_t end);
/// All rows of one, then all rows of the next. Their fields are equal.
SourcePtr concat(const std::vector<SourcePtr>& sources);
/// The fields of all, row by row. A name that is there already gets a number.
SourcePtr zip(const std::vector<SourcePtr>& sources);
/// Some of the fields, in this order.
SourcePtr select(SourcePtr source, const std::vector<std::string>& names);
/// Parts of these shares of the rows: split(source, {0.9, 0.1}). They are consecutive, or with a
/// seed random rows, as images that are sorted by their class need it. A source that is read in
/// blocks has no random parts.
std::vector<SourcePtr> split(SourcePtr source, const std::vector<double>& shares,
                             std::optional<std::uint64_t> seed = {});

}  // namespace snug::data
