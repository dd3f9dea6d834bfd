#pragma once
#include <hdf5.h>

#include <mutex>
#include <string>

namespace snug::data {

/// The functions of libhdf5 that we use. The library brings curl, ssl and others with it, so it is
/// loaded when the first HDF5 file is opened.
struct Hdf5 {
#define SNUG_HDF5_FUNCTIONS(X)  \
  X(H5open)                     \
  X(H5Eset_auto2)               \
  X(H5Ewalk2)                   \
  X(H5Fopen)                    \
  X(H5Fclose)                   \
  X(H5Literate)                 \
  X(H5Oopen)                    \
  X(H5Oclose)                   \
  X(H5Iget_type)                \
  X(H5Dget_space)               \
  X(H5Dget_type)                \
  X(H5Dget_create_plist)        \
  X(H5Dread)                    \
  X(H5Dread_chunk)              \
  X(H5Dget_chunk_storage_size)  \
  X(H5Pget_layout)              \
  X(H5Pget_chunk)               \
  X(H5Pget_nfilters)            \
  X(H5Pget_filter2)             \
  X(H5Pclose)                   \
  X(H5Screate_simple)           \
  X(H5Sclose)                   \
  X(H5Sget_simple_extent_ndims) \
  X(H5Sget_simple_extent_dims)  \
  X(H5Sselect_hyperslab)        \
  X(H5Tget_native_type)         \
  X(H5Tget_class)               \
  X(H5Tget_size)                \
  X(H5Tget_sign)                \
  X(H5Tequal)                   \
  X(H5Tclose)
#define SNUG_DECLARE(name) decltype(&::name) name = nullptr;
  SNUG_HDF5_FUNCTIONS(SNUG_DECLARE)
#undef SNUG_DECLARE
};

/// Access to the library, for one thread at a time.
class Hdf5Lock {
 public:
  Hdf5Lock();
  const Hdf5* operator->() const { return library_; }
  /// What the library says of the last failure.
  std::string reason() const;

 private:
  std::lock_guard<std::mutex> lock_;
  const Hdf5* library_;
};

}  // namespace snug::data
