// libnvcuvid.so.1 of the fake: a video library on a card without a decoder.
//
// GStreamer offers its CUDA elements only where this library or the encoder's can be opened, and
// opens it only if every name below is there. Nothing decodes here: each call says "not supported".
#define BERTH_NO_DECODER(name)                                   \
  extern "C" __attribute__((visibility("default"))) int name() { \
    constexpr int kNotSupported = 801;                           \
    return kNotSupported;                                        \
  }

BERTH_NO_DECODER(cuvidCtxLockCreate)
BERTH_NO_DECODER(cuvidCtxLockDestroy)
BERTH_NO_DECODER(cuvidCtxLock)
BERTH_NO_DECODER(cuvidCtxUnlock)
BERTH_NO_DECODER(cuvidCreateDecoder)
BERTH_NO_DECODER(cuvidDestroyDecoder)
BERTH_NO_DECODER(cuvidDecodePicture)
BERTH_NO_DECODER(cuvidReconfigureDecoder)
BERTH_NO_DECODER(cuvidGetDecodeStatus)
BERTH_NO_DECODER(cuvidCreateVideoParser)
BERTH_NO_DECODER(cuvidParseVideoData)
BERTH_NO_DECODER(cuvidDestroyVideoParser)
BERTH_NO_DECODER(cuvidMapVideoFrame64)
BERTH_NO_DECODER(cuvidUnmapVideoFrame64)
BERTH_NO_DECODER(cuvidGetDecoderCaps)
