#include "telar/io/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "telar/core/error.h"

namespace telar {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

const std::filesystem::path kFixtures = std::filesystem::path(test::fixtures()) / "safetensors";

std::string file_of(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

std::string complaint(const std::string& file) {
  try {
    parse_safetensors(std::as_bytes(std::span(file)), "w.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::user);
    EXPECT_NE(std::string(error.what()).find("w.safetensors"), std::string::npos) << error.what();
    return error.what();
  }
  return "nothing";
}

void expect_complaint(const std::string& header, size_t data_bytes, const std::string& part) {
  const std::string sentence = complaint(file_of(header, std::string(data_bytes, '\0')));
  EXPECT_NE(sentence.find(part), std::string::npos) << header << "\n" << sentence;
}

void expect_bits(const NamedTensor& tensor, const nlohmann::json& expected) {
  EXPECT_EQ(tensor.shape.dims(), expected["shape"].get<std::vector<int64_t>>()) << tensor.name;
  const auto bits = expected["bits"].get<std::vector<uint32_t>>();
  ASSERT_EQ(tensor.data.size(), bits.size()) << tensor.name;
  for (size_t i = 0; i < bits.size(); ++i) {
    const bool both_nan = std::isnan(tensor.data[i]) && std::isnan(std::bit_cast<float>(bits[i]));
    EXPECT_TRUE(both_nan || std::bit_cast<uint32_t>(tensor.data[i]) == bits[i])
        << tensor.name << "[" << i << "] is " << tensor.data[i] << ", not " << std::bit_cast<float>(bits[i]);
  }
}

TEST(Safetensors, ReadsEveryTypeThatTheReferenceLibraryWrote) {
  const SafetensorsFile file(kFixtures / "mixed.safetensors");
  const auto expected = nlohmann::json::parse(read_text(kFixtures / "mixed.json"));
  ASSERT_EQ(file.entries().size(), expected.size() + 1);
  for (const auto& [name, tensor] : expected.items()) expect_bits(file.read(name), tensor);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"epoch", "3"}}));
}

TEST(Safetensors, AFileMayContainAnUnreadableType) {
  const SafetensorsFile file(kFixtures / "mixed.safetensors");
  EXPECT_EQ(file.entry("mask").dtype, "U8");
  EXPECT_THROW(file.read("mask"), Error);
}

TEST(Safetensors, WritesTheBytesOfTheReferenceLibrary) {
  const auto reference = kFixtures / "f32.safetensors";
  const auto tensors = read_safetensors(reference);
  TempFolder folder;
  {
    OutputFile file(folder / "ours.safetensors", OutputFile::Mode::create);
    write_safetensors(file, tensors, {{"format", "pt"}});
  }
  EXPECT_EQ(read_text(folder / "ours.safetensors"), read_text(reference));
}

TEST(Safetensors, ReadsFilesInMemoryAndOnDiskAlike) {
  const std::string bytes = read_text(kFixtures / "f32.safetensors");
  const auto in_memory = parse_safetensors(std::as_bytes(std::span(bytes)), "memory");
  const auto on_disk = read_safetensors(kFixtures / "f32.safetensors");
  ASSERT_EQ(in_memory.size(), 3U);
  for (size_t i = 0; i < in_memory.size(); ++i) {
    EXPECT_EQ(in_memory[i].name, on_disk[i].name);
    EXPECT_EQ(in_memory[i].shape, on_disk[i].shape);
    EXPECT_EQ(in_memory[i].data, on_disk[i].data);
  }
}

TEST(Safetensors, LargeTensorsOfOtherTypesAreConvertedInPiecesWithoutSeams) {
  // 300,000 I64 values fill more than two of the reader's pieces.
  constexpr int64_t kCount = 300'000;
  std::vector<int64_t> numbers(kCount);
  for (int64_t i = 0; i < kCount; ++i) numbers[static_cast<size_t>(i)] = i * 7 - 1'000'000;
  std::string data(kCount * 8, '\0');
  std::memcpy(data.data(), numbers.data(), data.size());
  TempFolder folder;
  write_text(folder / "big.safetensors",
             file_of(R"({"n":{"dtype":"I64","shape":[300000],"data_offsets":[0,2400000]}})", data));
  const auto tensor = SafetensorsFile(folder / "big.safetensors").read("n");
  for (int64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(tensor.data[static_cast<size_t>(i)], static_cast<float>(i * 7 - 1'000'000));
}

TEST(Safetensors, NamesAMissingTensorAndTheNearestOne) {
  const SafetensorsFile file(kFixtures / "f32.safetensors");
  try {
    file.read("conv.weights");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"conv.weight\""), std::string::npos) << error.what();
  }
}

TEST(Safetensors, RefusesAFileTruncatedAtAnyByte) {
  const std::string bytes = read_text(kFixtures / "f32.safetensors");
  ASSERT_EQ(complaint(bytes), "nothing");
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_NE(complaint(bytes.substr(0, length)), "nothing") << "cut after " << length << " bytes";
  }
  EXPECT_NE(complaint(bytes + "x"), "nothing") << "one byte too many";
}

TEST(Safetensors, AHeaderLongerThanTheFileIsRefused) {
  for (const uint64_t length : {uint64_t{9}, uint64_t{5000}, ~uint64_t{0} - 7}) {
    std::string file(16, '\0');
    std::memcpy(file.data(), &length, 8);
    const std::string sentence = complaint(file);
    EXPECT_NE(sentence.find("header of " + std::to_string(length) + " bytes"), std::string::npos) << sentence;
  }
}

TEST(Safetensors, DamagedHeadersAreRefusedWithTheTensorsName) {
  expect_complaint("not json", 0, "not valid JSON");
  expect_complaint("[1]", 0, "not a JSON object");
  expect_complaint(R"({"a":[[[[1]]]]})", 0, "nested too deep");
  expect_complaint(R"({"__metadata__":{"a":1}})", 0, "must be a text");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "\"a\"");
  expect_complaint(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "\"F31\"");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                   "shape must hold whole numbers");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
                   "shape must hold whole numbers");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "needs 8 bytes");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "[begin, end]");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "beyond the 4 bytes");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6, "leaving a gap");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 6, "2 bytes follow");
}

TEST(Safetensors, ShapesWhoseProductOverflowsAreRefused) {
  expect_complaint(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                   "more elements");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                   "more elements");
}

TEST(Safetensors, TensorsThatOverlapOrShareANameAreRefused) {
  expect_complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                   8, "overlapping");
  expect_complaint(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                   4, "\"a\" occurs twice");
}

TEST(Safetensors, TheWriterRefusesUnreadableNames) {
  TempFolder folder;
  OutputFile file(folder / "w.safetensors", OutputFile::Mode::create);
  const std::vector<NamedTensor> twice = {{"a", {1}, {1}}, {"a", {1}, {2}}};
  EXPECT_THROW(write_safetensors(file, twice), Error);
  const std::vector<NamedTensor> reserved = {{"__metadata__", {1}, {1}}};
  EXPECT_THROW(write_safetensors(file, reserved), Error);
  const std::vector<NamedTensor> not_utf8 = {{"\xff", {1}, {1}}};
  EXPECT_THROW(write_safetensors(file, not_utf8), Error);
  const std::vector<NamedTensor> short_data = {{"a", {2}, {1}}};
  EXPECT_THROW(write_safetensors(file, short_data), Error);
}

}  // namespace
}  // namespace telar
