! late.c in Fortran: rank 0 comes a second later.
program late
    use mpi
    integer :: error, rank, other
    double precision :: start, came, left
    call mpi_init(error)
    start = mpi_wtime()
    call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
    call mpi_comm_dup(MPI_COMM_WORLD, other, error)
    if (rank == 0) call sleep(1)
    came = mpi_wtime()
    call mpi_barrier(MPI_COMM_WORLD, error)
    left = mpi_wtime()
    write (*, '(a,i0,2f12.6)') 'rank ', rank, left - came, left - start
    flush (6)
    call mpi_finalize(error)
end program
