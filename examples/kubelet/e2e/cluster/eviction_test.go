package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// A node that runs short of pod memory, disk or processes (N24, N25, N28) evicts the pod with the
// largest usage, with the right reason, message, condition and events. No other pod is evicted, and
// the pressure ends.
//
// The test is independent of the machine's other load: memory is short in the cgroup of all pods,
// and the disk belongs to the test. Processes are counted for the whole machine, so that only one
// of the nodes tests them.
func TestEviction(t *testing.T) {
	plane := controlplane.Of(t)
	kubeletPath(t)
	for i, rt := range tb.Turns(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			disk := t.TempDir()
			require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=512m"))
			t.Cleanup(func() {
				tb.UnmountRoot(t, disk+"/root")
				require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH))
			})
			watchesPIDs := i == 0
			n := newNode(t, plane, rt, configDir(t, shortageConfig(t, watchesPIDs)), "--root-dir="+disk+"/root")
			n.apply(t, evictionPod("small", "", "sleep 3600"))
			n.apply(t, evictionPod("wants", "resources: {requests: {memory: 64Mi, ephemeral-storage: 64Mi}}", "head -c 20000000 /dev/zero > /v/f; sleep 3600"))
			n.ready(t, "small")
			n.ready(t, "wants")
			before := n.ids(t)

			t.Run("memory", func(t *testing.T) {
				n.apply(t, evictionPodWith("hog", "{medium: Memory}", "", "head -c 990000000 /dev/zero > /v/f; sleep 3600"))
				n.waitNodeEviction(t, "hog", "memory", "MemoryPressure", "KubeletHasInsufficientMemory")
			})
			t.Run("disk", func(t *testing.T) {
				n.apply(t, evictionPod("filler", "", "head -c 450000000 /dev/zero > /v/f; sleep 3600"))
				n.waitNodeEviction(t, "filler", "ephemeral-storage", "DiskPressure", "KubeletHasDiskPressure")
			})
			t.Run("limit", func(t *testing.T) {
				n.apply(t, evictionPodWith("over", "{sizeLimit: 1Mi}", "", "head -c 5000000 /dev/zero > /v/f; sleep 3600"))
				n.waitEvicted(t, "over", `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `)
				require.Empty(t, n.get(t, "pod", "over", `{.status.conditions[?(@.type=="DisruptionTarget")].status}`), "the pod exceeded its limit without pressure on the node")
			})
			if watchesPIDs {
				t.Run("pids", func(t *testing.T) {
					n.apply(t, evictionPod("forks", "", "i=0; while [ $i -lt 3000 ]; do sleep 3600 & i=$((i+1)); done; wait"))
					n.waitNodeEviction(t, "forks", "pids", "PIDPressure", "KubeletHasInsufficientPID")
				})
			}
			after := n.ids(t)
			require.Equal(t, before, after, "no other pod was evicted")
		})
	}
}

// shortageConfig leaves 1 GiB of memory to all pods, 512 MiB of disk, and 1,500 processes.
func shortageConfig(t *testing.T, pids bool) string {
	m, err := stats.ReadMachine(os.DirFS("/proc"))
	require.NoError(t, err)
	config := fmt.Sprintf("systemReserved: {memory: %q}\n%sevictionHard:\n  memory.available: 100Mi\n  nodefs.available: 200Mi\n",
		strconv.FormatUint(*m.Memory-1<<30, 10), fastEviction)
	if pids {
		most, runs, err := stats.ReadProcesses(os.DirFS("/proc"))
		require.NoError(t, err)
		config += fmt.Sprintf("  pid.available: %q\n", strconv.FormatUint(*most-*runs-1500, 10))
	}
	return config
}

func evictionPod(name, more, command string) string {
	return evictionPodWith(name, "{}", more, command)
}

// evictionPodWith returns a pod with an emptyDir volume at /v.
func evictionPodWith(name, emptyDir, more, command string) string {
	return boundPod(name, fmt.Sprintf(`
  restartPolicy: Never
  volumes: [{name: v, emptyDir: %s}]
  containers:
  - name: c
    image: BUSYBOX
    command: [sh, -c, '%s']
    volumeMounts: [{name: v, mountPath: /v}]
    %s`, emptyDir, command, more))
}

// waitEvicted waits until a pod was evicted with a message that starts with message.
func (n *node) waitEvicted(t *testing.T, pod, message string) {
	t.Helper()
	n.waitMatch(t, "pod", pod, "{.status.phase} {.status.reason} {.status.message}", func(got string) bool {
		return strings.HasPrefix(got, "Failed Evicted "+message)
	})
	n.until(t, "event Evicted", func() error {
		out, err := n.run(nil, "get", "events", "--field-selector=reason=Evicted,type=Warning,involvedObject.name="+pod, "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.HasPrefix(out, message) {
			err = errors.New(out)
		}
		return err
	})
}

// waitNodeEviction waits until a pod was evicted for a resource and the Node's condition became
// true and false again.
func (n *node) waitNodeEviction(t *testing.T, pod, resource, condition, reason string) {
	t.Helper()
	is := func(field string) string { return `{.status.conditions[?(@.type=="` + condition + `")].` + field + `}` }
	n.waitField(t, "node", n.name, is("status")+" "+is("reason"), "True "+reason)
	n.waitEvicted(t, pod, "The node was low on resource: "+resource+". Threshold quantity: ")
	require.Equal(t, "True TerminationByKubelet", n.get(t, "pod", pod, `{.status.conditions[?(@.type=="DisruptionTarget")].status} {.status.conditions[?(@.type=="DisruptionTarget")].reason}`))
	require.Equal(t, resource, n.do(t, "get", "events", "--field-selector=reason=Evicted,involvedObject.name="+pod, "-o", "jsonpath={.items[0].metadata.annotations.starved_resource}"))
	n.until(t, "event EvictionThresholdMet", func() error {
		out, err := n.run(nil, "get", "events", "--namespace=default", "--field-selector=reason=EvictionThresholdMet,involvedObject.name="+n.name, "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, "Attempting to reclaim "+resource) {
			err = errors.New(out)
		}
		return err
	})
	n.waitField(t, "node", n.name, is("status"), "False")
}

// fastEviction shortens the periods of volume measurements and of pressure transitions.
const fastEviction = "volumeStatsAggPeriod: 2s\nevictionPressureTransitionPeriod: 5s\n"
