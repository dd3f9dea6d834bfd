#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/array.h"

/// Files of named arrays. Nothing in them is code; sizes are checked before memory is taken.
namespace snug::io {

struct NamedArray {
  std::string name;
  Array array;
};
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<NamedArray> tensors;
  Metadata metadata;  // of safetensors alone
  const Array* find(std::string_view name) const;
};

/// By the end of the name: ".safetensors" or ".npz". The file is there whole or not at all: it is
/// written aside and renamed. A full disk is a Device error, and what was there before stays.
void save(const std::string& path, const TensorFile& file);
/// A Value error names the file and what is wrong with it.
TensorFile load(const std::string& path);

// ---- safetensors: 8 bytes with the length of the header, the header in JSON, the elements

void save_safetensors(const std::string& path, const TensorFile& file);
/// The arrays are read, in the order of their places; they come sorted by name.
TensorFile load_safetensors(const std::string& path);

/// With a hash over all that is in the file, as metadata "snug.hash". Loading such a file by
/// `load_hashed` checks it; a file without one, or with a wrong one, is a Value error.
void save_hashed(const std::string& path, const TensorFile& file);
TensorFile load_hashed(const std::string& path);

// ---- npz: NumPy's archive of arrays; stored without compression, read with or without

void save_npz(const std::string& path, const TensorFile& file);
TensorFile load_npz(const std::string& path);

}  // namespace snug::io
