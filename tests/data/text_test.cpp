#include <gtest/gtest.h>

#include "data/support.h"
#include "telar/core/utf8.h"
#include "telar/data/source.h"
#include "telar/data/texts/words.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

std::span<const uint8_t> bytes_of_text(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class TextFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) const {
    return folder_.write(name, bytes_of_text(text));
  }
  OpenedSource open(const std::string& path, int64_t length, int64_t stride = 0,
                    SplitBy split = SplitBy::random, bool sets_aside = true) const {
    Attributes given;
    given.set("path", path);
    given.set("length", length);
    given.set("stride", stride);
    const SourceType& type = source_type("text");
    const Attributes options = completed("source 'text'", type.options, given);
    return type.open({.options = options, .split = split, .sets_aside = sets_aside}, Split::train);
  }
  void refused(const std::string& path, const std::vector<std::string_view>& pieces) const {
    expect_error([&] { open(path, 4); }, pieces);
  }

  TempFolder folder_;
};

/// A sample's tokens, and after a bar its labels.
std::string sample_text(const Dataset& data, int64_t index) {
  const auto length = static_cast<size_t>(data.spec().features[0]);
  std::vector<int32_t> tokens(length);
  std::vector<int32_t> labels(length);
  data.read(index, {}, std::as_writable_bytes(std::span(tokens)), std::as_writable_bytes(std::span(labels)));
  return std::string(tokens.begin(), tokens.end()) + "|" + std::string(labels.begin(), labels.end());
}

std::vector<std::string> samples_of(const Dataset& data) {
  std::vector<std::string> samples;
  for (int64_t i = 0; i < data.size(); ++i) samples.push_back(sample_text(data, i));
  return samples;
}

using Samples = std::vector<std::string>;

TEST_F(TextFiles, AWindowHasTheNextByteOfEachPositionAsItsLabel) {
  const OpenedSource source = open(write("a.txt", "0123456789abc"), 4);
  EXPECT_EQ(samples_of(*source.samples), (Samples{"0123|1234", "4567|5678", "89ab|9abc"}));
  const SampleSpec& spec = source.samples->spec();
  EXPECT_EQ(spec.features, Shape({4}));
  EXPECT_EQ(spec.labels, Shape({4}));
  EXPECT_EQ(spec.dtype, DType::i32);
  EXPECT_EQ(spec.classes, 256);
  EXPECT_EQ(spec.label_bytes(), 16);
  EXPECT_TRUE(spec.labels_positions());
  EXPECT_TRUE(source.notes.empty());
}

TEST_F(TextFiles, TheLastWindowNeedsAByteAfterIt) {
  EXPECT_EQ(samples_of(*open(write("a.txt", "01234567"), 4).samples), (Samples{"0123|1234"}));
  EXPECT_EQ(samples_of(*open(write("b.txt", "01234"), 4).samples), (Samples{"0123|1234"}));
}

TEST_F(TextFiles, WindowsBeginAtEachStride) {
  const OpenedSource source = open(write("a.txt", "0123456"), 4, 1);
  EXPECT_EQ(samples_of(*source.samples), (Samples{"0123|1234", "1234|2345", "2345|3456"}));
  ASSERT_EQ(source.notes.size(), 1);
  EXPECT_NE(source.notes[0].find("partly trained on; with data.split: time it is at most 3 at"),
            std::string::npos);
  EXPECT_EQ(samples_of(*open(folder_.path("a.txt"), 2, 3).samples), (Samples{"01|12", "34|45"}));
}

TEST_F(TextFiles, ANoteSaysHowManyOverlappingWindowsAreTrainedOn) {
  const std::string path = write("a.txt", "0123456789");
  const auto notes = [&](int64_t stride, SplitBy split, bool sets_aside) {
    return open(path, 4, stride, split, sets_aside).notes;
  };
  ASSERT_EQ(notes(3, SplitBy::time, true).size(), 1);
  EXPECT_NE(notes(3, SplitBy::time, true)[0].find("partly trained on: at most 1 at the boundary"),
            std::string::npos);
  EXPECT_NE(notes(2, SplitBy::time, true)[0].find("at most 1 at"), std::string::npos);
  EXPECT_NE(notes(1, SplitBy::time, true)[0].find("at most 3 at"), std::string::npos);
  EXPECT_TRUE(notes(4, SplitBy::time, true).empty());
  EXPECT_TRUE(notes(1, SplitBy::random, false).empty());
}

