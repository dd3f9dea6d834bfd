#pragma once
#include <cstdint>

namespace snug {

/// Decides whether several threads do work together. Beside busy processes a thread may lose its
/// core in the middle of a chunk while the others wait for it, and one thread alone may be faster.
/// So after a long wait both are tried in turn, and what does more work per second is kept for some
/// time. Times are in seconds, work in any unit.
class AloneOrTogether {
 public:
  bool together() const { return !alone_; }
  /// True if the caller is to say by `did` what work took.
  bool watches() const { return phase_ != Phase::Calm; }

  /// A thread waited for others, so long that one of them must have lost its core.
  void held_up() {
    held_up_ = true;
    if (phase_ == Phase::Calm) begin(Phase::TryTogether);
  }

  void did(double work, double seconds) {
    work_ += work;
    seconds_ += seconds;
    switch (phase_) {
      case Phase::Calm: break;
      case Phase::TryTogether:
        if (seconds_ >= kTry) {
          together_rate_ = work_ / seconds_;
          begin(Phase::TryAlone);
        }
        break;
      case Phase::TryAlone:
        if (seconds_ >= kTry) {
          const bool alone = work_ / seconds_ > together_rate_;
          begin(alone ? Phase::KeepAlone : Phase::KeepTogether);
        }
        break;
      case Phase::KeepAlone:
        if (seconds_ >= kKeep) begin(Phase::TryTogether);
        break;
      case Phase::KeepTogether:
        if (seconds_ >= kKeep) begin(held_up_ ? Phase::TryTogether : Phase::Calm);
        break;
    }
  }

 private:
  enum class Phase : std::uint8_t { Calm, TryTogether, TryAlone, KeepTogether, KeepAlone };
  /// Long beside the time slices of the system, some milliseconds.
  static constexpr double kTry = 0.04, kKeep = 0.4;

  void begin(Phase phase) {
    phase_ = phase;
    alone_ = phase == Phase::TryAlone || phase == Phase::KeepAlone;
    work_ = seconds_ = 0;
    held_up_ = false;
  }

  Phase phase_ = Phase::Calm;
  bool alone_ = false, held_up_ = false;  // in this phase
  double work_ = 0, seconds_ = 0;         // of this phase
  double together_rate_ = 0;
};

}  // namespace snug
