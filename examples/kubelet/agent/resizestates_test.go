package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/podfacts"
)

// amounts returns equal requests and limits: n CPUs and n times 100 MiB.
func amounts(n int64) v1.ResourceRequirements {
	list := v1.ResourceList{v1.ResourceCPU: *quantity.NewQuantity(n, quantity.DecimalSI), v1.ResourceMemory: *quantity.NewQuantity(n*100<<20, quantity.BinarySI)}
	return v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

// resizeRow is a resize of pod a, in one state of the pod.
type resizeRow struct {
	// static makes the pod a static one.
	static   bool
	pod      func(*v1.Pod)
	programs map[string]fake.Program
	// fault is the result of the runtime's calls from the resize, or if early from the pod's
	// creation, until 5 s after the resize.
	fault func(ctx context.Context, call string) error
	early bool
	// age is the pod's age at the resize. Default: 5 s.
	age    time.Duration
	resize func(w *world)
	// during is the condition 5 s after the resize, and then the event that ends it.
	during string
	then   func(w *world)
	// container is the resized one. Default: a. It has want CPUs at the end.
	container string
	want      int64
	restarts  int32
	// gone: the pod ends instead.
	gone bool
}

var grownTo2 = func(w *world) { w.wants("a", amounts(2)) }

func on(call string, do func(ctx context.Context) error) func(context.Context, string) error {
	return func(ctx context.Context, c string) error {
		if c != call {
			return nil
		}
		return do(ctx)
	}
}

func lasts(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
}

func stubborn(ctx context.Context, p *fake.Process) int {
	p.Signals() // SIGTERM has no effect
	<-ctx.Done()
	return 0
}

func staticPod(hash string, r v1.ResourceRequirements) *v1.Pod {
	pod := podOf(types.UID(hash), v1.RestartPolicyAlways, "a")
	pod.Name, pod.Spec.NodeName, pod.Spec.Containers[0].Resources = "a", "n", r
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": hash}
	return pod
}

var resizeRows = map[string]resizeRow{
	"before the first start": {age: 100 * time.Millisecond, early: true, fault: on("RunPodSandbox", lasts(3*time.Second)), resize: grownTo2, want: 2},
	"during an image pull": {
		pod:   func(p *v1.Pod) { p.Spec.Containers[0].ImagePullPolicy = v1.PullAlways },
		early: true, fault: on("PullImage", lasts(8*time.Second)), resize: grownTo2, want: 2,
	},
	"while terminating": {
		pod:      func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(20)) },
		programs: map[string]fake.Program{"a": stubborn},
		resize:   func(w *world) { w.removeAt("a", metav1.Now(), 20); w.Sleep(2 * time.Second); grownTo2(w) },
		want:     1, gone: true,
	},
	"during init containers": {
		pod:      func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{initContainer("i", nil)} },
		programs: map[string]fake.Program{"i": after(20*time.Second, 0)}, resize: grownTo2, want: 2,
	},
	"of a sidecar": {
		pod: func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{initContainer("s", new(v1.ContainerRestartPolicyAlways))}
		},
		resize: func(w *world) {
			pod := w.at("a")
			pod.Generation++
			pod.Spec.InitContainers[0].Resources = amounts(2)
			w.put(pod)
		},
		container: "s", want: 2,
	},
	"two quickly": {
		fault:  on("UpdateContainerResources", lasts(time.Second)),
		resize: func(w *world) { grownTo2(w); w.Sleep(500 * time.Millisecond); w.wants("a", amounts(3)) }, want: 3,
	},
	"there and back": {
		fault:  on("UpdateContainerResources", lasts(time.Second)),
		resize: func(w *world) { grownTo2(w); w.Sleep(500 * time.Millisecond); w.wants("a", amounts(1)) }, want: 1,
	},
	"larger than the node (deferred since 1.36), then not": {
		resize: func(w *world) { w.wants("a", amounts(9)) }, during: "PodResizePending Deferred", then: grownTo2, want: 2,
	},
	"memory below the usage": {
		resize: func(w *world) {
			grownTo2(w)
			w.Sleep(5 * time.Second)
			w.cgroups.Usage = 150 << 20
			w.wants("a", amounts(1))
		},
		during: "PodResizeInProgress Error", then: func(w *world) { w.cgroups.Usage = 50 << 20 }, want: 1,
	},
	"refused, then withdrawn": {
		fault:  on("UpdateContainerResources", func(context.Context) error { return grpcstatus.Error(codes.Internal, "refused") }),
		resize: grownTo2, during: "PodResizeInProgress Error", then: func(w *world) { w.wants("a", amounts(1)) }, want: 1,
	},
	"with another image": {
		resize: func(w *world) {
			pod := w.at("a")
			pod.Generation++
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Resources = "busybox:2", amounts(2)
			w.put(pod)
		},
		want: 2, restarts: 1,
	},
	"policy RestartContainer": {
		pod: func(p *v1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		},
		resize: grownTo2, want: 2, restarts: 1,
	},
	"of a static pod": { // another pod replaces it
		static: true, resize: func(w *world) { w.set(staticPod("h2", amounts(2))) }, want: 2,
	},
	"while the runtime is away": {
		resize: grownTo2, want: 2,
		fault: func(context.Context, string) error { return grpcstatus.Error(codes.Unavailable, "away") },
	},
	"agent killed before the runtime's call": {
		fault:  on("UpdateContainerResources", lasts(90*time.Second)),
		resize: func(w *world) { grownTo2(w); w.Sleep(time.Second); w.crash(); w.start() },
		during: "PodResizeInProgress ", want: 2,
	},
}

