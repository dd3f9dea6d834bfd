#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/routines.h"

namespace snug::native {
namespace {

/// The result is input 0, in its place or copied.
class SameCall : public Call {
 public:
  using Call::Call;

 protected:
  void pass(const RunArgs& args) const {
    if (args.out[0] != args.in[0])
      copy(out(args, 0), args.out[0], in(args, 0), args.in[0], threads_);
  }
};

class AssertCall : public SameCall {
 public:
  explicit AssertCall(const CallSite& site)
      : SameCall(site), message_(site.node->attrs.text("message")) {}

  void run(const RunArgs& args) const override {
    for (std::size_t i = 1; i < in_.size(); ++i)
      if (*args.in[i] == std::byte{0}) fail(Fault::Assertion, message_);
    pass(args);
  }

 private:
  std::string message_;
};

/// Calls code of the host, which may do as it likes with memory and time.
class PrintCall : public SameCall {
 public:
  explicit PrintCall(const CallSite& site)
      : SameCall(site), show_(site.node->attrs.host_call("show")) {}

  void run(const RunArgs& args) const override {
    pass(args);
    if (!show_ || !show_->run) return;
    const ArgDesc& d = out(args, 0);
    show_->run(Array{d.dtype, d.shape, d.strides, args.out[0], nullptr});
  }

 private:
  std::shared_ptr<const HostCall> show_;
};

}  // namespace

Prepared prepare_assert(const CallSite& site) { return std::make_unique<AssertCall>(site); }
Prepared prepare_print(const CallSite& site) { return std::make_unique<PrintCall>(site); }

}  // namespace snug::native
