/* Computes the flow past a sphere with Palabos: a lattice of D3Q19, and BGK collisions.
 *
 *     mpirun palabos-flow EDGE STEPS
 *
 * Each rank has OMP_NUM_THREADS blocks of the lattice, and a thread for each block: the library itself has ranks only.
 *
 * The channel is 2 EDGE sites long, EDGE wide and EDGE high. The fluid enters with one velocity and leaves at one
 * density; the other sides are periodic. The sphere, EDGE / 4 in diameter, bounces the fluid back; the drag is the
 * momentum that it takes. After a few dozen steps the flow is still changing. The check only requires the same numbers
 * everywhere.
 *
 * The program prints the seconds of everything after MPI's start, and the rate of the steps (in 10^6 sites per second).
 * As answers it prints the drag coefficient in the last step, the mass of the fluid and its mean energy.
 */
#include <palabos3D.h>
/* Parts of palabos3D.hh. g++ 12 refuses the whole file of version 1.5, because of its refined grids. */
#include <algorithm/headers3D.hh>
#include <atomicBlock/headers3D.hh>
#include <basicDynamics/headers3D.hh>
#include <boundaryCondition/headers3D.hh>
#include <coProcessors/headers3D.hh>
#include <complexDynamics/headers3D.hh>
#include <core/headers3D.hh>
#include <dataProcessors/headers3D.hh>
#include <io/headers3D.hh>
#include <latticeBoltzmann/headers3D.hh>
#include <multiBlock/headers3D.hh>
#include <parallelism/headers3D.hh>

#include <mpi.h>
#include <omp.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace plb;

typedef double T;
#define DESCRIPTOR descriptors::D3Q19Descriptor

namespace {

/* Velocity of the entering fluid, in sites per step: small against the speed of sound, 0.58. */
const T VELOCITY = 0.05;
const T REYNOLDS = 50.;
/* Steps before the timed ones. */
const plint WARM_UP = 2;

class Obstacle : public DomainFunctional3D {
public:
    Obstacle(T x, T y, T z, T radius) : x_(x), y_(y), z_(z), radius_(radius) {}

    virtual bool operator()(plint iX, plint iY, plint iZ) const
    {
        const T x = iX - x_, y = iY - y_, z = iZ - z_;
        return x * x + y * y + z * z <= radius_ * radius_;
    }

    virtual Obstacle *clone() const { return new Obstacle(*this); }

private:
    T x_, y_, z_, radius_;
};

/* Returns a number of `least` or more from the command line; 0 for any other text. */
plint read_number(const char *text, long least)
{
    char *end = 0;
    const long value = std::strtol(text, &end, 10);
    if (*text != '\0' && *end == '\0' && value >= least)
        return value;
    if (global::mpi().isMainProcessor())
        std::fprintf(stderr, "palabos-flow: error: '%s' is no number from %ld on\n", text, least);
    return 0;
}

/* Returns a lattice with a block for each thread of each rank. */
MultiBlockManagement3D blocks(plint length, plint edge, int threads)
{
    const int ranks = global::mpi().getSize();
    ExplicitThreadAttribution *attribution = new ExplicitThreadAttribution;
    for (plint block = 0; block < (plint)ranks * threads; block++)
        attribution->addBlock(block, block / threads);
    return MultiBlockManagement3D(createRegularDistribution3D(length, edge, edge, ranks * threads), attribution,
                                  DESCRIPTOR<T>::vicinity);
}

/* Makes the library's step of a lattice that is periodic in y and z, with the blocks shared out to threads. */
void advance(MultiBlockLattice3D<T, DESCRIPTOR> &lattice)
{
    const MultiBlockManagement3D &management = lattice.getMultiBlockManagement();
    const std::vector<plint> &local = management.getLocalInfo().getBlocks();
    const Box3D all = lattice.getBoundingBox();
    const plint envelope = management.getEnvelopeWidth();
#pragma omp parallel for schedule(static, 1)
    for (std::size_t number = 0; number < local.size(); number++) {
        SmartBulk3D bulk(management, local[number]);
        Box3D domain = bulk.computeNonPeriodicEnvelope();
        domain.y0 -= domain.y0 == all.y0 ? envelope : 0;
        domain.y1 += domain.y1 == all.y1 ? envelope : 0;
        domain.z0 -= domain.z0 == all.z0 ? envelope : 0;
        domain.z1 += domain.z1 == all.z1 ? envelope : 0;
        lattice.getBlockLattices().find(local[number])->second->collideAndStream(bulk.toLocal(domain));
    }
    lattice.executeInternalProcessors();
    lattice.evaluateStatistics();
    lattice.incrementTime();
}

} // namespace

