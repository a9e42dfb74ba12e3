// 128-bit intermediates: products of two 64-bit quantities, exactly.
#pragma once

namespace berth {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

}  // namespace berth
