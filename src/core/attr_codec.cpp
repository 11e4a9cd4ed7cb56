// Attribute bytes and text: see attr_codec.h.
#include "core/attr_codec.h"

#include <charconv>

#include "core/tensor.h"

namespace vernier::detail {
namespace {

void put_word(AttrBytes& bytes, uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<std::byte>(word >> shift));
}

std::string print_double(double v) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), v);
  return {buffer, result.ptr};
}

[[noreturn]] void bad_text(std::string_view name, std::string_view value,
                           std::string_view expected) {
  throw Error(ErrorCode::kInput, "attribute " + std::string(name) + "=" + std::string(value) +
                                     ": expected " + std::string(expected));
}

int64_t parse_int(std::string_view name, std::string_view text) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size()) bad_text(name, text, "an integer");
  return v;
}
double parse_double(std::string_view name, std::string_view text) {
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size()) bad_text(name, text, "a number");
  return v;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits at commas outside brackets, parentheses and quotes.
std::vector<std::string_view> split_top_level(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (quoted)
      continue;
    else if (c == '[' || c == '(')
      ++depth;
    else if (c == ']' || c == ')')
      --depth;
    else if (c == ',' && depth == 0) {
      parts.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (!trim(text.substr(std::min(start, text.size()))).empty())
    parts.push_back(trim(text.substr(start)));
  return parts;
}

// The items between `open` and `close`.
std::vector<std::string_view> items(std::string_view name, std::string_view value, char open,
                                    char close) {
  if (value.size() < 2 || value.front() != open || value.back() != close) {
    bad_text(name, value, std::string("a list in ") + open + close);
  }
  return split_top_level(value.substr(1, value.size() - 2));
}

}  // namespace

void AttrWriter::operator()(std::string_view, int64_t& v) {
  put_word(bytes, static_cast<uint64_t>(v));
}
void AttrWriter::operator()(std::string_view, double& v) {
  put_word(bytes, std::bit_cast<uint64_t>(v));
}
void AttrWriter::operator()(std::string_view, bool& v) { put_word(bytes, v ? 1 : 0); }
void AttrWriter::operator()(std::string_view, DType& v) {
  put_word(bytes, static_cast<uint64_t>(v));
}
void AttrWriter::operator()(std::string_view, std::string& v) {
  put_word(bytes, v.size());
  for (char c : v) bytes.push_back(static_cast<std::byte>(c));
}
void AttrWriter::operator()(std::string_view, std::vector<int64_t>& v) {
  put_word(bytes, v.size());
  for (int64_t x : v) put_word(bytes, static_cast<uint64_t>(x));
}
void AttrWriter::operator()(std::string_view, std::vector<double>& v) {
  put_word(bytes, v.size());
  for (double x : v) put_word(bytes, std::bit_cast<uint64_t>(x));
}
void AttrWriter::operator()(std::string_view name, SymShape& v) {
  put_word(bytes, v.size());
  for (const Dim& d : v) {
    std::string text = d.str();
    (*this)(name, text);
  }
}

uint64_t AttrReader::word() {
  if (bytes.size() - at < 8) throw Error(ErrorCode::kInput, "attribute bytes are truncated");
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 8) v |= static_cast<uint64_t>(bytes[at++]) << shift;
  return v;
}
size_t AttrReader::count(size_t item_bytes) {
  const uint64_t n = word();
  if (n > (bytes.size() - at) / item_bytes)
    throw Error(ErrorCode::kInput, "attribute bytes are truncated");
  return n;
}
void AttrReader::operator()(std::string_view, int64_t& v) { v = static_cast<int64_t>(word()); }
void AttrReader::operator()(std::string_view, double& v) { v = std::bit_cast<double>(word()); }
void check_enumeration(std::string_view name, int64_t number, int64_t last) {
  if (number >= 0 && number <= last) return;
  throw Error(ErrorCode::kInput, "attribute " + std::string(name) + " is " +
                                     std::to_string(number) + ", expected 0.." +
                                     std::to_string(last));
}

void AttrReader::operator()(std::string_view, bool& v) { v = word() != 0; }
void AttrReader::operator()(std::string_view name, DType& v) {
  const uint64_t number = word();
  if (number > static_cast<uint64_t>(kLastDType)) {
    throw Error(ErrorCode::kInput, "attribute " + std::string(name) + ": unknown element type " +
                                       std::to_string(number));
  }
  v = static_cast<DType>(number);
}
void AttrReader::operator()(std::string_view, std::string& v) {
  const size_t n = count(1);
  v.assign(reinterpret_cast<const char*>(bytes.data()) + at, n);
  at += n;
}
void AttrReader::operator()(std::string_view, std::vector<int64_t>& v) {
  v.resize(count(8));
  for (int64_t& x : v) x = static_cast<int64_t>(word());
}
void AttrReader::operator()(std::string_view, std::vector<double>& v) {
  v.resize(count(8));
  for (double& x : v) x = std::bit_cast<double>(word());
}
void AttrReader::operator()(std::string_view name, SymShape& v) {
  v.resize(count(8));
  for (Dim& d : v) {
    std::string text;
    (*this)(name, text);
    d = Dim::parse(text);
  }
}

