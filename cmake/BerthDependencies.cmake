# Third-party libraries, all of them Debian 12 packages (tools/setup installs them). Each is named as an imported target;
# tools/check-layers says which folder may include which.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
# Its plain name would be taken for a folder of ours.
add_library(SQLiteCpp::SQLiteCpp ALIAS SQLiteCpp)
# Beast is headers only. `libboost-dev` is 1.74 and conflicts, so the version is named.
find_package(Boost 1.81 REQUIRED)

# Debian's yaml-cpp 0.7 exports a plain name; give it the one that newer releases use, which CMake checks.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  set_target_properties(
    yaml-cpp::yaml-cpp PROPERTIES INTERFACE_LINK_LIBRARIES yaml-cpp INTERFACE_INCLUDE_DIRECTORIES
                                                                    "${YAML_CPP_INCLUDE_DIR}")
endif()

# CLP, the linear-programming engine of CBC; its pkg-config file names the include folder inside coin/ instead of the one
# above it.
find_path(BERTH_CLP_INCLUDE coin/ClpSimplex.hpp REQUIRED)
find_library(BERTH_CLP_LIBRARY Clp REQUIRED)
find_library(BERTH_COINUTILS_LIBRARY CoinUtils REQUIRED)
add_library(clp::clp INTERFACE IMPORTED)
set_target_properties(
  clp::clp PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${BERTH_CLP_INCLUDE}"
                      INTERFACE_LINK_LIBRARIES "${BERTH_CLP_LIBRARY};${BERTH_COINUTILS_LIBRARY}")

if(NOT BERTH_FUZZ)
  find_package(GTest REQUIRED)
  # Debian ships librapidcheck.a and the headers only.
  find_path(BERTH_RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
  find_library(BERTH_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(rapidcheck::rapidcheck INTERFACE IMPORTED)
  set_target_properties(
    rapidcheck::rapidcheck PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${BERTH_RAPIDCHECK_INCLUDE}"
                                      INTERFACE_LINK_LIBRARIES "${BERTH_RAPIDCHECK_LIBRARY}")
endif()
