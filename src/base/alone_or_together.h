#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace snug {

/// Decides whether several threads do work together. Beside busy processes a thread may lose its
/// core in the middle of a chunk while the others wait for it, and one thread alone may be faster.
/// So where much time is lost both are tried, in turns that follow no pattern, and what is faster
/// is kept for some time, for what was tried. Turns are short at first. A system that shares cores
/// between sessions gives a thread its due by what all threads of its session took in the last 30
/// to 100 ms, so in short turns one thread pays for the others: where threads stay held up, turns
/// are long, and their beginnings do not count. Only work of one kind is compared: what a program
/// does changes. Times are in seconds.
class AloneOrTogether {
 public:
  bool together(std::uint64_t kind) const {
    return !alone_ || (phase_ == Phase::KeepAlone && tried_[place(kind)].kind != kind);
  }
  /// True if the caller is to say by `did` what work took.
  bool watches() const { return phase_ != Phase::Calm; }

  /// Work that was done together took so long, of which a thread was `lost`: others waited for it
  /// so long that it must have lost its core. Once in a while that happens on any machine.
  void took(double seconds, double lost) {
    spent_ += seconds;
    lost_ += lost;
    if (phase_ != Phase::Calm || spent_ < kLook) return;
    if (is_held_up()) begin(Phase::Try);
    spent_ = lost_ = 0;
  }

  /// Work of this kind, which takes about the same each time, was done as `together` said.
  void did(std::uint64_t kind, double seconds) {
    seconds_ += seconds;
    switch (phase_) {
      case Phase::Calm: break;
      case Phase::Try:
        if (turn_ >= trial_->settle) add(kind, seconds);
        turn_ += seconds;
        if (turn_ >= trial_->turn) decide();
        break;
      case Phase::KeepAlone:
        if (seconds_ >= trial_->keep) begin(Phase::Try);
        break;
      case Phase::KeepTogether:
        if (seconds_ < (is_held_up() ? trial_->keep : kShort.keep)) break;
        trial_ = is_held_up() ? &kLong : &kShort;
        begin(is_held_up() ? Phase::Try : Phase::Calm);
        break;
    }
  }

 private:
  enum class Phase : std::uint8_t { Calm, Try, KeepTogether, KeepAlone };
  /// Both are tried on the same work, for `each` on average, which is long beside the time slices
  /// of the system; for `most`, if there is little that comes again.
  struct Trial {
    double turn, settle;  // what `settle` seconds of a turn take does not count
    double each, most;
    double keep;
  };
  static constexpr Trial kShort{2e-3, 0, 0.04, 1, 0.4}, kLong{0.08, 0.04, 0.08, 1, 1.5};
  /// How much work decides whether threads are held up, and the share of it that has to be lost.
  static constexpr double kLook = 0.02, kLostShare = 0.2;
  /// alone, in seconds, over together, from which it is worth it.
  static constexpr double kWorth = 0.95;

  struct Tried {
    std::uint64_t kind = 0;
    double seconds[2] = {0, 0};  // together, alone
    double times[2] = {0, 0};
  };

  bool is_held_up() const { return lost_ > kLostShare * spent_; }

  void begin(Phase phase) {
    phase_ = phase;
    alone_ = phase == Phase::KeepAlone;
    seconds_ = turn_ = 0;
    spent_ = lost_ = 0;
    if (phase == Phase::Try) tried_ = {};
  }

  static std::size_t place(std::uint64_t kind) { return (kind * 0x9e3779b97f4a7c15) >> 58; }

  void add(std::uint64_t kind, double seconds) {
    Tried& t = tried_[place(kind)];
    if (t.kind != kind) t = {kind, {0, 0}, {0, 0}};
    t.seconds[alone_] += seconds;
    ++t.times[alone_];
  }

  void decide() {
    double sums[2] = {0, 0};
    for (const Tried& t : tried_) {
      const double both = std::min(t.times[0], t.times[1]);
      for (int way = 0; way < 2 && both > 0; ++way)
        sums[way] += t.seconds[way] / t.times[way] * both;
    }
    if (sums[0] + sums[1] >= 2 * trial_->each)
      return begin(sums[1] < kWorth * sums[0] ? Phase::KeepAlone : Phase::KeepTogether);
    if (seconds_ >= trial_->most) return begin(Phase::KeepTogether);
    turn_ = 0;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    alone_ = random_ >> 63 != 0;
  }

  Phase phase_ = Phase::Calm;
  const Trial* trial_ = &kShort;
  bool alone_ = false;             // in this phase
  double seconds_ = 0, turn_ = 0;  // of this phase and turn
  double spent_ = 0, lost_ = 0;    // of work done together
  std::uint64_t random_ = 0x2545f4914f6cdd1d;
  std::array<Tried, 64> tried_{};
};

}  // namespace snug
