/* Functions that cards compute too. */
#pragma once

#ifdef __CUDACC__
#define LS_EVERYWHERE static inline __host__ __device__
#else
#define LS_EVERYWHERE static inline
#endif