void AttrPrinter::key(std::string_view name) {
  if (!text.empty()) text += ", ";
  text += std::string(name) + "=";
}
void AttrPrinter::operator()(std::string_view name, int64_t& v) {
  key(name);
  text += std::to_string(v);
}
void AttrPrinter::operator()(std::string_view name, double& v) {
  key(name);
  text += print_double(v);
}
void AttrPrinter::operator()(std::string_view name, bool& v) {
  key(name);
  text += v ? "true" : "false";
}
void AttrPrinter::operator()(std::string_view field, DType& v) {
  key(field);
  text += vernier::name(v);
}
void AttrPrinter::operator()(std::string_view name, std::string& v) {
  key(name);
  text += '"';
  for (char c : v) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
}
void AttrPrinter::operator()(std::string_view name, std::vector<int64_t>& v) {
  key(name);
  text += vernier::str(std::span<const int64_t>(v));
}
void AttrPrinter::operator()(std::string_view name, std::vector<double>& v) {
  key(name);
  text += '[';
  for (size_t i = 0; i < v.size(); ++i) text += (i ? ", " : "") + print_double(v[i]);
  text += ']';
}
void AttrPrinter::operator()(std::string_view name, SymShape& v) {
  key(name);
  text += '(';
  for (size_t i = 0; i < v.size(); ++i) text += (i ? ", " : "") + v[i].str();
  text += ')';
}

AttrParser::AttrParser(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() == '{') {
    if (text.back() != '}')
      throw Error(ErrorCode::kInput, "the closing '}' of the attributes is missing");
    text = text.substr(1, text.size() - 2);
  }
  for (std::string_view part : split_top_level(text)) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) bad_text("", part, "name=value");
    fields_.push_back(
        {std::string(trim(part.substr(0, equals))), std::string(trim(part.substr(equals + 1)))});
  }
}
AttrParser::Field* AttrParser::find(std::string_view name) {
  for (Field& field : fields_) {
    if (field.name != name) continue;
    field.used = true;
    return &field;
  }
  return nullptr;
}
void AttrParser::operator()(std::string_view name, int64_t& v) {
  if (const Field* field = find(name)) v = parse_int(name, field->value);
}
void AttrParser::operator()(std::string_view name, double& v) {
  if (const Field* field = find(name)) v = parse_double(name, field->value);
}
void AttrParser::operator()(std::string_view name, bool& v) {
  const Field* field = find(name);
  if (!field) return;
  if (field->value != "true" && field->value != "false")
    bad_text(name, field->value, "true or false");
  v = field->value == "true";
}
void AttrParser::operator()(std::string_view name, DType& v) {
  const Field* field = find(name);
  if (!field) return;
  if (field->value == "undefined") {
    v = DType::kUndefined;
    return;
  }
  const auto parsed = parse_dtype(field->value);
  if (!parsed) bad_text(name, field->value, "an element type");
  v = *parsed;
}
void AttrParser::operator()(std::string_view name, std::string& v) {
  const Field* field = find(name);
  if (!field) return;
  const std::string& text = field->value;
  if (text.size() < 2 || text.front() != '"' || text.back() != '"')
    bad_text(name, text, "a quoted string");
  v.clear();
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    v += text[i];
  }
}
void AttrParser::operator()(std::string_view name, std::vector<int64_t>& v) {
  const Field* field = find(name);
  if (!field) return;
  v.clear();
  for (std::string_view item : items(name, field->value, '[', ']'))
    v.push_back(parse_int(name, item));
}
void AttrParser::operator()(std::string_view name, std::vector<double>& v) {
  const Field* field = find(name);
  if (!field) return;
  v.clear();
  for (std::string_view item : items(name, field->value, '[', ']'))
    v.push_back(parse_double(name, item));
}
void AttrParser::operator()(std::string_view name, SymShape& v) {
  const Field* field = find(name);
  if (!field) return;
  v.clear();
  for (std::string_view item : items(name, field->value, '(', ')')) v.push_back(Dim::parse(item));
}
void AttrParser::check_all_used() const {
  std::string unknown;
  for (const Field& field : fields_) {
    if (!field.used) unknown += (unknown.empty() ? "" : ", ") + field.name;
  }
  if (!unknown.empty()) throw Error(ErrorCode::kInput, "unknown attributes: " + unknown);
}

}  // namespace vernier::detail
