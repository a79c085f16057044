"""A made ``mdout``, line by line in the form that pmemd of Amber 16 writes."""

from __future__ import annotations

ENERGIES = """
 NSTEP ={steps:>9}   TIME(PS) =     140.000  TEMP(K) =   298.55  PRESS =     0.0
 Etot   =    -10497.0096  EKtot   =      1779.8403  EPtot      ={potential:>16}
 BOND   =         0.0000  ANGLE   =         0.0000  DIHED      =         0.0000
 ------------------------------------------------------------------------------
"""


MADE = """
          -------------------------------------------------------
          Amber 16 PMEMD                              2016
          -------------------------------------------------------

| PMEMD implementation of SANDER, Release 16

| Conditional Compilation Defines Used:
| DIRFRC_COMTRANS
| MPI

| Running AMBER/MPI version on {ranks:>4} MPI task

{threads}
--------------------------------------------------------------------------------
   4.  RESULTS
--------------------------------------------------------------------------------
{first}
{last}

      A V E R A G E S   O V E R     500 S T E P S

{averages}

      R M S  F L U C T U A T I O N S

{fluctuations}
--------------------------------------------------------------------------------
   5.  TIMINGS
--------------------------------------------------------------------------------

|  NonSetup CPU Time in Major Routines, Average for All Tasks:
|
|     Routine           Sec        %
|     ------------------------------
|     DataDistrib      28.44   11.19
|     Nonbond         187.30   73.70
|     RunMD            12.08    4.75
|     ------------------------------
|     Total           254.14

|  Final Performance Info:
|     -----------------------------------------------------
|     Average timings for last     500 steps:
|     Elapsed(s) =      25.07 Per Step(ms) =      50.14
|         ns/day =       3.45   seconds/ns =   25070.00
|
|     Average timings for all steps:
|     Elapsed(s) =     254.36 Per Step(ms) =      50.87
|         ns/day =       3.40   seconds/ns =   25436.13
|     -----------------------------------------------------

|  Master Setup CPU time:            0.54 seconds
|  Master NonSetup CPU time:       254.10 seconds
|  Master Total CPU time:          254.64 seconds     0.07 hours

|  Master Setup wall time:           3    seconds
|  Master NonSetup wall time:      254    seconds
|  Master Total wall time:         257    seconds     0.07 hours
"""


def made(ranks=48, threads="", average="-12276.8499", first="-12301.5500"):
    """Return what a run writes."""
    found = {
        "first": ENERGIES.format(steps=500, potential=first),
        "last": ENERGIES.format(steps=5000, potential="-12250.1200"),
        "averages": ENERGIES.format(steps=5000, potential=average),
        "fluctuations": ENERGIES.format(steps=5000, potential="29.4411"),
    }
    threads = threads and f"| Number of openmp threads per MPI task: {threads:>5}\n"
    return MADE.format(ranks=ranks, threads=threads, **found)
