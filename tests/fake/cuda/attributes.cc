#include "fake/cuda/attributes.h"

#include <cstdlib>
#include <iterator>

#include "fake/cuda/abi.h"

namespace berth::fake::cuda {

namespace {

struct Fixed {
  int attribute;
  int value;
};

// By number, as the interface defines them; what depends on the device is answered below.
constexpr Fixed kFixed[] = {
    {1, 1024},        {2, 1024},    {3, 1024},     {4, 64},      {5, 2147483647},  {6, 65535},
    {7, 65535},       {8, 49152},   {9, 65536},    {10, 32},     {11, 2147483647}, {12, 65536},
    {13, 1755000},    {14, 512},    {15, 1},       {17, 0},      {18, 0},          {19, 1},
    {21, 131072},     {22, 131072}, {23, 65536},   {24, 16384},  {25, 16384},      {26, 16384},
    {27, 32768},      {28, 32768},  {29, 2048},    {30, 512},    {31, 1},          {32, 1},
    {34, 0},          {35, 0},      {36, 2619000}, {37, 5120},   {38, 52428800},   {39, 2048},
    {40, 3},          {41, 1},      {42, 32768},   {43, 2048},   {44, 1},          {45, 32768},
    {46, 32768},      {47, 8192},   {48, 8192},    {49, 32768},  {50, 0},          {51, 32},
    {52, 32768},      {53, 32768},  {54, 2046},    {55, 32768},  {56, 131072},     {57, 65536},
    {58, 16384},      {59, 16384},  {60, 16384},   {61, 32768},  {62, 2048},       {63, 32768},
    {64, 32768},      {65, 2048},   {66, 32768},   {67, 32768},  {68, 2046},       {69, 268435456},
    {70, 131072},     {71, 65000},  {72, 2097120}, {73, 32768},  {74, 32768},      {77, 32768},
    {78, 1},          {79, 1},      {80, 1},       {81, 233472}, {82, 65536},      {83, 1},
    {84, 0},          {86, 0},      {87, 2},       {88, 0},      {89, 1},          {90, 1},
    {91, 1},          {92, 0},      {93, 0},       {94, 0},      {95, 1},          {96, 0},
    {97, 232448},     {98, 1},      {99, 1},       {100, 0},     {101, 0},         {102, 1},
    {103, 1},         {104, 0},     {105, 0},      {106, 32},    {107, 1},         {108, 32768000},
    {109, 134217728}, {110, 1},     {111, 1024},   {112, 1},     {113, 1},         {114, 1},
    {115, 1},         {116, 1},     {117, 1},      {118, 100},   {119, 9},         {120, 1},
    {121, 1},         {122, 1},     {123, 1},      {124, 1},     {125, 1},         {126, 4},
    {127, 1},         {128, 0},     {129, 1},      {130, 0},     {131, -1},        {132, 0},
    {133, 0},         {135, 0},     {136, 0},      {137, 0},     {138, 0},         {139, 0},
    {140, 0},         {141, 1},     {142, 1},      {143, 0},     {144, 1},         {145, 1},
    {146, 0},         {147, 0},
};

// The newest number that a driver of this CUDA version knows.
int newest_attribute(std::uint32_t cuda_version) {
  if (cuda_version < 11060) return 124;
  if (cuda_version < 12000) return 130;
  if (cuda_version < 12080) return 134;
  if (cuda_version < 13000) return 138;
  return 147;
}

}  // namespace

int device_attribute(const Header& header, const DeviceEntry& device, int attribute, int* value) {
  if (attribute < 1 || attribute > newest_attribute(header.cuda_version)) return kInvalidValue;
  switch (attribute) {
    case 16: *value = static_cast<int>(device.multiprocessors); return kSuccess;
    case 20: *value = static_cast<int>(device.compute_mode.load()); return kSuccess;
    case 33:
      *value = static_cast<int>(std::strtol(device.bus_id + 9, nullptr, 16));
      return kSuccess;
    case 75: *value = static_cast<int>(device.major); return kSuccess;
    case 76: *value = static_cast<int>(device.minor); return kSuccess;
    case 85: *value = static_cast<int>(device.index); return kSuccess;
    case 134: *value = static_cast<int>(device.numa); return kSuccess;
    default: break;
  }
  for (const Fixed& fixed : kFixed) {
    if (fixed.attribute != attribute) continue;
    *value = fixed.value;
    return kSuccess;
  }
  return kInvalidValue;
}

}  // namespace berth::fake::cuda
