#include "expr/attrs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

namespace snug {
namespace {

std::size_t mix(std::size_t h, std::size_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 32);
}

std::size_t hash_of(const Attrs::Value& value) {
  return std::visit(
      [](const auto& v) -> std::size_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Attrs::Ints>) {
          std::size_t h = v.size();
          for (std::int64_t i : v) h = mix(h, static_cast<std::size_t>(i));
          return h;
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Array>>) {
          std::size_t h = mix(static_cast<std::size_t>(v->dtype), v->shape.size());
          for (std::int64_t d : v->shape) h = mix(h, static_cast<std::size_t>(d));
          std::int64_t bytes = std::min<std::int64_t>(v->bytes(), 256);  // a sample is enough
          for (std::int64_t i = 0; i < bytes; ++i) h = mix(h, static_cast<std::size_t>(v->data[i]));
          return h;
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Lambda>> ||
                             std::is_same_v<T, std::shared_ptr<const HostCall>>) {
          return reinterpret_cast<std::size_t>(v.get());
        } else if constexpr (std::is_same_v<T, double>) {
          return std::bit_cast<std::uint64_t>(v);
        } else if constexpr (std::is_same_v<T, DType>) {
          return static_cast<std::size_t>(v);
        } else {
          return std::hash<T>{}(v);
        }
      },
      value);
}

bool equal(const Attrs::Value& a, const Attrs::Value& b) {
  if (a.index() != b.index()) return false;
  if (auto* x = std::get_if<std::shared_ptr<const Array>>(&a)) {
    const auto& y = std::get<std::shared_ptr<const Array>>(b);
    return *x == y || same_bits(**x, *y);
  }
  if (auto* x = std::get_if<double>(&a))
    return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(std::get<double>(b));
  return a == b;
}

}  // namespace

const Attrs::Value* Attrs::find(std::string_view name) const {
  for (const Item& item : items_)
    if (item.name == name) return &item.value;
  return nullptr;
}

#define SNUG_ATTR(method, type, result)                                                  \
  result Attrs::method(std::string_view name) const {                                    \
    const Value* v = find(name);                                                         \
    SNUG_CHECK(v&& std::holds_alternative<type>(*v), "no attribute " #type " {}", name); \
    return std::get<type>(*v);                                                           \
  }
using ArrayPtr = std::shared_ptr<const Array>;
using LambdaPtr = std::shared_ptr<const Lambda>;
using HostCallPtr = std::shared_ptr<const HostCall>;
SNUG_ATTR(flag, bool, bool)
SNUG_ATTR(integer, std::int64_t, std::int64_t)
SNUG_ATTR(number, double, double)
SNUG_ATTR(text, std::string, const std::string&)
SNUG_ATTR(dtype, DType, DType)
SNUG_ATTR(ints, Ints, const Attrs::Ints&)
SNUG_ATTR(array, ArrayPtr, const std::shared_ptr<const Array>&)
SNUG_ATTR(lambda, LambdaPtr, const std::shared_ptr<const Lambda>&)
SNUG_ATTR(host_call, HostCallPtr, const std::shared_ptr<const HostCall>&)
#undef SNUG_ATTR

void Attrs::set(std::string_view name, Value value) {
  for (Item& item : items_)
    if (item.name == name) {
      item.value = std::move(value);
      return;
    }
  items_.push_back({name, std::move(value)});
}

void Attrs::erase(std::string_view name) {
  std::erase_if(items_, [&](const Item& item) { return item.name == name; });
}

std::size_t Attrs::hash() const {
  std::size_t h = items_.size();
  for (const Item& item : items_)
    h = mix(mix(h, std::hash<std::string_view>{}(item.name)), hash_of(item.value));
  return h;
}

bool operator==(const Attrs& a, const Attrs& b) {
  if (a.items_.size() != b.items_.size()) return false;
  for (std::size_t i = 0; i < a.items_.size(); ++i)
    if (a.items_[i].name != b.items_[i].name || !equal(a.items_[i].value, b.items_[i].value))
      return false;
  return true;
}

std::string Attrs::describe() const {
  std::string text;
  for (const Item& item : items_) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}=", item.name);
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, DType>) {
            text += name_of(v);
          } else if constexpr (std::is_same_v<T, std::shared_ptr<const Array>>) {
            if (v->size() == 1)
              text += describe_element(*v);
            else
              text += fmt::format("{}{}", name_of(v->dtype), describe_shape(v->shape));
          } else if constexpr (std::is_same_v<T, std::shared_ptr<const Lambda>>) {
            text += "{...}";
          } else if constexpr (std::is_same_v<T, std::shared_ptr<const HostCall>>) {
            text += v ? "host" : "none";
          } else if constexpr (std::is_same_v<T, Ints>) {
            text += fmt::format("[{}]", fmt::join(v, ", "));
          } else {
            text += fmt::format("{}", v);
          }
        },
        item.value);
  }
  return text;
}

}  // namespace snug
