// Shared by the kernels that fill shared memory while they multiply.

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ u32 shared_address(const void* p) {
    u32 at;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(at) : "l"(p));
    return at;
}
__device__ __forceinline__ void fetch_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void fetch_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
// Never launched on such GPUs.
__device__ u32 shared_address(const void*) { return 0; }
__device__ void fetch_end() {}
template <int N> __device__ void fetch_wait() {}
#endif

