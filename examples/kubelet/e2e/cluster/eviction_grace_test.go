package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/testbed/tb"
	"github.com/podwright/podwright/examples/testbed/tb/controlplane"
)

// The memory of the whole machine runs short on one runtime, beside what others take of it,
// and a soft threshold acts on the other.
func TestEvictionOfTheMachineAndInTime(t *testing.T) {
	plane := controlplane.Of(t)
	kubeletPath(t)
	runtimes := tb.Runtimes(t)
	for name, c := range map[string]struct {
		test func(t *testing.T, plane controlplane.Handle, rt tb.Runtime)
		on   tb.Runtime
	}{"machine": {machineIsShort, runtimes[0]}, "soft": {softThreshold, runtimes[len(runtimes)-1]}} {
		t.Run(name, func(t *testing.T) {
			if len(runtimes) > 1 { // there is one kubelet at a time on each
				t.Parallel()
			}
			c.test(t, plane, c.on)
		})
	}
}

// N24, N25: 2 GiB may be taken of what the machine has left. The hog takes as much as it can
// until it goes: who else is on the machine may take some, too, or give it back.
func machineIsShort(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
	reader, err := stats.New(stats.Config{FS: stats.Host("/sys/fs/cgroup"), Version: stats.Version(cgroups.HostVersion())})
	require.NoError(t, err)
	u, m, err := stats.ReadMachineUsage(reader, os.DirFS("/proc"))
	require.NoError(t, err)
	left := u.Memory.Available(m.Memory)
	require.NotNil(t, left)
	if *left < 6<<30 {
		t.Skipf("%d bytes of memory are left, not 6 GiB", *left)
	}
	n := newNode(t, plane, rt, "--config-dir="+evictingBy(t, "evictionHard: {memory.available: %q}", strconv.FormatUint(*left-2<<30, 10)))
	n.apply(t, onePod("small", "", "sleep 3600"))
	n.apply(t, onePod("wants", "resources: {requests: {memory: 64Mi}}", "head -c 20000000 /dev/zero > /v/f; sleep 3600"))
	n.ready(t, "small")
	n.ready(t, "wants")
	before := n.ids(t)
	n.apply(t, onePodIn("hog", "{medium: Memory}", "", "i=0; while [ $i -lt 50 ]; do head -c 100000000 /dev/zero > /v/$i; i=$((i+1)); done; sleep 3600"))
	n.evicted(t, "hog", "memory", "MemoryPressure", "KubeletHasInsufficientMemory")
	require.Contains(t, n.get(t, "pod", "hog", "{.status.message}"), "Container c was using ")
	require.Equal(t, before, n.ids(t), "nobody else went")
}

// N26: the condition is there at once. The pod goes when the grace period of the threshold is
// over, which has passes at 10 s do nothing, and gets what evictionMaxPodGracePeriod grants it
// and not the time that it asks for, which is more than the test has.
func softThreshold(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
	disk := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=512m"))
	t.Cleanup(func() {
		tb.UnmountRoot(t, disk+"/root")
		require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH))
	})
	n := newNode(t, plane, rt, "--root-dir="+disk+"/root", "--config-dir="+evictingBy(t,
		"evictionSoft: {nodefs.available: 200Mi}\nevictionSoftGracePeriod: {nodefs.available: 15s}\nevictionMaxPodGracePeriod: 5"))
	n.apply(t, onePod("small", "", "sleep 3600"))
	n.ready(t, "small")
	before := n.ids(t)
	n.apply(t, strings.Replace(onePod("filler", "", "head -c 450000000 /dev/zero > /v/f; while :; do sleep 1; done"),
		"terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 600", 1))
	var short time.Time
	n.until(t, "the node is short", func() (err error) {
		if out := n.get(t, "node", n.name, `{.status.conditions[?(@.type=="DiskPressure")].status}`); out != "True" {
			return errors.New(out)
		}
		short, err = time.Parse(time.RFC3339, n.get(t, "node", n.name, `{.status.conditions[?(@.type=="DiskPressure")].lastTransitionTime}`))
		return err
	})
	n.evicted(t, "filler", "ephemeral-storage", "DiskPressure", "KubeletHasDiskPressure")
	decided, err := time.Parse(time.RFC3339, n.do(t, "get", "events", "--field-selector=reason=Evicted,involvedObject.name=filler", "-o", "jsonpath={.items[0].firstTimestamp}"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, decided.Sub(short), 10*time.Second, "the threshold's grace")
	ended, err := time.Parse(time.RFC3339, n.get(t, "pod", "filler", "{.status.containerStatuses[0].state.terminated.finishedAt}"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, ended.Sub(decided), 4*time.Second, "the pod's grace, in whole seconds")
	require.Equal(t, before, n.ids(t), "nobody else went")
}

// evictingBy is a folder with a configuration that sees soon what volumes use.
func evictingBy(t *testing.T, format string, args ...any) string {
	t.Helper()
	dir := t.TempDir()
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nvolumeStatsAggPeriod: 2s\nevictionPressureTransitionPeriod: 5s\n" + fmt.Sprintf(format, args...)
	require.NoError(t, os.WriteFile(dir+"/eviction.conf", []byte(text), 0o600))
	return dir
}