func initContainer(name string, policy *v1.ContainerRestartPolicy) v1.Container {
	c := podOf("", v1.RestartPolicyAlways, name).Spec.Containers[0]
	c.Resources, c.RestartPolicy = amounts(1), policy
	return c
}

// A resize in each state of a pod: the status shows only resources that the container or, before its
// start, the pod's cgroup has. At the end all agree, no condition stays, no other pod was touched,
// and only the resize policy or another image restarted a container.
func TestResizeInEachState(t *testing.T) {
	for name, row := range resizeRows {
		t.Run(name, func(t *testing.T) { row.run(t) })
	}
}

type observedByTest struct{}

func (row resizeRow) run(t *testing.T) {
	var mu sync.Mutex
	var updated []string
	faulty := false
	intercept := func(ctx context.Context, call string, r any) error {
		if ctx.Value(observedByTest{}) != nil {
			return nil
		}
		mu.Lock()
		if u, ok := r.(*runtimeapi.UpdateContainerResourcesRequest); ok {
			updated = append(updated, u.ContainerId)
		}
		on := faulty
		mu.Unlock()
		if on && row.fault != nil {
			return row.fault(ctx, call)
		}
		return nil
	}
	setFaulty := func(on bool) { mu.Lock(); defer mu.Unlock(); faulty = on }
	inClusterOf(t, fake.Config{Intercept: intercept, Programs: fake.ByContainer(row.programs, fake.SleepUntilStopped)}, func(w *world) {
		w.allocatable = v1.ResourceList{v1.ResourceCPU: quantity.MustParse("8"), v1.ResourceMemory: quantity.MustParse("8Gi")}
		other, pod := bound("other", "other"), bound("a", "a")
		for _, p := range []*v1.Pod{other, pod} {
			p.Generation, p.Spec.Containers[0].Resources = 1, amounts(1)
		}
		w.put(other)
		w.startFor(5 * time.Second)
		before := w.at("other").Status
		setFaulty(row.early)
		if row.pod != nil {
			row.pod(pod)
		}
		if row.static {
			w.set(staticPod("h1", amounts(1)))
		} else {
			w.put(pod)
		}
		w.Sleep(cmp.Or(row.age, 5*time.Second))
		if !row.static && len(w.containersAt("a")) > 0 && w.podCgroup("a").Shares != 0 {
			w.occupy("a")
		}
		setFaulty(true)
		row.resize(w)
		seen := map[string][]uint64{}
		w.follow(seen, 5*time.Second)
		require.Equal(t, row.during, w.resizeState("a"))
		setFaulty(false)
		if row.then != nil {
			row.then(w)
		}
		w.follow(seen, 3*time.Minute)
		after := w.at("other").Status
		after.ContainerStatuses[0].Image = before.ContainerStatuses[0].Image // a pull names it
		require.Equal(t, before, after)
		require.NotContains(t, updated, before.ContainerStatuses[0].ContainerID[len("fake://"):])
		if row.gone {
			require.Nil(t, w.at("a"))
			require.Empty(t, updated)
			return
		}
		require.Empty(t, w.resizeState("a"))
		if !row.static {
			require.Subset(t, w.events("a"), []string{"ResizeStarted", "ResizeCompleted"})
		}
		row.requireAmounts(w)
	})
}

