# Says what it took, without a clock, so that no busy machine changes it: bare 0.51 and 0.5 s in turn, else 0.5 s.
# In a container it does what its argument says. A second argument is how long each run really lasts.
milliseconds=500
sum=42
inside=${APPTAINER_CONTAINER:+inside}
echo >>"runs-$inside"
runs=$(wc -l <"runs-$inside")
case ${inside:+$1} in
    "") milliseconds=$((500 + runs % 2 * 10)) ;;
    slow) milliseconds=600 ;;
    wrong) milliseconds=100 sum=43 ;;
    hang) [ "$runs" -ne 2 ] || { sleep 1000 & sleep 1000; } ;;
    hangs) sleep 1000 ;;
    leaves) setsid nohup sleep 4321 </dev/null >/dev/null 2>&1 & ;;
    unreadable) echo "sum $sum"; exit 0 ;;
    environment) env ;;
    crash) echo "FATAL: it broke" >&2; exit 3 ;;
esac
[ -z "$2" ] || sleep "$2"
echo "time 0.$milliseconds"
echo "version ${PLANTED_VERSION:-2022.5} with ${PLANTED_SET:-SSE4.1}"
echo "sum $sum"
