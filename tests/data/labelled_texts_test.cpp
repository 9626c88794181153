#include "telar/data/texts/labelled_texts.h"

#include "data/support.h"
#include "telar/core/random.h"
#include "telar/data/source.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

using Texts = std::vector<std::string>;

Texts shown(const std::vector<LabelledText>& texts) {
  Texts all;
  for (const LabelledText& text : texts) all.push_back(text.label + "=" + text.text);
  return all;
}

Texts table(std::string_view text, TextUse use = TextUse::train, char separator = ',') {
  return shown(texts_of_table(text, "t.csv", use, {"text", "label", separator}));
}

Texts lines(std::string_view text, TextUse use = TextUse::train) {
  return shown(texts_of_lines(text, "t.txt", use));
}

TEST(LabelledTexts, ATablesCellsMayHaveSeparatorsLineEndsAndQuotationMarks) {
  EXPECT_EQ(table("label,id,text\na,1,one\nb,2,\"two, \"\"2\"\"\r\nand\n\"\n"),
            (Texts{"a=one", "b=two, \"2\"\r\nand\n"}));
  EXPECT_EQ(table("text, label \r\nit is \"so\",\" a \"\r\n\r\n,b\r\n\"\",b"),
            (Texts{"a=it is \"so\"", "b=", "b="}));
  EXPECT_EQ(table("text;label\n1,5;x\n", TextUse::train, ';'), Texts{"x=1,5"});
  EXPECT_EQ(table("other,text\n1,one\n2,two", TextUse::predict), (Texts{"=one", "=two"}));
  EXPECT_EQ(table("text\none\n\"\"\n\ntwo\n", TextUse::predict), (Texts{"=one", "=", "=two"}))
      << "an empty text is one";
}

TEST(LabelledTexts, ATableThatCannotBeReadIsRefusedWithItsLine) {
  const auto refused = [](std::string_view text, const std::vector<std::string_view>& pieces) {
    expect_error([&] { table(text); }, pieces);
  };
  const std::string head = "text,label\n\"a\nb\",x\n";
  refused("", {"t.csv: has no rows"});
  refused(head + "one\n", {"t.csv, line 4: has 1 cell, but line 1 has 2"});
  refused(head + "one,x,y\n", {"line 4: has 3 cells, but line 1 has 2"});
  refused(head + "one,  \n", {"line 4: the label is empty"});
  refused(head + "one,\xFF\n", {"line 4: the label is no UTF-8"});
  refused(head + std::string("one,a\0b\n", 8), {"line 4: the label is no UTF-8 text"});
  refused(head + "\"one,x\ntwo,y\n", {"line 4, cell 1: the quotation mark is not closed"});
  refused(head + "\"one\" two,y\n", {"line 4, cell 1: after a quotation mark that closes a cell"});
  refused("Text,label\na,b", {"line 1: no columns are called 'text' (data.text)", "'Text', 'label'"});
  refused("text,text,label\na,b,c", {"2 columns are called 'text'"});
  refused("text\na", {"no columns are called 'label' (data.label)"});
  refused("spam\tBuy now", {"set data.form to lines"});
}

TEST(LabelledTexts, ALineIsALabelATabAndAText) {
  EXPECT_EQ(lines("ham\tit is \"so\"\tor not\r\n\n  \n spam \t\nham\tlast"),
            (Texts{"ham=it is \"so\"\tor not", "spam=", "ham=last"}));
  EXPECT_EQ(lines("one\n\ntwo\tthree\n", TextUse::predict), (Texts{"=one", "=", "=two\tthree"}));
  expect_error([] { lines("a\tb\nno tab\n"); }, {"t.txt, line 2: has no tab"});
  expect_error([] { lines("a\tb\n\ttext\n"); }, {"t.txt, line 2: the label is empty"});
}

std::string drawn_text(RandomSequence& random, std::string_view letters) {
  std::string text(random.below(6), ' ');
  for (char& c : text) c = letters[random.below(static_cast<uint32_t>(letters.size()))];
  return text;
}

TEST(LabelledTexts, RandomTablesAreReadAsTheyWereWritten) {
  RandomSequence random(1, 1);
  for (int round = 0; round < 500; ++round) {
    std::string written = "text,label\n";
    Texts expected;
    for (uint32_t row = 1 + random.below(5); row > 0; --row) {
      const std::string text = drawn_text(random, "a,\"\r\n \t\xC3");
      std::string quoted;
      for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
      written += "\"" + quoted + "\",x" + (random.below(2) == 0 ? "\n" : "\r\n");
      expected.push_back("x=" + text);
    }
    ASSERT_EQ(table(written), expected) << written;
  }
}

