// Text from files on a terminal. Contract: include/vernier/printable.h.
#include "vernier/printable.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(Printable, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(printable("\x1b[31mred\x1b]0;title\x07"), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(printable(std::string_view("a\0b\rc\x7f", 6)), "a\\x00b\\x0dc\\u007f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J"),
            "\\u009b2J")
      << "CSI of 8 bits";
  EXPECT_EQ(printable("safe\u202Egnp.exe\u2066x\u2069"), "safe\\u202egnp.exe\\u2066x\\u2069");
  EXPECT_EQ(printable("a\u2028b\u200Fc\u061Cd"), "a\\u2028b\\u200fc\\u061cd");
}

TEST(Printable, EscapesBytesThatAreNoText) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\x9b"), "\\x9b");
  EXPECT_EQ(printable("\xC3"), "\\xc3") << "a character that is cut short";
  EXPECT_EQ(printable("\xC0\xAF"), "\\xc0\\xaf") << "an overlong form";
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
}

TEST(Printable, LeavesTextAlone) {
  const std::string text = "Größe [\u00A0] 見 \U0001F600 'a/b.c' \\x1b\n\tindented";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable(printable("\x1b")), printable("\x1b"));
}

TEST(Printable, NamesStayOnTheirLine) {
  EXPECT_EQ(printable_name("a\nvernier: error: b\tc\x1b"), "a\\nvernier: error: b\\tc\\x1b");
}

TEST(Printable, NoLineOfAMessageButTheFirstBeginsAtTheMargin) {
  EXPECT_EQ(printable_message("one\ntwo\n  three\n\nfour"), "one\n  two\n  three\n\n  four");
  EXPECT_EQ(printable_message("name 'a\nvernier: all is well'"),
            "name 'a\n  vernier: all is well'");
  EXPECT_EQ(printable_message("line"), "line");
}

TEST(Counted, OneHasNoPlural) {
  EXPECT_EQ(counted(0, "node"), "0 nodes");
  EXPECT_EQ(counted(1, "node"), "1 node");
  EXPECT_EQ(counted(2, "node"), "2 nodes");
  EXPECT_EQ(counted(1, "query", "queries"), "1 query");
  EXPECT_EQ(counted(3, "query", "queries"), "3 queries");
}

}  // namespace
}  // namespace vernier