// resizeState returns the condition of a resize with its reason.
func (w *world) resizeState(name string) string {
	for _, t := range []v1.PodConditionType{v1.PodResizePending, v1.PodResizeInProgress} {
		if w.at(name) == nil {
			break
		}
		if c := w.resizeCondition(name, t); c != nil {
			return string(t) + " " + c.Reason
		}
	}
	return ""
}

func (w *world) containersAt(name string) []v1.ContainerStatus {
	if pod := w.at(name); pod != nil {
		return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	}
	return nil
}

// actual returns the CPU shares and the memory limit of a container in the runtime.
func (w *world) actual(id string) (uint64, int64) {
	s, err := w.runtime.ContainerStatus(context.WithValue(w.t.Context(), observedByTest{}, true), id, false)
	if err != nil {
		return 0, 0
	}
	return uint64(s.Status.Resources.Linux.CpuShares), s.Status.Resources.Linux.MemoryLimitInBytes
}

func (w *world) podCgroup(name string) cgroups.Values {
	pod := w.at(name)
	if podfacts.IsMirror(pod) {
		pod.UID = types.UID(pod.Annotations["kubernetes.io/config.mirror"])
	}
	values, _ := w.cgroups.Get(w.agent.cgroups.tree.Path(w.agent.cgroups.tree.Pod(pod)))
	return values
}

// occupy gives the pod's cgroup a child, as a sandbox does. The pod's values then change by resizes
// only.
func (w *world) occupy(name string) {
	w.t.Helper()
	require.NoError(w.t, w.cgroups.Set(w.t.Context(), w.agent.cgroups.tree.Pod(w.at(name)).Child("sandbox"), cgroups.Values{}))
}

// follow requires that the status of pod a shows only resources that existed. seen are the shares of
// the containers so far.
func (w *world) follow(seen map[string][]uint64, d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); w.Sleep(100 * time.Millisecond) {
		for _, c := range w.containersAt("a") {
			if c.Resources == nil {
				continue
			}
			shows := cgroups.Shares(c.Resources.Requests.Cpu().MilliValue())
			if c.State.Running == nil {
				if has := w.podCgroup("a").Shares; has != 0 {
					require.LessOrEqual(w.t, shows, has, "%s: cgroup of the pod", c.Name)
				}
				continue
			}
			id := c.ContainerID[len("fake://"):]
			has, _ := w.actual(id)
			if has == 0 {
				continue // removed: the status of a mirror pod follows
			}
			seen[id] = append(seen[id], has)
			require.Contains(w.t, seen[id], shows, c.Name)
		}
	}
}

// requireAmounts requires that the status, the runtime and the pod's cgroup agree.
func (row resizeRow) requireAmounts(w *world) {
	total := int64(0)
	for _, c := range w.containersAt("a") {
		n, restarts := int64(1), int32(0)
		if resized := row.container == c.Name || row.container == "" && c.Name == "a"; resized {
			n, restarts = row.want, row.restarts
		}
		require.Equal(w.t, restarts, c.RestartCount, c.Name)
		if c.Name == "i" {
			continue
		}
		require.NotNil(w.t, c.State.Running, c.Name)
		total += n
		want := amounts(n)
		shares, memory := w.actual(c.ContainerID[len("fake://"):])
		require.Equal(w.t, cgroups.Shares(n*1000), shares, "%s: runtime", c.Name)
		require.Equal(w.t, n*100<<20, memory, "%s: runtime", c.Name)
		require.Zero(w.t, want.Limits.Memory().Cmp(*c.Resources.Limits.Memory()), "%s: status", c.Name)
		require.Zero(w.t, want.Requests.Cpu().Cmp(*c.Resources.Requests.Cpu()), "%s: status", c.Name)
	}
	has := w.podCgroup("a")
	require.Equal(w.t, cgroups.Shares(total*1000), has.Shares, "cgroup of the pod")
	require.Equal(w.t, total*100<<20, has.Memory, "cgroup of the pod")
}