int main(int argc, char *argv[])
{
    plbInit(&argc, &argv);
    const double began = MPI_Wtime();
    if (argc != 3) {
        if (global::mpi().isMainProcessor())
            std::fprintf(stderr, "usage: palabos-flow EDGE STEPS\n");
        return 1;
    }
    const plint edge = read_number(argv[1], 16), steps = read_number(argv[2], 1);
    if (edge == 0 || steps == 0)
        return 1;

    const plint length = 2 * edge;
    const T diameter = edge / 4.;
    const T viscosity = VELOCITY * diameter / REYNOLDS;
    const T omega = 1. / (3. * viscosity + 0.5);
    const Array<T, 3> velocity(VELOCITY, (T)0, (T)0);
    const Box3D inlet(0, 0, 0, edge - 1, 0, edge - 1), outlet(length - 1, length - 1, 0, edge - 1, 0, edge - 1);

    const int threads = omp_get_max_threads();
    MultiBlockLattice3D<T, DESCRIPTOR> lattice(blocks(length, edge, threads),
                                               defaultMultiBlockPolicy3D().getBlockCommunicator(),
                                               defaultMultiBlockPolicy3D().getCombinedStatistics(),
                                               defaultMultiBlockPolicy3D().getMultiCellAccess<T, DESCRIPTOR>(),
                                               new BGKdynamics<T, DESCRIPTOR>(omega));
    lattice.periodicity().toggle(1, true);
    lattice.periodicity().toggle(2, true);

    OnLatticeBoundaryCondition3D<T, DESCRIPTOR> *boundary = createLocalBoundaryCondition3D<T, DESCRIPTOR>();
    boundary->addVelocityBoundary0N(inlet, lattice);
    boundary->addPressureBoundary0P(outlet, lattice);
    setBoundaryVelocity(lattice, inlet, velocity);
    setBoundaryDensity(lattice, outlet, (T)1);

    /* Sums over all sites; the library keeps those of the last step. */
    Array<plint, 3> force;
    for (int axis = 0; axis < 3; axis++)
        force[axis] = lattice.internalStatSubscription().subscribeSum();
    /* Half a site off the middle, to avoid symmetry. */
    defineDynamics(lattice, lattice.getBoundingBox(),
                   new Obstacle(length / 4., edge / 2. + 0.5, edge / 2., diameter / 2.),
                   new MomentumExchangeBounceBack<T, DESCRIPTOR>(force));
    initializeAtEquilibrium(lattice, lattice.getBoundingBox(), (T)1, velocity);
    initializeMomentumExchange(lattice, lattice.getBoundingBox());
    lattice.initialize();

    for (plint step = 0; step < WARM_UP; step++)
        advance(lattice);
    MPI_Barrier(MPI_COMM_WORLD);
    const double first = MPI_Wtime();
    for (plint step = 0; step < steps; step++)
        advance(lattice);
    MPI_Barrier(MPI_COMM_WORLD);
    const double last = MPI_Wtime();

    delete boundary;

    const double sites = (double)length * edge * edge;
    const T drag = lattice.getInternalStatistics().getSum(force[0]);
    const T area = M_PI * diameter * diameter / 4.;
    const T density = computeAverageDensity(lattice), energy = computeAverageEnergy(lattice);
    if (global::mpi().isMainProcessor()) {
        std::printf("compiler %s\n", __VERSION__);
        std::printf("ranks %d\n", (int)global::mpi().getSize());
        std::printf("threads %d\n", threads);
        std::printf("sites %.0f\n", sites);
        std::printf("steps %ld\n", (long)steps);
        std::printf("seconds %.4f\n", last - began);
        std::printf("MLUPS %.4f\n", sites * steps / (last - first) / 1e6);
        std::printf("drag %.10g\n", drag / (0.5 * VELOCITY * VELOCITY * area));
        std::printf("mass %.12g\n", density * sites);
        std::printf("energy %.10g\n", energy);
    }
    return 0;
}
