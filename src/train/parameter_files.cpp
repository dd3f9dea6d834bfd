#include <algorithm>

#include "base/spelling.h"
#include "train/fit.h"
#include "train/trainer.h"

namespace snug::nn {
namespace {

std::string type_text(DType dtype, const Dims& shape) {
  return fmt::format("{} {}", name_of(dtype), describe_shape(shape));
}

/// "3 missing (a, b, c)"; the first ones of many.
void append(std::vector<std::string>& parts, const std::vector<std::string>& names,
            const char* what) {
  if (names.empty()) return;
  constexpr std::size_t kShown = 4;
  const std::size_t shown = std::min(names.size(), kShown);
  parts.push_back(fmt::format("{} {} ({}{})", names.size(), what,
                              fmt::join(names.begin(), names.begin() + shown, ", "),
                              shown < names.size() ? ", ..." : ""));
}

std::string text_of(const LoadReport& report, const char* taken) {
  std::vector<std::string> parts{fmt::format("{} {}", report.loaded.size(), taken)};
  append(parts, report.missing, "missing");
  append(parts, report.different, "of another type");
  append(parts, report.left_over, "left over");
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

std::string LoadReport::describe() const { return text_of(*this, "loaded"); }

void save(Layer& model, const std::string& path) {
  io::TensorFile file;
  put_values(values_of(model), file);
  io::save(path, file);
}

LoadReport load(Layer& model, const std::string& path, bool strict) {
  const io::TensorFile file = io::load(path);
  LoadReport report;
  std::vector<NamedValue> taken;
  const std::vector<NamedValue> values = values_of(model);
  for (const NamedValue& v : values) {
    const Array* a = file.find(v.name);
    const DType dtype = v.shared->type.dtype;
    const Dims shape = v.shared->shape();
    if (!a) {
      report.missing.push_back(v.name);
    } else if (a->dtype != dtype || !(a->shape == shape)) {
      report.different.push_back(fmt::format("{}: {} in the file, {} in the model", v.name,
                                             type_text(a->dtype, a->shape),
                                             type_text(dtype, shape)));
    } else {
      report.loaded.push_back(v.name);
      taken.push_back(v);
    }
  }
  for (const io::NamedArray& t : file.tensors)
    if (!is_training_state(t.name) &&
        std::none_of(values.begin(), values.end(),
                     [&](const NamedValue& v) { return v.name == t.name; }))
      report.left_over.push_back(t.name);
  if (strict && !report.complete())
    fail(Fault::Value,
         fmt::format("{}: does not have the parameters of the model: {}", path,
                     text_of(report, "fit")),
         spelled("load it without `strict` to take those that fit and see what is left",
                 "load it with strict=False to take those that fit and see what is left"));
  if (taken.empty() && !values.empty())
    fail(Fault::Value,
         fmt::format("{}: no parameter fits the model: {}", path, text_of(report, "fit")),
         "names say where in the model a parameter is: load into the part that the file is of");
  take_values(taken, file, path);
  return report;
}

}  // namespace snug::nn
