#pragma once
#include <snug/snug.h>

/// What `snug train` is told about data.
struct DataOptions {
  std::string data, validation, test;
  std::vector<std::int64_t> size;  // of images in a folder: rows and columns, or one for both
  bool grey = false, skip_broken = false;
  std::uint64_t seed = 0;
};

/// Sources of rows (input, label); null: there is none.
struct TrainData {
  snug::data::SourcePtr training, validation, test;
  std::vector<std::string> image_folders;
  bool held_out = false;  // the validation rows are some of the training data

  /// The names of the classes, or their numbers as far as the labels go.
  std::vector<std::string> classes() const;
};
TrainData open_data(const DataOptions& options);

/// The images that cannot be decoded as a text, at most so many by name.
std::string list_of(const std::vector<snug::data::BrokenFile>& broken);