TEST_F(TextFiles, AFoldersWindowsAreWithinItsFiles) {
  write("texts/b", "abcdefghi");
  write("texts/a", "01234");
  write("texts/c", "xyz");
  write("texts/.hidden", "0123456789");
  write("texts/deeper/d", "0123456789");
  const OpenedSource source = open(folder_.path("texts"), 4);
  EXPECT_EQ(samples_of(*source.samples), (Samples{"0123|1234", "abcd|bcde", "efgh|fghi"}));
  ASSERT_EQ(source.notes.size(), 1);
  EXPECT_NE(source.notes[0].find("no sample is from 1 of the files, with fewer than 5 bytes"),
            std::string::npos);
}

TEST_F(TextFiles, BytesAreTokensFrom0To255) {
  const auto data = open(write("a", std::string_view("\0\xFF\x80\n\0", 5)), 4).samples;
  std::vector<int32_t> tokens(4);
  std::vector<int32_t> labels(4);
  data->read(0, {}, std::as_writable_bytes(std::span(tokens)), std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 255, 128, 10}));
  EXPECT_EQ(labels, (std::vector<int32_t>{255, 128, 10, 0}));
}

TEST_F(TextFiles, WithoutAWindowThereIsASentence) {
  refused(write("empty", ""), {"empty: the file has 0 bytes", "data.length 4", "5 in all"});
  refused(write("short", "0123"), {"short: the file has 4 bytes"});
  write("two/a", "01");
  write("two/b", "012");
  refused(folder_.path("two"), {"two: the longest file has 3 bytes"});
  refused(folder_.path("nowhere"), {"nowhere: there is no such file or folder"});
  fs::create_directories(folder_.path("none/deeper"));
  refused(folder_.path("none"), {"none: has no files"});
}

TEST_F(TextFiles, CompressedFilesAreRefused) {
  refused(write("a.gz", "\x1F\x8B\x08 and more"), {"a.gz: is compressed (gzip)"});
  refused(write("a.zst", "\x28\xB5\x2F\xFD and more"), {"a.zst: is compressed (zstd)"});
  refused(write("a.zip", "PK\x03\x04 and more"), {"a.zip: is compressed (zip)"});
  refused(write("a.bz2", "BZh91AY&SY and more"), {"a.bz2: is compressed (bzip2)"});
  for (const char* text : {"BZh is a text", "BZh01AY&SY", "BZh9", "BZh91AY&S"})
    EXPECT_EQ(open(write("text", std::string(text) + "..."), 4).samples->size() > 0, true) << text;
}

TEST_F(TextFiles, AFileThatShrinksIsNoticedWhenItIsRead) {
  const std::string path = write("a", "0123456789abc");
  const auto data = open(path, 4).samples;
  EXPECT_EQ(sample_text(*data, 2), "89ab|9abc");
  fs::resize_file(path, 10);
  EXPECT_EQ(sample_text(*data, 0), "0123|1234");
  expect_error([&] { sample_text(*data, 2); }, {"has no byte 10", "was longer"}, Error::Kind::run);
  fs::resize_file(path, 5);
  expect_error([&] { sample_text(*data, 2); }, {"has no byte 8, but"}, Error::Kind::run);
}

Attributes with_words(const std::string& path, int64_t most_words,
                      const std::vector<std::string>& words = {}) {
  Attributes given;
  given.set("path", path);
  given.set("test_path", path);
  given.set("length", int64_t{2});
  given.set("tokens", std::string("words"));
  given.set("most_words", most_words);
  given.set("words", words);
  return completed("source 'text'", source_type("text").options, given);
}

TEST_F(TextFiles, TheMostFrequentWordsOfTheTrainingRowsAreTheVocabulary) {
  const std::string path = write("a.txt", "b a b a c\na b zz zz zz zz zz zz\n");
  const auto first_three = [](int64_t, const SplitKeys&) { return std::vector<int64_t>{0, 1, 2}; };
  const Attributes options = with_words(path, 4);
  const OpenedSource source =
      source_type("text").open({.options = options, .training_rows = first_three}, Split::train);
  const std::vector<std::string> words = {"<unknown>", "a", "b", "\n"};  // "\n" comes before "c"
  EXPECT_EQ(source.decided.texts("words"), words);
  EXPECT_EQ(source.samples->spec().class_names, words);
  EXPECT_EQ(source.samples->spec().classes, 4);
  std::vector<int32_t> tokens(2);
  std::vector<int32_t> labels(2);
  source.samples->read(2, {}, std::as_writable_bytes(std::span(tokens)),
                       std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 3}));  // c and the end of the line
  EXPECT_EQ(labels, (std::vector<int32_t>{3, 1}));
  // Another text is read by the words of the run.
  const Attributes kept = with_words(write("b.txt", "a zz b"), 4, words);
  const OpenedSource test = source_type("text").open({.options = kept}, Split::test);
  test.samples->read(0, {}, std::as_writable_bytes(std::span(tokens)),
                     std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(labels, (std::vector<int32_t>{0, 2}));
}

