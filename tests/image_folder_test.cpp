// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/image_folder.h"

#include <filesystem>

#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model_workload.h"
#include "tests/temp_folder.h"
#include "workloads/image_file.h"

// Pictures in files and in folders of classes, good and bad, and resnet50 upon them.

namespace reprise::workloads {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::TempFolder;

// A binary PPM of one colour, with a comment in its head.
std::string ppm(int64_t width, int64_t height, int colour) {
  return "P6\n# a comment\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
         std::string(static_cast<std::size_t>(3 * width * height), static_cast<char>(colour));
}

// 2 x 1 pixels, red and blue.
const std::string kPng(
    "\211PNG\r\n\032\n"
    "\0\0\0\015IHDR\0\0\0\002\0\0\0\001\010\002\0\0\0\173\100\350\335"
    "\0\0\0\015IDAT\170\234\143\370\317\0\004\377\001\007\0\001\377\342\043\236\131"
    "\0\0\0\0IEND\256\102\140\202",
    70);

struct Pictures {
  TempFolder folder;
  Pictures() {
    for (const char* name : {"cats", "dogs"}) {
      std::filesystem::create_directory(folder.path(name));
      for (int i = 0; i < 3; ++i) {
        folder.write(std::string(name) + "/" + std::to_string(i) + ".ppm",
                     ppm(40, 32, name == std::string("cats") ? 250 : 5));
      }
    }
  }
  WorkloadOptions options() const {
    WorkloadOptions options;
    options.batch = 2;
    options.images = folder.path("");
    return options;
  }
  std::string failure() const { return tests::error_of("resnet50", options()); }
};

TEST(ImageFolder, makes_a_class_of_each_folder) {
  const Pictures pictures;
  pictures.folder.write("cats/.hidden", "no picture");
  const ImageFolder folder(pictures.folder.path(""), std::nullopt);
  EXPECT_EQ(folder.classes(), 2);
  EXPECT_EQ(folder.height(), 32);
  EXPECT_EQ(folder.width(), 40);
  EXPECT_EQ(folder.training_count(), 4);
  EXPECT_EQ(folder.held_out_count(), 2);
  const LabelledImages all = folder.training({3, 0});
  EXPECT_EQ(all.images.sizes(), at::IntArrayRef({2, 3, 32, 40}));
  EXPECT_EQ(all.labels[0].item<int64_t>(), 1);
  EXPECT_EQ(all.labels[1].item<int64_t>(), 0);
  EXPECT_NEAR(all.images[1][0][0][0].item<double>(), (250.0 / 255 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(all.images[0][2][9][9].item<double>(), (5.0 / 255 - 0.406) / 0.225, 1e-5);
}

TEST(ImageFolder, scales_pictures_of_mixed_size_where_a_size_is_given) {
  const Pictures pictures;
  pictures.folder.write("dogs/3.png", kPng);
  EXPECT_THAT(pictures.failure(),
              AllOf(HasSubstr("images of mixed size"), HasSubstr("cats/0.ppm' is 40x32"),
                    HasSubstr("dogs/3.png' is 2x1"), HasSubstr("\nhint: --size")));
  const ImageFolder folder(pictures.folder.path(""), 36);
  EXPECT_EQ(folder.height(), 36);
  EXPECT_EQ(folder.width(), 36);
  EXPECT_NEAR(folder.training({0}).images.min().item<double>(), (250.0 / 255 - 0.485) / 0.229,
              1e-5);
}

TEST(ImageFolder, feeds_resnet50) {
  const Pictures pictures;
  const auto workload = make_workload("resnet50", pictures.options());
  EXPECT_EQ(workload->module().named_parameters()["fc.weight"].size(0), 2);
  EXPECT_EQ(workload->batch(0).input.sizes(), at::IntArrayRef({2, 3, 32, 40}));
  EXPECT_TRUE(bit_equal(workload->batch(5).input, workload->batch(5).input));
  const double accuracy = workload->quality()->value;
  EXPECT_TRUE(accuracy == 0 || accuracy == 0.5 || accuracy == 1) << accuracy;
}

TEST(ImageFile, reads_png_and_ppm) {
  const TempFolder folder;
  const Image png = read_image(folder.write("a.png", kPng));
  EXPECT_EQ(png.width, 2);
  EXPECT_EQ(png.height, 1);
  EXPECT_THAT(png.pixels, ::testing::ElementsAre(255, 0, 0, 0, 0, 255));
  const Image image = read_image(folder.write("b.ppm", "P6 1 2 255\n\1\2\3\4\5\6"));
  EXPECT_EQ(image.width, 1);
  EXPECT_EQ(image.height, 2);
  EXPECT_THAT(image.pixels, ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  const Image grey = read_image(folder.write("c.pgm", "P5 1 1 255\n\7"));
  EXPECT_THAT(grey.pixels, ::testing::ElementsAre(7, 7, 7));
}

TEST(ImageFile, names_the_file_that_is_no_whole_picture) {
  const TempFolder folder;
  const auto expect = [&](const std::string& bytes, const std::string& problem) {
    const std::string path = folder.write("x", bytes);
    try {
      read_image(path);
      ADD_FAILURE() << "read: " << problem;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'" + path + "': " + problem), HasSubstr("PNG")));
    }
  };
  const std::string whole = ppm(4, 4, 9);
  expect("", "is empty");
  expect("hello, world, this is a text", "is no image that can be read");
  for (std::size_t size = 3; size < whole.size(); ++size) {
    EXPECT_THROW(read_image(folder.write("cut", whole.substr(0, size))), Error) << size;
  }
  expect(whole.substr(0, whole.size() - 1), "is truncated");
  for (std::size_t size = 1; size < kPng.size() - 12; ++size) {
    EXPECT_THROW(read_image(folder.write("cut", kPng.substr(0, size))), Error) << size;
  }
  expect("P6 1 1 15\n\1\2\3", "the largest value of a pixel is 15");
  expect("P6 1 1 65535\n\1\2\3\4\5\6", "the largest value of a pixel is 65535");
  expect("P6 0 1 255\n", "has no pixels");
  expect("P3 1 1 255\n1 2 3\n", "is no image that can be read");
  EXPECT_THROW(read_image(folder.path("absent")), Error);
  EXPECT_THROW(read_image(folder.path("")), Error);
}

TEST(ImageFolder, says_what_a_folder_lacks) {
  const Pictures pictures;
  WorkloadOptions options = pictures.options();
  options.images = "/nowhere";
  EXPECT_THAT(tests::usage_error("resnet50", options), HasSubstr("'/nowhere'"));
  pictures.folder.write("cats/notes.txt", "no picture");
  EXPECT_THAT(pictures.failure(), HasSubstr("cats/notes.txt': is no image"));
  std::filesystem::remove(pictures.folder.path("cats/notes.txt"));
  pictures.folder.write("flat.ppm", ppm(32, 32, 1));
  EXPECT_THAT(pictures.failure(), HasSubstr("flat.ppm' lies in no class"));
  std::filesystem::remove(pictures.folder.path("flat.ppm"));
  std::filesystem::create_directory(pictures.folder.path("mice"));
  EXPECT_THAT(pictures.failure(), HasSubstr("mice' holds no image"));
  pictures.folder.write("mice/0.ppm", ppm(32, 32, 1));
  EXPECT_THAT(pictures.failure(), HasSubstr("mice' holds one image only"));
  for (const char* name : {"cats", "dogs"}) {
    std::filesystem::remove_all(pictures.folder.path(name));
  }
  EXPECT_THAT(pictures.failure(), HasSubstr("holds one class only"));
  std::filesystem::remove_all(pictures.folder.path("mice"));
  EXPECT_THAT(pictures.failure(), HasSubstr("holds nothing"));
}

}  // namespace
}  // namespace reprise::workloads
