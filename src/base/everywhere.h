/* Functions that cards compute too. */
#ifndef LS_BASE_EVERYWHERE_H
#define LS_BASE_EVERYWHERE_H

#ifdef __CUDACC__
#define LS_EVERYWHERE static inline __host__ __device__
#else
#define LS_EVERYWHERE static inline
#endif

#endif
