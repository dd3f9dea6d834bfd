#include "base/label_error.h"

#include "base/array.h"
#include "base/error.h"

namespace snug {

void fail_label(const std::string& what, std::int64_t label, const Dims& labels,
                std::int64_t element, std::int64_t classes) {
  Dims at = labels;
  for (std::size_t i = labels.size(); i-- > 0;) {
    at[i] = element % labels[i];
    element /= labels[i];
  }
  if (!at.empty()) at[0] += first_row_of_slice;
  const std::string place = at.empty()       ? ""
                            : at.size() == 1 ? fmt::format(" of row {}", at[0])
                                             : fmt::format(" at {}", describe_shape(at));
  const std::string known =
      classes == 1 ? "the only class, 0"
                   : fmt::format("one of the {} classes 0 to {}", classes, classes - 1);
  fail(Fault::Index, fmt::format("{}: label {}{} is not {}", what, label, place, known),
       label < 0 ? "leave rows without a label out of the data"
                 : "classes are counted from 0; the model gives one score per class");
}

}  // namespace snug
