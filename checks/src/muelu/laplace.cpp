/* Solves Laplace's equation on a cube of points with Trilinos MueLu: conjugate gradients, preconditioned by multigrid.
 *
 *     mpirun muelu-laplace EDGE
 *
 * Galeri makes the matrix, a stencil of seven points, with EDGE^3 unknowns. MueLu makes the levels by smoothed
 * aggregation, and relaxes on every level by Gauss-Seidel, forwards and back. Belos iterates until the residual is
 * 10^-10 of the first. The coarsest level has relaxation too: KLU2, the direct solver that MueLu would take there,
 * gives wrong results on two or more ranks in Debian's Trilinos 13.2. Every rank relaxes its own unknowns only: more
 * ranks need more iterations.
 *
 * A cube half as wide comes first, untimed: the first steps read the program's code, from the image in a container. The
 * program prints the seconds of making the levels and of solving. As answers it prints the iterations, the remaining
 * residual (relative, computed from the solution), and the norm of the solution.
 */
#include <BelosLinearProblem.hpp>
#include <BelosPseudoBlockCGSolMgr.hpp>
#include <BelosTpetraAdapter.hpp>
#include <Galeri_XpetraMaps.hpp>
#include <Galeri_XpetraProblemFactory.hpp>
#include <MueLu_CreateTpetraPreconditioner.hpp>
#include <Teuchos_ParameterList.hpp>
#include <Tpetra_Core.hpp>
#include <Tpetra_CrsMatrix.hpp>
#include <Tpetra_MultiVector.hpp>
#include <Trilinos_version.h>

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

typedef Tpetra::Map<> Map;
typedef Tpetra::CrsMatrix<> Matrix;
typedef Tpetra::MultiVector<> Vectors;
typedef Tpetra::Operator<> Operator;
typedef Vectors::scalar_type Scalar;
typedef Map::local_ordinal_type Local;
typedef Map::global_ordinal_type Global;

const double TOLERANCE = 1e-10;
const int MOST_ITERATIONS = 500;
/* Most unknowns of the coarsest level; more sweeps of relaxation replace a direct solver there. */
const int COARSEST = 200, SWEEPS_ON_COARSEST = 10;

Teuchos::ParameterList relaxation(int sweeps)
{
    Teuchos::ParameterList list;
    list.set("relaxation: type", "Symmetric Gauss-Seidel");
    list.set("relaxation: sweeps", sweeps);
    return list;
}

Teuchos::ParameterList multigrid()
{
    Teuchos::ParameterList list;
    list.set("verbosity", "none");
    list.set("multigrid algorithm", "sa");
    list.set("smoother: type", "RELAXATION");
    list.sublist("smoother: params") = relaxation(1);
    list.set("coarse: max size", COARSEST);
    list.set("coarse: type", "RELAXATION");
    list.sublist("coarse: params") = relaxation(SWEEPS_ON_COARSEST);
    return list;
}

double norm_of(const Vectors &vectors)
{
    Teuchos::Array<Vectors::mag_type> norms(1);
    vectors.norm2(norms());
    return norms[0];
}

void solve(const Teuchos::RCP<const Teuchos::Comm<int>> &comm, Global edge, bool speaks)
{
    Teuchos::ParameterList grid;
    grid.set("nx", edge);
    grid.set("ny", edge);
    grid.set("nz", edge);
    const Teuchos::RCP<const Map> map = Galeri::Xpetra::CreateMap<Local, Global, Map>("Cartesian3D", comm, grid);
    const auto laplace =
        Galeri::Xpetra::BuildProblem<Scalar, Local, Global, Map, Matrix, Vectors>("Laplace3D", map, grid);
    const Teuchos::RCP<Matrix> matrix = laplace->BuildMatrix();
    const Teuchos::RCP<Operator> as_operator = matrix;
    const Teuchos::RCP<Vectors> solution = Teuchos::rcp(new Vectors(matrix->getDomainMap(), 1));
    const Teuchos::RCP<Vectors> right = Teuchos::rcp(new Vectors(matrix->getRangeMap(), 1));
    right->putScalar(1.0);

    comm->barrier();
    const double began = MPI_Wtime();
    Teuchos::ParameterList levels = multigrid();
    const Teuchos::RCP<Operator> preconditioner = MueLu::CreateTpetraPreconditioner(as_operator, levels);
    comm->barrier();
    const double made = MPI_Wtime();

    typedef Belos::LinearProblem<Scalar, Vectors, Operator> Problem;
    const Teuchos::RCP<Problem> problem = Teuchos::rcp(new Problem(as_operator, solution, right));
    problem->setLeftPrec(preconditioner);
    problem->setProblem();
    Teuchos::ParameterList settings;
    settings.set("Maximum Iterations", MOST_ITERATIONS);
    settings.set("Convergence Tolerance", TOLERANCE);
    Belos::PseudoBlockCGSolMgr<Scalar, Vectors, Operator> solver(problem, Teuchos::rcpFromRef(settings));
    const bool converged = solver.solve() == Belos::Converged;
    comm->barrier();
    const double solved = MPI_Wtime();

    Vectors residual(*right, Teuchos::Copy);
    matrix->apply(*solution, residual, Teuchos::NO_TRANS, -1.0, 1.0);
    const double left = norm_of(residual) / norm_of(*right), norm = norm_of(*solution);
    if (speaks) {
        std::printf("Trilinos %s\n", TRILINOS_VERSION_STRING);
        std::printf("ranks %d\n", comm->getSize());
        std::printf("unknowns %lld\n", (long long)map->getGlobalNumElements());
        std::printf("seconds setup %.4f\n", made - began);
        std::printf("seconds solve %.4f\n", solved - made);
        std::printf("iterations %d\n", solver.getNumIters());
        std::printf("residual %.3e\n", left);
        std::printf("norm %.12g\n", norm);
        std::printf("convergence %s\n", converged ? "reached" : "failed");
    }
}

} // namespace

int main(int argc, char *argv[])
{
    Tpetra::ScopeGuard scope(&argc, &argv);
    const Teuchos::RCP<const Teuchos::Comm<int>> comm = Tpetra::getDefaultComm();
    char *end = nullptr;
    const long edge = argc == 2 ? std::strtol(argv[1], &end, 10) : 0;
    if (edge < 4 || *end != '\0') {
        if (comm->getRank() == 0)
            std::fprintf(stderr, "muelu-laplace: error: '%s' is no number from 4 on\n", argc == 2 ? argv[1] : "");
        return 1;
    }
    try {
        solve(comm, std::max(4L, edge / 2), false);
        solve(comm, edge, comm->getRank() == 0);
        return 0;
    } catch (const std::exception &error) {
        /* Other ranks may be waiting for this one. */
        std::fprintf(stderr, "muelu-laplace: error: rank %d: %s\n", comm->getRank(), error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return 1;
}
