#include "telar/data/texts/tokenizer.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "telar/core/cache_folder.h"
#include "telar/core/error.h"
#include "telar/core/utf8.h"
#include "telar/data/open_files.h"
#include "telar/data/texts/text_windows.h"
#include "telar/io/checksum.h"
#include "telar/io/temporary_folder.h"
#include "telar/observe/child_process.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

constexpr int kNoPackage = 3;
constexpr int kNoTokenizer = 4;

/// Arguments: what to do, tokenizer.json, the file to read and that to write. Texts are each a number of
/// bytes, i64, and the bytes; tokens are i32. To encode writes the tokens, the number of tokens of each text,
/// the number of texts, and one more than the greatest token; i64.
constexpr const char* kProgram = R"(
import sys
sys.path = [path for path in sys.path if path]  # without the working directory
import array, struct
try:
    import tokenizers
except ImportError:
    sys.exit(3)
what, file, source, result = sys.argv[1:]
try:
    tokenizer = tokenizers.Tokenizer.from_file(file)
except Exception as error:
    print(error, file=sys.stderr)
    sys.exit(4)
tokenizer.no_truncation()
tokenizer.no_padding()
with open(source, "rb") as given, open(result, "wb") as made:
    if what in ("encode", "prompt"):
        numbers = array.array("q")

        def encode(texts):
            for encoding in tokenizer.encode_batch(texts, add_special_tokens=what == "encode"):
                array.array("i", encoding.ids).tofile(made)
                numbers.append(len(encoding.ids))

        texts, size = [], 0
        while head := given.read(8):
            (length,) = struct.unpack("q", head)
            texts.append(given.read(length).decode())
            size += length
            if size > 1 << 20:
                encode(texts)
                texts, size = [], 0
        encode(texts)
        numbers.extend([len(numbers), 1 + max(tokenizer.get_vocab().values())])
        numbers.tofile(made)
    else:
        (prompt,) = struct.unpack("q", given.read(8))
        tokens = array.array("i", given.read())
        for part in (tokens[:prompt], tokens):
            text = tokenizer.decode(part.tolist()).encode()
            made.write(struct.pack("q", len(text)) + text)
)";

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::string hex(const Checksum& checksum) { return fmt::format("{:016x}", checksum.value()); }

/// A Python that has the package. Named by who starts this process, because a job may be somebody else's.
std::string python() {
  const char* named = std::getenv("TELAR_PYTHON");  // NOLINT(concurrency-mt-unsafe): nothing changes it
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// Runs the program in a folder of its own.
void run_program(const Tokenizer& tokenizer, const char* what, const fs::path& folder) {
  const fs::path log = folder / "log";
  const int status = run_child({.name = "TELAR_PYTHON",
                                .words = {python(), "-c", kProgram, what, tokenizer.file,
                                          (folder / "given").string(), (folder / "made").string()},
                                .log = log});
  if (status == 0) return;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == kNoPackage)
    throw user_error(
        "data.tokenizer: {} has no package tokenizers; install it there, as with pip install tokenizers, or name another Python (TELAR_PYTHON=PROGRAM in the environment)",
        python());
  if (code == kNoTokenizer)
    throw user_error("{}: Python's package tokenizers does not read it: {}", tokenizer.file,
                     last_lines(log, 1));
  throw run_error("{} with the package tokenizers {}:\n{}", python(), ending_text(status),
                  last_lines(log, 5));
}

