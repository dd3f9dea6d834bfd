#pragma once
#include <string>
#include <vector>

#include "plan/packing.h"

/// A file of buffers as MiniMalloc has them: a header that names the columns, then a buffer per
/// line.
struct PackFile {
  std::string path;
  std::string header;
  std::vector<std::string> rows;       // as read
  std::vector<snug::PackItem> items;   // one per row
  std::vector<std::string> names;      // of the items in messages: id and line
  std::vector<std::uint64_t> offsets;  // of the column "offset", if there is one
};

/// Errors name the file and the line.
PackFile read_pack_file(const std::string& path);

/// The rows with their offsets, as one more column.
void write_pack_file(const std::string& path, const PackFile& file,
                     const std::vector<std::uint64_t>& offsets);
