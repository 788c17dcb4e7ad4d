/* Functions that cards compute too. */
#pragma once

/* LS_EVERYWHERE_INLINE is for what must not stay a call, so that loops over it become vectors. A compiler that is not
 * asked to optimize makes none, and would give each function a frame as large as all that is inlined into it. */
#ifdef __CUDACC__
#define LS_EVERYWHERE        static inline __host__ __device__
#define LS_EVERYWHERE_INLINE LS_EVERYWHERE
#elif defined __OPTIMIZE__
#define LS_EVERYWHERE        static inline
#define LS_EVERYWHERE_INLINE static inline __attribute__((always_inline, unused))
#else
#define LS_EVERYWHERE        static inline __attribute__((unused))
#define LS_EVERYWHERE_INLINE LS_EVERYWHERE
#endif