void write(std::ofstream& file, std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void finish(std::ofstream& file, const fs::path& path) {
  file.close();
  if (!file) throw run_error("{}: cannot be written", path.string());
}

void read_all(const OpenFile& file, const std::string& path, uint64_t offset, std::span<std::byte> bytes) {
  if (file.read(path, offset, bytes) != bytes.size())
    throw run_error("{}: has become shorter while it was read", path);
}

Error damaged(const std::string& path) {
  return run_error("{}: is no file of tokens; remove it, and it is made again", path);
}

constexpr int64_t kMostTokens = int64_t{1} << 30;  // as data.tokenizer_tokens has it

/// Checks every token, because kernels trust them.
EncodedTexts opened(const std::string& path) {
  EncodedTexts texts{path, {}, 0};
  const uint64_t size = file_size_of(path);
  const OpenFile file(path);
  if (file.descriptor() < 0) throw listed_file_error(path, errno);
  std::array<int64_t, 2> end = {};
  if (size < sizeof(end)) throw damaged(path);
  read_all(file, path, size - sizeof(end), std::as_writable_bytes(std::span(end)));
  const int64_t count = end[0];
  const int64_t vocabulary = end[1];
  if (count < 0 || vocabulary < 1 || vocabulary > kMostTokens ||
      static_cast<uint64_t>(count) > size / sizeof(int64_t))
    throw damaged(path);
  texts.vocabulary = vocabulary;
  texts.counts.resize(static_cast<size_t>(count));
  const uint64_t numbers = sizeof(end) + texts.counts.size() * sizeof(int64_t);
  if (numbers > size) throw damaged(path);
  read_all(file, path, size - numbers, std::as_writable_bytes(std::span(texts.counts)));
  uint64_t left = (size - numbers) / sizeof(int32_t);
  for (const int64_t of_text : texts.counts) {
    if (of_text < 0 || static_cast<uint64_t>(of_text) > left) throw damaged(path);
    left -= static_cast<uint64_t>(of_text);
  }
  if (left > 0 || (size - numbers) % sizeof(int32_t) != 0) throw damaged(path);
  std::vector<int32_t> piece(1 << 18);
  for (uint64_t at = 0; at < size - numbers;) {
    const std::span<int32_t> tokens =
        std::span(piece).first(std::min<size_t>(piece.size(), (size - numbers - at) / sizeof(int32_t)));
    read_all(file, path, at, std::as_writable_bytes(tokens));
    if (std::ranges::any_of(tokens, [&](int32_t token) { return token < 0 || token >= vocabulary; }))
      throw damaged(path);
    at += tokens.size_bytes();
  }
  return texts;
}

class TokenWindows final : public Dataset {
 public:
  TokenWindows(const EncodedTexts& texts, WindowPlaces places)
      : places_(std::move(places)),
        spec_(spec_of_windows(places_.options().length, texts.vocabulary)),
        begins_(texts.counts.size()),
        file_({texts.path}) {
    std::exclusive_scan(texts.counts.begin(), texts.counts.end(), begins_.begin(), int64_t{0});
  }

  int64_t size() const override { return places_.count(); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const WindowPlaces::Place place = places_.at(index);
    const auto begin = static_cast<uint64_t>(begins_[place.text] + place.begin) * sizeof(int32_t);
    file_.read(0, begin, features);
    file_.read(0, begin + sizeof(int32_t), label);
  }

 private:
  WindowPlaces places_;
  SampleSpec spec_;
  std::vector<int64_t> begins_;  ///< of each text, its first token in the file
  OpenFiles file_;
};

}  // namespace

std::string Tokenizer::checksum() const {
  Checksum checksum;
  const Bytes bytes = read_file(file);
  checksum.add(std::as_bytes(std::span(bytes)));
  return hex(checksum);
}

std::vector<std::vector<int32_t>> EncodedTexts::tokens(int64_t most) const {
  std::vector<std::vector<int32_t>> all;
  const OpenFile file(path);
  if (file.descriptor() < 0) throw listed_file_error(path, errno);
  uint64_t begin = 0;
  for (const int64_t count : counts) {
    std::vector<int32_t>& text = all.emplace_back(static_cast<size_t>(std::min(count, most)));
    read_all(file, path, begin, std::as_writable_bytes(std::span(text)));
    begin += static_cast<uint64_t>(count) * sizeof(int32_t);
  }
  return all;
}

