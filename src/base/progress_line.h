#pragma once
#include <string>

namespace snug {

/// Says on a terminal what is under way ("measuring ..."), on a line of stderr that is gone with
/// it. Where stderr is no terminal nobody reads along, and nothing is written. One that is made
/// while another lives takes its place meanwhile. For one thread at a time.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Takes it away before its end.
  void clear();

 private:
  void show() const;
  std::string what_;
  bool shown_;
  ProgressLine* around_ = nullptr;
};

}  // namespace snug
