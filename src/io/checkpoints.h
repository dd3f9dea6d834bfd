#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/tensor_file.h"

namespace snug::io {

/// A folder of checkpoints "checkpoint-000000000123.safetensors", numbered by their step, and
/// "best.safetensors". Each is a whole state of training with a hash over its contents.
class Checkpoints {
 public:
  /// Makes the folder if it is not there.
  explicit Checkpoints(std::string folder, int keep = 2);

  /// Writes a checkpoint; then removes what is older than the newest `keep` valid ones, and what
  /// killed writers left behind. An error loses nothing that was there before.
  void save(std::int64_t step, const TensorFile& state, bool best = false);
  /// The best one alone.
  void save_best(std::int64_t step, const TensorFile& state);

  struct Found {
    std::string path;
    TensorFile state;
  };
  /// The newest valid one; none if there is none. `skipped` gets a text for every file that is
  /// damaged or foreign: "NAME: WHY".
  std::optional<Found> load_newest(std::vector<std::string>* skipped = nullptr);

  bool any() const;  // valid or not

  const std::string& folder() const { return folder_; }
  std::string best_path() const;

 private:
  std::string path_of(std::int64_t step) const;
  std::vector<std::string> newest_first() const;
  void link_best(const std::string& path, const TensorFile& state) const;
  TensorFile load_checkpoint(const std::string& name) const;
  bool valid(const std::string& name);  // looked at once
  void remove_old();

  std::string folder_;
  int keep_;
  std::map<std::string, bool> valid_;  // what is known of files, by name
};

/// Metadata that every checkpoint has.
inline constexpr std::string_view kCheckpointFormat = "snug.checkpoint.1";

}  // namespace snug::io
