#include "backend/native/conv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/native/call.h"
#include "backend/native/convert.h"
#include "backend/native/parallel.h"
#include "backend/onednn/chain.h"
#include "backend/onednn/routines.h"

namespace snug::onednn {
namespace {

using native::ConvKind;
using native::ConvShape;
using Tag = dnnl::memory::format_tag;

struct Descs {
  dnnl::memory::desc x, w, y;
};

Descs descs(const ConvShape& s, DType dtype, bool any) {
  const auto type = data_type(dtype);
  const bool three = s.axes == 3;
  const Tag image = any ? Tag::any : three ? Tag::ncdhw : Tag::nchw;
  const Tag one = three ? Tag::oidhw : Tag::oihw, grouped = three ? Tag::goidhw : Tag::goihw;
  // The sizes in front, and those of all axes.
  const auto sizes = [&](dnnl::memory::dims first, const dnnl::memory::dims& all) {
    first.insert(first.end(), all.end() - s.axes, all.end());
    return first;
  };
  const dnnl::memory::dims taps{s.kd, s.kh, s.kw};
  const dnnl::memory::desc w =
      s.groups == 1 ? dnnl::memory::desc(sizes({s.o, s.c}, taps), type, any ? Tag::any : one)
                    : dnnl::memory::desc(sizes({s.groups, s.group_out(), s.group_in()}, taps), type,
                                         any ? Tag::any : grouped);
  return {{sizes({s.n, s.c}, {s.d, s.h, s.w}), type, image},
          w,
          {sizes({s.n, s.o}, {s.od, s.oh, s.ow}), type, image}};
}

/// Where the plain operands are: in the call's arguments, or converted or turned in the workspace.
struct Operand {
  bool staged = false;
  std::uint64_t offset = 0;
};
using Operands = std::array<Operand, 3>;  // input 0, input 1, output

std::shared_ptr<Chain> build(ConvKind kind, const ConvShape& s, DType dtype,
                             const Operands& operands, std::uint64_t workspace_begin) {
  const Descs plain = descs(s, dtype, false);
  const Descs any = descs(s, dtype, true);
  dnnl::memory::dims strides{s.sh, s.sw}, dilation{s.dh - 1, s.dw - 1}, low{s.top, s.left},
      high{s.bottom, s.right};
  if (s.axes == 3) {
    strides.insert(strides.begin(), s.sd);
    dilation.insert(dilation.begin(), s.dd - 1);
    low.insert(low.begin(), s.front);
    high.insert(high.begin(), s.back);
  }
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, any.x, any.w, any.y, strides, dilation, low,
       high},
      user_scratchpad(), engine());
  auto chain = std::make_shared<Chain>(workspace_begin);
  const auto place = [&](int i, const dnnl::memory::desc& desc) {
    if (operands[i].staged) return chain->memory(desc, Chain::Place::Workspace, operands[i].offset);
    return i < 2 ? chain->memory(desc, Chain::Place::In, i)
                 : chain->memory(desc, Chain::Place::Out, 0);
  };
  switch (kind) {
    case ConvKind::Forward: {
      if (is_reference(forward)) return nullptr;
      const auto x = chain->in_layout(place(0, plain.x), forward.src_desc());
      const auto w = chain->in_layout(place(1, plain.w), forward.weights_desc());
      const auto out = place(2, plain.y);
      const auto y = chain->out_layout(out, forward.dst_desc());
      chain->step(dnnl::convolution_forward(forward),
                  {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}},
                  forward.scratchpad_desc());
      chain->flush(y, out);
      return chain;
    }
    case ConvKind::GradInput: {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {direct, any.x, any.w, any.y, strides, dilation, low, high}, user_scratchpad(), engine(),
          forward);
      if (is_reference(pd)) return nullptr;
      const auto w = chain->in_layout(place(0, plain.w), pd.weights_desc());
      const auto dy = chain->in_layout(place(1, plain.y), pd.diff_dst_desc());
      const auto out = place(2, plain.x);
      const auto dx = chain->out_layout(out, pd.diff_src_desc());
      chain->step(dnnl::convolution_backward_data(pd),
                  {{DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}},
                  pd.scratchpad_desc());
      chain->flush(dx, out);
      return chain;
    }
    case ConvKind::GradWeight: {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {direct, any.x, any.w, any.y, strides, dilation, low, high}, user_scratchpad(), engine(),
          forward);
      if (is_reference(pd)) return nullptr;
      const auto x = chain->in_layout(place(0, plain.x), pd.src_desc());
      const auto dy = chain->in_layout(place(1, plain.y), pd.diff_dst_desc());
      const auto out = place(2, plain.w);
      const auto dw = chain->out_layout(out, pd.diff_weights_desc());
      chain->step(dnnl::convolution_backward_weights(pd),
                  {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}},
                  pd.scratchpad_desc());
      chain->flush(dw, out);
      return chain;
    }
  }
  return nullptr;
}

/// Turns every kernel by 180 degrees: the order of its taps is reversed. `to` may be `from`.
template <class T>
void turn(const T* from, T* to, std::int64_t kernels, std::int64_t taps) {
  for (std::int64_t i = 0; i < kernels; ++i, from += taps, to += taps)
    for (std::int64_t low = 0, high = taps - 1; low <= high; ++low, --high) {
      const T a = from[low], b = from[high];
      to[low] = b;
      to[high] = a;
    }
}
void turn(std::int64_t element_bytes, const std::byte* from, std::byte* to, std::int64_t kernels,
          std::int64_t taps) {
  if (element_bytes == 4)
    turn(reinterpret_cast<const std::uint32_t*>(from), reinterpret_cast<std::uint32_t*>(to),
         kernels, taps);
  else
    turn(reinterpret_cast<const std::uint16_t*>(from), reinterpret_cast<std::uint16_t*>(to),
         kernels, taps);
}

