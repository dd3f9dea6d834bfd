#include "backend/onednn/conv_chain.h"

#include <fmt/format.h>

#include "backend/native/parallel.h"

namespace snug::onednn {
namespace {

using native::ConvKind;
using native::ConvShape;
using Desc = dnnl::memory::desc;
using Dimensions = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

/// The sizes in front, and those of all axes.
Dimensions sizes(const ConvShape& s, Dimensions first, const Dimensions& all) {
  first.insert(first.end(), all.end() - s.axes, all.end());
  return first;
}

Desc images(const ConvPart& p, bool x, std::int64_t all_channels, Tag tag) {
  const ConvShape& s = p.shape;
  const std::int64_t channels = x ? s.c : s.o, h = x ? s.h : s.oh, w = x ? s.w : s.ow;
  const Dimensions dims = sizes(s, {s.n, channels}, {x ? s.d : s.od, h, w});
  const auto type = data_type(p.dtype);
  if (x && p.gather_h > 0)
    return {dims,
            type,
            {p.gather_h * p.gather_w * s.c, 1, p.gather_sh * p.gather_w * s.c, p.gather_sw * s.c}};
  if (channels == all_channels || tag == Tag::any) return {dims, type, tag};
  return {dims, type, {h * w * all_channels, 1, w * all_channels, all_channels}};
}

Desc any_filters(const ConvPart& p) {
  const ConvShape& s = p.shape;
  const Dimensions taps{s.kd, s.kh, s.kw};
  const Dimensions dims = s.groups == 1 ? sizes(s, {s.o, s.c}, taps)
                                        : sizes(s, {s.groups, s.group_out(), s.group_in()}, taps);
  return {dims, data_type(p.dtype), Tag::any};
}

/// Filters in the user's order; `count` of the first axis, 0: all.
Desc plain_filters(const ConvPart& p, std::int64_t count = 0) {
  const ConvShape& s = p.shape;
  const std::int64_t taps = s.taps(), all = p.filter_channels;
  Dimensions dims, strides;
  if (s.groups == 1) {
    dims = {s.o, s.c};
    strides = p.swapped ? Dimensions{taps, all * taps} : Dimensions{all * taps, taps};
  } else {
    const std::int64_t in = s.group_in(), out = s.group_out();
    dims = {s.groups, out, in};
    strides = {out * in * taps, p.swapped ? taps : in * taps, p.swapped ? out * taps : taps};
  }
  if (count > 0) dims[0] = count;
  const Dimensions steps{s.kh * s.kw, s.kw, 1};
  return {sizes(s, dims, {s.kd, s.kh, s.kw}), data_type(p.dtype), sizes(s, strides, steps)};
}

std::string layout_key(const Desc& desc) {
  const dnnl_blocking_desc_t& b = desc.data.format_desc.blocking;
  return fmt::format("{} {} {}", fmt::join(b.strides, b.strides + desc.data.ndims, ","),
                     fmt::join(b.inner_blks, b.inner_blks + b.inner_nblks, ","),
                     fmt::join(b.inner_idxs, b.inner_idxs + b.inner_nblks, ","));
}

struct Geometry {
  Dimensions strides, dilation, low, high;
  explicit Geometry(const ConvShape& s)
      : strides(sizes(s, {}, {s.sd, s.sh, s.sw})),
        dilation(sizes(s, {}, {s.dd - 1, s.dh - 1, s.dw - 1})),
        low(sizes(s, {}, {s.front, s.top, s.left})),
        high(sizes(s, {}, {s.back, s.bottom, s.right})) {}
};

std::shared_ptr<ConvChain> build(const ConvPart& p) {
  const Tag outside = p.shape.axes == 3 ? Tag::ncdhw : Tag::nhwc;
  const Tag inside = p.blocked ? Tag::any : outside;
  const Desc x = images(p, true, p.x_channels, outside),
             y = images(p, false, p.y_channels, outside);
  ConvPart dense = p;
  dense.gather_h = 0;
  const Desc ix = images(dense, true, p.shape.c, inside), iy = images(p, false, p.shape.o, inside);
  const Desc iw = any_filters(p);
  const Geometry g(p.shape);
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, ix, iw, iy, g.strides, g.dilation, g.low, g.high},
      user_scratchpad(), engine());
  auto chain = std::make_shared<ConvChain>();
  using Place = Chain::Place;
  const auto filters = [&](Place place, std::uint64_t at, const Desc& wanted) {
    chain->filters = wanted;
    return chain->memory(p.library_filters ? wanted : plain_filters(p), place, at);
  };
  switch (p.kind) {
    case ConvKind::Forward: {
      if (is_reference(forward)) return nullptr;
      chain->implementation = forward.impl_info_str();
      const auto from = chain->in_layout(chain->memory(x, Place::In, 0), forward.src_desc());
      const auto w =
          chain->in_layout(filters(Place::In, 1, forward.weights_desc()), forward.weights_desc());
      const auto out = chain->memory(y, Place::Out, 0);
      const auto to = chain->out_layout(out, forward.dst_desc());
      chain->step<dnnl::convolution_forward>(
          forward, {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, to}});
      chain->flush(to, out);
      return chain;
    }
    case ConvKind::GradInput: {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {direct, ix, iw, iy, g.strides, g.dilation, g.low, g.high}, user_scratchpad(), engine(),
          forward);
      if (is_reference(pd)) return nullptr;
      chain->implementation = pd.impl_info_str();
      const auto w = chain->in_layout(filters(Place::In, 0, pd.weights_desc()), pd.weights_desc());
      const auto from = chain->in_layout(chain->memory(y, Place::In, 1), pd.diff_dst_desc());
      const auto out = chain->memory(x, Place::Out, 0);
      const auto to = chain->out_layout(out, pd.diff_src_desc());
      chain->step<dnnl::convolution_backward_data>(
          pd, {{DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, from}, {DNNL_ARG_DIFF_SRC, to}});
      chain->flush(to, out);
      return chain;
    }
    case ConvKind::GradWeight: {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {direct, ix, iw, iy, g.strides, g.dilation, g.low, g.high}, user_scratchpad(), engine(),
          forward);
      if (is_reference(pd)) return nullptr;
      chain->implementation = pd.impl_info_str();
      const auto from = chain->in_layout(chain->memory(x, Place::In, 0), pd.src_desc());
      const auto dy = chain->in_layout(chain->memory(y, Place::In, 1), pd.diff_dst_desc());
      const auto out = filters(Place::Out, 0, pd.diff_weights_desc());
      const auto to = chain->out_layout(out, pd.diff_weights_desc());
      chain->step<dnnl::convolution_backward_weights>(
          pd, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, to}});
      chain->flush(to, out);
      return chain;
    }
  }
  return nullptr;
}

}  // namespace