TEST_F(TextFiles, WordsThatAreNoUtf8AreCountedAndTheFirstIsNamed) {
  write("texts/a", "\xEF\xBB\xBFone two three");
  const std::string second = write("texts/b",
                                   "one\n\ncaf\xE9 gr\xF6\xDF"
                                   "e one\n");
  const std::string path = folder_.path("texts");
  const Attributes options = with_words(path, 9, {"<unknown>", "one", "two"});
  const OpenedSource source = source_type("text").open({.options = options}, Split::test);
  EXPECT_EQ(source.notes, Samples{path + ": 2 words are no UTF-8 and therefore unknown, the first in " +
                                  second + ", line 3; convert the texts, as with iconv -f LATIN1 -t UTF-8"});
  std::vector<int32_t> tokens(2);
  std::vector<int32_t> labels(2);
  source.samples->read(0, {}, std::as_writable_bytes(std::span(tokens)),
                       std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 2})) << "a byte-order mark is no part of the first word";
  const Attributes wide = with_words(write("wide", std::string_view("\xFF\xFEo\0n\0e\0", 8)), 9);
  expect_error([&] { source_type("text").open({.options = wide}, Split::test); }, {"wide: is UTF-16"});
}

TEST_F(TextFiles, WordsNeedAVocabulary) {
  const Attributes options = with_words(write("a.txt", "a b c d e f"), 4);
  expect_error([&] { source_type("text").open({.options = options}, Split::test); }, {"nothing has decided"});
  expect_error([&] { source_type("text").open({.options = options}, Split::train); }, {"data.spread"});
}

TEST(Words, AreLettersDigitsAndSingleCharacters) {
  const auto words = [](std::string_view text) {
    const std::vector<std::string_view> found = words_of(text);
    return std::vector<std::string>(found.begin(), found.end());
  };
  EXPECT_EQ(
      words("It's größer,\tsaid 'the' x_1: 3.5!\r\n\n"),
      (Samples{"It's", "größer", ",", "said", "'", "the", "'", "x_1", ":", "3", ".", "5", "!", "\n", "\n"}));
  EXPECT_EQ(words(std::string_view("a\0b\x7F\xC3 c\xFF", 8)), (Samples{"a", "b", "<unknown>", "<unknown>"}));
  EXPECT_EQ(words(" \t "), Samples{});
  std::string text = "Said";
  for (const char* word : {"he", ",", "(", "no", ")", ".", "\n", "Then"}) append_word(text, word);
  EXPECT_EQ(text, "Said he, (no).\nThen");
}

TEST(Utf8, CharactersAreThoseOfTheStandard) {
  for (const std::string_view whole : {"a", "\n", "ä", "→", "\U0001F9F5", "\uFFFF", "\U0010FFFF", "\uD7FF"})
    EXPECT_EQ(utf8_character(whole), whole.size()) << whole;
  for (const std::string_view none :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x86", "\xC3z"})
    EXPECT_EQ(utf8_character(none), 0);
}

TEST(Utf8, ATerminalGetsNothingButText) {
  EXPECT_EQ(shown_as_text("größer\tals\r\nein → Faden\n"), "größer\tals\r\nein → Faden\n");
  EXPECT_EQ(shown_as_text("a\x1B[2J\rb"), "a\uFFFD[2J\uFFFDb");
  EXPECT_EQ(shown_as_text("\xC3(\xE2\x86"), "\uFFFD(\uFFFD\uFFFD");
  EXPECT_EQ(shown_as_text("\xC2\x9B"
                          "1m\x7F"),
            "\uFFFD1m\uFFFD");
  EXPECT_EQ(shown_as_text(""), "");
}

TEST(Utf8, TextShownInPiecesIsThatShownAtOnce) {
  for (const std::string bytes :
       {"größer → 𝄞\r\nx\r", "\xC3(\xE2\x86|\xE0\x80\xF0\x9F\x98", "\xC2\x9B\xFF\x86\x86\x86\x86"}) {
    std::string waiting;
    std::string shown;
    for (const char c : bytes) {
      waiting += c;
      const size_t finished = finished_text(waiting);
      shown += shown_as_text(std::string_view(waiting).substr(0, finished));
      waiting.erase(0, finished);
      EXPECT_LE(waiting.size(), 3U);
    }
    EXPECT_EQ(shown + shown_as_text(waiting), shown_as_text(bytes));
  }
  EXPECT_EQ(finished_text("größer"), std::string_view("größer").size());
}

}  // namespace
}  // namespace telar::test
