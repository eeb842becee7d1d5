package eviction

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkDecide decides, and finds out who goes, on a node of 500 pods of three containers
// each, all of which have requests, limits of local storage and an emptyDir volume with one,
// and are below them. It is not to take more than 2 ms, whatever is short; calm is what every
// pass costs.
func BenchmarkDecide(b *testing.B) {
	pods, usage := crowd(500)
	policy := Policy{Transition: 5 * time.Minute, LocalStorage: true}
	for _, signal := range Signals() {
		if !signal.ofContainers() {
			policy.Thresholds = append(policy.Thresholds, hard(signal, 100), Threshold{Signal: signal, Value: Value{Percent: 20}, Grace: time.Minute, MinReclaim: Value{Amount: 50}})
		}
	}
	for _, short := range append(Signals(), "calm", "all") {
		if short.ofContainers() {
			continue
		}
		b.Run(string(short), func(b *testing.B) {
			u, state, now := usage, State{}, noon
			u.Signals = map[Signal]Reading{}
			for b.Loop() {
				now = now.Add(10 * time.Second)
				for _, s := range Signals() {
					u.Signals[s] = Reading{Available: 1000, Capacity: 1000, Time: now}
					if short == s || short == "all" {
						u.Signals[s] = Reading{Available: 10, Capacity: 1000, Time: now}
					}
				}
				d := policy.Decide(state, u, pods, now)
				_, found := policy.Candidate(d, u, pods, now)
				require.Equal(b, short != "calm", found)
				state = d.State
			}
		})
	}
}

// crowd are pods, and what they use.
func crowd(n int) ([]*v1.Pod, Usage) {
	r := rand.New(rand.NewPCG(1, 2))
	amount := func(most int64) *uint64 { return new(uint64(r.Int64N(most))) }
	usage, pods := Usage{Pods: map[types.UID]PodUsage{}}, make([]*v1.Pod, n)
	for i := range pods {
		pod := named(fmt.Sprintf("pod-%03d", i), priority(r.Int32N(1000)), emptyDir("1Gi"))
		u := PodUsage{
			Memory: amount(1 << 30), Processes: amount(100), Volumes: Disk{Bytes: amount(1 << 28), Inodes: amount(1000)},
			EmptyDirs: map[string]uint64{"v": *amount(1 << 28)}, Containers: map[string]ContainerUsage{},
		}
		pod.Spec.Containers = nil
		for _, name := range []string{"app", "proxy", "log"} {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi"), v1.ResourceEphemeralStorage: resource.MustParse("64Mi"),
				},
				Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
			}})
			u.Containers[name] = ContainerUsage{
				Memory: amount(1 << 29), Root: Disk{Bytes: amount(1 << 28), Inodes: amount(1000)}, Logs: Disk{Bytes: amount(1 << 24), Inodes: amount(10)},
			}
		}
		usage.Pods[pod.UID], pods[i] = u, pod
	}
	return pods, usage
}
