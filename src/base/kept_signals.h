#pragma once

namespace snug {

/// While some live, what drivers do to the handlers of signals does not last: the compilers inside
/// of them take SIGINT and others, and Ctrl-C would be lost. A handler is a driver's if its code is
/// loaded after the first of all is made; what others set meanwhile stays.
class KeptSignals {
 public:
  KeptSignals();
  ~KeptSignals();
  /// Puts back the handlers that were taken so far.
  void keep() const;
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
};

}  // namespace snug
