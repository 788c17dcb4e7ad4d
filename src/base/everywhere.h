/* Functions that cards compute too. */
#pragma once

/* LS_EVERYWHERE_INLINE is for what must not stay a call, so that loops over it become vectors. */
#ifdef __CUDACC__
#define LS_EVERYWHERE        static inline __host__ __device__
#define LS_EVERYWHERE_INLINE LS_EVERYWHERE
#else
#define LS_EVERYWHERE        static inline
#define LS_EVERYWHERE_INLINE static inline __attribute__((always_inline, unused))
#endif
