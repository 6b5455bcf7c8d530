//===- KeysTest.cpp - Where the parts of a request come from --------------===//

#include "RequestTesting.h"

#include <tuple>

using namespace dt;

namespace {

/// Path, line, column.
using Where = std::tuple<std::string, uint32_t, uint32_t>;

Where whereOf(const JsonKey &key) { return {key.path, key.line, key.column}; }

TEST(Keys, sayWhereValuesBegin) {
  // What stands between values: spaces, tabs, ends of lines of both kinds, and
  // numbers, strings and words that end right before the next mark.
  Request request = readGood("{\"vocab_multiple\":128,\n"
                             " \"model\": {\"tensors\":\r\n"
                             "\t[ {\"name\": \"a\\\"\\u00e9}{\", "
                             "\"shape\":[4,6],\"dtype\":\"f32\"},\n"
                             "{\"name\":\"w\",\"shape\":[2\n],"
                             "\"dtype\":\"f32\"}]},\n"
                             "\"rules\": [{\"match\": \"*\", \"tp\": null}],\n"
                             "\"source\" : {\"world\": 1},\n"
                             "\"destination\"\n:\n  {\"world\": 1}}");
  EXPECT_EQ(whereOf(request.key), Where("request", 1, 1));
  EXPECT_EQ(whereOf(request.model), Where("model", 2, 11));
  EXPECT_EQ(whereOf(request.tensors[0].key), Where("model.tensors[0]", 3, 4));
  EXPECT_EQ(whereOf(request.tensors[1].key), Where("model.tensors[1]", 4, 1));
  EXPECT_EQ(whereOf(request.source.key), Where("source", 7, 12));
  EXPECT_EQ(whereOf(request.source.places[0].key), Where("source", 7, 12));
  EXPECT_EQ(whereOf(request.destination.key), Where("destination", 10, 3));
}

TEST(Keys, ofShardsAreTheFirstRow) {
  Request request = readGood(R"({
"model": {"v": {"shape": [2], "dtype": "f32"},
          "w": {"shape": [2], "dtype": "f32"}},
"source": {"world": 2, "shards": [
  {"tensor": "w", "rank": 0, "offset": [0], "size": [1]},
  {"tensor": "v", "rank": 0, "offset": [0], "size": [2]},
  {"tensor": "w", "rank": 1, "offset": [1], "size": [1]}]},
"destination": {"world": 1, "shards": [
  {"tensor": "v", "rank": 0, "offset": [0], "size": [2]},
  {"tensor": "w", "rank": 0, "offset": [0], "size": [2]}]},
"extra": [{"name": "step", "dtype": "i64"}]})");
  EXPECT_EQ(whereOf(request.tensors[1].key), Where("model.w", 3, 16));
  const std::vector<PlaceDecl> &source = request.source.places;
  ASSERT_EQ(source.size(), 3u);
  EXPECT_EQ(whereOf(source[0].key), Where("source.shards[1]", 6, 3));
  EXPECT_EQ(whereOf(source[1].key), Where("source.shards[0]", 5, 3));
  EXPECT_EQ(whereOf(source[2].key), Where("extra[0]", 11, 11));
  EXPECT_EQ(whereOf(request.destination.places[1].key),
            Where("destination.shards[1]", 10, 3));
}

TEST(Keys, ofModelFilesAreThatOfTheFile) {
  Request request = readGood(stay("llama-tiny.json", R"({"world": 1})"));
  for (const TensorDecl &tensor : request.tensors)
    EXPECT_EQ(whereOf(tensor.key), Where("model", 1, 11));
}

} // namespace