/// Which of (input 0, input 1, output) is the weight.
int weight_operand(ConvKind kind) {
  return kind == ConvKind::Forward ? 1 : kind == ConvKind::GradInput ? 0 : 2;
}

class ConvCall : public native::Call {
 public:
  /// Null if oneDNN does not do it well in `compute`.
  static std::unique_ptr<ConvCall> make(const CallSite& site, ConvKind kind, const ConvShape& s,
                                        DType compute) {
    Operands operands;
    std::uint64_t bytes = 0;
    const bool convert = site.out[0].dtype != compute;
    for (int i = 0; i < 3; ++i) {
      operands[i].staged = convert || (s.flip && s.taps() > 1 && i == weight_operand(kind));
      if (!operands[i].staged) continue;
      operands[i].offset = bytes;
      const Dims& shape = (i < 2 ? site.in[i] : site.out[0]).shape;
      bytes += native::align64(product(shape) * size_of(compute));
    }
    const native::OmpThreads scope(site.threads);
    const std::string key = fmt::format(
        "conv {} {} {} {} {},{},{},{} {},{},{} {},{} {},{},{},{} {},{} {},{} {} {} "
        "{} {},{},{} {},{} {},{}",
        static_cast<int>(kind), name_of(site.out[0].dtype), name_of(compute), site.threads, s.n,
        s.c, s.h, s.w, s.o, s.kh, s.kw, s.oh, s.ow, s.top, s.bottom, s.left, s.right, s.sh, s.sw,
        s.dh, s.dw, s.groups, s.flip, s.axes, s.d, s.kd, s.od, s.front, s.back, s.sd, s.dd);
    auto chain = cached_chain(key, [&] { return build(kind, s, compute, operands, bytes); });
    if (!chain) return nullptr;
    auto call = std::unique_ptr<ConvCall>(new ConvCall(site, kind, s));
    call->operands_ = operands;
    call->compute_ = compute;
    call->workspace = chain->workspace();
    call->chain_ = std::move(chain);
    return call;
  }

  void run(const RunArgs& args) const override {
    const native::OmpThreads scope(threads_);
    for (int i = 0; i < 2; ++i)
      if (operands_[i].staged) stage(i, args.in[i], args.workspace + operands_[i].offset);
    chain_->run(args.in, args.out, args.workspace);
    if (operands_[2].staged) unstage(args.workspace + operands_[2].offset, args.out[0]);
  }

 private:
  ConvCall(const CallSite& site, ConvKind kind, const ConvShape& s)
      : Call(site), kind_(kind), shape_(s) {}

  bool turned(int i) const { return shape_.flip && i == weight_operand(kind_); }
  std::int64_t kernels() const { return shape_.o * shape_.group_in(); }

  void stage(int i, const std::byte* from, std::byte* to) const {
    if (in_[i].dtype != compute_) {
      native::widen(in_[i].dtype, from, reinterpret_cast<float*>(to), product(in_[i].shape),
                    threads_);
      from = to;
    }
    if (turned(i)) turn(size_of(compute_), from, to, kernels(), shape_.taps());
  }

  void unstage(std::byte* from, std::byte* to) const {
    const bool convert = out_[0].dtype != compute_;
    if (turned(2)) turn(size_of(compute_), from, convert ? from : to, kernels(), shape_.taps());
    if (convert)
      native::narrow(out_[0].dtype, reinterpret_cast<const float*>(from), to,
                     product(out_[0].shape), threads_);
  }

  ConvKind kind_;
  ConvShape shape_;
  Operands operands_;
  DType compute_ = DType::F32;
  std::shared_ptr<const Chain> chain_;
};

/// Where unfolding is measured to be faster: oneDNN pads channels to 16 and reorders images.
bool better_unfolded(ConvKind kind, const ConvShape& s) {
  if (s.groups > 1 || kind == ConvKind::GradWeight) return false;
  const bool pointwise = s.taps() == 1 && s.sd == 1 && s.sh == 1 && s.sw == 1;
  return pointwise || (kind == ConvKind::GradInput ? s.c < 12 : s.c == 1);
}

std::unique_ptr<PreparedCall> prepare(const CallSite& site, ConvKind kind) {
  const ConvShape s =
      native::ConvAttrs(site.node->attrs).sizes(kind, site.in[0], site.in[1], site.out[0]);
  const DType dtype = site.out[0].dtype;
  const bool known = dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
  if (!known || site.runtime_sizes || s.work() == 0 || product(site.out[0].shape) == 0)
    return native::prepare_conv(site, kind);
  if (dtype == DType::F32 && better_unfolded(kind, s)) return native::prepare_conv(site, kind);
  if (dtype == DType::BF16 && has_bfloat16())
    if (auto call = ConvCall::make(site, kind, s, DType::BF16)) return call;
  if (auto call = ConvCall::make(site, kind, s, DType::F32)) return call;
  return native::prepare_conv(site, kind);
}

}  // namespace

std::unique_ptr<PreparedCall> prepare_conv2d(const CallSite& site) {
  return prepare(site, ConvKind::Forward);
}
std::unique_ptr<PreparedCall> prepare_conv2d_grad_input(const CallSite& site) {
  return prepare(site, ConvKind::GradInput);
}
std::unique_ptr<PreparedCall> prepare_conv2d_grad_weight(const CallSite& site) {
  return prepare(site, ConvKind::GradWeight);
}

}  // namespace snug::onednn
