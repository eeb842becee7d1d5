package e2e_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/testbed/tb"
)

const (
	spin = "while :; do :; done"
	// bomb starts processes that stay, for as long as it may. The shell that is refused
	// one ends; the container's first lives on.
	bomb = "while :; do sleep 3600 & done & " + spin
	// hog takes memory for as long as it gets some.
	hog = "tail /dev/zero"
)

// limits is a kubelet, the cgroups of its pods, and a pod that nothing may happen to.
type limits struct {
	*scene
	tree *cgroups.Tree
	pods map[string]*v1.Pod
}

// put starts a pod of one container.
func (l *limits) put(t *testing.T, name, command string, r v1.ResourceRequirements) {
	pod := newPod(name, shell("main", l.images.Busybox, command))
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	pod.Spec.Containers[0].Resources = r
	l.place(t, name+".yaml", pod)
	l.pods[name] = pod
}

func (l *limits) remove(t *testing.T, names ...string) {
	for _, name := range names {
		require.NoError(t, os.Remove(l.manifest(name+".yaml")))
	}
	for _, name := range names {
		wait(t, 30*time.Second, name+" is gone", func() error { return l.gone(name) })
	}
}

// path is that of a running pod's cgroup.
func (l *limits) path(t *testing.T, name string) string {
	seen := l.running(t, name)
	pod := l.pods[name].DeepCopy()
	pod.UID, pod.Status.QOSClass = seen.UID, seen.Status.QOSClass
	return l.tree.Path(l.tree.Pod(pod))
}

// cpu is the time that a cgroup has spent.
func cpu(t *testing.T, at string) time.Duration {
	if hostVersion() == cgroups.V1 {
		n, err := strconv.ParseInt(cgroupFile(t, at, "cpuacct/cpuacct.usage"), 10, 64)
		require.NoError(t, err)
		return time.Duration(n)
	}
	for line := range strings.Lines(cgroupFile(t, at, "cpu.stat")) {
		var n int64
		if _, err := fmt.Sscanf(line, "usage_usec %d", &n); err == nil {
			return time.Duration(n) * time.Microsecond
		}
	}
	t.Fatalf("cpu.stat of %s has no usage_usec", at)
	return 0
}

// spent is how many processors cgroups keep busy, for a while.
func spent(t *testing.T, d time.Duration, paths ...string) (out []float64) {
	begin := make([]time.Duration, len(paths))
	since := time.Now()
	for i, at := range paths {
		begin[i] = cpu(t, at)
	}
	time.Sleep(d)
	for i, at := range paths {
		out = append(out, float64(cpu(t, at)-begin[i])/float64(time.Since(since)))
	}
	return out
}

// Limits are real: each of these pods does what it is not allowed to, and a bystander
// does not notice.
func TestLimits(t *testing.T) {
	images := tb.Images(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			l := &limits{scene: newScene(t, rt, images, options{config: "podPidsLimit: 100\n", endpoint: rt.Endpoint}), pods: map[string]*v1.Pod{}}
			tree, err := cgroups.NewTree(cgroups.Cgroupfs, "/podwright-"+l.node)
			require.NoError(t, err)
			l.tree = tree
			l.start(t)
			untouched := l.bystander(t)
			t.Run("memory", l.memory)
			t.Run("cpu", l.quota)
			t.Run("processes", l.processes)
			t.Run("weight", l.weight)
			untouched()
		})
	}
}

func (l *limits) memory(t *testing.T) {
	l.put(t, "hog", hog, ofCPU("", "", "32Mi"))
	l.put(t, "fits", "sleep 3600", ofCPU("", "", "32Mi"))
	l.put(t, "child", hog+"; sleep 1; exit 3", ofCPU("", "", "32Mi")) // of which the first process lives on
	for name, code := range map[string]int32{"hog": 137, "child": 3} {
		wait(t, time.Minute, name+" is killed", func() error {
			p, err := l.pod(name)
			if err != nil {
				return err
			}
			for _, c := range p.Status.ContainerStatuses {
				if end := c.State.Terminated; end != nil && end.Reason == "OOMKilled" && end.ExitCode == code {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
	}
	require.Zero(t, l.running(t, "fits").Status.ContainerStatuses[0].RestartCount)
	l.remove(t, "hog", "child", "fits")
}

func (l *limits) quota(t *testing.T) {
	l.put(t, "spins", spin, ofCPU("200m", "200m", ""))
	at := l.path(t, "spins")
	wait(t, time.Minute, "it gets what it may have, within 5 %", func() error { // of a machine that is busy, less
		used := spent(t, 4*time.Second, at)[0]
		t.Logf("a limit of 0.2 CPUs: %.4f", used)
		require.Less(t, used, 0.21)
		if used < 0.19 {
			return fmt.Errorf("%f", used)
		}
		return nil
	})
	l.remove(t, "spins")
}

func (l *limits) processes(t *testing.T) {
	l.put(t, "bomb", bomb, ofCPU("100m", "300m", ""))
	at := l.path(t, "bomb")
	name := "pids.current"
	if hostVersion() == cgroups.V1 {
		name = "pids/pids.current"
	}
	wait(t, 30*time.Second, "it has as many as it gets", func() error {
		if n, err := strconv.Atoi(cgroupFile(t, at, name)); err != nil || n < 99 { // without the shell that ended
			return fmt.Errorf("%d, %v", n, err)
		}
		return nil
	})
	hold(t, 3*time.Second, "it gets no more", func() error {
		if n, err := strconv.Atoi(cgroupFile(t, at, name)); err != nil || n > 100 {
			return fmt.Errorf("%d, %v", n, err)
		}
		return nil
	})
	l.remove(t, "bomb")
}

// Four that ask for nothing, against one that asks for all processors and is busy on each. A
// machine that is busy besides has less for all of them. The four come first: what starts a
// container has the pod's weight already, and beside the one that is busy it takes a minute.
func (l *limits) weight(t *testing.T) {
	names := []string{"takes-0", "takes-1", "takes-2", "takes-3"}
	for _, name := range names {
		l.put(t, name, spin, v1.ResourceRequirements{})
	}
	for _, name := range names {
		l.running(t, name)
	}
	all := strconv.Itoa(runtime.NumCPU())
	l.put(t, "asks", "for i in $(seq "+all+"); do while :; do :; done & done; wait", ofCPU(all, all, "32Mi"))
	used := spent(t, 5*time.Second, l.path(t, "asks"), l.tree.Path(l.tree.Class(v1.PodQOSBestEffort)))
	t.Logf("one that asks for %s CPUs: %.3f, those that ask for none: %.3f", all, used[0], used[1])
	require.Greater(t, used[0], 2*used[1])
	l.remove(t, append(names, "asks")...)
}
