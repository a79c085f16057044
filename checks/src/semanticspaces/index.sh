#!/bin/sh
# Runs Random Indexing with Airhead Semantic Spaces: indexes text.txt with one thread and with several, finds the
# nearest words of the given ones, and prints the seconds of each step.
#
#   sh index.sh JAVA THREADS LENGTH WORD...
#
# vectors.map holds the random vectors of all words, each with LENGTH elements. New ones would come from a generator
# without a seed. With these the result is a sum of integers: the same in every order, and with any number of threads.
# candidates.txt lists the words to search. The package's own search is approximate, and different each time;
# similarities are exact.
set -eu
java=$1
threads=$2
length=$3
shift 3
export CLASSPATH="${CLASSPATH:-jars/*}"

# timed NAME COMMAND...: runs the command, prints its wall-clock seconds, and leaves them in $took.
timed() {
    name=$1
    shift
    began=$(date +%s.%N)
    "$@"
    ended=$(date +%s.%N)
    took=$(awk "BEGIN { printf \"%.3f\", $ended - $began }")
    echo "seconds $name $took"
}

index() {
    rm -rf space
    mkdir space
    "$java" edu.ucla.sspace.mains.RandomIndexingMain --docFile=text.txt --loadVectors=vectors.map \
        --vectorLength="$length" --threads="$1" --outputFormat=binary space >/dev/null
}

query() {
    for word in "$@"; do
        sed "s/^/$word /" candidates.txt
    done >pairs.txt
    { echo "load $(echo space/*.sspace)"; sed 's/^/get-similarity /' pairs.txt; } >commands.txt
    "$java" edu.ucla.sspace.tools.SemanticSpaceExplorer --executeFile=commands.txt >similarities.txt
    paste -d ' ' pairs.txt similarities.txt | awk '$1 != $2' | LC_ALL=C sort -k1,1 -k3,3gr |
        awk '{ if (++place[$1] <= 5) print "nearest", $0 }' >nearest.txt
}

timed indexing_serial index 1
serial=$took
query "$@"
mv nearest.txt nearest-serial.txt
timed indexing index "$threads"
awk "BEGIN { printf \"efficiency %.2f %%\n\", 100 * $serial / ($threads * $took) }"
timed query query "$@"
cat nearest.txt
cmp nearest-serial.txt nearest.txt && echo "threads $threads: nearest words equal"