std::string ConvPart::key() const {
  const ConvShape& s = shape;
  return fmt::format(
      "{} {} {},{},{},{},{} {},{},{},{} {},{},{} {},{},{},{},{},{} {},{},{} {},{},{} {} {} {},{} "
      "{},{},{} {} {},{},{},{}",
      static_cast<int>(kind), name_of(dtype), s.n, s.c, s.d, s.h, s.w, s.o, s.kd, s.kh, s.kw, s.od,
      s.oh, s.ow, s.front, s.back, s.top, s.bottom, s.left, s.right, s.sd, s.sh, s.sw, s.dd, s.dh,
      s.dw, s.groups, s.axes, x_channels, y_channels, library_filters, swapped, filter_channels,
      blocked, gather_h, gather_w, gather_sh, gather_sw);
}

std::shared_ptr<const ConvChain> conv_chain(const ConvPart& part) {
  const native::OmpThreads alone(1);
  auto chain = cached_chain("conv " + part.key(), [&] { return build(part); });
  return std::static_pointer_cast<const ConvChain>(chain);
}

FilterSlices filter_slices(const ConvPart& part, const Desc& library, bool back) {
  constexpr std::int64_t kSlices = 8, kLeast = 32 * 1024;  // elements of a slice
  const native::OmpThreads alone(1);
  const Desc whole = plain_filters(part);
  const std::int64_t all = whole.data.dims[0];
  const std::int64_t elements = part.shape.o * part.shape.group_in() * part.shape.taps();
  FilterSlices slices;
  if ((slices.plain = library == whole)) return slices;
  Desc from = library;
  std::int64_t each = all;
  // Slices are whole blocks of filters. A layout may not have them one after the other.
  for (std::int64_t count = kSlices; count > 1; count /= 2) {
    if (all % count != 0 || elements / count < kLeast) continue;
    Dimensions dims(library.data.dims, library.data.dims + library.data.ndims);
    Dimensions zero(dims.size()), second(dims.size());
    dims[0] = second[0] = all / count;
    try {
      const Desc slice = library.submemory_desc(dims, zero);
      slices.library_step =
          library.submemory_desc(dims, second).data.offset0 - library.data.offset0;
      from = slice;
      each = all / count;
      slices.count = count;
      slices.plain_step = each * whole.data.format_desc.blocking.strides[0];
      break;
    } catch (const dnnl::error&) {
      continue;
    }
  }
  const Desc plain = plain_filters(part, each);
  slices.chain = cached_chain(
      fmt::format("filters {} {} {} {}", back, slices.count, part.key(), layout_key(library)), [&] {
        auto chain = std::make_shared<Chain>();
        const auto in = chain->memory(back ? from : plain, Chain::Place::In, 0);
        const auto out = chain->memory(back ? plain : from, Chain::Place::Out, 0);
        chain->flush(in, out);
        return chain;
      });
  return slices;
}

}  // namespace snug::onednn
