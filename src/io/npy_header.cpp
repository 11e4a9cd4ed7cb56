// Parser and printer of .npy headers: see npy_header.h. The header is a Python dictionary such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// of which only these three keys and their literals are understood.
#include "io/npy_header.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/error.h"

namespace vernier::io {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kVersionEnd = kMagic.size() + 2;
constexpr size_t kMaxRank = 64;

// Of the header's own length.
constexpr size_t length_bytes(size_t major) { return major == 1 ? 2 : 4; }

struct TypeRow {
  std::string_view code;
  DType dtype;
};
constexpr std::array<TypeRow, 12> kTypes{{
    {"f2", DType::kF16},
    {"f4", DType::kF32},
    {"f8", DType::kF64},
    {"i1", DType::kI8},
    {"i2", DType::kI16},
    {"i4", DType::kI32},
    {"i8", DType::kI64},
    {"u1", DType::kU8},
    {"u2", DType::kU16},
    {"u4", DType::kU32},
    {"u8", DType::kU64},
    {"b1", DType::kBool},
}};

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInput, where + ": " + what);
}

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyHeader parse() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        descr_ = type();
      } else if (key == "fortran_order") {
        fortran_ = boolean();
      } else if (key == "shape") {
        shape_ = tuple();
      } else {
        fail(where_, "header has an unknown key '" + std::string(key) + "'");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!descr_ || !fortran_ || !shape_) {
      fail(where_, "header lacks descr, fortran_order or shape");
    }
    return {.dtype = *descr_, .fortran_order = *fortran_, .shape = *shape_};
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (take(c)) return;
    fail(where_,
         std::string("damaged header: expected '") + c + "' at position " + std::to_string(at_));
  }
  std::string_view string() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) fail(where_, "damaged header: a string has no end");
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::strlen(word);
      return value;
    }
    fail(where_, "damaged header: fortran_order is neither True nor False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      skip_space();
      int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || shape.size() >= kMaxRank) {
        fail(where_, "damaged header: bad shape");
      }
      at_ += static_cast<size_t>(end - begin);
      take('L');  // Python 2 wrote long integers so
      shape.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  DType type() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail(where_, "is a structured array; save its fields as arrays of their own");
    }
    const std::string_view descr = string();
    if (descr.size() < 2) fail(where_, "damaged header: type '" + std::string(descr) + "'");
    const char order = descr[0];
    if (order == '>') {
      fail(where_, "is big-endian ('" + std::string(descr) +
                       "'); convert it with array.astype(array.dtype.newbyteorder('<'))");
    }
    const bool has_order = order == '<' || order == '|' || order == '=';
    const std::string_view code = has_order ? descr.substr(1) : descr;
    for (const TypeRow& row : kTypes) {
      if (row.code == code) return row.dtype;
    }
    refuse_type(descr, code);
  }
  [[noreturn]] void refuse_type(std::string_view descr, std::string_view code) const {
    const std::string shown = " (type '" + std::string(descr) + "')";
    switch (code.empty() ? ' ' : code[0]) {
      case 'O':
        fail(where_, "holds Python objects" + shown + ", which are not read; save numbers");
      case 'U':
      case 'S':
      case 'a':
        fail(where_, "holds strings" + shown + ", which are not read; save token ids");
      case 'V':
        fail(where_, "holds raw or bfloat16 elements" + shown +
                         ", which NumPy does not name; save them as float32");
      default:
        fail(where_, "has a type that is not read" + shown +
                         "; expected float16/32/64, an integer type or bool");
    }
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  std::optional<DType> descr_;
  std::optional<bool> fortran_;
  std::optional<Shape> shape_;
};

}  // namespace

size_t npy_header_bytes(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < kVersionEnd) {
    fail(where, "is not an .npy array (its magic bytes are missing)");
  }
  const auto byte_at = [&](size_t i) { return static_cast<size_t>(bytes[i]); };
  const size_t major = byte_at(kMagic.size());
  if (major < 1 || major > 3) {
    fail(where, "has .npy version " + std::to_string(major) + "; 1 to 3 are known");
  }
  const size_t begin = kVersionEnd + length_bytes(major);
  if (text.size() < begin) fail(where, "is truncated in its header");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes(major); ++i) length |= byte_at(kVersionEnd + i) << (8 * i);
  if (length > kMaxNpyHeader - begin)
    fail(where, "has a header of " + std::to_string(length) + " bytes");
  return begin + length;
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& where) {
  const size_t end = npy_header_bytes(bytes, where);
  if (bytes.size() < end) fail(where, "is truncated in its header");
  const size_t begin = kVersionEnd + length_bytes(static_cast<size_t>(bytes[kMagic.size()]));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), end);
  NpyHeader header = HeaderParser(text.substr(begin), where).parse();
  header.header_bytes = end;
  const size_t width = size_bytes(header.dtype);
  size_t elems = 1;
  for (int64_t size : header.shape) {
    if (__builtin_mul_overflow(elems, static_cast<size_t>(size), &elems) ||
        elems > (size_t{1} << 48)) {
      fail(where, "has an impossible shape " + str(header.shape));
    }
  }
  header.data_bytes = elems * width;
  return header;
}

std::string make_npy_header(DType dtype, const Shape& shape) {
  std::string_view code;
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) code = row.code;
  }
  VERNIER_ASSERT(!code.empty(), std::string(name(dtype)));
  std::string text = "{'descr': '";
  text += size_bytes(dtype) == 1 ? '|' : '<';
  text += std::string(code) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  text += shape.size() == 1 ? ",), }" : "), }";
  constexpr size_t kPrefix = kMagic.size() + 4, kAlignment = 64;
  const size_t total = (kPrefix + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(total - kPrefix - 1, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return bytes + text;
}

}  // namespace vernier::io
