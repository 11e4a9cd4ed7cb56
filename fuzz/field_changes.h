// FieldChanges: every field below a struct of engine/fields.h, each as a function that changes it.
#pragma once
#include <concepts>
#include <functional>
#include <string>

#include "choices.h"
#include "core/attrs.h"
#include "engine/fields.h"

namespace vernier::fuzz {

using Change = std::function<void(Choices&)>;

void change_text(std::string& text, Choices& choices);
/// `symbols`: names that it may use.
void change_dim(Dim& dim, const std::vector<std::string>& symbols, Choices& choices);
/// Changes one field of an operator's attributes, or any byte if they do not decode.
void change_attrs(OpKind op, AttrBytes& attrs, const std::vector<std::string>& symbols,
                  Choices& choices);
/// As change_attrs(), but only fields that are real numbers. False: there are none.
bool change_real_attrs(OpKind op, AttrBytes& attrs, Choices& choices);
/// Calls body for every size expression of an operator's attributes.
void for_each_attr_dim(OpKind op, AttrBytes& attrs, const std::function<void(Dim&)>& body);

/// Removes, repeats or moves an item of a list.
template <class T>
void change_list(std::vector<T>& list, Choices& choices) {
  if (list.empty()) return list.resize(1 + choices.below(2));
  const size_t a = choices.below(list.size()), b = choices.below(list.size());
  switch (choices.below(4)) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(a));
      break;
    case 1: {
      const T copy = list[a];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(b), copy);
      break;
    }
    case 2: {
      const T copy = list[a];
      list[a] = list[b];
      list[b] = copy;
      break;
    }
    default:
      list[a] = list[b];
  }
}

/// Visitor of engine::fields(). The struct must outlive it and must not move.
class FieldChanges {
 public:
  static constexpr bool kWrites = false;
  explicit FieldChanges(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {}

  template <class... T>
  void operator()(T&... items) {
    (add(items), ...);
  }
  void make_one(Choices& choices) {
    if (!changes_.empty()) choices.of(changes_)(choices);
  }

 private:
  void add(bool& v) {
    changes_.push_back([&v](Choices&) { v = !v; });
  }
  template <std::integral T>
  void add(T& v) {
    changes_.push_back([&v](Choices& choices) {
      v = static_cast<T>(changed_integer(static_cast<int64_t>(v), choices));
    });
  }
  void add(double& v) {
    changes_.push_back([&v](Choices& choices) { v = changed_float(v, choices); });
  }
  template <engine::StoredEnum E>
  void add(E& v) {
    changes_.push_back([&v](Choices& choices) {
      v = static_cast<E>(choices.below(static_cast<size_t>(engine::last_of(v)) + 1));
    });
  }
  void add(OpKind& v) {
    changes_.push_back(
        [&v](Choices& choices) { v = static_cast<OpKind>(choices.below(num_op_kinds())); });
  }
  void add(LedgerState& v) {
    changes_.push_back([&v](Choices& choices) { v = choices.of(kLedgerStates).state; });
  }
  void add(Dim& v) {
    changes_.push_back([this, &v](Choices& choices) { change_dim(v, symbols_, choices); });
  }
  void add(std::string& v) {
    changes_.push_back([&v](Choices& choices) { change_text(v, choices); });
  }
  void add(AttrBytes& v) {
    changes_.push_back([&v](Choices& choices) { change_list(v, choices); });
  }
  void add(Tensor& v) {
    changes_.push_back([&v](Choices& choices) {
      Bytes bytes(v.byte_span().begin(), v.byte_span().end());
      bytes.resize(choices.one_in(2) ? bytes.size() / 2 : bytes.size() + choices.below(100));
      v = Tensor::from_bytes(DType::kU8, {static_cast<int64_t>(bytes.size())}, bytes);
    });
  }
  void add(plan::Step& step) {
    // The most important fields: twice as likely as others.
    for (int i = 0; i < 2; ++i) {
      changes_.push_back([this, &step](Choices& choices) {
        change_attrs(step.op, step.attrs, symbols_, choices);
      });
    }
    engine::fields(*this, step);
  }
  template <class T>
  void add(std::vector<T>& v) {
    changes_.push_back([&v](Choices& choices) { change_list(v, choices); });
    for (T& item : v) add(item);
  }
  template <class T, size_t N>
  void add(std::array<T, N>& v) {
    for (T& item : v) add(item);
  }
  template <class T>
  requires std::is_class_v<T>
  void add(T& v) { engine::fields(*this, v); }

  std::vector<std::string> symbols_;
  std::vector<Change> changes_;
};

/// Visitor of engine::fields(): calls body for every field of type Leaf below a struct.
template <class Leaf>
class EachField {
 public:
  static constexpr bool kWrites = false;
  explicit EachField(std::function<void(Leaf&)> body) : body_(std::move(body)) {}

  template <class... T>
  void operator()(T&... items) {
    (visit(items), ...);
  }

 private:
  template <class T>
  void visit(T& v) {
    if constexpr (std::is_same_v<T, Leaf>)
      body_(v);
    else if constexpr (std::is_class_v<T> && !std::is_same_v<T, Dim> &&
                       !std::is_same_v<T, std::string> && !std::is_same_v<T, Tensor>)
      engine::fields(*this, v);
  }
  template <class T>
  void visit(std::vector<T>& v) {
    for (T& item : v) visit(item);
  }
  template <class T, size_t N>
  void visit(std::array<T, N>& v) {
    for (T& item : v) visit(item);
  }

  std::function<void(Leaf&)> body_;
};

}  // namespace vernier::fuzz