TEST(LabelledTexts, AnyBytesAreReadOrRefused) {
  RandomSequence random(2, 1);
  int read = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = "text,label\n";
    for (int i = 0; i < 4; ++i) text += drawn_text(random, std::string_view("a,x\"\r\n\t\xFF\0", 9)) + ",x\n";
    try {
      table(text, round % 2 == 0 ? TextUse::train : TextUse::predict);
      lines(text, round % 2 == 0 ? TextUse::predict : TextUse::train);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::user) << error.what();
    }
  }
  EXPECT_GT(read, 100);
}

class LabelledTextFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) const {
    return folder_.write(name, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  static Attributes options(const std::string& path, const Attributes& others) {
    Attributes given = others;
    given.set("path", path);
    given.set("test_path", path);
    return completed("source 'labelled_texts'", source_type("labelled_texts").options, given);
  }
  static OpenedSource open(const Attributes& options, Split part = Split::train,
                           SplitBy split = SplitBy::random) {
    const auto all = [](int64_t size, const SplitKeys&) {
      std::vector<int64_t> rows;
      for (int64_t row = 0; row + 1 < size; ++row) rows.push_back(row);  // the last one is set aside
      return rows;
    };
    return source_type("labelled_texts")
        .open({.options = options, .training_rows = all, .split = split}, part);
  }
  static Attributes lines(int64_t length, const std::string& tokens = "words") {
    return {{"form", std::string("lines")}, {"length", length}, {"tokens", tokens}};
  }

  TempFolder folder_;
};

/// A sample's tokens, and its class.
std::vector<int32_t> sample_of(const Dataset& data, int64_t index) {
  std::vector<int32_t> tokens(static_cast<size_t>(data.spec().features[0]) + 1);
  const std::span<int32_t> all(tokens);
  data.read(index, {}, std::as_writable_bytes(all.first(all.size() - 1)),
            std::as_writable_bytes(all.last(1)));
  return tokens;
}

using Numbers = std::vector<int32_t>;

TEST_F(LabelledTextFiles, TextsArePaddedAtTheirEndAndCut) {
  const std::string path = write("a.txt", "y\tb a b\nx\ta b a b\ny\t\nx\tc a\n");
  const OpenedSource source = open(options(path, lines(3)));
  // 0 pads, 1 is unknown; "c" is of a text that is set aside.
  EXPECT_EQ(source.decided.texts("words"), (Texts{"<unknown>", "a", "b"}));
  EXPECT_EQ(source.decided.texts("class_names"), (Texts{"x", "y"}));
  EXPECT_EQ(sample_of(*source.samples, 0), (Numbers{3, 2, 3, 1}));
  EXPECT_EQ(sample_of(*source.samples, 1), (Numbers{2, 3, 2, 0}));
  EXPECT_EQ(sample_of(*source.samples, 2), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(sample_of(*source.samples, 3), (Numbers{1, 2, 0, 0}));
  EXPECT_EQ(source.samples->spec().vocabulary, 4);
  EXPECT_EQ(source.samples->spec().classes, 2);
  EXPECT_FALSE(source.samples->spec().labels_positions());
  ASSERT_EQ(source.notes.size(), 2);
  EXPECT_NE(source.notes[0].find("1 of 4 texts have more than 3 words (data.length), and are cut"),
            std::string::npos);
  EXPECT_NE(source.notes[1].find("1 of 4 texts have no words, only padding"), std::string::npos);
}

TEST_F(LabelledTextFiles, WordsThatAreNoUtf8AreCountedAndTheFirstIsNamed) {
  const std::string latin =
      "x\tone\ny\tgr\xF6\xDF"
      "e two caf\xE9\nx\ttwo \xFF\n";
  const auto note_of = [](const std::vector<std::string>& notes) {
    return notes.empty() ? "" : notes.back();
  };
  const std::string path = write("a.txt", latin);
  EXPECT_EQ(note_of(open(options(path, lines(3))).notes),
            path + ": 3 words are no UTF-8 and therefore unknown, the first in " + path +
                ", line 2; convert the texts, as with iconv -f LATIN1 -t UTF-8");
  EXPECT_EQ(note_of(open(options(path, lines(99, "bytes"))).notes), "") << "each byte is a token";
  write("f/x/1.txt", "one");
  const std::string file = write("f/y/1.txt", "two\n\ncaf\xE9\n");
  Attributes form = lines(5);
  form.set("form", std::string("folder"));
  EXPECT_NE(note_of(open(options(folder_.path("f"), form)).notes).find("the first in " + file + ", line 3;"),
            std::string::npos);
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(text); };
  Attributes known = lines(9);
  known.set("words", Texts{"<unknown>", "one", "two"});
  known.set("class_names", Texts{"x", "y"});
  const Attributes all = options(path, known);
  const std::string text = "one\ncaf\xE9\n";
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  source_type("labelled_texts").inputs.open({.path = "new.txt", .bytes = bytes, .note = note}, &all);
  EXPECT_EQ(note_of(notes),
            "new.txt: 1 words are no UTF-8 and therefore unknown, the first in new.txt, line 2; convert the "
            "texts, as with iconv -f LATIN1 -t UTF-8");
}

TEST(LabelledTexts, AColumnIsNotTextAndLabel) {
  const Attributes given{
      {"path", std::string("a.csv")}, {"text", std::string("body")}, {"label", std::string("body")}};
  const SourceType& type = source_type("labelled_texts");
  expect_error([&] { type.check(completed("source 'labelled_texts'", type.options, given)); },
               {"data.text and data.label are both 'body'; a text is no label of itself"});
  Attributes form = given;
  form.set("form", std::string("lines"));
  EXPECT_NO_THROW(type.check(completed("source 'labelled_texts'", type.options, form)))
      << "lines have no columns";
}

TEST_F(LabelledTextFiles, BytesAreTokensFrom1To256) {
  const std::string path = write("a.txt", std::string_view("x\t\0\xFF\ny\tabc\n", 11));
  const OpenedSource source = open(options(path, lines(2, "bytes")));
  EXPECT_EQ(sample_of(*source.samples, 0), (Numbers{1, 256, 0}));
  EXPECT_EQ(sample_of(*source.samples, 1), (Numbers{98, 99, 1}));
  EXPECT_EQ(source.samples->spec().vocabulary, 257);
  EXPECT_FALSE(source.decided.has("words"));
}

TEST_F(LabelledTextFiles, OtherTextsAreReadByTheWordsAndClassesOfTheRun) {
  Attributes known = lines(2);
  known.set("words", Texts{"<unknown>", "one", "two"});
  known.set("class_names", Texts{"x", "y", "z"});
  const OpenedSource test = open(options(write("a.txt", "y\ttwo three\n"), known), Split::test);
  EXPECT_EQ(sample_of(*test.samples, 0), (Numbers{3, 1, 1}));
  EXPECT_EQ(test.samples->spec().class_names, (Texts{"x", "y", "z"}));
  expect_error([&] { open(options(write("b.txt", "w\ttwo\n"), known), Split::test); },
               {"b.txt, line 1: 'w' is not one of the 3 labels"});
  expect_error([&] { open(options(write("c.txt", "x\ta\ny\tb\nx\tc"), lines(2)), Split::test); },
               {"nothing has decided on a vocabulary"});
}

TEST_F(LabelledTextFiles, AFoldersClassesAreItsFolders) {
  write("f/b/2.txt", "two\nlines");
  write("f/b/1.txt", "\xEF\xBB\xBFone");
  write("f/a/3.txt", "three");
  write("f/a/notes.md", "no text");
  write("f/a/.hidden.txt", "hidden");
  write("f/readme.txt", "no text");
  const Attributes form{
      {"form", std::string("folder")}, {"length", int64_t{3}}, {"tokens", std::string("bytes")}};
  const OpenedSource source = open(options(folder_.path("f"), form));
  EXPECT_EQ(source.samples->size(), 3);
  EXPECT_EQ(sample_of(*source.samples, 1), (Numbers{'o' + 1, 'n' + 1, 'e' + 1, 1}));
  ASSERT_EQ(source.notes.size(), 2);
  EXPECT_NE(source.notes[0].find("2 files and folders are ignored"), std::string::npos);
  expect_error([&] { open(options(folder_.path("f"), form), Split::train, SplitBy::time); },
               {"in the order of their classes"});
  fs::create_directories(folder_.path("f/c"));
  expect_error([&] { open(options(folder_.path("f"), form)); }, {"f/c: this class has no .txt files"});
  fs::create_directories(folder_.path("none"));
  expect_error([&] { open(options(folder_.path("none"), form)); }, {"none: has no subfolders"});
  expect_error([&] { open(options(folder_.path("nowhere"), form)); }, {"nowhere: there is no such folder"});
  expect_error([&] { open(options(folder_.path("f"), lines(2))); }, {"f: is a folder; set data.form"});
}

TEST_F(LabelledTextFiles, FilesThatAreNoTextsAreRefused) {
  const auto refused = [&](std::string_view text, const std::vector<std::string_view>& pieces) {
    expect_error([&] { open(options(write("a.txt", text), lines(2))); }, pieces);
  };
  refused("", {"a.txt: has no texts"});
  refused("\n\n", {"a.txt: has no texts"});
  refused("x\ta\nx\tb\n", {"all texts have the label 'x'"});
  refused("x\ta\ny\tb\nz\tc\n", {"each of the 3 texts has a label of its own"});
  refused(std::string_view("\xFF\xFEx\0\t\0", 6), {"a.txt: is UTF-16"});
  refused("\x28\xB5\x2F\xFD and more", {"a.txt: is compressed (zstd)"});
  expect_error([&] { open(options(folder_.path("nowhere"), lines(2))); }, {"nowhere"});
}

}  // namespace
}  // namespace telar::test