namespace {

/// Writes texts as the program takes them. Returns their checksum.
std::string give(const EachText& texts, const fs::path& path) {
  Checksum checksum;
  std::ofstream given(path, std::ios::binary);
  texts([&](std::string_view text) {
    const auto size = static_cast<int64_t>(text.size());
    for (const auto part : {bytes_of(size), std::as_bytes(std::span(text))}) {
      checksum.add(part);
      write(given, part);
    }
  });
  finish(given, path);
  return hex(checksum);
}

/// A file that is there already may be another one than its name says.
EncodedTexts opened_of(const fs::path& path, int64_t texts) {
  EncodedTexts encoded = opened(path.string());
  if (std::ssize(encoded.counts) != texts) throw damaged(path.string());
  return encoded;
}

}  // namespace

EncodedTexts encoded(const Tokenizer& tokenizer, const EachText& texts) {
  Checksum checksum;
  int64_t number = 0;
  texts([&](std::string_view text) {
    checksum.add(bytes_of(static_cast<int64_t>(text.size())));
    checksum.add(std::as_bytes(std::span(text)));
    ++number;
  });
  const std::string of_tokenizer = tokenizer.checksum();
  const fs::path cache = cache_folder() / "tokens";
  const fs::path kept = cache / fmt::format("{}-{}.ids", of_tokenizer, hex(checksum));
  if (fs::exists(kept)) return opened_of(kept, number);
  std::error_code error;
  fs::create_directories(cache, error);
  if (error)
    throw user_error("{}: cannot be made, to keep tokens there: {}", cache.string(), error.message());
  const TemporaryFolder folder("encoding", cache);
  const std::string given = give(texts, folder.path() / "given");
  run_program(tokenizer, "encode", folder.path());
  if (given != hex(checksum) || tokenizer.checksum() != of_tokenizer)
    throw run_error("{}: it or the texts have changed while they were read", tokenizer.file);
  EncodedTexts made = opened_of(folder.path() / "made", number);
  fs::rename(made.path, kept);  // another process may have made the same one
  made.path = kept.string();
  return made;
}

std::vector<int32_t> encoded_prompt(const Tokenizer& tokenizer, std::string_view text) {
  const TemporaryFolder folder("encoding");
  give([&](const auto& take) { take(text); }, folder.path() / "given");
  run_program(tokenizer, "prompt", folder.path());
  return opened_of(folder.path() / "made", 1).tokens(std::numeric_limits<int64_t>::max())[0];
}

std::string decoded(const Tokenizer& tokenizer, std::span<const int32_t> tokens, int64_t prompt,
                    const std::string& text) {
  const TemporaryFolder folder("decoding");
  std::ofstream given(folder.path() / "given", std::ios::binary);
  write(given, bytes_of(prompt));
  write(given, std::as_bytes(tokens));
  finish(given, folder.path() / "given");
  run_program(tokenizer, "decode", folder.path());
  const Bytes made = read_file((folder.path() / "made").string());
  std::string_view left(reinterpret_cast<const char*>(made.data()), made.size());
  const auto next = [&] {
    int64_t length = 0;
    std::memcpy(&length, left.data(), sizeof(length));
    const std::string_view part = left.substr(sizeof(length), static_cast<size_t>(length));
    left.remove_prefix(sizeof(length) + part.size());
    return part;
  };
  const std::string_view beginning = next();
  const std::string_view all = next();
  return all.starts_with(beginning) ? text + std::string(all.substr(beginning.size())) : std::string(all);
}

void require_utf8(std::string_view text, const std::string& place, bool is_file) {
  int64_t line = 1;
  while (!text.empty()) {
    const size_t length = utf8_character(text);
    if (length == 0)
      throw user_error(
          "{}: is no UTF-8, which the package tokenizers takes; convert it, as with iconv -f LATIN1 -t UTF-8",
          is_file ? fmt::format("{}, line {}", place, line) : place);
    if (text[0] == '\n') ++line;
    text.remove_prefix(length);
  }
}

DatasetPtr token_windows(const EncodedTexts& texts, WindowPlaces places) {
  return std::make_shared<TokenWindows>(texts, std::move(places));
}

}  // namespace telar
